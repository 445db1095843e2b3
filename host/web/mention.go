package web

import (
	"bytes"
	"cmp"
	"context"
	"html/template"
	"slices"
	"strings"

	"talon/host"
	"talon/host/web/markdown"
	"talon/sdk/grasp"
	"talon/sdk/nip19"
)

const (
	// maxMentions bounds the people and repositories that the texts of a page may name.
	maxMentions = 50

	// maxSteps bounds the work of Markdown for a page: twice that of the largest text.
	maxSteps = 8 << 20
)

// texts renders the Markdown of one page.
type texts struct {
	person func(host.PubKey) person
	here   map[host.Address]bool // repositories that texts name, and whether they are here
	events map[host.ID]link      // pages of issues, pull requests and patches that texts name, with their titles
	steps  int
}

// mentioned returns the people that texts name.
func mentioned(contents ...string) (keys []host.PubKey) {
	for _, content := range contents {
		if len(keys) >= maxMentions {
			break
		}
		for _, code := range markdown.Mentions(content, maxMentions) {
			if key, ok := personOf(code); ok && !slices.Contains(keys, key) {
				keys = append(keys, key)
			}
		}
	}
	return keys[:min(len(keys), maxMentions)]
}

func personOf(code string) (host.PubKey, bool) {
	key, err := nip19.DecodeNpub(code)
	if err != nil {
		key, err = nip19.DecodeNprofile(code)
	}
	return key, err == nil
}

// texts prepares to render the texts of a page, by people with the given profiles.
func (h *Handler) texts(ctx context.Context, profiles map[host.PubKey]person, contents ...string) (*texts, error) {
	named := func(key host.PubKey) person {
		if p, ok := profiles[key]; ok {
			return p
		}
		return person{Npub: nip19.EncodeNpub(key)}
	}
	t := &texts{person: named, here: make(map[host.Address]bool), events: make(map[host.ID]link), steps: maxSteps}
	var ids []host.ID
	for _, content := range contents {
		for _, code := range markdown.Mentions(content, maxMentions) {
			if id, err := nip19.ParseEventID(code); err == nil {
				ids = append(ids, id)
				continue
			}
			a, err := nip19.DecodeNaddr(code)
			if err != nil || a.Kind != grasp.KindAnnouncement || len(t.here) == maxMentions || grasp.CheckIdentifier(a.D) != nil {
				continue
			}
			repo := address(grasp.Repo{PubKey: a.PubKey, Identifier: a.D})
			if _, known := t.here[repo]; known {
				continue
			}
			if t.here[repo], err = h.git.Here(ctx, repo); err != nil {
				return nil, err
			}
		}
	}
	return t, h.findEvents(ctx, t, ids)
}

// findEvents notes the pages of the issues, pull requests and patches among events.
func (h *Handler) findEvents(ctx context.Context, t *texts, ids []host.ID) error {
	slices.SortFunc(ids, func(a, b host.ID) int { return bytes.Compare(a[:], b[:]) })
	if ids = slices.Compact(ids); len(ids) == 0 {
		return nil
	}
	f := host.Filter{IDs: ids[:min(len(ids), maxMentions)]}
	for _, s := range sections {
		f.Kinds = append(f.Kinds, s.kind)
	}
	var failed error
	_, err := h.read.each(ctx, f, maxMentions, func(e *host.Event) bool {
		i := slices.IndexFunc(sections[:], func(s section) bool { return s.kind == e.Kind })
		for _, tag := range e.Tags {
			if len(tag) < 2 || tag[0] != "a" {
				continue
			}
			a, ok := host.ParseAddress(tag[1])
			if !ok || a.Kind != grasp.KindAnnouncement || grasp.CheckIdentifier(a.D) != nil {
				continue
			}
			here, err := h.git.Here(ctx, a)
			if failed = err; err != nil {
				return false
			}
			if here {
				path := basePath(grasp.Repo{PubKey: grasp.PubKey(a.PubKey), Identifier: strings.Clone(a.D)}) + "/" + sections[i].Name + "/" + e.ID.String()
				t.events[e.ID] = link{Text: titleOf(e), Href: template.URL(path)}
				break
			}
		}
		return true
	})
	return cmp.Or(err, failed)
}

// options returns how the texts of a page are rendered, with headings from a level on.
func (t *texts) options(heading int) markdown.Options {
	return markdown.Options{
		Heading: heading,
		Href:    func(destination string) string { return string(linkTo(destination).Href) },
		Mention: t.mention,
		Steps:   &t.steps,
	}
}

// mention returns how a page names what a NIP-19 code is, and where its page is.
func (t *texts) mention(code string) (label, href string) {
	if key, ok := personOf(code); ok {
		p := t.person(key)
		return "@" + orElse(p.Name, p.Short()), string(p.Link())
	}
	if a, err := nip19.DecodeNaddr(code); err == nil {
		repo := grasp.Repo{PubKey: a.PubKey, Identifier: a.D}
		if a.Kind == grasp.KindAnnouncement && t.here[address(repo)] {
			return identifier(a.D), repo.Path()
		}
		return orElse(identifier(a.D), shortKey(code)), "nostr:" + code
	}
	if id, err := nip19.ParseEventID(code); err == nil {
		named := t.events[id]
		return orElse(named.Text, shortKey(code)), cmp.Or(string(named.Href), "nostr:"+code)
	}
	return "nostr:" + code, ""
}
