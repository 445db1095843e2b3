package web

import (
	"context"
	"fmt"
	"strings"

	"talon/host"
	"talon/host/wire"
	"talon/sdk/grasp"
)

const (
	// chunk is how many events are in memory at a time. One may have as many bytes as the
	// relay takes in a message.
	chunk = 25

	// maxKnown bounds the maintainers of a repository that are looked for, maxAsked how
	// many questions that may take.
	maxKnown = 500
	maxAsked = 40
)

// reader reads events for pages.
type reader struct{ facts host.RepoFacts }

// each calls yield with the stored events that match, newest first, until it has yielded limit
// events or yield returns false. More reports whether there may be others. The event, and every
// part cut out of it, keeps its whole text in memory: copy the parts that should stay.
//
// It reads a chunk at a time. If more than a chunk of events have the same second, it leaves out
// the rest of that second.
func (r reader) each(ctx context.Context, f host.Filter, limit int, yield func(e *host.Event) bool) (more bool, err error) {
	seen := make(map[host.ID]bool)
	for rounds := 2*limit/chunk + 4; rounds > 0; rounds-- {
		f.Limit = min(chunk, limit+1)
		texts, err := r.facts.Query(ctx, f)
		if err != nil {
			return false, fmt.Errorf("read events: %w", err)
		}
		last, news := int64(0), false
		for _, text := range texts {
			e, err := wire.ParseEvent(text)
			if err != nil {
				return false, fmt.Errorf("an event that is here does not parse: %w", err)
			}
			last = e.CreatedAt
			if seen[e.ID] {
				continue
			}
			if len(seen) == limit {
				return true, nil
			}
			seen[e.ID], news = true, true
			if !yield(e) {
				return true, nil
			}
		}
		if len(texts) < f.Limit {
			return more, nil
		}
		if !news {
			more = true
			if last--; last < 0 {
				return more, nil
			}
		}
		f.Until = &last
	}
	return true, nil
}

// announced is a repository as its announcements have it.
type announced struct {
	stored      *grasp.Announcement // of the owner, nil if none is served
	held        *grasp.Announcement // of the owner, nil if none waits
	maintainers []grasp.PubKey      // the recursive set, the owner first; bounded
}

// announced reads the announcement of a repository and of those who maintain it. It
// follows the lists of maintainers from the owner on: what strangers announce under
// the same identifier is never read.
func (r reader) announced(ctx context.Context, repo grasp.Repo) (a announced, err error) {
	var list []*grasp.Announcement
	known := map[grasp.PubKey]bool{repo.PubKey: true}
	next := []grasp.PubKey{repo.PubKey}
	for asked := 0; len(next) > 0 && asked < maxAsked; asked++ {
		f := host.Filter{
			Kinds: []host.Kind{grasp.KindAnnouncement},
			Tags:  []host.TagFilter{{Name: 'd', Values: []string{repo.Identifier}}},
			Limit: chunk,
		}
		n := min(len(next), chunk)
		for _, key := range next[:n] {
			f.Authors = append(f.Authors, key)
		}
		next = next[n:]
		for _, held := range [...]bool{false, true} {
			read := r.facts.Query
			if held {
				read = r.facts.HeldBy
			}
			texts, err := read(ctx, f)
			if err != nil {
				return a, fmt.Errorf("read announcements: %w", err)
			}
			for _, text := range texts {
				found, err := parseAnnouncement(text)
				if err != nil {
					return a, err
				}
				if found == nil || found.Identifier != repo.Identifier {
					continue
				}
				if found.PubKey == repo.PubKey {
					if held {
						a.held = found
					} else {
						a.stored = found
					}
				}
				for _, key := range found.Maintainers {
					if !known[key] && len(known) < maxKnown {
						known[key] = true
						next = append(next, key)
					}
				}
				list = append(list, &grasp.Announcement{
					Stamp: found.Stamp, Identifier: repo.Identifier, Maintainers: found.Maintainers,
				})
			}
		}
	}
	a.maintainers = grasp.NewGraph(list).Maintainers(repo.PubKey)
	a.maintainers = a.maintainers[:min(len(a.maintainers), maxKnown)]
	return a, nil
}

// parseAnnouncement returns nil for what is no announcement of a repository.
func parseAnnouncement(text []byte) (*grasp.Announcement, error) {
	e, err := wire.ParseEvent(text)
	if err != nil {
		return nil, fmt.Errorf("an event that is here does not parse: %w", err)
	}
	a, err := e.Announcement()
	if err != nil {
		return nil, nil
	}
	return a, nil
}

// state returns the newest state that a maintainer signed and that is served, nil if
// there is none.
func (r reader) state(ctx context.Context, repo grasp.Repo, maintainers []grasp.PubKey) (latest *grasp.Stamp, err error) {
	f := host.Filter{
		Kinds:   []host.Kind{grasp.KindState},
		Authors: host.PubKeys(maintainers),
		Tags:    []host.TagFilter{{Name: 'd', Values: []string{repo.Identifier}}},
	}
	_, err = r.each(ctx, f, maxKnown, func(e *host.Event) bool {
		s, err := e.State()
		if err != nil || s.Identifier != repo.Identifier || !s.Tracks() {
			return true
		}
		latest = &s.Stamp
		return false // they come newest first
	})
	return latest, err
}

// repoTag is a tag filter for the announcements of all maintainers of an identifier.
func repoTag(identifier string, maintainers []grasp.PubKey) host.TagFilter {
	const maximum = 50
	t := host.TagFilter{Name: 'a'}
	for _, key := range maintainers[:min(len(maintainers), maximum)] {
		t.Values = append(t.Values, strings.Clone(grasp.Repo{PubKey: key, Identifier: identifier}.Address()))
	}
	return t
}
