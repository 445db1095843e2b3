package sidecar

import (
	"bytes"
	"errors"
	"fmt"
)

// The TOML library recurses on brackets and keeps the whole path of each key, so
// these are bounded before it sees the text.
const (
	maxText  = 1 << 20
	maxKeys  = 1024 // and headers of tables
	maxKey   = 128  // bytes of a key as written
	maxDepth = 4    // of brackets in one value
)

// statement is a key with its value, or the header of a table.
type statement struct {
	header     bool
	key        string // as written
	start, end int    // of the value
	from, to   int    // of all of it; to is the end of its last line
}

// scan splits text into statements. Invalid TOML becomes a statement of some kind: the
// library reports the error.
func scan(text []byte) ([]statement, error) {
	if len(text) > maxText {
		return nil, fmt.Errorf("the side-car has %d bytes: want at most %d", len(text), maxText)
	}
	// The library would take off this mark, and read on as if it were UTF-8.
	if bytes.HasPrefix(text, []byte("\xfe\xff")) || bytes.HasPrefix(text, []byte("\xff\xfe")) {
		return nil, errors.New("line 1: the side-car is in UTF-16: want UTF-8")
	}
	s := scanner{text: text}
	if bytes.HasPrefix(text, bom) {
		s.pos = len(bom)
	}
	var list []statement
	for s.pos < len(text) {
		switch text[s.pos] {
		case ' ', '\t', '\r', '\n':
			s.pos++
		case '#':
			s.skipLine()
		default:
			from := s.pos
			st, err := s.statement()
			if err != nil {
				return nil, err
			}
			s.skipLine()
			st.from, st.to = from, s.pos
			list = append(list, st)
		}
	}
	return list, nil
}

// bom may stand before the text.
var bom = []byte("\xef\xbb\xbf")

type scanner struct {
	text []byte
	pos  int
	keys int
}

func (s *scanner) statement() (statement, error) {
	start := s.pos
	st := statement{header: s.text[start] == '['}
	for ; s.pos < len(s.text); s.pos++ {
		c := s.text[s.pos]
		if c == '\n' || c == '=' && !st.header || c == ']' && st.header {
			break
		}
		if c == '"' || c == '\'' {
			s.skipQuoted(c)
			s.pos--
		}
	}
	st.key = string(bytes.TrimSpace(s.text[start:s.pos]))
	if err := s.countKey(start); err != nil {
		return st, err
	}
	if st.header || s.pos == len(s.text) || s.text[s.pos] == '\n' {
		s.skipLine()
		return st, nil
	}
	s.pos++
	return st, s.value(&st)
}

// value reads up to the end of the line that ends the value.
func (s *scanner) value(st *statement) error {
	for s.pos < len(s.text) && (s.text[s.pos] == ' ' || s.text[s.pos] == '\t') {
		s.pos++
	}
	st.start, st.end = s.pos, s.pos
	depth, key := 0, s.pos // key is where one may have begun, in a table within braces
	for s.pos < len(s.text) {
		c := s.text[s.pos]
		switch c {
		case '"', '\'':
			s.skipString(c)
			st.end = s.pos
			continue
		case '#':
			s.skipLine()
			continue
		case '[', '{':
			if depth++; depth > maxDepth {
				return fmt.Errorf("line %d: brackets stand more than %d deep", s.line(), maxDepth)
			}
		case ']', '}':
			depth = max(depth-1, 0)
		case '=':
			if err := s.countKey(key); err != nil {
				return err
			}
		case '\n':
			if depth == 0 {
				return nil
			}
		}
		s.pos++
		switch c {
		case '[', ']', '{', '}', ',', '=', '\n':
			key = s.pos
		}
		if c != ' ' && c != '\t' && c != '\r' && c != '\n' {
			st.end = s.pos
		}
	}
	return nil
}

// countKey counts the key that stands between start and the position.
func (s *scanner) countKey(start int) error {
	if s.pos-start > maxKey {
		return fmt.Errorf("line %d: a key is longer than %d bytes", s.line(), maxKey)
	}
	if s.keys++; s.keys > maxKeys {
		return fmt.Errorf("line %d: there are more than %d keys", s.line(), maxKeys)
	}
	return nil
}

func (s *scanner) line() int {
	return 1 + bytes.Count(s.text[:s.pos], []byte{'\n'})
}

// skipLine goes to the end of the line.
func (s *scanner) skipLine() {
	if n := bytes.IndexByte(s.text[s.pos:], '\n'); n >= 0 {
		s.pos += n
	} else {
		s.pos = len(s.text)
	}
}

// skipString goes behind the string that begins here.
func (s *scanner) skipString(quote byte) {
	triple := bytes.Repeat([]byte{quote}, 3)
	if !bytes.HasPrefix(s.text[s.pos:], triple) {
		s.skipQuoted(quote)
		return
	}
	for s.pos += 3; s.pos < len(s.text); s.pos++ {
		if s.text[s.pos] == '\\' && quote == '"' {
			s.pos++
			continue
		}
		if bytes.HasPrefix(s.text[s.pos:], triple) {
			s.pos += 3
			// Up to two quotes can stand before the three that end the string.
			for range 2 {
				if s.pos < len(s.text) && s.text[s.pos] == quote {
					s.pos++
				}
			}
			return
		}
	}
	s.pos = len(s.text)
}

// skipQuoted goes behind the string of one line that begins here.
func (s *scanner) skipQuoted(quote byte) {
	for s.pos++; s.pos < len(s.text); s.pos++ {
		switch c := s.text[s.pos]; {
		case c == quote:
			s.pos++
			return
		case c == '\n':
			return
		case c == '\\' && quote == '"' && s.pos+1 < len(s.text) && s.text[s.pos+1] != '\n':
			s.pos++
		}
	}
	s.pos = min(s.pos, len(s.text))
}
