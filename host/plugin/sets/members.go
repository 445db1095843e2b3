package sets

import (
	"encoding/hex"
	"fmt"
	"strings"
)

const (
	maxMembers  = 1_000_000 // of one set
	maxAll      = 2_000_000 // of all sets of a plugin
	maxAllBytes = 128 << 20 // of the members of all sets of a plugin
	maxText     = 1024      // bytes of a text
)

var (
	errMembers = fmt.Errorf("it has more than %d members", maxMembers)
	errAll     = fmt.Errorf("all sets of the plugin together have more than %d members, or %d MiB of them", maxAll, maxAllBytes>>20)
)

// members is one version of a set. It does not change once it can be looked up.
type members struct {
	keys  map[[32]byte]struct{}
	texts map[string]struct{}
	bytes int // of all members
}

func (m *members) len() int { return len(m.keys) + len(m.texts) }

func (m *members) addKey(key [32]byte) {
	if m.keys == nil {
		m.keys = map[[32]byte]struct{}{}
	}
	before := len(m.keys)
	m.keys[key] = struct{}{}
	m.bytes += (len(m.keys) - before) * len(key)
}

// addText adds a copy of a text, or its 32 bytes if it has 64 hex digits.
func (m *members) addText(text string) {
	if key, ok := parseKey(text); ok {
		m.addKey(key)
		return
	}
	if m.texts == nil {
		m.texts = map[string]struct{}{}
	}
	before := len(m.texts)
	m.texts[strings.Clone(text)] = struct{}{}
	m.bytes += (len(m.texts) - before) * len(text)
}

func (m *members) contains(member []byte) bool {
	switch len(member) {
	case 32:
		if _, ok := m.keys[[32]byte(member)]; ok {
			return true
		}
	case 64:
		if key, ok := parseKey(member); ok {
			_, ok = m.keys[key]
			return ok
		}
	}
	_, ok := m.texts[string(member)]
	return ok
}

var none = &members{}

// parseKey reads 64 hex digits in either case.
func parseKey[T string | []byte](text T) (key [32]byte, ok bool) {
	if len(text) != 64 {
		return key, false
	}
	var digits [64]byte
	copy(digits[:], text)
	_, err := hex.Decode(key[:], digits[:])
	return key, err == nil
}
