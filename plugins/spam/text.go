package main

import (
	"unicode"
	"unicode/utf8"
)

// text is what the rules need to know of a content.
type text struct {
	bytes     int // without white space
	links     int
	linkBytes int
	mentions  int // nostr: addresses of people

	looked   int    // bytes of which these are:
	compared int    // bytes that texts are compared by
	hash     uint64 // of these
}

// Bounds of what is looked at, so that an event of the largest size costs no more
// than a long one.
const (
	readBytes     = 32 << 10 // for mentions and links
	comparedBytes = 2 << 10  // compared to find equal texts
)

// FNV-1a. Whoever finds two texts of one hash could as well have posted the same
// text twice.
const (
	hashStart = 14695981039346656037
	hashPrime = 1099511628211
)

// read looks through the beginning of a content word by word. Only mentions are counted unless it is
// prose.
func read(content string, prose bool) text {
	t := text{hash: hashStart}
	content = content[:min(len(content), readBytes)]
	for at := 0; at < len(content); {
		if isSpace(content[at]) {
			at++
			continue
		}
		end := wordEnd(content, at)
		word := content[at:end]
		at = end
		if prose {
			t.bytes += len(word)
		}
		// A word may have punctuation around it, or words that run into it.
		for len(word) > 0 {
			n, what := address(word)
			t.count(word[:n], what, prose)
			word = word[n:]
		}
	}
	return t
}

func isSpace(c byte) bool { return c == ' ' || c >= '\t' && c <= '\r' }

// wordEnd returns where the word that begins at a place ends.
func wordEnd(content string, at int) int {
	for at < len(content) && !isSpace(content[at]) {
		at++
	}
	return at
}

// what a piece of a word is.
type what uint8

const (
	plain   what = iota
	link         // http:// or https:// to the end of the word
	mention      // nostr:npub1… or nostr:nprofile1…
	other        // another nostr: address
)

// address returns the length of the piece that a word begins with, and what it is. A
// plain piece ends before the next address.
func address(word string) (int, what) {
	switch {
	case begins(word, "http://"), begins(word, "https://"):
		return len(word), link
	case begins(word, "nostr:"):
		kind := other
		if rest := word[len("nostr:"):]; begins(rest, "npub1") || begins(rest, "nprofile1") {
			kind = mention
		}
		return addressEnd(word), kind
	}
	return plainEnd(word), plain
}

// addressEnd returns where a nostr: address ends.
func addressEnd(word string) int {
	n := len("nostr:")
	for n < len(word) && (word[n]|0x20 >= 'a' && word[n]|0x20 <= 'z' || word[n] >= '0' && word[n] <= '9') {
		n++
	}
	return n
}

// plainEnd returns where an address begins, after the first byte of a word. Addresses
// begin with h or n.
func plainEnd(word string) int {
	for n := 1; n < len(word); n++ {
		if c := word[n] | 0x20; (c == 'h' || c == 'n') && isAddress(word[n:]) {
			return n
		}
	}
	return len(word)
}

func isAddress(word string) bool {
	return begins(word, "http://") || begins(word, "https://") || begins(word, "nostr:")
}

// begins reports whether a word begins with a text of lower case, in whatever case.
func begins(word, with string) bool {
	if len(word) < len(with) {
		return false
	}
	for i := range len(with) {
		c := word[i]
		if 'A' <= c && c <= 'Z' {
			c |= 0x20
		}
		if c != with[i] {
			return false
		}
	}
	return true
}

func (t *text) count(piece string, what what, prose bool) {
	switch what {
	case mention:
		t.mentions++
		return
	case link:
		t.links++
		t.linkBytes += len(piece)
	case other:
		return
	}
	if prose && t.looked < comparedBytes {
		piece = piece[:min(len(piece), comparedBytes-t.looked)]
		t.looked += len(piece)
		t.compare(piece)
	}
}

// compare adds the letters and digits of a piece to what texts are compared by.
func (t *text) compare(piece string) {
	hash, n := t.hash, 0
	for i := 0; i < len(piece); {
		c := piece[i]
		if c >= utf8.RuneSelf {
			t.hash, t.compared = hash, t.compared+n
			size := t.compareRune(piece[i:])
			hash, n, i = t.hash, 0, i+size
			continue
		}
		i++
		if 'A' <= c && c <= 'Z' {
			c |= 0x20
		}
		if c >= 'a' && c <= 'z' || c >= '0' && c <= '9' {
			hash = (hash ^ uint64(c)) * hashPrime
			n++
		}
	}
	t.hash, t.compared = hash, t.compared+n
}

// compareRune is compare for the character that a piece begins with. It returns its
// length.
func (t *text) compareRune(piece string) int {
	r, size := utf8.DecodeRuneInString(piece)
	if r == utf8.RuneError {
		return size // a byte that is no UTF-8
	}
	if r = unicode.ToLower(r); unicode.IsLetter(r) || unicode.IsDigit(r) {
		t.hash = (t.hash ^ uint64(r)) * hashPrime
		t.compared += size
	}
	return size
}
