// Package nip19 decodes public keys as people write them, npub (NIP-19) or 64 hex
// digits, event ids (note, nevent), addresses (naddr) and secret keys (nsec). It
// encodes keys. It is small enough for a guest.
//
// It accepts no text with a wrong checksum, and quotes no secret key in an error.
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

// ParseEventID decodes a note, a nevent, or the 64 hex digits of an event id in either case. It
// returns only the id of a nevent.
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

// Naddr is the content of an naddr: it names the newest event of an author, kind and d tag. It does
// not keep hints about relays.
type Naddr struct {
	Kind   uint16
	PubKey [32]byte
	D      string // empty for a replaceable kind
}

// maxText bounds the decoded text, in characters. NIP-19 asks for 5000.
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

var errNprofileShape = errors.New("not an nprofile")

// DecodeNprofile decodes a bech32 nprofile: the key of somebody. Hints about relays are not
// returned.
func DecodeNprofile(s string) (key [32]byte, err error) {
	data, err := decodeBech32(nil, "nprofile", s)
	if err != nil {
		return key, errNprofileShape
	}
	for len(data) >= 2 && len(data) >= 2+int(data[1]) {
		field, value := data[0], data[2:2+int(data[1])]
		if data = data[2+len(value):]; field == fieldID && len(value) == len(key) {
			return [32]byte(value), nil
		}
	}
	return key, errNprofileShape
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

// The following loops are functions of their own. A guest pays, in each round, for all the code
// behind the loop (host/plugin/meter).

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

// unpack writes the bytes of groups of five bits, and reports whether the rest is fewer than five
// zeros.
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

// EncodeNpub writes a public key as an npub (NIP-19).
func EncodeNpub(key [32]byte) string { return encodeBech32("npub", key[:]) }

// EncodeNaddr writes an naddr (NIP-19) with a relay that has the event, if relay is
// neither empty nor longer than 255 bytes. It returns "" for an identifier of more than
// 255 bytes, which an naddr cannot hold.
func EncodeNaddr(a Naddr, relay string) string {
	if len(a.D) > 255 {
		return ""
	}
	return encodeBech32("naddr", appendShared(appendField(nil, fieldD, []byte(a.D)), relay, a.PubKey, a.Kind))
}

// EncodeNevent writes a nevent (NIP-19) with the event's author and kind, and a relay
// that has it, if relay is neither empty nor longer than 255 bytes.
func EncodeNevent(id, author [32]byte, kind uint16, relay string) string {
	return encodeBech32("nevent", appendShared(appendField(nil, fieldID, id[:]), relay, author, kind))
}

// appendShared appends the fields that nevent and naddr share, other than the name of the event.
func appendShared(data []byte, relay string, author [32]byte, kind uint16) []byte {
	if 0 < len(relay) && len(relay) <= 255 {
		data = appendField(data, fieldRelay, []byte(relay))
	}
	data = appendField(data, fieldAuthor, author[:])
	return appendField(data, fieldKind, []byte{0, 0, byte(kind >> 8), byte(kind)})
}

// appendField appends a type, a length and that many bytes.
func appendField(data []byte, field byte, value []byte) []byte {
	return append(append(data, field, byte(len(value))), value...)
}

// encodeBech32 writes data behind a prefix in lower case (BIP-173).
func encodeBech32(prefix string, data []byte) string {
	const checksum = 6
	out := make([]byte, 0, len(prefix)+1+(len(data)*8+4)/5+checksum)
	sum := prefixSum(prefix)
	out = append(out, prefix...)
	out = append(out, '1')
	word := func(v byte) {
		sum = polymod(sum, v)
		out = append(out, charset[v])
	}
	var acc uint32
	bits := 0
	for _, b := range data {
		acc, bits = acc<<8|uint32(b), bits+8
		for ; bits >= 5; bits -= 5 {
			word(byte(acc>>(bits-5)) & 31)
		}
		acc &= 1<<bits - 1
	}
	if bits > 0 {
		word(byte(acc<<(5-bits)) & 31)
	}
	for range checksum {
		sum = polymod(sum, 0)
	}
	sum ^= 1
	for i := range checksum {
		out = append(out, charset[sum>>(5*(checksum-1-i))&31])
	}
	return string(out)
}

var (
	errSecretShape    = errors.New("not an nsec or 64 hex digits")
	errSecretChecksum = errors.New("the checksum of the nsec is wrong")
)

// ParseSecretKey decodes an nsec, or 64 hex digits in either case. No error quotes the text. The
// signer checks whether the number is a valid key, from 1 to the order of the curve.
func ParseSecretKey(s string) (key [32]byte, err error) {
	if len(s) == 64 {
		if key, err = parseHex(s); err != nil {
			err = errSecretShape
		}
		return key, err
	}
	data, err := decodeBech32(nil, "nsec", s)
	switch {
	case err == errNaddrChecksum:
		return key, errSecretChecksum
	case err != nil || len(data) != len(key):
		return key, errSecretShape
	}
	return [32]byte(data), nil
}

// EncodeNsec writes a secret key as an nsec (NIP-19).
func EncodeNsec(key [32]byte) string { return encodeBech32("nsec", key[:]) }

var (
	errShape    = errors.New("not an npub or 64 hex digits")
	errChecksum = errors.New("the checksum of the npub is wrong")
)

// ParsePubKey decodes an npub, or 64 hex digits in either case.
func ParsePubKey(s string) ([32]byte, error) {
	if len(s) == 64 {
		return parseHex(s)
	}
	return DecodeNpub(s)
}

func parseHex(s string) (key [32]byte, err error) {
	for i := range key {
		hi, lo := nibble(s[2*i]), nibble(s[2*i+1])
		if hi > 15 || lo > 15 {
			return [32]byte{}, errShape
		}
		key[i] = hi<<4 | lo
	}
	return key, nil
}

func nibble(c byte) byte {
	switch {
	case c >= '0' && c <= '9':
		return c - '0'
	case c >= 'a' && c <= 'f':
		return c - 'a' + 10
	case c >= 'A' && c <= 'F':
		return c - 'A' + 10
	}
	return 255
}

// npubWords are 32 bytes in groups of five bits, and the checksum.
const npubWords = 52 + 6

// DecodeNpub decodes a bech32 npub.
func DecodeNpub(s string) ([32]byte, error) {
	var key [32]byte
	if len(s) != len("npub1")+npubWords {
		return key, errShape
	}
	var buffer [len(key)]byte
	data, err := decodeBech32(buffer[:0], "npub", s)
	switch {
	case err == errNaddrChecksum:
		return key, errChecksum
	case err != nil:
		return key, errShape
	}
	return [32]byte(data), nil
}

// IsNpub reports whether s is the npub of the key, in lower case. It is faster than
// decoding one.
func IsNpub(s string, key [32]byte) bool {
	body, ok := strings.CutPrefix(s, "npub1")
	if !ok || len(body) != npubWords || !isPacked(body[:npubWords-6], key[:]) || !oneCase(s) {
		return false
	}
	sum, ok := sumOf(prefixSum("npub"), body)
	return ok && sum == 1
}

const charset = "qpzry9x8gf2tvdw0s3jn54khce6mua7l"

// fives maps a character of either case to its five bits, and any other byte to 255.
var fives = func() (t [256]byte) {
	for i := range t {
		t[i] = 255
	}
	for i := range len(charset) {
		c := charset[i]
		t[c] = byte(i)
		if c >= 'a' {
			t[c-'a'+'A'] = byte(i)
		}
	}
	return t
}()

// generators maps the five bits that leave the checksum of bech32 to the value that replaces them
// (BIP-173).
var generators = func() (t [32]uint32) {
	for top := range t {
		for i, g := range [5]uint32{0x3b6a57b2, 0x26508e6d, 0x1ea119fa, 0x3d4233dd, 0x2a1462b3} {
			if top>>i&1 == 1 {
				t[top] ^= g
			}
		}
	}
	return t
}()

// polymod adds five bits to the checksum of bech32.
func polymod(sum uint32, v byte) uint32 {
	return sum&0x1ffffff<<5 ^ uint32(v) ^ generators[sum>>25&31]
}

// prefixSum returns the checksum of the part before the data.
func prefixSum(prefix string) uint32 {
	sum := uint32(1)
	for i := range len(prefix) {
		sum = polymod(sum, prefix[i]>>5)
	}
	sum = polymod(sum, 0)
	for i := range len(prefix) {
		sum = polymod(sum, prefix[i]&31)
	}
	return sum
}
