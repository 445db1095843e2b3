package host

import (
	"encoding/hex"
	"strconv"
	"strings"
)

// Address names the newest event of an author, kind and d tag: the value of an
// "a" tag (NIP-01). D is empty for replaceable kinds.
type Address struct {
	Kind   Kind
	PubKey PubKey
	D      string
}

// String returns kind:pubkey:d.
func (a Address) String() string {
	return strconv.Itoa(int(a.Kind)) + ":" + a.PubKey.String() + ":" + a.D
}

// ParseAddress parses kind:pubkey:d. The d part is all that follows the second
// colon, colons included. It reports false for anything else, and for kinds
// that have no address.
func ParseAddress(s string) (Address, bool) {
	kind, rest, ok := strings.Cut(s, ":")
	if !ok {
		return Address{}, false
	}
	pubkey, d, ok := strings.Cut(rest, ":")
	if !ok {
		return Address{}, false
	}
	n, err := strconv.ParseUint(kind, 10, 16)
	if err != nil || kind != strconv.FormatUint(n, 10) {
		return Address{}, false
	}
	a := Address{Kind: Kind(n), D: d}
	if !ParseHex(a.PubKey[:], pubkey) {
		return Address{}, false
	}
	switch a.Kind.Class() {
	case Replaceable:
		return a, d == ""
	case Addressable:
		return a, true
	}
	return Address{}, false
}

// ParseHex fills dst from s, which must be exactly twice as long and lower-case
// hex.
func ParseHex(dst []byte, s string) bool {
	if len(s) != 2*len(dst) {
		return false
	}
	for i := 0; i < len(s); i++ {
		if c := s[i]; (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}
	_, err := hex.Decode(dst, []byte(s))
	return err == nil
}
