// Package caseless compares texts without regard to case, to the way in which characters are
// written, and to characters that nobody sees: the compatibility caseless matching of Unicode.
//
// Invariants:
//
//  1. The form is NFKC_Casefold of Unicode, decomposed, so that it needs no table for composing.
//  2. The form of a form is the form itself.
//  3. Every text has a form. Bytes that are not UTF-8 become U+FFFD.
//  4. Time and memory are linear in the text, except for sorting the marks of one letter.
package caseless

import (
	"bytes"
	"slices"
	"sync"
	"unicode/utf8"
)

//go:generate go run talon/internal/casegen table_gen.go

// Fold returns the form in which texts are compared. For example, "Straße", "STRASSE" and
// "Stras\u200bse" have the form "strasse".
func Fold(text string) string {
	for i := range len(text) {
		if c := text[i]; c >= utf8.RuneSelf || 'A' <= c && c <= 'Z' {
			return string(Append(make([]byte, 0, len(text)+8), text))
		}
	}
	return text
}

// Append appends the form of a text.
func Append(b []byte, text string) []byte {
	t := lookup()
	start := len(b)
	marked := false // there are marks that may be out of order
	iota := false   // there is one that becomes a letter
	last := uint8(0)
	for i := 0; i < len(text); {
		c := text[i]
		if c < utf8.RuneSelf {
			if 'A' <= c && c <= 'Z' {
				c += 'a' - 'A'
			}
			b = append(b, c)
			last = 0
			i++
			continue
		}
		r, n := utf8.DecodeRuneInString(text[i:])
		i += n
		page := t.pages[r>>pageBits]
		if page == nil { // nothing in it is special
			last = 0
			if hangulFirst <= r && r <= hangulLast {
				b = appendHangul(b, r)
			} else {
				b = utf8.AppendRune(b, r)
			}
			continue
		}
		e := page[r&pageMask]
		switch {
		case e == ignoredEntry:
		case e < mappedEntry: // the class of a mark; 0 for others
			class := uint8(e)
			marked = marked || class != 0 && class < last
			iota = iota || r == markIota
			last = class
			b = utf8.AppendRune(b, r)
		default:
			at := e - mappedEntry
			from := uint16(0)
			if at > 0 {
				from = replacedEnd[at-1]
			}
			for _, r := range replaced[from:replacedEnd[at]] {
				class := uint8(0)
				if page := t.pages[r>>pageBits]; page != nil {
					if e := page[r&pageMask]; e < mappedEntry {
						class = uint8(e)
					}
				}
				marked = marked || class != 0 && class < last
				iota = iota || r == markIota
				last = class
				b = utf8.AppendRune(b, r)
			}
		}
	}
	if marked {
		b = append(b[:start], ordered(string(b[start:]))...)
	}
	if iota {
		// Not earlier: as a letter it would keep the marks around it from being ordered.
		b = append(b[:start], bytes.ReplaceAll(b[start:], []byte(string(rune(markIota))), []byte("ι"))...)
	}
	return b
}

// The characters are in pages. Most pages have nothing special and do not exist: a search in the
// tables takes thousands of instructions for a character, in a module.
const (
	pageBits = 7
	pageMask = 1<<pageBits - 1

	mappedEntry  = 0x100  // plus the number of a replacement; lower entries are combining classes
	ignoredEntry = 0xffff // nobody sees it
)

type pages struct {
	pages [(utf8.MaxRune >> pageBits) + 1]*[1 << pageBits]uint16
}

// lookup returns the tables by page. It makes them the first time.
var lookup = sync.OnceValue(func() *pages {
	t := new(pages)
	set := func(r rune, entry uint16) {
		page := &t.pages[r>>pageBits]
		if *page == nil {
			*page = new([1 << pageBits]uint16)
		}
		(*page)[r&pageMask] = entry
	}
	for _, c := range &combining {
		for r := c[0]; r <= c[1]; r++ {
			set(r, uint16(c[2]))
		}
	}
	for i, r := range &mapped {
		set(r, mappedEntry+uint16(i))
	}
	for _, c := range &ignored {
		for r := c[0]; r <= c[1]; r++ {
			set(r, ignoredEntry)
		}
	}
	return t
})

// markIota is the iota below a Greek letter, the only mark that case folding makes a letter.
const markIota = 0x345

// Hangul syllables are decomposed by arithmetic (Unicode, 3.12).
const (
	hangulFirst = 0xac00
	hangulLast  = 0xd7a3
	leadFirst   = 0x1100
	vowelFirst  = 0x1161
	tailFirst   = 0x11a7
	tails       = 28
	vowels      = 21
)

func appendHangul(b []byte, r rune) []byte {
	n := r - hangulFirst
	b = utf8.AppendRune(b, leadFirst+n/(vowels*tails))
	b = utf8.AppendRune(b, vowelFirst+n%(vowels*tails)/tails)
	if tail := n % tails; tail != 0 {
		b = utf8.AppendRune(b, tailFirst+tail)
	}
	return b
}

// ordered puts the marks of each letter into the order of their classes.
func ordered(text string) string {
	runes := []rune(text)
	for i := 0; i < len(runes); {
		if classOf(runes[i]) == 0 {
			i++
			continue
		}
		end := i + 1
		for end < len(runes) && classOf(runes[end]) != 0 {
			end++
		}
		slices.SortStableFunc(runes[i:end], func(a, b rune) int { return int(classOf(a)) - int(classOf(b)) })
		i = end
	}
	return string(runes)
}

// classOf returns the combining class of a character, 0 for one that is no mark or begins a letter.
func classOf(r rune) uint8 {
	if page := lookup().pages[r>>pageBits]; page != nil {
		if e := page[r&pageMask]; e < mappedEntry {
			return uint8(e)
		}
	}
	return 0
}
