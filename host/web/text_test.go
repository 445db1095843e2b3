package web

import (
	"strings"
	"testing"
)

func TestClean(t *testing.T) {
	for _, test := range []struct {
		in, line, lines string
	}{
		{"plain", "plain", "plain"},
		{"  a \t b\r\n c ", "a b c", "a b\nc"},
		{"a\n\n\n\n\nb", "a b", "a\n\nb"},
		{"\n\na", "a", "a"},
		{"a\u202eb\u2066c\u200bd", "abcd", "abcd"},
		{"a\x00\x1b[1mb\u0085", "a[1mb", "a[1mb"},
		{"e\u0301\u0301\u0301\u0301\u0301x", "e\u0301\u0301\u0301x", "e\u0301\u0301\u0301x"},
		{"👩\u200d💻 🏴\U000e0067\U000e007f", "👩\u200d💻 🏴\U000e0067\U000e007f", "👩\u200d💻 🏴\U000e0067\U000e007f"},
		{"a\xffb", "ab", "ab"},
		{strings.Repeat("x", 40), strings.Repeat("x", 30) + "…", strings.Repeat("x", 30) + "…"},
		{strings.Repeat("x ", 40), strings.TrimSpace(strings.Repeat("x ", 15)) + "…", strings.TrimSpace(strings.Repeat("x ", 15)) + "…"},
		{strings.Repeat("\u202e", 1e6) + "x", "", ""},
		{"עברית", "עברית", "עברית"},
	} {
		if got := line(test.in, 30); got != test.line {
			t.Errorf("line(%.40q) is %q", test.in, got)
		}
		if got := lines(test.in, 30); got != test.lines {
			t.Errorf("lines(%.40q) is %q", test.in, got)
		}
	}
}

// TestIdentifierText: an identifier that nobody could see is written in a visible form.
func TestIdentifierText(t *testing.T) {
	for in, want := range map[string]string{
		"nest": "nest", "a:b": "a:b", "🦉": "🦉", "\u200b": `"\u200b"`, " ": `" "`, "\u3164": `"\u3164"`,
		"\xff": `"\xff"`,
	} {
		if got := identifier(in); got != want {
			t.Errorf("%q is shown as %q", in, got)
		}
	}
}

func TestLinkTo(t *testing.T) {
	for in, want := range map[string]string{
		"https://a.example/b?c=d&e=f#g": "https://a.example/b?c=d&e=f#g", "HTTP://a.example": "http://a.example", "http://a.example:8080/ü": "http://a.example:8080/%C3%BC",
		"nostr:npub1abc": "nostr:npub1abc", "NOSTR:NPUB1ABC": "nostr:npub1abc",
		"": "", "a.example": "", "//a.example": "", "https:a.example": "", "https:///x": "", "ftp://a.example": "", "javascript:alert(1)": "", "https://a@b.example": "",
		"nostr:": "", "nostr:a b": "", "nostr:<b>": "", "nostr:a?b": "", "https://a.example/\u202e": "", "https://a.example/a b": "",
		"https://a.example/" + strings.Repeat("x", maxLink): "",
	} {
		if got := linkTo(in); string(got.Href) != want {
			t.Errorf("linkTo(%.60q) is %q", in, got.Href)
		}
	}
}
