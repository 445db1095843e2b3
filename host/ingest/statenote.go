package ingest

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"talon/host"
	"talon/host/maintainers"
	"talon/sdk/grasp"
)

// Bounds of a note about a state.
const (
	maxNoteOwners = 4   // whose repositories are looked at
	maxNoteStates = 100 // of one of them
	maxNoteRefs   = 5   // that are named
	maxNoteName   = 100 // bytes of one name
)

// stateNote says to the author of a state what it does beyond what it names: the refs that it
// removes, and a HEAD that names none of its branches. It is empty for other events, for those
// that no client sent, and where there is nothing to say.
//
// A state names all branches and tags. One that was made from an older state than the one in
// effect removes what came in between, which its author does not know.
func stateNote(ctx context.Context, it *host.Item, facts host.RepoFacts) (string, error) {
	e := it.Event
	if e.Kind != grasp.KindState || it.Source.Origin != host.FromClient {
		return "", nil
	}
	s, err := e.State()
	if err != nil || !s.Tracks() {
		return "", nil
	}
	owners, err := maintainers.Owners(ctx, facts, s.Identifier, s.PubKey)
	if err != nil {
		return "", err
	}
	var removed []string
	for _, owner := range owners[:min(len(owners), maxNoteOwners)] {
		now, err := stateInEffect(ctx, facts, s.Identifier, owner.PubKey)
		if err != nil {
			return "", err
		}
		if now == nil || !s.Newer(&now.Stamp) {
			continue
		}
		for _, ref := range now.Refs {
			if s.Object(ref.Name) == "" {
				removed = append(removed, ref.Name)
			}
		}
	}
	var notes []string
	if len(removed) > 0 {
		slices.Sort(removed)
		notes = append(notes, "it removes "+named(slices.Compact(removed)))
	}
	if s.Head != "" && s.Object(s.Head) == "" {
		notes = append(notes, fmt.Sprintf("its HEAD names %s, which it does not have, so HEAD stays on a branch that is there", named([]string{s.Head})))
	}
	return strings.Join(notes, "; "), nil
}

// stateInEffect returns the newest stored state of an owner's maintainers, nil if there is none.
func stateInEffect(ctx context.Context, facts host.RepoFacts, identifier string, owner grasp.PubKey) (*grasp.State, error) {
	list, err := maintainers.Below(ctx, facts, identifier, owner)
	if err != nil {
		return nil, err
	}
	all := maintainers.Graph(list).Maintainers(owner)
	if len(all) == 0 {
		return nil, nil
	}
	var states []*grasp.State
	err = maintainers.Read(ctx, facts.Query, host.Filter{
		Kinds: []host.Kind{grasp.KindState}, Authors: host.PubKeys(all), Limit: maxNoteStates,
		Tags: []host.TagFilter{{Name: 'd', Values: []string{identifier}}},
	}, func(e *host.Event) {
		if s, err := e.State(); err == nil && s.Identifier == identifier {
			states = append(states, s)
		}
	})
	if err != nil {
		return nil, fmt.Errorf("read states: %w", err)
	}
	return grasp.Latest(states, all), nil
}

// named lists refs for a person, the first of them.
func named(refs []string) string {
	var b strings.Builder
	for i, ref := range refs {
		if i == maxNoteRefs {
			fmt.Fprintf(&b, " and %d more", len(refs)-i)
			break
		}
		if i > 0 {
			b.WriteByte(' ')
		}
		if len(ref) > maxNoteName {
			ref = strings.ToValidUTF8(ref[:maxNoteName], "") + "…"
		}
		b.WriteString(ref)
	}
	return b.String()
}
