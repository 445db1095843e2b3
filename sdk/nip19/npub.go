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

const charset = "qpzry9x8gf2tvdw0s3jn54khce6mua7l"

// DecodeNpub decodes a bech32 npub.
func DecodeNpub(s string) ([32]byte, error) {
	const prefix, words = "npub", 52 + 6 // 32 bytes in groups of five bits, and the checksum
	var key [32]byte
	if len(s) != len(prefix)+1+words {
		return key, errShape
	}
	lower := strings.ToLower(s)
	if len(lower) != len(s) { // letters beyond ASCII may shrink
		return key, errShape
	}
	if s != lower && s != strings.ToUpper(s) || lower[:5] != prefix+"1" {
		return key, errShape
	}
	sum := uint32(1)
	for i := range len(prefix) {
		sum = polymod(sum, prefix[i]>>5)
	}
	sum = polymod(sum, 0)
	for i := range len(prefix) {
		sum = polymod(sum, prefix[i]&31)
	}
	var acc uint32
	bits, n := 0, 0
	for i := range words {
		v := strings.IndexByte(charset, lower[5+i])
		if v < 0 {
			return [32]byte{}, errShape
		}
		sum = polymod(sum, byte(v))
		if i >= 52 {
			continue
		}
		acc = acc<<5 | uint32(v)
		if bits += 5; bits >= 8 {
			bits -= 8
			key[n] = byte(acc >> bits)
			acc &= 1<<bits - 1
			n++
		}
	}
	if sum != 1 || acc != 0 {
		return [32]byte{}, errChecksum
	}
	return key, nil
}

// polymod adds five bits to the checksum of bech32 (BIP-173).
func polymod(sum uint32, v byte) uint32 {
	top := sum >> 25
	sum = sum&0x1ffffff<<5 ^ uint32(v)
	for i, g := range [5]uint32{0x3b6a57b2, 0x26508e6d, 0x1ea119fa, 0x3d4233dd, 0x2a1462b3} {
		if top>>i&1 == 1 {
			sum ^= g
		}
	}
	return sum
}
