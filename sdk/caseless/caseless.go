// Package caseless compares texts without regard to case, to the way in which characters are
// written, and to characters that nobody sees: the compatibility caseless matching of Unicode.
//
// Invariants:
//
//  1. The form is NFKC_Casefold of Unicode, decomposed, so that it needs no table for composing.
//  2. The form of a form is the form itself.
//  3. Every text has a form. Bytes that are not UTF-8 become U+FFFD.
//  4. Time and memory are linear in the text, but for sorting the marks of one letter.
package caseless

import (
	"bytes"
	"slices"
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
	start := len(b)
	marked := false // there are marks that may be out of order
	iota := false   // there is one that becomes a letter
	last := uint8(0)
	add := func(r rune) {
		c := classOf(r)
		marked = marked || c != 0 && c < last
		iota = iota || r == markIota
		last = c
		b = utf8.AppendRune(b, r)
	}
	for _, r := range text {
		switch {
		case 'A' <= r && r <= 'Z':
			last = 0
			b = append(b, byte(r)+'a'-'A')
		case r < utf8.RuneSelf:
			last = 0
			b = append(b, byte(r))
		case r >= 0x4e00 && r <= 0x9fff: // ideographs, which no table has
			last = 0
			b = utf8.AppendRune(b, r)
		case r >= hangulFirst && r <= hangulLast:
			last = 0
			b = appendHangul(b, r)
		case isIgnored(r):
		default:
			i, ok := slices.BinarySearch(mapped[:], r)
			if !ok {
				add(r)
				continue
			}
			from := uint16(0)
			if i > 0 {
				from = replacedEnd[i-1]
			}
			for _, r := range replaced[from:replacedEnd[i]] {
				add(r)
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
	if r < combining[0][0] {
		return 0
	}
	i, ok := slices.BinarySearchFunc(combining[:], r, func(c [3]rune, r rune) int {
		switch {
		case c[1] < r:
			return -1
		case c[0] > r:
			return 1
		}
		return 0
	})
	if !ok {
		return 0
	}
	return uint8(combining[i][2])
}

func isIgnored(r rune) bool {
	_, ok := slices.BinarySearchFunc(ignored[:], r, func(c [2]rune, r rune) int {
		switch {
		case c[1] < r:
			return -1
		case c[0] > r:
			return 1
		}
		return 0
	})
	return ok
}
