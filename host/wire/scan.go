package wire

import (
	"strconv"
	"strings"
	"unicode/utf8"
)

// maxDepth bounds the nesting of values that are skipped.
const maxDepth = 64

// scanner walks over one JSON text. Its strings share memory with the text
// unless they had escapes.
type scanner struct {
	text   string
	at     int
	spaced bool // white space was seen between tokens
}

// newScanner returns a scanner over a copy of data.
func newScanner(data []byte) (scanner, error) {
	if !utf8.Valid(data) {
		return scanner{}, invalid("not valid UTF-8")
	}
	return scanner{text: shared(data)}, nil
}

// space skips white space and returns the next byte, 0 at the end.
func (s *scanner) space() byte {
	for s.at < len(s.text) {
		switch c := s.text[s.at]; c {
		case ' ', '\t', '\n', '\r':
			s.spaced = true
			s.at++
		default:
			return c
		}
	}
	return 0
}

// accept skips white space and the byte c, and reports whether it was there.
func (s *scanner) accept(c byte) bool {
	if s.space() == c && s.at < len(s.text) {
		s.at++
		return true
	}
	return false
}

// expectEnd reports an error unless only white space is left.
func (s *scanner) expectEnd() error {
	if s.space(); s.at < len(s.text) {
		return invalid("unexpected text after the end of the JSON value")
	}
	return nil
}

// next reads what stands between the elements of a list or an object that ends
// with closing: it reports whether another element follows.
func (s *scanner) next(first *bool, closing byte) (bool, error) {
	if s.accept(closing) {
		return false, nil
	}
	if *first {
		*first = false
		return true, nil
	}
	if !s.accept(',') {
		return false, s.malformed()
	}
	if s.space() == closing {
		return false, s.malformed()
	}
	return true, nil
}

// key reads the name of a member and its colon.
func (s *scanner) key() (string, error) {
	if s.space() != '"' {
		return "", s.malformed()
	}
	k, err := s.str()
	if err != nil {
		return "", err
	}
	if !s.accept(':') {
		return "", s.malformed()
	}
	s.space()
	return k, nil
}

func (s *scanner) malformed() error {
	if s.at >= len(s.text) {
		return invalid("the JSON ends too early")
	}
	return invalid("not valid JSON at byte %d", s.at)
}

// str reads a string. The next byte is its opening quote.
func (s *scanner) str() (string, error) {
	s.at++
	start := s.at
	for i := start; i < len(s.text); i++ {
		switch c := s.text[i]; {
		case c == '"':
			s.at = i + 1
			return s.text[start:i], nil
		case c == '\\':
			return s.escaped(start, i)
		case c < 0x20:
			s.at = i
			return "", s.malformed()
		}
	}
	s.at = len(s.text)
	return "", invalid("a string is not terminated")
}

// escaped reads the rest of a string that began at start and has its first
// backslash at i.
func (s *scanner) escaped(start, i int) (string, error) {
	var b strings.Builder
	b.Grow(len(s.text[start:i]) + 64)
	for {
		b.WriteString(s.text[start:i])
		s.at = i
		if err := s.escape(&b); err != nil {
			return "", err
		}
		for start, i = s.at, s.at; ; i++ {
			if i >= len(s.text) {
				s.at = i
				return "", invalid("a string is not terminated")
			}
			c := s.text[i]
			if c == '"' {
				b.WriteString(s.text[start:i])
				s.at = i + 1
				return b.String(), nil
			}
			if c == '\\' {
				break
			}
			if c < 0x20 {
				s.at = i
				return "", s.malformed()
			}
		}
	}
}

// escape reads one escape sequence, at whose backslash the scanner stands.
func (s *scanner) escape(b *strings.Builder) error {
	if s.at+1 >= len(s.text) {
		s.at = len(s.text)
		return invalid("a string is not terminated")
	}
	switch c := s.text[s.at+1]; c {
	case '"', '\\', '/':
		b.WriteByte(c)
	case 'b':
		b.WriteByte('\b')
	case 'f':
		b.WriteByte('\f')
	case 'n':
		b.WriteByte('\n')
	case 'r':
		b.WriteByte('\r')
	case 't':
		b.WriteByte('\t')
	case 'u':
		return s.codePoint(b)
	default:
		return s.malformed()
	}
	s.at += 2
	return nil
}

// codePoint reads \uXXXX, or two of them that make a surrogate pair. A surrogate
// alone is no character and cannot be hashed as UTF-8.
func (s *scanner) codePoint(b *strings.Builder) error {
	r, ok := s.hex4(s.at)
	if !ok {
		return s.malformed()
	}
	size := 6
	if r >= 0xd800 && r < 0xe000 {
		low, ok := s.hex4(s.at + 6)
		if r >= 0xdc00 || !ok || low < 0xdc00 || low >= 0xe000 {
			return invalid("a string holds half of a surrogate pair")
		}
		r = 0x10000 + (r-0xd800)<<10 + (low - 0xdc00)
		size = 12
	}
	b.WriteRune(r)
	s.at += size
	return nil
}

// hex4 reads \uXXXX at i.
func (s *scanner) hex4(i int) (rune, bool) {
	if i+6 > len(s.text) || s.text[i] != '\\' || s.text[i+1] != 'u' {
		return 0, false
	}
	var r rune
	for _, c := range []byte(s.text[i+2 : i+6]) {
		switch {
		case c >= '0' && c <= '9':
			c -= '0'
		case c >= 'a' && c <= 'f':
			c -= 'a' - 10
		case c >= 'A' && c <= 'F':
			c -= 'A' - 10
		default:
			return 0, false
		}
		r = r<<4 | rune(c)
	}
	return r, true
}

// number reads a number and returns its text, which is valid JSON.
func (s *scanner) number() (string, error) {
	start, i := s.at, s.at
	digits := func() bool {
		from := i
		for i < len(s.text) && s.text[i] >= '0' && s.text[i] <= '9' {
			i++
		}
		return i > from
	}
	at := func(set string) bool { return i < len(s.text) && strings.IndexByte(set, s.text[i]) >= 0 }
	if at("-") {
		i++
	}
	if at("0") {
		i++
	} else if !digits() {
		return "", s.malformed()
	}
	if at(".") {
		i++
		if !digits() {
			return "", s.malformed()
		}
	}
	if at("eE") {
		i++
		if at("+-") {
			i++
		}
		if !digits() {
			return "", s.malformed()
		}
	}
	s.at = i
	return s.text[start:i], nil
}

// integer reads a whole number without fraction or exponent.
func (s *scanner) integer(name string) (int64, error) {
	if c := s.space(); c != '-' && (c < '0' || c > '9') {
		return 0, invalid("%s must be an integer", name)
	}
	text, err := s.number()
	if err != nil {
		return 0, err
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return 0, invalid("%s must be an integer of at most 64 bits, not %s", name, excerpt(text))
	}
	return n, nil
}

// skip reads any value and forgets it.
func (s *scanner) skip() error {
	var closing [maxDepth]byte
	depth := 0
	for {
		switch c := s.space(); c {
		case '{', '[':
			if depth == maxDepth {
				return invalid("nested more than %d deep", maxDepth)
			}
			s.at++
			closing[depth] = c + 2 // '{' to '}', '[' to ']'
			depth++
			if s.space() != c+2 {
				if c == '{' {
					if _, err := s.key(); err != nil {
						return err
					}
				}
				continue
			}
		case '"':
			if _, err := s.str(); err != nil {
				return err
			}
		case 't', 'f', 'n':
			if !s.literal() {
				return s.malformed()
			}
		default:
			if _, err := s.number(); err != nil {
				return err
			}
		}
		for depth > 0 && s.accept(closing[depth-1]) {
			depth--
		}
		if depth == 0 {
			return nil
		}
		if !s.accept(',') {
			return s.malformed()
		}
		if closing[depth-1] == '}' {
			if _, err := s.key(); err != nil {
				return err
			}
		}
	}
}

func (s *scanner) literal() bool {
	for _, word := range [...]string{"true", "false", "null"} {
		if strings.HasPrefix(s.text[s.at:], word) {
			s.at += len(word)
			return true
		}
	}
	return false
}

// excerpt shortens text from outside for use in an error.
func excerpt(text string) string {
	const maximum = 40
	if len(text) <= maximum {
		return text
	}
	cut := maximum
	for cut > 0 && !utf8.RuneStart(text[cut]) {
		cut--
	}
	return text[:cut] + "…"
}
