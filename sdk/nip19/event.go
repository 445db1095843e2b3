package nip19

import (
	"errors"
	"slices"
	"strings"
	"unicode/utf8"
)

var (
	errEventShape    = errors.New("not a note, a nevent or 64 hex digits")
	errEventChecksum = errors.New("the checksum of the note or nevent is wrong")
)

// ParseEventID decodes a note, a nevent, or the 64 hex digits of an event id in
// either case. What a nevent says beside the id is not returned.
func ParseEventID(s string) (id [32]byte, err error) {
	if len(s) == 64 {
		if id, err = parseHex(s); err != nil {
			err = errEventShape
		}
		return id, err
	}
	if len(s) > 5 && strings.EqualFold(s[:5], "note1") {
		data, err := eventData("note", s)
		if err == nil && len(data) != len(id) {
			err = errEventShape
		}
		if err != nil {
			return id, err
		}
		return [32]byte(data), nil
	}
	data, err := eventData("nevent", s)
	if err != nil {
		return id, err
	}
	// Each part is a type, a length and that many bytes; the id is of type 0.
	for len(data) >= 2 {
		kind, n := data[0], int(data[1])
		if data = data[2:]; n > len(data) {
			break
		}
		if kind == fieldID && n == len(id) {
			return [32]byte(data[:n]), nil
		}
		data = data[n:]
	}
	return id, errEventShape
}

func eventData(prefix, s string) ([]byte, error) {
	data, err := decodeBech32(nil, prefix, s)
	switch err {
	case nil:
		return data, nil
	case errNaddrChecksum:
		return nil, errEventChecksum
	}
	return nil, errEventShape
}

// Naddr is what an naddr names: the newest event of an author, kind and d tag.
// Hints about relays are not kept.
type Naddr struct {
	Kind   uint16
	PubKey [32]byte
	D      string // empty for a replaceable kind
}

// maxText bounds what is decoded, in characters. NIP-19 asks for 5000.
const maxText = 5000

var (
	errNaddrShape    = errors.New("not an naddr")
	errNaddrChecksum = errors.New("the checksum of the naddr is wrong")
	errNaddrField    = errors.New("the naddr is damaged: a field is cut off, stands twice or has the wrong length")
	errNaddrMissing  = errors.New("the naddr must have an identifier, an author and a kind")
	errNaddrKind     = errors.New("the kind of the naddr is more than 65535")
	errNaddrText     = errors.New("the identifier of the naddr is not valid UTF-8")
)

// The fields of an naddr and a nevent (NIP-19). Others are skipped.
const (
	fieldD      = 0 // of an naddr
	fieldID     = 0 // of a nevent
	fieldRelay  = 1
	fieldAuthor = 2
	fieldKind   = 3
)

// DecodeNaddr decodes a bech32 naddr.
func DecodeNaddr(s string) (Naddr, error) {
	data, err := decodeBech32(nil, "naddr", s)
	if err != nil {
		return Naddr{}, err
	}
	var a Naddr
	var seen [fieldKind + 1]bool
	for len(data) > 0 {
		if len(data) < 2 || len(data) < 2+int(data[1]) {
			return Naddr{}, errNaddrField
		}
		field, value := data[0], data[2:2+int(data[1])]
		data = data[2+len(value):]
		switch field {
		case fieldD, fieldAuthor, fieldKind:
			if seen[field] {
				return Naddr{}, errNaddrField
			}
			seen[field] = true
		}
		switch field {
		case fieldD:
			if !utf8.Valid(value) {
				return Naddr{}, errNaddrText
			}
			a.D = string(value)
		case fieldAuthor:
			if len(value) != len(a.PubKey) {
				return Naddr{}, errNaddrField
			}
			copy(a.PubKey[:], value)
		case fieldKind:
			if len(value) != 4 {
				return Naddr{}, errNaddrField
			}
			if value[0] != 0 || value[1] != 0 {
				return Naddr{}, errNaddrKind
			}
			a.Kind = uint16(value[2])<<8 | uint16(value[3])
		}
	}
	if !seen[fieldD] || !seen[fieldAuthor] || !seen[fieldKind] {
		return Naddr{}, errNaddrMissing
	}
	return a, nil
}

// decodeBech32 returns the bytes behind the prefix (BIP-173), in the memory of data if
// they fit, without the limit of 90 characters. All letters have one case.
func decodeBech32(data []byte, prefix, s string) ([]byte, error) {
	const checksum = 6
	start := len(prefix) + 1
	if len(s) < start+checksum || len(s) > maxText || s[start-1] != '1' {
		return nil, errNaddrShape
	}
	for i := range len(prefix) {
		if s[i]|0x20 != prefix[i] {
			return nil, errNaddrShape
		}
	}
	sum, ok := sumOf(prefixSum(prefix), s[start:])
	if !ok || !oneCase(s) {
		return nil, errNaddrShape
	}
	words := s[start : len(s)-checksum]
	bytes := slices.Grow(data[:0], len(words)*5/8)[:len(words)*5/8]
	if !unpack(bytes, words) || sum != 1 {
		return nil, errNaddrChecksum
	}
	return bytes, nil
}

// What follows are loops in functions of their own: a guest pays, each time around, for
// all the code that is behind the loop (host/plugin/meter).

// sumOf continues a checksum with characters, and reports whether they are bech32's.
//
//go:noinline
func sumOf(sum uint32, s string) (uint32, bool) {
	var wrong byte
	for i := range len(s) {
		v := fives[s[i]]
		wrong |= v
		sum = polymod(sum, v)
	}
	return sum, wrong < 32
}

// oneCase reports whether the letters of a text of letters and digits have one case.
//
//go:noinline
func oneCase(s string) bool {
	var seen byte
	for i := range len(s) {
		seen |= 1 << (s[i] >> 5)
	}
	const both = 1<<('A'>>5) | 1<<('a'>>5)
	return seen&both != both
}

// unpack writes the bytes of groups of five bits, and reports whether what is left are
// fewer than five zeros.
//
//go:noinline
func unpack(bytes []byte, s string) bool {
	var acc, bits uint32
	for i := range len(s) {
		acc = acc<<5 | uint32(fives[s[i]])
		if bits += 5; bits >= 8 && len(bytes) > 0 {
			bits -= 8
			bytes[0], bytes = byte(acc>>bits), bytes[1:]
		}
	}
	return bits < 5 && acc&(1<<bits-1) == 0
}

// isPacked reports whether s is how bytes are written in groups of five bits.
//
//go:noinline
func isPacked(s string, bytes []byte) bool {
	var acc, bits uint32
	for i := range len(s) {
		if bits < 5 {
			acc, bits = acc<<8, bits+8
			if len(bytes) > 0 {
				acc, bytes = acc|uint32(bytes[0]), bytes[1:]
			}
		}
		bits -= 5
		if s[i] != charset[acc>>bits&31] {
			return false
		}
	}
	return true
}
