// Package kinds sorts event kinds: into the classes of NIP-01, with the events of
// git repositories (NIP-34) as one of their own, and into sets that an operator
// writes down.
package kinds

import (
	"strconv"
	"strings"

	"talon/sdk/policy"
)

// Class is the class of a kind by storage, or the class of kinds about git repositories.
type Class uint8

const (
	Regular Class = iota // also kinds that NIP-01 gives no class
	Replaceable
	Ephemeral
	Addressable
	Git // NIP-34, whatever it is by NIP-01

	NumClasses = iota
)

var names = [NumClasses]string{"regular", "replaceable", "ephemeral", "addressable", "git"}

// Names are those of all classes, for people.
const Names = "regular, replaceable, ephemeral, addressable or git"

func (c Class) String() string { return names[c] }

// ClassOf returns the class of a kind.
func ClassOf(kind int) Class {
	switch {
	case 1617 <= kind && kind <= 1633, kind == 30617, kind == 30618, kind == 10317:
		return Git
	case 20000 <= kind && kind < 30000:
		return Ephemeral
	case 30000 <= kind && kind < 40000:
		return Addressable
	case 10000 <= kind && kind < 20000, kind == 0, kind == 3:
		return Replaceable
	}
	return Regular
}

// ParseClass returns the class with this name, and whether there is one.
func ParseClass(name string) (Class, bool) {
	for c, n := range names {
		if n == name {
			return Class(c), true
		}
	}
	return 0, false
}

// PerClass reads a setting of type strings, whose values are a class with a number, as in "git:0".
// It calls set for each. want describes the number in an error, and limit is the highest.
func PerClass(cfg policy.Config, key, want string, limit int64, set func(Class, int64)) error {
	for _, text := range cfg.Strings(key) {
		name, number, _ := strings.Cut(text, ":")
		class, ok := ParseClass(strings.TrimSpace(name))
		n, err := strconv.ParseInt(strings.TrimSpace(number), 10, 64)
		if !ok || err != nil || n < 0 || n > limit {
			return policy.WrongValue(key, text, "class:number, a class of "+Names+", and "+want+" from 0 to "+strconv.FormatInt(limit, 10))
		}
		set(class, n)
	}
	return nil
}

// Set has a bit for each kind. A nil set is empty.
type Set [65536 / 64]uint64

// Has reports whether a kind of 0 to 65535 is in the set.
func (s *Set) Has(kind int) bool { return s != nil && s[uint16(kind)/64]>>(kind%64)&1 == 1 }

// Parse reads a setting of type strings: kinds, "7", and ranges with both ends
// included, "30000-39999". It returns nil where the setting is empty.
func Parse(cfg policy.Config, key string) (*Set, error) {
	var s *Set
	for _, text := range cfg.Strings(key) {
		first, last, ok := parseRange(text)
		if !ok {
			return nil, policy.WrongValue(key, text, "a kind from 0 to 65535, or a range like 30000-39999")
		}
		if s == nil {
			s = new(Set)
		}
		for kind := first; kind <= last; kind++ {
			s[kind/64] |= 1 << (kind % 64)
		}
	}
	return s, nil
}

func parseRange(text string) (first, last int, ok bool) {
	from, to, isRange := strings.Cut(text, "-")
	if !isRange {
		to = from
	}
	a, errA := strconv.ParseUint(strings.TrimSpace(from), 10, 16)
	b, errB := strconv.ParseUint(strings.TrimSpace(to), 10, 16)
	return int(a), int(b), errA == nil && errB == nil && a <= b
}
