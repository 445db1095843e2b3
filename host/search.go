package host

import (
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"talon/sdk/caseless"
	"talon/sdk/grasp"
)

// Bounds of searches. They are part of the stored index: after a change, the stored events must be
// indexed again.
const (
	// MaxSearchWords is the most words that one search may have.
	MaxSearchWords = 16

	// maxEventWords is the most different words under which one event is found. Names and
	// subjects come before descriptions and contents.
	maxEventWords = 32

	// maxSearchedBytes is how much of each text is read for its words, and maxWordBytes how
	// much of a word counts, in bytes.
	maxSearchedBytes = 2 << 10
	maxWordBytes     = 64
)

// searchExtensions are the extensions of NIP-50. A search ignores those that it does not
// support, which are all of them.
var searchExtensions = []string{"include", "domain", "language", "sentiment", "nsfw"}

// Search returns the conditions of a search (NIP-50), to be added to the Tags of a filter: one
// for each word of the text. An event must have all words, in any order. For example, an issue
// with the subject "Crash when pushing tags" is found by "tags crash".
//
// Search finds repositories by their name, identifier, description and topics. It finds issues,
// pull requests and patches by their subject, their labels and the start of their content, and
// comments by the start of their content. Only stored events are found, not held ones. Words are
// compared by [caseless.Fold]. Texts in scripts without spaces are compared by pairs of
// neighbouring characters.
//
// A text without words adds no conditions. The filter then selects by its other conditions. More
// than [MaxSearchWords] words are an error.
func Search(text string) ([]TagFilter, error) {
	var kept []string
	for _, field := range strings.Fields(text) {
		name, _, ok := strings.Cut(field, ":")
		if !ok || !slices.Contains(searchExtensions, name) {
			kept = append(kept, field)
		}
	}
	var conditions []TagFilter
	eachWord(strings.Join(kept, " "), func(word string) bool {
		if !slices.ContainsFunc(conditions, func(t TagFilter) bool { return t.Values[0] == word }) {
			conditions = append(conditions, TagFilter{Name: WordOf, Values: []string{word}})
		}
		return len(conditions) <= MaxSearchWords
	})
	if len(conditions) > MaxSearchWords {
		return nil, fmt.Errorf("a search may have at most %d words, use fewer", MaxSearchWords)
	}
	return conditions, nil
}

// Words returns the words under which a search finds the event, each once: see [Search]. It
// returns none for an event of a kind that is not searched.
func (e *Event) Words() (words []string) {
	add := func(text string) {
		eachWord(text, func(word string) bool {
			if !slices.Contains(words, word) {
				words = append(words, word)
			}
			return len(words) < maxEventWords
		})
	}
	tags := func(names ...string) {
		for _, tag := range e.Tags {
			if len(words) < maxEventWords && len(tag) > 1 && slices.Contains(names, tag[0]) {
				add(tag[1])
			}
		}
	}
	switch e.Kind {
	case grasp.KindAnnouncement:
		tags("name")
		tags("d")
		tags("description")
		tags("t")
		return words
	case grasp.KindIssue, grasp.KindPullRequest:
		tags("subject")
		tags("t")
	case grasp.KindPatch:
		tags("subject")
		tags("t")
		if len(words) < maxEventWords {
			add(patchText(e.Content))
		}
		return words
	case grasp.KindComment, kindReply:
	default:
		return nil
	}
	if len(words) < maxEventWords {
		add(e.Content)
	}
	return words
}

// kindReply is the kind of comments before NIP-22.
const kindReply = 1622

// SearchedKinds returns the kinds of events that have words.
func SearchedKinds() []Kind {
	return []Kind{grasp.KindAnnouncement, grasp.KindIssue, grasp.KindPullRequest, grasp.KindPatch, grasp.KindComment, kindReply}
}

// patchText returns a patch from its subject on. The lines before it name its commit and author.
func patchText(content string) string {
	const subject = "Subject: "
	head := content[:min(len(content), maxSearchedBytes)]
	if strings.HasPrefix(head, subject) {
		return content[len(subject):]
	}
	if at := strings.Index(head, "\n"+subject); at >= 0 {
		return content[at+1+len(subject):]
	}
	return content
}

// eachWord calls yield with the words of a text, until it returns false.
func eachWord(text string, yield func(word string) bool) {
	if len(text) > maxSearchedBytes {
		end := maxSearchedBytes
		for end > 0 && !utf8.RuneStart(text[end]) {
			end--
		}
		text = text[:end]
	}
	form := caseless.Fold(text)
	for len(form) > 0 {
		r, size := utf8.DecodeRuneInString(form)
		if !inWord(r) {
			form = form[size:]
			continue
		}
		// All that follows and belongs to the same script, with or without spaces.
		spaced := !unspaced(r)
		end := size
		for end < len(form) {
			r, size := utf8.DecodeRuneInString(form[end:])
			if !inWord(r) || !unicode.IsMark(r) && unspaced(r) == spaced {
				break
			}
			end += size
		}
		word := form[:end]
		form = form[end:]
		if spaced && !yield(shortened(word)) || !spaced && !eachPair(word, yield) {
			return
		}
	}
}

// eachPair calls yield with each two neighbouring characters of a text in a script without
// spaces, or with the only one. It reports whether yield wants more.
func eachPair(text string, yield func(string) bool) bool {
	before, start := -1, 0 // the characters before
	for i, r := range text {
		if i == 0 || unicode.IsMark(r) {
			continue
		}
		if before >= 0 && !yield(shortened(text[before:i])) {
			return false
		}
		before, start = start, i
	}
	return yield(shortened(text[max(before, 0):]))
}

// shortened returns the part of a word that counts, its start.
func shortened(word string) string {
	if len(word) <= maxWordBytes {
		return word
	}
	end := maxWordBytes
	for !utf8.RuneStart(word[end]) {
		end--
	}
	return word[:end]
}

func inWord(r rune) bool {
	if r < utf8.RuneSelf {
		return 'a' <= r && r <= 'z' || '0' <= r && r <= '9'
	}
	return unicode.In(r, unicode.L, unicode.N, unicode.M)
}

// unspaced reports whether a character is of a script that has no spaces between words.
func unspaced(r rune) bool {
	const longVowel = 'ー' // of no script
	return r >= utf8.RuneSelf && (r == longVowel ||
		unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Thai, unicode.Lao, unicode.Khmer, unicode.Myanmar))
}
