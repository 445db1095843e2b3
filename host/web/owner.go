package web

import (
	"context"
	"encoding/json"
	"fmt"
	"html/template"
	"net/http"

	"talon/host"
	"talon/host/wire"
	"talon/sdk/nip19"
)

// owner is what the page of a key shows.
type owner struct {
	Title     string
	Npub      string
	About     string
	Website   *link
	Canonical template.URL
	Client    template.URL
	App       template.URL
	List      []listed
	Later     bool
	Next      string
	Usage     []string // for the owner alone
}

// owner returns the page of a key: its profile, and its repositories. There is one for every key,
// so that each name on a page leads somewhere.
//
// The page has no NIP-05 name: the server does not ask other servers whether one is right, and a
// name that nobody verified is a claim.
func (h *Handler) owner(key host.PubKey) page {
	return func(ctx context.Context, r *http.Request) (int, string, any, error) {
		npub := nip19.EncodeNpub(key)
		q := queryOf(r)
		v := &owner{
			Title: shortKey(npub), Npub: npub, Later: q.Until != nil,
			Canonical: template.URL(h.urls(r).git("/" + npub)), Client: template.URL(client + npub), App: template.URL("nostr:" + npub),
		}
		texts, err := h.read.facts.Query(ctx, host.Filter{Kinds: []host.Kind{0}, Authors: []host.PubKey{key}, Limit: 1})
		if err != nil {
			return 0, "", nil, fmt.Errorf("read a profile: %w", err)
		}
		for _, text := range texts {
			e, err := wire.ParseEvent(text)
			if err != nil {
				return 0, "", nil, fmt.Errorf("an event that is here does not parse: %w", err)
			}
			v.describe(e.Content)
		}
		if v.List, v.Next, err = h.recent(ctx, &key, q.Until); err != nil {
			return 0, "", nil, err
		}
		if h.cfg.Usage != nil && h.cfg.SignedIn(r) != "" {
			err = h.addUsage(r, v, key)
		}
		return http.StatusOK, "owner", v, err
	}
}

// addUsage adds what takes how much here, if the client is the owner.
func (h *Handler) addUsage(r *http.Request, v *owner, key host.PubKey) error {
	var list []host.Address
	for i := range v.List {
		list = append(list, v.List[i].address)
	}
	texts, err := h.cfg.Usage(r, key, list)
	for _, text := range texts {
		v.Usage = append(v.Usage, line(text, maxText))
	}
	return err
}

// describe adds what a profile (kind 0) says.
func (v *owner) describe(content string) {
	if name := nameOf(content); name != "" {
		v.Title = name
	}
	var profile map[string]json.RawMessage
	if json.Unmarshal([]byte(content), &profile) != nil {
		return
	}
	var text string
	if json.Unmarshal(profile["about"], &text) == nil {
		v.About = lines(text, maxText)
	}
	if text = ""; json.Unmarshal(profile["website"], &text) == nil {
		if l := linkTo(text); l.Text != "" {
			v.Website = &l
		}
	}
}
