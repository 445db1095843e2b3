package markdown

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"talon/host/web/text"
)

// maxMarks bounds the marks above and below one character.
const maxMarks = 3

// Show returns a text in which invisible characters are replaced by their numbers, such as
// ⟨U+202E⟩. Control characters other than line feeds and tabs are left out, and so are marks that
// pile up.
func Show(s string) string {
	plain := true
	for i := 0; i < len(s) && plain; i++ {
		plain = s[i] < utf8.RuneSelf && (s[i] >= ' ' && s[i] != 0x7f || s[i] == '\n' || s[i] == '\t')
	}
	if plain {
		return s
	}
	var b strings.Builder
	marks := 0
	for _, r := range s {
		switch {
		case r == '\n' || r == '\t':
			marks = 0
		case unicode.IsControl(r):
			continue
		case text.Invisible(r):
			marks = 0
			fmt.Fprintf(&b, "⟨U+%04X⟩", r)
			continue
		case unicode.Is(unicode.M, r):
			if marks++; marks > maxMarks {
				continue
			}
		default:
			marks = 0
		}
		b.WriteRune(r)
	}
	return b.String()
}

// Mentions returns the NIP-19 codes that stand after nostr: in a text, each once, at most the
// given number.
func Mentions(source string, maximum int) (codes []string) {
	const scheme = "nostr:"
	seen := make(map[string]bool)
	for rest := source; len(codes) < maximum; {
		at := strings.Index(rest, scheme)
		if at < 0 {
			break
		}
		rest = rest[at+len(scheme):]
		if code := rest[:codeLength(rest)]; code != "" && !seen[code] {
			seen[code] = true
			codes = append(codes, strings.Clone(code))
		}
	}
	return codes
}

// maxCode bounds a NIP-19 code. NIP-19 has no limit; an naddr with some relays has 300.
const maxCode = 1500

// codeLength returns how many bytes at the start of s may be a NIP-19 code, 0 if there is none.
func codeLength(s string) int {
	n := 0
	for n < len(s) && n <= maxCode && (s[n] >= 'a' && s[n] <= 'z' || s[n] >= '0' && s[n] <= '9') {
		n++
	}
	if n > maxCode || !strings.HasPrefix(s, "n") || strings.HasPrefix(s, "nsec") || strings.IndexByte(s[:n], '1') < 1 {
		return 0
	}
	return n
}
