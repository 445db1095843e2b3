package grasp

import (
	"errors"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// References are the events and addresses that an event names in its e, E, a, A
// and q tags, each once, in the order of the tags.
type References struct {
	IDs       []ID
	Addresses []string // kind:pubkey:d, as ParseAddress takes them
}

// References returns the references of e. It leaves out ids that are not 64 lower-case hex digits,
// and malformed addresses.
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

// Names returns the forms in which other events refer to e: its id as 64 hex digits, and its
// address, or "" for a kind without one. An event to which an accepted one refers is related as
// well.
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

// Related reports whether e names an accepted event or address, by a, A, q or e, E, q, or whether
// an accepted event names e. The two functions answer for stored events, and for held announcements
// and states. So an issue that was sent right after its announcement is related. Related calls them
// until one returns true.
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

// Ref is a ref and the object that it names.
type Ref struct {
	Name   string // in full, such as refs/heads/main
	Object string // 40 or 64 lower-case hex digits
}

// Update is one command of a push, or of an alignment. An object name of zeros means "does not
// exist".
type Update struct {
	Ref      string
	Old, New string
}

// maxRef bounds a ref's name, in bytes: git makes it a path, and system calls take
// no path much longer than that.
const maxRef = 1024

var (
	errRefLong      = errors.New("a ref name must not be longer than 1024 bytes")
	errRefComponent = errors.New("a part of a ref name must not be empty, start with a dot, end with .lock or be longer than 240 bytes")
	errRefChars     = errors.New("a ref name must not contain control characters, spaces or one of ~ ^ : ? * [ \\")
	errRefSequence  = errors.New("a ref name must not contain .. or @{, or end with a dot")
)

// CheckRef says why git would not take a ref name (git check-ref-format).
func CheckRef(name string) error {
	if len(name) > maxRef {
		return errRefLong
	}
	for i := range len(name) {
		if c := name[i]; c <= ' ' || c == 0x7f || strings.IndexByte(`~^:?*[\`, c) >= 0 {
			return errRefChars
		}
	}
	if strings.Contains(name, "..") || strings.Contains(name, "@{") || strings.HasSuffix(name, ".") {
		return errRefSequence
	}
	for part := range strings.SplitSeq(name, "/") {
		// A file system takes 255 bytes, of which git uses some for its locks.
		if part == "" || part[0] == '.' || len(part) > 240 || strings.HasSuffix(part, ".lock") {
			return errRefComponent
		}
	}
	return nil
}

// tracked reports whether a state event decides about the ref.
func tracked(name string) bool {
	return strings.HasPrefix(name, "refs/heads/") || strings.HasPrefix(name, "refs/tags/")
}

func compareRefs(a, b Ref) int { return strings.Compare(a.Name, b.Name) }

// sortedRefs returns refs by name. It does not change its argument.
func sortedRefs(refs []Ref) []Ref {
	if slices.IsSortedFunc(refs, compareRefs) {
		return refs
	}
	refs = slices.Clone(refs)
	slices.SortFunc(refs, compareRefs)
	return refs
}

// objectOf returns the object of a ref, "" if there is none. Refs are by name.
func objectOf(refs []Ref, name string) string {
	i, found := slices.BinarySearchFunc(refs, name, func(r Ref, name string) int { return strings.Compare(r.Name, name) })
	if !found {
		return ""
	}
	return refs[i].Object
}

// nested returns two refs of which one would have to be a file and a folder at the
// same time, such as refs/heads/a and refs/heads/a/b.
func nested(refs []Ref) (outer, inner string, found bool) {
	names := make([]string, len(refs))
	for i := range refs {
		names[i] = refs[i].Name
	}
	// This sorts / before all other characters, so names inside a folder follow the folder.
	slices.SortFunc(names, func(a, b string) int {
		for i := range min(len(a), len(b)) {
			if a[i] != b[i] {
				switch {
				case a[i] == '/':
					return -1
				case b[i] == '/':
					return 1
				}
				return int(a[i]) - int(b[i])
			}
		}
		return len(a) - len(b)
	})
	for i := 1; i < len(names); i++ {
		if len(names[i]) > len(names[i-1]) && strings.HasPrefix(names[i], names[i-1]) && names[i][len(names[i-1])] == '/' {
			return names[i-1], names[i], true
		}
	}
	return "", "", false
}

// show returns text of a stranger for a message: short, and on one line.
func show(s string) string {
	const maximum = 200
	if len(s) > maximum {
		s = s[:maximum] + "..."
	}
	if s == "" || !utf8.ValidString(s) || strings.ContainsFunc(s, func(r rune) bool { return !strconv.IsPrint(r) }) {
		return strconv.Quote(s)
	}
	return s
}

// short returns the start of an object name, enough for a person.
func short(object string) string {
	if len(object) > 12 {
		object = object[:12]
	}
	return object
}

var (
	errIdentifierEmpty   = errors.New("the repository identifier is empty")
	errIdentifierDots    = errors.New("the repository identifier must not be one dot or two")
	errIdentifierSlash   = errors.New("the repository identifier must not contain / or \\")
	errIdentifierControl = errors.New("the repository identifier must not contain control characters")
	errIdentifierUTF8    = errors.New("the repository identifier must be valid UTF-8")
)

// CheckIdentifier returns an error for a bad identifier: the d tag of an announcement, and the last
// part of its URL without .git. There is no largest length. Shorten it to use it as the name of a
// file.
func CheckIdentifier(s string) error {
	if isWord(s) {
		return nil
	}
	switch {
	case s == "":
		return errIdentifierEmpty
	case s == "." || s == "..":
		return errIdentifierDots
	case strings.ContainsAny(s, `/\`):
		return errIdentifierSlash
	case !utf8.ValidString(s):
		return errIdentifierUTF8
	}
	for _, r := range s {
		if unicode.IsControl(r) {
			return errIdentifierControl
		}
	}
	return nil
}

// isWord reports whether s is made of letters, digits and a few signs, as most identifiers
// are, and no hidden name: a guest finds that out cheaply.
//
//go:noinline
func isWord(s string) bool {
	for i := range len(s) {
		if c := s[i]; !plainByte(c) {
			return false
		}
	}
	return s != "" && s[0] != '.'
}
