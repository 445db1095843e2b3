package wire

import (
	"bytes"
	"math"
	"unsafe"

	"talon/host"
)

// ParseEvent reads an event (NIP-01) and checks the form of its fields: lower-case hex of
// the right length, kind 0 to 65535, created_at a whole number that is not negative, tags
// lists of strings. It keeps nothing of data.
//
// Event.JSON is the text as it was sent, or a new one where that had white space
// or fields of its own: those would be stored and served for free.
func ParseEvent(data []byte) (*host.Event, error) {
	s, err := newScanner(data)
	if err != nil {
		return nil, err
	}
	e, err := s.ownEvent()
	if err != nil {
		return nil, err
	}
	return e, s.expectEnd()
}

// slack is how much text that is not of the event may stay in memory with it.
const slack = 512

// ownEvent reads an event that keeps little more in memory than itself. The strings of an event are
// parts of the text that was read. If that is mostly white space or foreign fields, a small event
// would keep all of it in memory, so it is copied.
func (s *scanner) ownEvent() (*host.Event, error) {
	e, err := s.event()
	if err != nil || len(s.text)-len(e.JSON) <= slack {
		return e, err
	}
	return ParseEvent(e.JSON)
}

// shared copies data into a string.
func shared(data []byte) string {
	if len(data) == 0 {
		return ""
	}
	own := bytes.Clone(data)
	return unsafe.String(&own[0], len(own))
}

// The fields of an event, as bits of a set.
const (
	fieldID = 1 << iota
	fieldPubKey
	fieldCreatedAt
	fieldKind
	fieldTags
	fieldContent
	fieldSig
	allFields = 1<<iota - 1
)

var fieldNames = [...]string{"id", "pubkey", "created_at", "kind", "tags", "content", "sig"}

// event reads an event object.
func (s *scanner) event() (*host.Event, error) {
	if !s.accept('{') {
		return nil, invalid("an event must be a JSON object")
	}
	e := new(host.Event)
	start, spaced := s.at-1, s.spaced
	s.spaced = false
	seen, foreign, first := 0, false, true
	for {
		more, err := s.next(&first, '}')
		if err != nil {
			return nil, err
		}
		if !more {
			break
		}
		name, err := s.key()
		if err != nil {
			return nil, err
		}
		bit, err := s.field(e, name)
		if err != nil {
			return nil, err
		}
		if bit == 0 {
			foreign = true
		}
		if seen&bit != 0 {
			return nil, invalid("the field %s stands twice", name)
		}
		seen |= bit
	}
	if seen != allFields {
		for i, name := range fieldNames {
			if seen&(1<<i) == 0 {
				return nil, invalid("the field %s is missing", name)
			}
		}
	}
	if foreign || s.spaced {
		e.JSON = e.AppendJSON(make([]byte, 0, s.at-start))
	} else {
		text := s.text[start:s.at]
		e.JSON = unsafe.Slice(unsafe.StringData(text), len(text))
	}
	s.spaced = s.spaced || spaced
	return e, nil
}

// field reads the value of a field into e and returns the field's bit, 0 for one
// that NIP-01 does not know.
func (s *scanner) field(e *host.Event, name string) (int, error) {
	switch name {
	case "id":
		return fieldID, s.hex(e.ID[:], name)
	case "pubkey":
		return fieldPubKey, s.hex(e.PubKey[:], name)
	case "sig":
		return fieldSig, s.hex(e.Sig[:], name)
	case "created_at":
		n, err := s.integer(name)
		if err == nil && n < 0 {
			err = invalid("created_at must not be negative")
		}
		e.CreatedAt = n
		return fieldCreatedAt, err
	case "kind":
		n, err := s.integer(name)
		if err == nil && (n < 0 || n > math.MaxUint16) {
			err = invalid("kind must be from 0 to 65535, not %d", n)
		}
		e.Kind = host.Kind(n)
		return fieldKind, err
	case "content":
		text, err := s.stringOf("content")
		e.Content = text
		return fieldContent, err
	case "tags":
		tags, err := s.tags()
		e.Tags = tags
		return fieldTags, err
	}
	return 0, s.skip()
}

// stringOf reads the value of a field that must be a string.
func (s *scanner) stringOf(name string) (string, error) {
	if s.space() != '"' {
		return "", invalid("%s must be a string", name)
	}
	return s.str()
}

func (s *scanner) hex(dst []byte, name string) error {
	text, err := s.stringOf(name)
	if err != nil {
		return err
	}
	if !host.ParseHex(dst, text) {
		return invalid("%s must be %d lower-case hex characters", name, 2*len(dst))
	}
	return nil
}

// tags reads a list of lists of strings. All strings of the event's tags share
// few slices, so that an event with many tags costs few allocations.
func (s *scanner) tags() (host.Tags, error) {
	if !s.accept('[') {
		return nil, invalid("tags must be a list")
	}
	tags := make(host.Tags, 0, 8)
	pool := make([]string, 0, 24)
	for first := true; ; {
		more, err := s.next(&first, ']')
		if err != nil {
			return nil, err
		}
		if !more {
			return tags, nil
		}
		if !s.accept('[') {
			return nil, invalid("each tag must be a list of strings")
		}
		from := len(pool)
		for first := true; ; {
			more, err := s.next(&first, ']')
			if err != nil {
				return nil, err
			}
			if !more {
				break
			}
			if s.space() != '"' {
				return nil, invalid("each tag must be a list of strings")
			}
			item, err := s.str()
			if err != nil {
				return nil, err
			}
			if len(pool) == cap(pool) {
				// The tag that is being read moves to a new slice; the finished
				// ones keep the old.
				grown := make([]string, len(pool)-from, 2*(len(pool)-from)+24)
				copy(grown, pool[from:])
				pool, from = grown, 0
			}
			pool = append(pool, item)
		}
		tags = append(tags, host.Tag(pool[from:len(pool):len(pool)]))
	}
}
