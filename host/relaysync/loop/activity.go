package loop

import (
	"bytes"
	"cmp"
	"fmt"
	"iter"
	"maps"
	"math"
	"slices"

	"talon/host"
	"talon/host/wire"
	"talon/sdk/abi"
	"talon/sdk/grasp"
)

// activity gathers what events tag that may be root events, until the strategy gets it: a relay
// may have no room for all of them, and those that are talked about come first. It also has the
// authors of these events: their deletions may tag nothing that a strategy knows of.
type activity struct {
	latest  map[host.ID]uint32 // unix seconds
	authors []saidAbout        // at most maxAuthors; some may be there twice
	next    int64              // unix milliseconds, when the strategy gets it
}

// saidAbout is an author of an event, and an id that the event tags.
type saidAbout struct {
	author host.PubKey
	id     host.ID
}

// Bounds of what is gathered.
const (
	activityEvery = 1000 // milliseconds
	maxActivity   = 2000 // ids; later ones of that time are left out
	maxAuthors    = 1000 // authors with an id; likewise
	repoAuthors   = 300  // of a repository, when a strategy begins
	activityTags  = 16   // of one event
	recentEvents  = 2000 // comments and statuses that are read when a strategy begins
)

// talked notes which events another one is about.
func (s *Loop) talked(e *host.Event) {
	if len(s.activity.latest) == 0 {
		s.activity.next = s.clock + activityEvery
	}
	if s.activity.latest == nil {
		s.activity.latest = make(map[host.ID]uint32)
	}
	at := seconds(e.CreatedAt)
	for id := range tagged(e) {
		if before, ok := s.activity.latest[id]; ok || len(s.activity.latest) < maxActivity {
			s.activity.latest[id] = max(before, at)
		} else {
			continue
		}
		if deletable(e) && len(s.activity.authors) < maxAuthors {
			s.activity.authors = append(s.activity.authors, saidAbout{e.PubKey, id})
		}
	}
}

// deletable reports whether a deletion of the event may tag only what no strategy knows of. A
// deletion of a root event tags it, and a deletion can not be deleted.
func deletable(e *host.Event) bool {
	return e.Kind != host.KindDeletion && !slices.Contains(rootKinds, e.Kind)
}

// tagged yields the ids that an event tags by e, E or q, at most activityTags of them.
func tagged(e *host.Event) iter.Seq[host.ID] {
	return func(yield func(host.ID) bool) { eachTagged(e, yield) }
}

func eachTagged(e *host.Event, yield func(host.ID) bool) {
	tags := 0
	for _, tag := range e.Tags {
		var id host.ID
		if len(tag) < 2 || tag[0] != "e" && tag[0] != "E" && tag[0] != "q" || !host.ParseHex(id[:], tag[1]) {
			continue
		}
		if tags++; tags > activityTags || !yield(id) {
			return
		}
	}
}

// seconds returns a date as the ABI has it.
func seconds(at int64) uint32 { return uint32(min(max(at, 0), math.MaxUint32)) }

// tellActivity passes on what was gathered, when its time has come.
func (s *Loop) tellActivity() {
	if len(s.activity.latest) == 0 || s.clock < s.activity.next {
		return
	}
	latest, authors := s.activity.latest, s.activity.authors
	s.activity.latest, s.activity.authors = nil, nil
	in := new(abi.RootActivity)
	for id := range latest {
		in.Roots = append(in.Roots, id)
	}
	slices.SortFunc(in.Roots, func(a, b [32]byte) int { return bytes.Compare(a[:], b[:]) })
	for _, id := range in.Roots {
		in.Latest = append(in.Latest, latest[id])
	}
	slices.SortFunc(authors, func(a, b saidAbout) int {
		return cmp.Or(bytes.Compare(a.author[:], b.author[:]), bytes.Compare(a.id[:], b.id[:]))
	})
	for _, said := range slices.Compact(authors) {
		if i, ok := slices.BinarySearchFunc(in.Roots, said.id, func(a [32]byte, b host.ID) int { return bytes.Compare(a[:], b[:]) }); ok {
			in.Authors, in.AuthorRoots = append(in.Authors, said.author), append(in.AuthorRoots, uint32(i))
		}
	}
	s.step(in)
}

// talkKinds are the kinds of events about root events: comments and statuses.
var talkKinds = []host.Kind{grasp.KindComment, grasp.KindPRUpdate, 1630, 1631, 1632, 1633}

const kindReaction host.Kind = 7 // NIP-25

// talk is what the latest events say about root events, in unix seconds.
type talk struct {
	latest  map[host.ID]uint32
	authors map[host.ID]map[host.PubKey]uint32 // by what they tag
}

// latestActivity reads what the latest comments and statuses are about, and who reacted lately.
func (s *Loop) latestActivity() (*talk, error) {
	t := &talk{make(map[host.ID]uint32), make(map[host.ID]map[host.PubKey]uint32)}
	for _, kinds := range [2][]host.Kind{talkKinds, {kindReaction}} {
		texts, err := s.deps.Facts.Query(host.Filter{Kinds: kinds, Limit: recentEvents})
		if err != nil {
			return nil, fmt.Errorf("read the latest comments: %w", err)
		}
		for _, text := range texts {
			if e, err := wire.ParseEvent(text); err == nil { // else the store's own check finds it
				t.note(e)
			}
		}
	}
	return t, nil
}

// note adds what an event tags. A reaction is no activity that makes a root event come first.
func (t *talk) note(e *host.Event) {
	at := seconds(e.CreatedAt)
	for id := range tagged(e) {
		before, ok := t.latest[id]
		if e.Kind != kindReaction && (ok || len(t.latest) < maxActivity) {
			t.latest[id] = max(before, at)
		}
		if !deletable(e) {
			continue
		}
		if t.authors[id] == nil {
			t.authors[id] = make(map[host.PubKey]uint32)
		}
		t.authors[id][e.PubKey] = max(t.authors[id][e.PubKey], at)
	}
}

// authorDates are authors with the date of their latest event, in unix seconds.
type authorDates map[host.PubKey]uint32

// add adds those who said something about a root event.
func (s *authorDates) add(authors map[host.PubKey]uint32) {
	if len(authors) > 0 && *s == nil {
		*s = make(authorDates)
	}
	for author, at := range authors {
		(*s)[author] = max((*s)[author], at)
	}
}

// latest returns those whose events are the latest, as many as a strategy gets of a repository.
func (s authorDates) latest() (authors [][32]byte, dates []uint32) {
	list := slices.SortedFunc(maps.Keys(s), func(a, b host.PubKey) int {
		return cmp.Or(cmp.Compare(s[b], s[a]), bytes.Compare(a[:], b[:]))
	})
	for _, author := range list[:min(len(list), repoAuthors)] {
		authors, dates = append(authors, author), append(dates, s[author])
	}
	return authors, dates
}
