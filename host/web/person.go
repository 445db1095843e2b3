package web

import (
	"context"
	"encoding/json"
	"html/template"
	"strings"

	"talon/host"
	"talon/sdk/nip19"
)

// person is an author as pages show one. Anybody may take any name: the key stands
// beside it, always.
type person struct {
	Name string // "" if none is known
	Npub string
}

func (p person) Short() string { return shortKey(p.Npub) }

// Link opens the person in a git client for nostr.
func (p person) Link() template.URL { return template.URL(client + p.Npub) }

// maxNames bounds how many names are looked up for a page.
const maxNames = 6 * chunk

// people looks up the names of authors (kind 0). The keys may repeat.
func (r reader) people(ctx context.Context, keys []host.PubKey) (map[host.PubKey]person, error) {
	all := make(map[host.PubKey]person, len(keys))
	var ask []host.PubKey
	for _, key := range keys {
		if _, ok := all[key]; !ok {
			all[key] = person{Npub: nip19.EncodeNpub(key)}
			ask = append(ask, key)
		}
	}
	if len(ask) == 0 {
		return all, nil
	}
	ask = ask[:min(len(ask), maxNames)]
	f := host.Filter{Kinds: []host.Kind{0}, Authors: ask}
	_, err := r.each(ctx, f, len(ask), func(e *host.Event) bool {
		p := all[e.PubKey]
		p.Name = nameOf(e.Content)
		all[e.PubKey] = p
		return true
	})
	return all, err
}

// nameOf returns the name in the content of a kind 0, "" if there is none to show.
func nameOf(content string) string {
	var profile map[string]json.RawMessage
	if json.Unmarshal([]byte(content), &profile) != nil {
		return ""
	}
	for _, field := range [...]string{"display_name", "name"} {
		var name string
		if json.Unmarshal(profile[field], &name) != nil {
			continue
		}
		if name = line(name, 40); hasLook(name) {
			return strings.Clone(name)
		}
	}
	return ""
}
