package web

import (
	"context"
	"fmt"
	"strings"

	"talon/host"
	"talon/host/maintainers"
	"talon/host/wire"
	"talon/sdk/grasp"
)

const (
	// chunk is how many events are in memory at a time. One may have as many bytes as the
	// relay takes in a message.
	chunk = 25

	// maxStates bounds the states among which a page looks for the newest that counts.
	maxStates = 500
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
	maintainers []grasp.PubKey      // the recursive set, the owner first
}

// announced reads the announcement of a repository and of those who maintain it.
func (r reader) announced(ctx context.Context, repo grasp.Repo) (a announced, err error) {
	list, err := maintainers.Below(ctx, r.facts, repo.Identifier, repo.PubKey)
	if err != nil {
		return a, err
	}
	for _, found := range list {
		switch {
		case found.PubKey != repo.PubKey:
		case found.Held:
			a.held = found.Announcement
		default:
			a.stored = found.Announcement
		}
	}
	a.maintainers = maintainers.Graph(list).Maintainers(repo.PubKey)
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
	_, err = r.each(ctx, f, maxStates, func(e *host.Event) bool {
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
