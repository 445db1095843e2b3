package web

import (
	"context"
	"html/template"
	"net/http"
	"slices"
	"strings"

	"talon/host"
	"talon/sdk/grasp"
)

// index is what the first page shows.
type index struct {
	Name        string
	Description string
	Service     string
	Relay       string
	Git         string
	Contact     link
	Grasps      []string
	NIPs        []int
	Criteria    []string
	Curation    []string
	PRs         bool
	Hosts       bool // repositories: false if what the policy says of itself has none
	List        []listed
	Later       bool   // this is not the first page of the list
	Next        string // the query of the next one, "" if there is none
}

func (h *Handler) index(ctx context.Context, r *http.Request) (int, string, any, error) {
	p := h.urls(r)
	l := index{
		Name:        orElse(line(h.cfg.Name, maxName), h.service.String()),
		Description: lines(h.cfg.Description, maxText),
		Service:     h.service.String(),
		Relay:       p.relay(),
		Git:         p.git(""),
		Contact:     contact(h.cfg.Contact),
		PRs:         h.cfg.PRs,
		NIPs:        slices.Clone(h.cfg.NIPs),
	}
	about := h.cfg.About()
	for _, d := range about {
		for _, g := range d.Grasps {
			if g = line(g, maxName); g != "" {
				l.Grasps = append(l.Grasps, g)
			}
		}
		if text := lines(d.Criteria, maxText); text != "" {
			l.Criteria = append(l.Criteria, text)
		}
		if text := lines(d.Curation, maxText); text != "" {
			l.Curation = append(l.Curation, text)
		}
	}
	slices.Sort(l.Grasps)
	l.Grasps = slices.Compact(l.Grasps)
	// As in NIP-11. A policy that says nothing at all of itself may host repositories.
	if len(l.Grasps) > 0 {
		l.NIPs = append(l.NIPs, 34)
	}
	l.Hosts = len(l.Grasps) > 0 || len(about) == 0
	slices.Sort(l.NIPs)
	l.NIPs = slices.Compact(l.NIPs)
	until := queryOf(r).Until
	l.Later = until != nil
	var err error
	l.List, l.Next, err = h.recent(ctx, nil, until)
	return http.StatusOK, "landing", &l, err
}

func address(r grasp.Repo) host.Address {
	return host.Address{Kind: grasp.KindAnnouncement, PubKey: r.PubKey, D: r.Identifier}
}

// contact makes a link of the operator's address. It is the operator's own text, but
// for its scheme.
func contact(s string) link {
	if strings.HasPrefix(s, "mailto:") && line(s, maxShown) == s {
		return link{template.URL(s), strings.TrimPrefix(s, "mailto:")}
	}
	return linkTo(s)
}
