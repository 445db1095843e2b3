// Package wire reads and writes the JSON of the nostr protocol: events, filters
// and the messages between client and relay (NIP-01, 42, 45, 77).
//
// Invariants:
//
//  1. Parsing never panics, never recurses, and allocates in proportion to its
//     input, for any input.
//  2. It accepts JSON of RFC 8259 in any valid encoding: escapes, white space and order
//     of fields do not matter. It refuses invalid JSON and invalid UTF-8. So accepted
//     text can be sent on unchanged.
//  3. A field that means something may stand once. Twice is an error: two readers
//     might pick different ones.
//  4. Every error is an [*Error], whose Reason is a sentence for the client with a
//     prefix of NIP-01.
//
// The package checks shapes only. Package schnorr checks ids and signatures, and the
// policy judges the content of events.
package wire

import (
	"encoding/hex"
	"slices"
	"strconv"
	"unicode/utf8"

	"talon/host"
)

// Verb is the first element of a client's message.
type Verb uint8

const (
	Unknown Verb = iota
	Event
	Req
	Count
	Close
	Auth
	NegOpen
	NegMsg
	NegClose
)

// Verbs is the number of verbs: every Verb is below it.
const Verbs = int(NegClose) + 1

var verbNames = [Verbs]string{"unknown", "EVENT", "REQ", "COUNT", "CLOSE", "AUTH", "NEG-OPEN", "NEG-MSG", "NEG-CLOSE"}

func (v Verb) String() string { return verbNames[v] }

func verb(name string) Verb {
	for v := Event; int(v) < Verbs; v++ {
		if verbNames[v] == name {
			return v
		}
	}
	return Unknown
}

// Message is a message of a client. Which fields are set depends on the verb.
type Message struct {
	Verb    Verb
	SubID   string        // Req, Count, Close, NegOpen, NegMsg, NegClose
	Event   *host.Event   // Event, Auth
	EventID string        // Event, Auth: the id as it was sent, also when the event was not understood
	Filters []host.Filter // Req, Count: one or more; NegOpen: one
	Neg     []byte        // NegOpen, NegMsg: the negentropy message, binary
}

// ParseMessage reads a client's message. It keeps nothing of data. With an error
// it returns what was understood before it, so that the answer can name the
// subscription or the event.
func ParseMessage(data []byte, lim *Limits) (Message, error) {
	s, err := newScanner(data)
	if err != nil {
		return Message{}, err
	}
	var m Message
	if !s.accept('[') {
		return m, invalid("a message must be a JSON array")
	}
	if s.space() != '"' {
		return m, invalid("the first element of a message must be its verb")
	}
	name, err := s.str()
	if err != nil {
		return m, err
	}
	if m.Verb = verb(name); m.Verb == Unknown {
		return m, invalid("unknown verb %s", strconv.Quote(excerpt(name)))
	}
	if err := s.body(&m, lim); err != nil {
		return m, err
	}
	if !s.accept(']') {
		if s.space() == ',' {
			return m, invalid("%s has too many elements", m.Verb)
		}
		return m, s.malformed()
	}
	return m, s.expectEnd()
}

// body reads the elements after the verb.
func (s *scanner) body(m *Message, lim *Limits) error {
	if m.Verb == Event || m.Verb == Auth {
		if !s.accept(',') {
			return invalid("%s needs an event", m.Verb)
		}
		s.space()
		start := s.at
		e, err := s.ownEvent()
		if err != nil {
			m.EventID = eventID(s.text[start:])
			return err
		}
		m.Event, m.EventID = e, e.ID.String()
		if m.Verb == Event {
			return s.skipElements() // of clients that say more, which is not for a relay
		}
		return nil
	}
	if err := s.subID(m, lim); err != nil {
		return err
	}
	switch m.Verb {
	case Req, Count:
		return s.filters(m, lim)
	case NegOpen:
		f, err := s.oneFilter(lim)
		if err != nil {
			return err
		}
		if slices.ContainsFunc(f.Tags, func(t host.TagFilter) bool { return t.Name == host.WordOf }) {
			return &Error{Reason: "unsupported: a search cannot be reconciled, use REQ"}
		}
		m.Filters = []host.Filter{f}
		return s.neg(m)
	case NegMsg:
		return s.neg(m)
	}
	return nil
}

func (s *scanner) subID(m *Message, lim *Limits) error {
	if !s.accept(',') || s.space() != '"' {
		return invalid("%s needs a subscription id, a string", m.Verb)
	}
	id, err := s.str()
	if err != nil {
		return err
	}
	if id == "" {
		return invalid("a subscription id must not be empty")
	}
	if len(id) <= maxNamedSubID {
		m.SubID = id // also of an error, so that the answer can name it
	}
	if n := utf8.RuneCountInString(id); n > lim.SubID {
		return invalid("a subscription id may have at most %d characters, not %d", lim.SubID, n)
	}
	return nil
}

// maxNamedSubID is the longest subscription id, in bytes, that an answer names.
const maxNamedSubID = 1 << 10

// skipElements skips what is left of the message.
func (s *scanner) skipElements() error {
	for s.accept(',') {
		if err := s.skip(); err != nil {
			return err
		}
	}
	return nil
}

// oneFilter reads the filter of NEG-OPEN. Some clients send a list of one filter.
func (s *scanner) oneFilter(lim *Limits) (host.Filter, error) {
	if !s.accept(',') {
		return host.Filter{}, invalid("NEG-OPEN needs a filter")
	}
	if !s.accept('[') {
		return s.filter(lim)
	}
	f, err := s.filter(lim)
	if err == nil && !s.accept(']') {
		err = invalid("NEG-OPEN takes one filter")
	}
	return f, err
}

func (s *scanner) filters(m *Message, lim *Limits) error {
	for s.accept(',') {
		if len(m.Filters) == lim.Filters {
			return invalid("at most %d filters in one %s", lim.Filters, m.Verb)
		}
		f, err := s.filter(lim)
		if err != nil {
			return err
		}
		m.Filters = append(m.Filters, f)
	}
	if len(m.Filters) == 0 {
		return invalid("%s needs a filter", m.Verb)
	}
	return nil
}

func (s *scanner) neg(m *Message) error {
	if !s.accept(',') || s.space() != '"' {
		return invalid("%s needs a negentropy message, a hex string", m.Verb)
	}
	text, err := s.str()
	if err != nil {
		return err
	}
	if m.Neg, err = hex.DecodeString(text); err != nil {
		return invalid("the negentropy message is not hex")
	}
	return nil
}

// eventID looks for the id of an event that was not understood, so that the
// answer can name it. It returns "" if the text does not say.
func eventID(text string) string {
	const maximum = 128
	s := scanner{text: text}
	if !s.accept('{') {
		return ""
	}
	for first := true; ; {
		more, err := s.next(&first, '}')
		if err != nil || !more {
			return ""
		}
		name, err := s.key()
		if err != nil {
			return ""
		}
		if name == "id" && s.space() == '"' {
			if id, err := s.str(); err == nil && len(id) <= maximum {
				return id
			}
			return ""
		}
		if s.skip() != nil {
			return ""
		}
	}
}

// Limits bounds what a message may ask for. The size of a message is bounded
// before it gets here.
type Limits struct {
	SubID   int // characters of a subscription id; NIP-01 allows 64
	Filters int // filters of one REQ or COUNT
	Values  int // values of one filter, all its lists together
}

// DefaultLimits are the default limits.
var DefaultLimits = Limits{SubID: 64, Filters: 100, Values: 2000}
