package code

import (
	"fmt"
	"html"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"talon/host/web/text"
)

// maxFileName bounds the name of a file on a page, in characters.
const maxFileName = 200

// fileName returns the name of a file or a ref as pages show it. A name with characters that
// have no look of their own is quoted.
func fileName(name string) string {
	plain := utf8.ValidString(name) && !strings.ContainsFunc(name, func(r rune) bool {
		return unicode.IsControl(r) || text.Invisible(r) || unicode.IsSpace(r) && r != ' '
	})
	if !plain || strings.TrimSpace(name) != name {
		name = strconv.QuoteToASCII(name)
	}
	if utf8.RuneCountInString(name) > maxFileName {
		name = string([]rune(name)[:maxFileName]) + "…"
	}
	return name
}

// escape makes a text fit for an attribute.
func escape(s string) string { return html.EscapeString(s) }

// escapeText makes a text of a stranger fit for an element. It keeps the direction of the text
// around it.
func escapeText(s string) string {
	for i := range len(s) {
		if s[i] >= utf8.RuneSelf {
			return "<bdi>" + html.EscapeString(s) + "</bdi>"
		}
	}
	return html.EscapeString(s)
}

// appendCode appends a part of a line of code. It shows characters that a reader would not see, or
// that turn the direction of the line, as their numbers.
func appendCode(b []byte, s string) []byte {
	for i := 0; i < len(s); {
		c := s[i]
		if c < utf8.RuneSelf {
			i++
			switch {
			case c == '<':
				b = append(b, "&lt;"...)
			case c == '>':
				b = append(b, "&gt;"...)
			case c == '&':
				b = append(b, "&amp;"...)
			case c == '"':
				b = append(b, "&#34;"...)
			case c < ' ' && c != '\t' || c == 0x7f:
				b = fmt.Appendf(b, `<span class="u">^%c</span>`, c^0x40)
			default:
				b = append(b, c)
			}
			continue
		}
		r, size := utf8.DecodeRuneInString(s[i:])
		switch {
		case r == utf8.RuneError && size == 1:
			b = fmt.Appendf(b, `<span class="u">\x%02x</span>`, c)
		case r == '\u3000': // the blank of Chinese and Japanese texts, which is as wide as a letter
			b = append(b, s[i:i+size]...)
		case r == '\ufffd', unicode.IsControl(r), text.Invisible(r), unicode.IsSpace(r):
			b = fmt.Appendf(b, `<span class="u">U+%04X</span>`, r)
		default:
			b = append(b, s[i:i+size]...)
		}
		i += size
	}
	return b
}

// shortSize writes a size for the eye.
func shortSize(n int64) string {
	switch {
	case n < 1000:
		return strconv.FormatInt(n, 10) + " B"
	case n < 1000_000:
		return strconv.FormatFloat(float64(n)/1000, 'f', 1, 64) + " kB"
	case n < 1000_000_000:
		return strconv.FormatFloat(float64(n)/1e6, 'f', 1, 64) + " MB"
	}
	return strconv.FormatFloat(float64(n)/1e9, 'f', 1, 64) + " GB"
}
