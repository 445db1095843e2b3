package grasp

import (
	"talon/host"
	rules "talon/sdk/grasp"
)

// Event returns what the rules read of e. Tags are shared, not copied.
func Event(e *host.Event) *rules.Event {
	return &rules.Event{
		Stamp: rules.Stamp{ID: e.ID, PubKey: e.PubKey, CreatedAt: e.CreatedAt},
		Kind:  int(e.Kind),
		Tags:  e.Tags,
	}
}

// Deletes reports whether a deletion (kind 5) takes e, stored or held: by an e tag
// with its id, or by an a tag with its address if e is not younger than the
// deletion. Of the same second is not younger. Only the author's deletion counts,
// and a deletion is not deleted (NIP-09).
func Deletes(deletion, e *host.Event) bool {
	if deletion.Kind != host.KindDeletion || e.Kind == host.KindDeletion || deletion.PubKey != e.PubKey {
		return false
	}
	id, address := e.ID.String(), ""
	if a, ok := e.Address(); ok && e.CreatedAt <= deletion.CreatedAt {
		address = a.String()
	}
	for _, tag := range deletion.Tags {
		if len(tag) < 2 {
			continue
		}
		switch tag[0] {
		case "e":
			if tag[1] == id {
				return true
			}
		case "a":
			if address != "" && tag[1] == address {
				return true
			}
		}
	}
	return false
}
