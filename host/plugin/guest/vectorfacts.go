package guest

import (
	"bytes"

	"talon/host"
	"talon/sdk/abi/manifest"
)

// VectorEvents returns the events that a vector says, with their texts.
func VectorEvents(list []manifest.VectorEvent) []*host.Event {
	events := make([]*host.Event, len(list))
	for i := range list {
		events[i] = VectorEvent(&list[i])
	}
	return events
}

// VectorEvent returns an event that a vector says, with its text.
func VectorEvent(v *manifest.VectorEvent) *host.Event {
	e := &host.Event{
		ID: host.ID(v.ID), PubKey: host.PubKey(v.PubKey), CreatedAt: v.CreatedAt, Kind: host.Kind(v.Kind),
		Tags: v.Tags, Content: v.Content, Sig: host.Sig(v.Sig),
	}
	e.JSON = e.AppendJSON(nil)
	return e
}

// VectorSets are the sets that a vector says. They implement [Sets].
type VectorSets map[string][]string

// Contains implements [Sets].
func (s VectorSets) Contains(name, member []byte) (yes, known bool) {
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
