package gitrepo

import "strings"

// IsID reports whether s is the name of an object: 40 (SHA-1) or 64 (SHA-256)
// lower-case hex digits.
func IsID(s string) bool {
	if len(s) != 40 && len(s) != 64 {
		return false
	}
	for i := 0; i < len(s); i++ {
		if c := s[i]; (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}
	return true
}

// IsZero reports whether s is an object id of zeros only, which stands for "no
// object" in ref updates.
func IsZero(s string) bool { return IsID(s) && strings.Trim(s, "0") == "" }
