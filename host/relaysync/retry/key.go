package retry

import (
	"hash/maphash"
	"slices"
	"strings"

	"talon/host"
)

// key stands for something that an event may wait for. Two things may have the same
// key: a try too many.
type key uint64

var seed = maphash.MakeSeed()

// Kinds of keys.
const (
	needs    = 'n' // an id or address that the event names
	named    = 'o' // the event's own id or address
	about    = 'd' // an identifier of repositories
	byAuthor = 'p' // an author's key
)

func keyOf(kind byte, value string) key {
	var h maphash.Hash
	h.SetSeed(seed)
	_ = h.WriteByte(kind)
	_, _ = h.WriteString(value)
	return key(h.Sum64())
}

// maxReferences bounds what is read of an event: one that names thousands of others
// is not about any of them.
const maxReferences = 64

// Kinds of NIP-34 and of authors' own lists.
const (
	kindProfile      host.Kind = 0
	kindContacts     host.Kind = 3
	kindRelayList    host.Kind = 10002
	kindGraspList    host.Kind = 10317
	kindAnnouncement host.Kind = 30617
	kindState        host.Kind = 30618
)

// keysOf returns what an event may wait for: what it names, events that name it; a
// repository's announcements and states wait for each other, and what an author says of
// itself waits for anything of the author's.
func keysOf(e *host.Event) (keys []key) {
	for _, value := range references(e) {
		keys = append(keys, keyOf(needs, value))
	}
	keys = append(keys, keyOf(named, e.ID.String()))
	if a, ok := e.Address(); ok {
		keys = append(keys, keyOf(named, a.String()))
	}
	switch e.Kind {
	case kindAnnouncement, kindState:
		keys = append(keys, keyOf(about, e.D()))
	case kindProfile, kindContacts, kindRelayList, kindGraspList:
		keys = append(keys, keyOf(byAuthor, e.PubKey.String()))
	}
	slices.Sort(keys)
	return slices.Compact(keys)
}

// answers returns what an accepted event may have been waited for as.
func answers(e *host.Event) (keys []key) {
	keys = append(keys, keyOf(needs, e.ID.String()), keyOf(byAuthor, e.PubKey.String()))
	if a, ok := e.Address(); ok {
		keys = append(keys, keyOf(needs, a.String()))
	}
	for _, value := range references(e) {
		keys = append(keys, keyOf(named, value))
	}
	if e.Kind == kindAnnouncement {
		keys = append(keys, keyOf(about, e.D()))
		for _, tag := range e.Tags {
			if len(tag) > 1 && tag[0] == "maintainers" {
				for _, value := range tag[1:min(len(tag), maxReferences)] {
					keys = append(keys, keyOf(byAuthor, value))
				}
			}
		}
	}
	slices.Sort(keys)
	return slices.Compact(keys)
}

// references returns the ids and addresses that an event names, as written.
func references(e *host.Event) (values []string) {
	for _, tag := range e.Tags {
		if len(tag) > 1 && len(tag[0]) == 1 && strings.Contains(host.ReferenceTags, tag[0]) {
			if values = append(values, tag[1]); len(values) == maxReferences {
				break
			}
		}
	}
	return values
}
