package grasp

import "strings"

const hexDigits = "0123456789abcdef"

func appendHex(b []byte, data []byte) []byte {
	for _, c := range data {
		b = append(b, hexDigits[c>>4], hexDigits[c&15])
	}
	return b
}

func hexString(key [32]byte) string { return string(appendHex(nil, key[:])) }

func isHex(s string) bool {
	for i := range len(s) {
		if c := s[i]; (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}
	return true
}

// ParseID parses the 64 lower-case hex digits of an event id.
func ParseID(s string) (id ID, ok bool) {
	if len(s) != 64 || !isHex(s) {
		return ID{}, false
	}
	for i := range id {
		id[i] = nibble(s[2*i])<<4 | nibble(s[2*i+1])
	}
	return id, true
}

func nibble(c byte) byte {
	if c <= '9' {
		return c - '0'
	}
	return c - 'a' + 10
}

// ParseObject returns the name of a git object in lower case. It reports false for
// what is not 40 or 64 hex digits, and for all zeros, by which git means that
// there is none.
func ParseObject(s string) (object string, ok bool) {
	if len(s) != 40 && len(s) != 64 {
		return "", false
	}
	if !isHex(s) {
		lower := lowerASCII(s)
		if !isHex(lower) {
			return "", false
		}
		s = lower
	}
	return s, !IsZero(s)
}

// IsZero reports whether s is 40 or 64 zeros, the object name of what does not
// exist.
func IsZero(s string) bool {
	return (len(s) == 40 || len(s) == 64) && strings.Trim(s, "0") == ""
}

// lowerASCII leaves letters beyond ASCII as they are: some become ASCII ones in
// lower case.
func lowerASCII(s string) string {
	for i := range len(s) {
		if c := s[i]; c >= 'A' && c <= 'Z' {
			b := []byte(s)
			for j := i; j < len(b); j++ {
				if c := b[j]; c >= 'A' && c <= 'Z' {
					b[j] = c + 'a' - 'A'
				}
			}
			return string(b)
		}
	}
	return s
}
