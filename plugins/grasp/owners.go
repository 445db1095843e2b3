package main

import (
	"errors"
	"strings"

	"talon/sdk/abi"
	"talon/sdk/grasp"
	"talon/sdk/policy"
)

const (
	// How many steps up the lists of maintainers are followed, from an author to the owners. The
	// author is on one list, its author is on the next, and so on. One owner is enough to accept
	// a state. The others only tell where its objects may be.
	maxRounds      = 6
	maxStateRounds = 3

	// maxOwners bounds the owners that are found for one author. maxListers bounds those that one
	// query finds, among stored or among held announcements.
	maxOwners  = 16
	maxListers = 6
)

// owners returns the owners whose recursive maintainer sets contain the author. The author comes
// first, if an announcement of the identifier by it is stored or held. Then come the authors
// whose announcements list it as a maintainer, those who list one of these, and so on.
// Repositories that the operator denies are left out.
//
// Any number of strangers may announce the same identifier. An announcement that does not lead to
// the author is never read. Strangers who list the author count as owners. If there are more
// owners than the bounds allow, stored announcements come first, then the newest.
func (q *question) owners(identifier string, author grasp.PubKey, rounds int) []grasp.PubKey {
	w := walkUp{question: q, identifier: identifier}
	if !q.rules.Deny.Has(w.repo(author)) && q.exists(at(w.repo(author).Address())) {
		w.owners = append(w.owners, author)
	}
	w.seen = append(w.seen, author)
	for from := 0; rounds > 0 && from < len(w.seen) && len(w.owners) < maxOwners; rounds-- {
		to := len(w.seen)
		w.listers(w.seen[from:to])
		from = to
	}
	return w.owners
}

// walkUp is a walk from an author up to those who list it.
type walkUp struct {
	*question
	identifier string
	owners     []grasp.PubKey
	seen       []grasp.PubKey // the owners, and the author
}

func (w *walkUp) repo(owner grasp.PubKey) grasp.Repo {
	return grasp.Repo{PubKey: owner, Identifier: w.identifier}
}

// listers finds the owners of the announcements that list one of the keys.
func (w *walkUp) listers(keys []grasp.PubKey) {
	listing := policy.TagFilter{Name: policy.ByMaintainer}
	for i := range keys {
		listing.Values = append(listing.Values, policy.PubKey(keys[i]).String()+":"+w.identifier)
	}
	f := policy.Filter{Tags: []policy.TagFilter{listing}, Header: true, Limit: maxListers}
	stored := w.fresh(nil, w.stored(f))
	all := w.fresh(stored, w.held(f))
	stored, held := all[:len(stored)], all[len(stored):]
	for _, owner := range append(w.current(stored, listing), held...) {
		if len(w.owners) == maxOwners {
			return
		}
		if !hasKey(w.owners, &owner) && owner != w.seen[0] {
			w.owners = append(w.owners, owner)
			w.seen = append(w.seen, owner)
		}
	}
}

// fresh adds the authors of found events that are neither among the keys nor seen yet.
func (w *walkUp) fresh(keys []grasp.PubKey, found policy.Events) []grasp.PubKey {
	for found.Next() {
		author := grasp.PubKey(*found.Event().Author())
		if !hasKey(w.seen, &author) && !hasKey(keys, &author) && !w.rules.Deny.Has(w.repo(author)) {
			keys = append(keys, author)
		}
	}
	return keys
}

// current returns those of the owners of stored announcements whose newest one lists
// somebody as well: a held announcement is newer than the stored one of its author.
func (w *walkUp) current(owners []grasp.PubKey, listing policy.TagFilter) (current []grasp.PubKey) {
	if len(owners) == 0 {
		return nil
	}
	f := policy.Filter{Tags: []policy.TagFilter{{Name: policy.ByAddress}}, Header: true}
	for _, owner := range owners {
		f.Tags[0].Values = append(f.Tags[0].Values, w.repo(owner).Address())
	}
	newer := authors(w.held(f))
	if len(newer) == 0 {
		return owners
	}
	f.Tags[0].Values = f.Tags[0].Values[:0]
	for _, owner := range newer {
		f.Tags[0].Values = append(f.Tags[0].Values, w.repo(owner).Address())
	}
	f.Tags = append(f.Tags, listing)
	still := authors(w.held(f))
	for _, owner := range owners {
		if !hasKey(newer, &owner) || hasKey(still, &owner) {
			current = append(current, owner)
		}
	}
	return current
}

func authors(found policy.Events) (keys []grasp.PubKey) {
	for found.Next() {
		keys = append(keys, grasp.PubKey(*found.Event().Author()))
	}
	return keys
}

func hasKey(keys []grasp.PubKey, key *grasp.PubKey) bool {
	for i := range keys {
		if k := &keys[i]; k[0] == key[0] && k[1] == key[1] && *k == *key {
			return true
		}
	}
	return false
}

// isAnnounced reports whether an author that the operator does not deny announces the identifier.
func (q *question) isAnnounced(identifier string) bool {
	f := policy.Filter{
		Kinds: []int{grasp.KindAnnouncement}, Tags: []policy.TagFilter{{Name: "d", Values: []string{identifier}}},
		Header: true, Limit: maxListers,
	}
	for _, ask := range q.everywhere() {
		for found := ask(f); found.Next(); {
			if !q.rules.Deny.Has(grasp.Repo{PubKey: grasp.PubKey(*found.Event().Author()), Identifier: identifier}) {
				return true
			}
		}
	}
	return false
}

// reader converts events for the rules, in memory that it uses again.
type reader struct {
	event grasp.Event
	items []string // that the tags are made of
}

// keepItems is the most items whose memory is kept for the next event.
const keepItems = 1 << 14

// read returns the event as the rules read it, with the tags whose names keep says
// yes to; nil keeps all. It is valid until the next read, and its texts as long as
// the event.
func (r *reader) read(event policy.Event, keep func(name string) bool) *grasp.Event {
	if cap(r.items) > keepItems {
		*r = reader{}
	}
	e := &r.event
	e.Stamp, e.Kind, e.Tags, r.items = stamp(event), event.Kind(), e.Tags[:0], r.items[:0]
	for it := walk(event); it.next(); {
		if keep != nil && !keep(it.Name()) {
			continue
		}
		start := len(r.items)
		for items := it.Tag().Items(); items.Next(); {
			r.items = append(r.items, items.Text())
		}
		e.Tags = append(e.Tags, r.items[start:len(r.items):len(r.items)])
	}
	return e
}

var errManyURLs = errors.New("more URLs than are read")

// place reads the parts of an announcement that say where its repository is: the identifier and the
// URLs. left is the number of URLs that may still be read. The result is valid until the next call,
// and its texts as long as the event.
func (s *service) place(event policy.Event, left *int) (*grasp.Announcement, error) {
	a, named := &s.found, false
	a.Stamp, a.Identifier, a.Clone, a.Relays = stamp(event), "", a.Clone[:0], a.Relays[:0]
	for it := walk(event); it.next() && *left >= 0; {
		switch it.Name() {
		case "d":
			if !named {
				a.Identifier, named = it.Value(), true
			}
		case "clone":
			a.Clone = urls(a.Clone, it.Tag(), left)
		case "relays":
			a.Relays = urls(a.Relays, it.Tag(), left)
		}
	}
	if *left < 0 {
		return nil, errManyURLs
	}
	return a, grasp.CheckIdentifier(a.Identifier)
}

// urls adds those of a tag.
func urls(list []string, tag abi.TagView, left *int) []string {
	items := tag.Items()
	for items.Next(); *left >= 0 && items.Next(); *left-- {
		if url := items.Text(); url != "" {
			list = append(list, url)
		}
	}
	return list
}

// maxTags is how many tags of an event are looked at.
const maxTags = 4000

// walker walks the first tags of an event.
type walker struct {
	abi.TagIter
	left int
}

func walk(event policy.Event) walker { return walker{event.Tags(), maxTags} }

func (w *walker) next() bool {
	w.left--
	return w.left >= 0 && w.Next()
}

// first returns a function for read that keeps some tags of each name, no others.
func first(limit map[string]int) func(string) bool {
	return func(name string) bool {
		limit[name]--
		return limit[name] >= 0
	}
}

func stamp(event policy.Event) grasp.Stamp {
	return grasp.Stamp{ID: grasp.ID(event.ID()), PubKey: grasp.PubKey(*event.Author()), CreatedAt: event.CreatedAt()}
}

func contains(names []string, name string) bool {
	for _, n := range names {
		if n == name {
			return true
		}
	}
	return false
}

// withReason makes a verdict of a reason that begins with its prefix.
func withReason(action policy.Action, reason, rule string) policy.Verdict {
	prefix, text, _ := strings.Cut(reason, ": ")
	return policy.Verdict{Action: action, Prefix: prefix, Text: text, Rule: rule}
}
