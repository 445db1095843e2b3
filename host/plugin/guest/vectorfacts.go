package guest

import (
	"bytes"
	"context"
	"strings"

	"talon/host"
	"talon/sdk/abi/manifest"
)

// vectorFacts is a store that holds what a vector says, and a purgatory.
type vectorFacts struct {
	stored, held vectorEvents
	usage        map[string]manifest.VectorUsage
}

// vectorEvents are the events of one of them.
type vectorEvents []*host.Event

func newVectorFacts(stored, held []manifest.VectorEvent, usage map[string]manifest.VectorUsage) *vectorFacts {
	return &vectorFacts{newVectorEvents(stored), newVectorEvents(held), usage}
}

func newVectorEvents(list []manifest.VectorEvent) vectorEvents {
	events := make(vectorEvents, len(list))
	for i, v := range list {
		e := &host.Event{
			ID: host.ID(v.ID), PubKey: host.PubKey(v.PubKey), CreatedAt: v.CreatedAt, Kind: host.Kind(v.Kind),
			Tags: v.Tags, Content: v.Content, Sig: host.Sig(v.Sig),
		}
		e.JSON = e.AppendJSON(nil)
		events[i] = e
	}
	return events
}

func (f *vectorFacts) Get(_ context.Context, id host.ID) ([]byte, error) {
	return f.stored.get(id), nil
}

func (f *vectorFacts) Usage(_ context.Context, keys ...host.UsageKey) (list []host.Usage, err error) {
	for _, key := range keys {
		list = append(list, host.Usage(f.usage[key.Name()]))
	}
	return list, nil
}

func (f *vectorFacts) Held(_ context.Context, id host.ID) ([]byte, error) { return f.held.get(id), nil }

func (f *vectorFacts) Query(_ context.Context, filter host.Filter) ([][]byte, error) {
	return f.stored.query(filter), nil
}

func (f *vectorFacts) HeldBy(_ context.Context, filter host.Filter) ([][]byte, error) {
	return f.held.query(filter), nil
}

func (list vectorEvents) get(id host.ID) []byte {
	for _, e := range list {
		if e.ID == id {
			return e.JSON
		}
	}
	return nil
}

func (list vectorEvents) query(filter host.Filter) (found [][]byte) {
	for _, e := range list {
		if filter.Matches(e) {
			found = append(found, e.JSON)
		}
	}
	return found
}

func (f *vectorFacts) Referenced(_ context.Context, idOrAddress string) (bool, error) {
	for _, e := range f.stored {
		for _, tag := range e.Tags {
			if len(tag) > 1 && len(tag[0]) == 1 && strings.Contains(host.ReferenceTags, tag[0]) && tag[1] == idOrAddress {
				return true, nil
			}
		}
	}
	return false, nil
}

// vectorSets are the sets that a vector says.
type vectorSets map[string][]string

func (s vectorSets) Contains(name, member []byte) (yes, known bool) {
	list, known := s[string(name)]
	for _, m := range list {
		yes = yes || m == string(member)
		var key [32]byte
		if host.ParseHex(key[:], m) {
			yes = yes || bytes.Equal(key[:], member)
		}
	}
	return yes, known
}
