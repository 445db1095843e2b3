package main

import (
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"talon/sdk/caseless"
	"talon/sdk/policy"
)

// words finds any of many words in a text, in one pass over its bytes. It is an Aho-Corasick
// automaton over letters, written out over their bytes. The cost of a text does not depend on the
// number of words. Both are compared in the form of package caseless, with each run of white space
// as one space. A text of ASCII needs no conversion, because the automaton ignores its case.
type words struct {
	class [256]uint8 // of a byte; bytes of no letter of the words share class 0

	// next maps row+class to a row. Its size is that of the index mask, which
	// spares a guest the check of bounds.
	next  *[maxTable]uint32
	found uint32 // the row after a match, which leads to itself

	spaces bool   // a word has a space
	form   []byte // of the last text that needed one
}

// formBytes bounds the part of a text that is brought into the form. The rest is searched
// unchanged. The form of a character takes up to 5,000 fuel, so a long text of a stranger would be
// costly.
const formBytes = 512

// maxTable is the number of entries: 1 MiB, for about a thousand words in one
// script.
const maxTable = 1 << 18

// compileWords returns nil for an empty list.
func compileWords(key string, list []string) (*words, error) {
	if len(list) == 0 {
		return nil, nil
	}
	forms := make([]string, len(list))
	spaces := false
	for i, word := range list {
		forms[i] = string(spaced(caseless.Append(nil, word)))
		spaces = spaces || strings.Contains(forms[i], " ")
	}
	a := &automaton{letters: map[rune]int{}, next: []int{0}, width: 1, ends: []bool{false}}
	for _, word := range forms {
		for _, r := range word {
			if folded := fold(r); a.letters[folded] == 0 {
				a.letters[folded] = a.width
				a.width++
			}
		}
	}
	a.next = make([]int, a.width)
	for i, word := range forms {
		if word == "" {
			return nil, policy.WrongValue(key, list[i], "a word with a character that can be seen")
		}
		if len(a.next) > maxTable {
			break
		}
		a.add(word)
	}
	w, ok := a.compile()
	if !ok {
		return nil, policy.WrongValue(key, strconv.Itoa(len(list))+" words", "fewer or shorter words: the table for them would be too large")
	}
	w.spaces = spaces
	return w, nil
}

// in reports whether a word is in text.
func (w *words) in(text string) bool {
	if inForm(w, text) {
		return true
	}
	start := text[:min(len(text), formBytes)]
	if !w.spaces && ascii(start) {
		return false
	}
	w.form = spaced(caseless.Append(w.form[:0], start))
	return inForm(w, w.form)
}

// ascii reports whether a text has no other characters.
func ascii(text string) bool {
	for len(text) >= 8 {
		if (text[0]|text[1]|text[2]|text[3]|text[4]|text[5]|text[6]|text[7])&utf8.RuneSelf != 0 {
			return false
		}
		text = text[8:]
	}
	for i := range len(text) {
		if text[i] >= utf8.RuneSelf {
			return false
		}
	}
	return true
}

// spaced writes one space for each run of white space. It changes the text. In the form of package
// caseless, white space is ASCII, except for two separators.
func spaced(form []byte) []byte {
	out := form[:0]
	before := false
	for i := 0; i < len(form); i++ {
		c := form[i]
		space := c == ' ' || c >= '\t' && c <= '\r'
		if c == 0xe2 && i+2 < len(form) && form[i+1] == 0x80 && (form[i+2] == 0xa8 || form[i+2] == 0xa9) {
			space = true // U+2028, U+2029
			i += 2
		}
		switch {
		case !space:
			out = append(out, c)
		case !before:
			out = append(out, ' ')
		}
		before = space
	}
	return out
}

// inForm reports whether a word is in a text that has the form.
func inForm[T string | []byte](w *words, text T) bool {
	const mask = maxTable - 1
	next, class, state := w.next, &w.class, uint32(0)
	for len(text) >= 8 {
		state = next[(state+uint32(class[text[0]]))&mask]
		state = next[(state+uint32(class[text[1]]))&mask]
		state = next[(state+uint32(class[text[2]]))&mask]
		state = next[(state+uint32(class[text[3]]))&mask]
		state = next[(state+uint32(class[text[4]]))&mask]
		state = next[(state+uint32(class[text[5]]))&mask]
		state = next[(state+uint32(class[text[6]]))&mask]
		state = next[(state+uint32(class[text[7]]))&mask]
		if state == w.found {
			return true
		}
		text = text[8:]
	}
	for i := range len(text) {
		state = next[(state+uint32(class[text[i]]))&mask]
	}
	return state == w.found
}

// fold maps letters that differ only in case to the same one.
func fold(r rune) rune {
	low := r
	for other := unicode.SimpleFold(r); other != r; other = unicode.SimpleFold(other) {
		low = min(low, other)
	}
	return low
}

// automaton is an Aho-Corasick automaton over folded letters. State 0 is the
// start.
type automaton struct {
	letters map[rune]int // folded letter → 1, 2, …; 0 is any other
	width   int          // number of letters and the other
	next    []int        // state*width + letter → state
	ends    []bool       // by state: a word ends here
}

// add puts a word into the trie.
func (a *automaton) add(word string) {
	state := 0
	for _, r := range word {
		slot := state*a.width + a.letters[fold(r)]
		if a.next[slot] == 0 {
			a.next[slot] = len(a.ends)
			a.ends = append(a.ends, false)
			a.next = append(a.next, make([]int, a.width)...)
		}
		state = a.next[slot]
	}
	a.ends[state] = true
}

// link completes the transitions of the trie, breadth first, so that the state
// that a mismatch falls back to is complete before it is needed.
func (a *automaton) link() {
	fail := make([]int, len(a.ends))
	var queue []int
	for _, child := range a.next[:a.width] {
		if child != 0 {
			queue = append(queue, child)
		}
	}
	for head := 0; head < len(queue); head++ {
		state := queue[head]
		a.ends[state] = a.ends[state] || a.ends[fail[state]]
		row, back := a.next[state*a.width:][:a.width], a.next[fail[state]*a.width:][:a.width]
		for letter, child := range row {
			if child == 0 {
				row[letter] = back[letter]
				continue
			}
			fail[child] = back[letter]
			queue = append(queue, child)
		}
	}
}

// compile writes the automaton out over bytes: a row for each state and each
// beginning of a letter of several bytes. It reports false if the table would be
// too large.
func (a *automaton) compile() (*words, bool) {
	w := &words{next: new([maxTable]uint32)}
	width := 1
	whole := map[string]int{}      // encoded letter, in any case → its number
	begun := map[string]int{"": 0} // beginning of an encoded letter → its number
	for letter, number := range a.letters {
		for r := letter; ; {
			encoded := string(r)
			whole[encoded] = number
			for i := range len(encoded) {
				if _, ok := begun[encoded[:i]]; !ok {
					begun[encoded[:i]] = len(begun)
				}
				if c := encoded[i]; w.class[c] == 0 {
					w.class[c] = uint8(width)
					width++
				}
			}
			if r = unicode.SimpleFold(r); r == letter {
				break
			}
		}
	}
	rows := len(a.ends)*len(begun) + 1
	if rows > maxTable/width {
		return nil, false
	}
	a.link()
	w.found = uint32((rows - 1) * width)
	for class := range width {
		w.next[int(w.found)+class] = w.found
	}
	for state := range a.ends {
		for beginning, number := range begun {
			row := (state*len(begun) + number) * width
			for c, class := range w.class {
				if class != 0 {
					w.next[row+int(class)] = uint32(width * a.step(state, beginning, byte(c), whole, begun, rows-1))
				}
			}
		}
	}
	return w, true
}

// step returns the row that follows when c comes after the beginning of a letter.
func (a *automaton) step(state int, beginning string, c byte, whole, begun map[string]int, found int) int {
	encoded := beginning + string([]byte{c})
	if letter, ok := whole[encoded]; ok {
		to := a.next[state*a.width+letter]
		if a.ends[to] {
			return found
		}
		return to * len(begun)
	}
	if number, ok := begun[encoded]; ok {
		return state*len(begun) + number
	}
	// Another letter. Where it starts is a new start, too.
	if beginning != "" && utf8.RuneStart(c) {
		return a.step(0, "", c, whole, begun, found)
	}
	return 0
}
