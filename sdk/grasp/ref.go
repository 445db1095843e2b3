package grasp

import (
	"errors"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Ref is a ref and the object that it names.
type Ref struct {
	Name   string // in full, such as refs/heads/main
	Object string // 40 or 64 lower-case hex digits
}

// Update is one command of a push, or of an alignment. All zeros stand for "does
// not exist".
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

// nested returns two refs of which one would have to be a file and a folder at
// once, such as refs/heads/a and refs/heads/a/b.
func nested(refs []Ref) (outer, inner string, found bool) {
	names := make([]string, len(refs))
	for i := range refs {
		names[i] = refs[i].Name
	}
	// With / before all other characters, what is inside a name follows it.
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
	const most = 200
	if len(s) > most {
		s = s[:most] + "..."
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
