package grasp

// PubKey is an author's public key.
type PubKey = [32]byte

// ID is an event id.
type ID = [32]byte

// Kinds of NIP-34, and of what goes with them.
const (
	KindComment      = 1111 // NIP-22
	KindPatch        = 1617
	KindPullRequest  = 1618
	KindPRUpdate     = 1619
	KindIssue        = 1621
	KindOpen         = 1630
	KindApplied      = 1631 // merged or resolved
	KindClosed       = 1632
	KindDraft        = 1633
	KindGraspList    = 10317
	KindAnnouncement = 30617
	KindState        = 30618
)

// Stamp is what orders events: who signed what, and when.
type Stamp struct {
	ID        ID
	PubKey    PubKey
	CreatedAt int64 // unix seconds
}

// Newer reports whether s replaces t: it is later, or of the same second with the
// lower id (NIP-01).
func (s *Stamp) Newer(t *Stamp) bool {
	if s.CreatedAt != t.CreatedAt {
		return s.CreatedAt > t.CreatedAt
	}
	return string(s.ID[:]) < string(t.ID[:])
}

// Event is what the rules read of a nostr event.
type Event struct {
	Stamp
	Kind int
	Tags [][]string
}

// first returns the value of the first tag with this name, "" if there is none.
func (e *Event) first(name string) string {
	for _, tag := range e.Tags {
		if len(tag) > 0 && tag[0] == name {
			if len(tag) > 1 {
				return tag[1]
			}
			return ""
		}
	}
	return ""
}

// all returns all values of all tags with this name, but for empty ones.
func (e *Event) all(name string) (values []string) {
	for _, tag := range e.Tags {
		if len(tag) == 0 || tag[0] != name {
			continue
		}
		for _, value := range tag[1:] {
			if value != "" {
				values = append(values, value)
			}
		}
	}
	return values
}

// has reports whether there is a tag with this name and value.
func (e *Event) has(name, value string) bool {
	for _, tag := range e.Tags {
		if len(tag) > 1 && tag[0] == name && tag[1] == value {
			return true
		}
	}
	return false
}
