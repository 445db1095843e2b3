package grasp

import (
	"strconv"
	"strings"
)

// References are the events and addresses that an event names in its e, E, a, A
// and q tags, each once, in the order of the tags.
type References struct {
	IDs       []ID
	Addresses []string // kind:pubkey:d, as ParseAddress takes them
}

// References returns what e names. Ids that are not 64 lower-case hex digits, and
// what is no address, are left out.
func (e *Event) References() References {
	var refs References
	ids, addresses := map[ID]bool{}, map[string]bool{}
	for _, tag := range e.Tags {
		if len(tag) < 2 || len(tag[0]) != 1 {
			continue
		}
		name, value := tag[0][0], tag[1]
		if name == 'e' || name == 'E' || name == 'q' {
			if id, ok := ParseID(value); ok && !ids[id] {
				ids[id] = true
				refs.IDs = append(refs.IDs, id)
			}
		}
		if name == 'a' || name == 'A' || name == 'q' {
			if _, _, _, ok := ParseAddress(value); ok && !addresses[value] {
				addresses[value] = true
				refs.Addresses = append(refs.Addresses, value)
			}
		}
	}
	return refs
}

// Names returns what other events call e: its id as 64 hex digits, and its
// address, "" for a kind that has none. An event that an accepted one names is
// related as well.
func (e *Event) Names() (id, address string) {
	id = hexString(e.ID)
	switch {
	case replaceable(e.Kind):
		address = strconv.Itoa(e.Kind) + ":" + hexString(e.PubKey) + ":"
	case addressable(e.Kind):
		address = strconv.Itoa(e.Kind) + ":" + hexString(e.PubKey) + ":" + e.first("d")
	}
	return id, address
}

// Related reports whether e names an accepted event or address, by a, A, q or e,
// E, q, or whether an accepted event names e. The two functions answer for what
// is stored, and for held announcements and states too, so that an issue sent
// right after its announcement is related. They are asked until one says yes.
func (e *Event) Related(accepted func(idOrAddress string) bool, referenced func(idOrAddress string) bool) bool {
	refs := e.References()
	for _, address := range refs.Addresses {
		if accepted(address) {
			return true
		}
	}
	for _, id := range refs.IDs {
		if accepted(hexString(id)) {
			return true
		}
	}
	id, address := e.Names()
	return referenced(id) || address != "" && referenced(address)
}

// ParseAddress takes apart kind:pubkey:d (NIP-01). The d part is all that follows
// the second colon, colons included.
func ParseAddress(s string) (kind int, pubkey PubKey, d string, ok bool) {
	number, rest, _ := strings.Cut(s, ":")
	key, d, colon := strings.Cut(rest, ":")
	n, err := strconv.ParseUint(number, 10, 16)
	if err != nil || !colon || number != strconv.FormatUint(n, 10) {
		return 0, PubKey{}, "", false
	}
	if pubkey, ok = ParseID(key); !ok {
		return 0, PubKey{}, "", false
	}
	kind = int(n)
	if !addressable(kind) && (!replaceable(kind) || d != "") {
		return 0, PubKey{}, "", false
	}
	return kind, pubkey, d, true
}

// ParseRepo takes apart the address of a repository announcement.
func ParseRepo(address string) (r Repo, ok bool) {
	kind, pubkey, d, ok := ParseAddress(address)
	if !ok || kind != KindAnnouncement || CheckIdentifier(d) != nil {
		return Repo{}, false
	}
	return Repo{pubkey, d}, true
}

func addressable(kind int) bool { return kind >= 30000 && kind < 40000 }

func replaceable(kind int) bool { return kind == 0 || kind == 3 || kind >= 10000 && kind < 20000 }
