// Package text makes texts of strangers fit for a page: bounded, and without characters that change
// the order or look of the text around them. It does not escape: templates do.
package text

import (
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// MaxName bounds a name on a page, in characters.
const MaxName = 80

// Line returns a text of a stranger on one line, of at most the given number of
// characters.
func Line(s string, limit int) string { return clean(s, limit, false) }

// Lines is Line for texts whose lines count.
func Lines(s string, limit int) string { return clean(s, limit, true) }

// clean leaves out what changes how the text around it looks: control characters,
// and those without a look of their own, which may turn the direction of a line, or
// pile up.
func clean(s string, maximum int, keepLines bool) string {
	// Nothing is read that could not be shown: the longest character has four bytes, and
	// most of what is left out are marks.
	if limit := 16 * maximum; len(s) > limit {
		s = strings.ToValidUTF8(s[:limit], "")
	}
	var b strings.Builder
	n, marks, blanks := 0, 0, 0
	space := false
	for _, r := range s {
		switch {
		case r == '\n' && keepLines:
			if blanks++; blanks > 2 || b.Len() == 0 {
				continue
			}
			space = false
		case unicode.IsSpace(r):
			space = b.Len() > 0 && blanks == 0
			continue
		case unicode.IsControl(r) || Invisible(r):
			continue
		case unicode.Is(unicode.M, r):
			if marks++; marks > 3 {
				continue
			}
		default:
			marks, blanks = 0, 0
		}
		if n >= maximum || space && n+1 >= maximum {
			return strings.TrimRight(b.String(), " \n") + "…"
		}
		if space {
			b.WriteByte(' ')
			n++
		}
		space = false
		b.WriteRune(r)
		n++
	}
	return strings.TrimRight(b.String(), " \n")
}

// Invisible reports whether a character has no look of its own. Joiners and tags
// make one emoji of several.
func Invisible(r rune) bool {
	const zwnj, zwj = '\u200c', '\u200d'
	if r == zwnj || r == zwj || r >= 0xe0020 && r <= 0xe007f {
		return false
	}
	return unicode.Is(unicode.Cf, r) || unicode.Is(unicode.Co, r) || r == '\u115f' || r == '\u1160' || r == '\u3164' || r == '\uffa0' || r == utf8.RuneError
}

// HasLook reports whether a person sees anything of a text.
func HasLook(s string) bool {
	return strings.ContainsFunc(s, unicode.IsGraphic) && strings.TrimSpace(s) != ""
}

// Identifier returns an identifier as a page shows it. The result is always visible.
func Identifier(s string) string {
	if shown := Line(s, MaxName); HasLook(shown) && utf8.ValidString(s) {
		return shown
	}
	return Line(strconv.QuoteToASCII(s), MaxName)
}

// OrElse returns s, or another text if a person would see nothing of s.
func OrElse(s, other string) string {
	if HasLook(s) {
		return s
	}
	return other
}

// Moment is a time for the eye and for machines.
type Moment struct {
	Text    string
	Machine string // RFC 3339
}

// At turns unix seconds into a Moment. Anybody may sign any number, so it names a time outside
// the calendar as impossible.
func At(seconds int64) Moment {
	const year9999 = 253402300799
	if seconds < 0 || seconds > year9999 {
		return Moment{Text: "at an impossible time"}
	}
	t := time.Unix(seconds, 0).UTC()
	return Moment{t.Format("2 Jan 2006, 15:04 UTC"), t.Format(time.RFC3339)}
}

// ShortID is the start of an object name, enough for a person.
func ShortID(object string) string { return object[:min(len(object), 10)] }
