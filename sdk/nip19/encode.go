// Package nip19 decodes public keys as people write them, npub (NIP-19) or 64 hex
// digits, event ids (note, nevent), addresses (naddr) and secret keys (nsec). It
// encodes keys. It is small enough for a guest.
//
// It never accepts what a checksum refutes, and no error quotes a secret key.
package nip19

import (
	"errors"
	"strings"
)

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

// appendShared appends what both have beside the name of the event.
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

// ParseSecretKey decodes an nsec, or 64 hex digits in either case. No error
// quotes the text. Whether the number is a key, from 1 to the order of the curve,
// is for whoever signs with it.
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

// fives are the five bits of a character of either case, 255 for what is none.
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

// generators are what the five bits that leave the checksum of bech32 are replaced by
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

// prefixSum is the checksum of what is before the data.
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
