package code

import (
	"strings"
	"unicode/utf8"
)

// class is what a part of a line of code is. Its letter is the class of its element.
type class byte

const (
	classText    class = 0
	classKeyword class = 'k'
	classString  class = 's'
	classComment class = 'c'
	classNumber  class = 'n'
	classPrep    class = 'p' // a line of a preprocessor, a decorator, a key
	className    class = 'e' // a name that is defined or called, an element
)

// part is a part of a file of one class. Parts follow each other without a gap.
type part struct {
	end   int // in the content
	class class
}

// scan finds comments, strings, numbers and keywords. It looks at each byte a bounded number of
// times, whatever the file holds. It knows less than a parser does: its errors are colours only.
func scan(l *language, content string) []part {
	s := scanner{language: l, text: content, parts: make([]part, 0, len(content)/8)}
	for s.at < len(s.text) {
		s.next()
	}
	return s.parts
}

type scanner struct {
	*language
	text  string
	at    int
	parts []part
}

// add ends a part before a position.
func (s *scanner) add(end int, c class) {
	end = min(end, len(s.text))
	if n := len(s.parts); n > 0 && s.parts[n-1].class == c {
		s.parts[n-1].end = end
	} else {
		s.parts = append(s.parts, part{end, c})
	}
	s.at = end
}

// next adds the next part.
func (s *scanner) next() {
	rest := s.text[s.at:]
	c := rest[0]
	for _, pair := range s.blockComments {
		if strings.HasPrefix(rest, pair[0]) {
			s.add(s.behind(s.at+len(pair[0]), pair[1]), classComment)
			return
		}
	}
	for _, sign := range s.lineComments {
		if strings.HasPrefix(rest, sign) && s.beginsComment(sign) {
			s.add(s.lineEnd(s.at), classComment)
			return
		}
	}
	switch {
	case s.preprocessor != 0 && c == s.preprocessor && s.firstOfLine():
		blanks := 0
		for blanks < maxKey && 1+blanks < len(rest) && rest[1+blanks] == ' ' {
			blanks++
		}
		s.add(s.at+1+blanks+wordLength(rest[1+blanks:]), classPrep)
	case strings.IndexByte(s.quotes, c) >= 0:
		s.quoted(c)
	case s.markup && c == '<':
		n := 1
		if strings.HasPrefix(rest, "</") {
			n = 2
		}
		s.add(s.at+n+tagLength(rest[n:]), classKeyword)
	case isDigit(c):
		n := 1
		for n < len(rest) && (isWord(rest[n]) || rest[n] == '.') {
			n++
		}
		s.add(s.at+n, classNumber)
	case isWord(c):
		n := wordLength(rest)
		word := rest[:n]
		if s.ignoreCase {
			word = strings.ToLower(word)
		}
		switch {
		case s.keywords[word]:
			s.add(s.at+n, classKeyword)
		case s.keys && s.firstOfLine() && isKey(rest[n:]):
			s.add(s.at+n, classPrep)
		case n < len(rest) && rest[n] == '(':
			s.add(s.at+n, className)
		default:
			s.add(s.at+n, classText)
		}
	default:
		_, n := utf8.DecodeRuneInString(rest)
		s.add(s.at+n, classText)
	}
}

// maxKey is how far a key's sign is looked for.
const maxKey = 64

// isKey reports whether what follows a word makes it a key.
func isKey(rest string) bool {
	rest = rest[:min(len(rest), maxKey)]
	for i := range len(rest) {
		switch c := rest[i]; {
		case c == ':' || c == '=':
			return true
		case !isWord(c) && c != '-' && c != '.' && c != ' ':
			return false
		}
	}
	return false
}

// beginsComment reports whether a mark of a comment is one here: a # inside of a word is none.
func (s *scanner) beginsComment(sign string) bool {
	return sign != "#" || s.at == 0 || !isWord(s.text[s.at-1]) && s.text[s.at-1] != '$' && s.text[s.at-1] != '{'
}

// quoted adds a string that begins here. Three quotes begin one of several lines where the language
// has that.
func (s *scanner) quoted(quote byte) {
	if three := strings.Repeat(string(quote), 3); s.tripleQuotes && strings.HasPrefix(s.text[s.at:], three) {
		s.add(s.behind(s.at+3, three), classString)
		return
	}
	if quote == '\'' && s.runes { // a character, a lifetime or a number such as 1'000
		end := min(len(s.text), s.at+12)
		for i := s.at + 1; i < end && s.text[i] != '\n'; i++ {
			if s.text[i] == '\\' {
				i++
			} else if s.text[i] == '\'' {
				s.add(i+1, classString)
				return
			}
		}
		s.add(s.at+1, classText)
		return
	}
	multiline := strings.IndexByte(s.rawQuotes, quote) >= 0
	for i := s.at + 1; i < len(s.text); i++ {
		switch c := s.text[i]; {
		case c == '\\' && (!multiline || quote != '`' || s.escapesRaw):
			i++
		case c == quote:
			s.add(i+1, classString)
			return
		case c == '\n' && !multiline:
			s.add(i, classString)
			return
		}
	}
	s.add(len(s.text), classString)
}

func (s *scanner) lineEnd(from int) int {
	if i := strings.IndexByte(s.text[from:], '\n'); i >= 0 {
		return from + i
	}
	return len(s.text)
}

// behind returns the position behind an end mark, or the end of the file.
func (s *scanner) behind(from int, end string) int {
	if from < len(s.text) {
		if i := strings.Index(s.text[from:], end); i >= 0 {
			return from + i + len(end)
		}
	}
	return len(s.text)
}

// firstOfLine reports whether only blanks are before the position in its line.
func (s *scanner) firstOfLine() bool {
	for i := s.at - 1; i >= 0 && s.at-i < maxKey; i-- {
		switch s.text[i] {
		case '\n':
			return true
		case ' ', '\t', '-', '"':
		default:
			return false
		}
	}
	return s.at < maxKey
}

func wordLength(s string) int {
	n := 0
	for n < len(s) && isWord(s[n]) {
		n++
	}
	return n
}

func tagLength(s string) int {
	n := 0
	for n < len(s) && (isWord(s[n]) || s[n] == '-' || s[n] == ':' || s[n] == '!') {
		n++
	}
	return n
}

func isDigit(c byte) bool { return c >= '0' && c <= '9' }

func isWord(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c == '_' || isDigit(c) || c >= utf8.RuneSelf
}
