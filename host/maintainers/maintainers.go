// Package maintainers follows the lists of maintainers in repository announcements, stored and
// held. It walks from an author up to the owners who count the author as a maintainer. It also
// walks from an owner down to the owner's maintainers (NIP-34, GRASP-01).
//
// Invariants:
//
//  1. Announcements by strangers under the same identifier cost nothing: each step is a
//     lookup by address or by maintainer. No step looks up an identifier.
//  2. A walk ends, also if maintainers list each other. It reads a bounded number of
//     announcements.
//  3. If an author has two announcements, the newer counts.
//
// The package keeps no state and decides nothing: package grasp of the SDK says which rights a
// maintainer has. Other packages also read events about repositories with [Read] and [ReadAll].
package maintainers

import (
	"context"
	"fmt"
	"slices"

	"talon/host"
	"talon/host/wire"
	"talon/sdk/grasp"
)

// Facts reads announcements, stored and held.
type Facts interface {
	Query(ctx context.Context, f host.Filter) ([][]byte, error)
	HeldBy(ctx context.Context, f host.Filter) ([][]byte, error)
}

// Query is a method of Facts.
type Query func(ctx context.Context, f host.Filter) ([][]byte, error)

// Read calls yield with each event that a query finds.
func Read(ctx context.Context, ask Query, f host.Filter, yield func(e *host.Event)) error {
	texts, err := ask(ctx, f)
	if err != nil {
		return err
	}
	for _, text := range texts {
		e, err := wire.ParseEvent(text)
		if err != nil {
			return fmt.Errorf("an event that is here does not parse: %w", err)
		}
		yield(e)
	}
	return nil
}

// ReadAll calls yield once with each event that matches, stored or held. It asks for held events
// first: an event that is released meanwhile is stored, and it misses none.
func ReadAll(ctx context.Context, facts Facts, f host.Filter, yield func(e *host.Event, held bool)) error {
	var held []*host.Event
	err := Read(ctx, facts.HeldBy, f, func(e *host.Event) { held = append(held, e) })
	if err != nil {
		return err
	}
	stored := make(map[host.ID]bool)
	err = Read(ctx, facts.Query, f, func(e *host.Event) {
		if len(held) > 0 {
			stored[e.ID] = true
		}
		yield(e, false)
	})
	for _, e := range held {
		if err == nil && !stored[e.ID] {
			yield(e, true)
		}
	}
	return err
}

// Bounds of what is read: anybody may announce any identifier, and list anybody.
const (
	maxListers = 32  // that one step finds among what is stored, or held
	maxOwners  = 64  // of one author's work
	maxBelow   = 200 // authors whose announcements are read from an owner on
)

// Owner is the owner of a recursive maintainer set that an author is in.
type Owner struct {
	PubKey grasp.PubKey
	Held   bool // the announcement that says so waits in purgatory
}

// Owners returns the owners of all recursive maintainer sets that contain an author. These are
// the author, if it announces the identifier, the authors who list it, those who list one of
// them, and so on. It reads only announcements that lead to the author, and of each only the
// signer. If there are more than its bounds allow, it prefers those that are served, then the
// newest.
func Owners(ctx context.Context, facts Facts, identifier string, author grasp.PubKey) ([]Owner, error) {
	w := walkUp{facts: facts, identifier: identifier}
	own := []grasp.PubKey{author}
	held := w.at(ctx, w.facts.HeldBy, own)
	if len(held) > 0 || len(w.at(ctx, w.facts.Query, own)) > 0 {
		w.owners = append(w.owners, Owner{author, len(held) > 0})
	}
	seen := own
	for from := 0; w.err == nil && from < len(seen) && len(w.owners) < maxOwners; {
		to := len(seen)
		for _, owner := range w.listers(ctx, seen[from:to]) {
			if !slices.Contains(seen, owner.PubKey) && len(w.owners) < maxOwners {
				seen = append(seen, owner.PubKey)
				w.owners = append(w.owners, owner)
			}
		}
		from = to
	}
	return w.owners, w.err
}

type walkUp struct {
	facts      Facts
	identifier string
	owners     []Owner
	err        error
}

// authors returns who signed what matches, each once.
func (w *walkUp) authors(ctx context.Context, ask Query, limit int, tags ...host.TagFilter) (keys []grasp.PubKey) {
	if w.err != nil {
		return nil
	}
	err := Read(ctx, ask, host.Filter{Tags: tags, Limit: limit, Header: true}, func(e *host.Event) {
		if key := grasp.PubKey(e.PubKey); !slices.Contains(keys, key) {
			keys = append(keys, key)
		}
	})
	if err != nil {
		w.err = fmt.Errorf("read announcements: %w", err)
	}
	return keys
}

// at returns those of the authors who have an announcement.
func (w *walkUp) at(ctx context.Context, ask Query, authors []grasp.PubKey, more ...host.TagFilter) []grasp.PubKey {
	return w.authors(ctx, ask, len(authors), append(more, addresses(w.identifier, authors))...)
}

// listers returns whose announcements list one of the keys.
func (w *walkUp) listers(ctx context.Context, keys []grasp.PubKey) (owners []Owner) {
	listing := host.TagFilter{Name: host.MaintainerOf}
	for _, key := range keys {
		listing.Values = append(listing.Values, host.Maintains(key, w.identifier))
	}
	stored := w.authors(ctx, w.facts.Query, maxListers, listing)
	held := w.authors(ctx, w.facts.HeldBy, maxListers, listing)
	// A held announcement is newer than the stored one of its author, and counts alone.
	if newer := w.at(ctx, w.facts.HeldBy, stored); len(newer) > 0 {
		for _, key := range w.at(ctx, w.facts.HeldBy, newer, listing) {
			if !slices.Contains(held, key) {
				held = append(held, key)
			}
		}
		stored = slices.DeleteFunc(stored, func(key grasp.PubKey) bool { return slices.Contains(newer, key) })
	}
	for _, key := range stored {
		owners = append(owners, Owner{key, false})
	}
	for _, key := range held {
		owners = append(owners, Owner{key, true})
	}
	return owners
}

func addresses(identifier string, authors []grasp.PubKey) host.TagFilter {
	t := host.TagFilter{Name: host.AddressOf}
	for _, key := range authors {
		t.Values = append(t.Values, host.Address{Kind: grasp.KindAnnouncement, PubKey: key, D: identifier}.String())
	}
	return t
}

// Announced is an announcement of a repository.
type Announced struct {
	*grasp.Announcement
	Held bool
}

// Below returns the announcements, stored and held, that say who maintains an owner's repository:
// the owner's, those of the maintainers that it lists, and so on. It does not read announcements by
// strangers under the same identifier.
func Below(ctx context.Context, facts Facts, identifier string, owner grasp.PubKey) ([]Announced, error) {
	list, err := Walk(owner, func(authors []grasp.PubKey) (found []Announced, err error) {
		f := host.Filter{Tags: []host.TagFilter{addresses(identifier, authors)}, Limit: len(authors)}
		err = ReadAll(ctx, facts, f, func(e *host.Event, held bool) {
			if a, err := e.Announcement(); err == nil {
				found = append(found, Announced{a, held})
			}
		})
		return found, err
	})
	if err != nil {
		return nil, fmt.Errorf("read announcements: %w", err)
	}
	return list, nil
}

// maxAuthors is how many authors' announcements Walk asks for at once.
const maxAuthors = 50

// Walk calls ask for the announcements of an owner, then of the maintainers whom these list, and
// so on. It returns all that it got. Nobody is asked about twice, so the walk ends.
func Walk(owner grasp.PubKey, ask func(authors []grasp.PubKey) ([]Announced, error)) (list []Announced, err error) {
	known := map[grasp.PubKey]bool{owner: true}
	for next := []grasp.PubKey{owner}; len(next) > 0; {
		n := min(len(next), maxAuthors)
		found, err := ask(next[:n])
		if err != nil {
			return nil, err
		}
		next = next[n:]
		for _, a := range found {
			for _, key := range a.Maintainers {
				if !known[key] && len(known) < maxBelow {
					known[key] = true
					next = append(next, key)
				}
			}
		}
		list = append(list, found...)
	}
	return list, nil
}

// Graph returns the graph of who lists whom.
func Graph(list []Announced) *grasp.Graph {
	all := make([]*grasp.Announcement, len(list))
	for i, a := range list {
		all[i] = a.Announcement
	}
	return grasp.NewGraph(all)
}
