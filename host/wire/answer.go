package wire

import (
	"encoding/hex"
	"fmt"
	"strconv"

	"talon/host"
)

// AnswerVerb is the first element of a relay's message.
type AnswerVerb uint8

const (
	OtherAnswer AnswerVerb = iota // a verb that is not below; a client may ignore it
	AnswerEvent
	AnswerOK
	AnswerEOSE
	AnswerClosed
	AnswerNotice
	AnswerAuth
)

// answerVerbs are the names of the verbs that ParseAnswer understands.
var answerVerbs = [...]string{"", "EVENT", "OK", "EOSE", "CLOSED", "NOTICE", "AUTH"}

// Answer is a message of a relay. Which fields are set depends on the verb.
type Answer struct {
	Verb  AnswerVerb
	SubID string      // Event, EOSE, Closed
	Event *host.Event // Event; its id and signature are not checked
	ID    host.ID     // OK
	OK    bool        // OK
	Text  string      // OK, Closed: the reason; Notice: the text; Auth: the challenge
}

// ParseAnswer reads a relay's message (NIP-01, NIP-42). It keeps nothing of data.
// Elements beyond those of the NIP are skipped, and a reason may be missing: not
// every relay is exact, and a client has to get along with it.
func ParseAnswer(data []byte) (Answer, error) {
	s, err := newScanner(data)
	if err != nil {
		return Answer{}, err
	}
	if !s.accept('[') || s.space() != '"' {
		return Answer{}, invalid("a message must be a JSON array that begins with its verb")
	}
	name, err := s.str()
	if err != nil {
		return Answer{}, err
	}
	var a Answer
	for v := AnswerEvent; int(v) < len(answerVerbs); v++ {
		if answerVerbs[v] == name {
			a.Verb = v
		}
	}
	if err := s.answer(&a); err != nil {
		return Answer{}, err
	}
	for s.accept(',') {
		s.space()
		if err := s.skip(); err != nil {
			return Answer{}, err
		}
	}
	if !s.accept(']') {
		return Answer{}, s.malformed()
	}
	return a, s.expectEnd()
}

// answer reads the elements after the verb that the verb must have.
func (s *scanner) answer(a *Answer) (err error) {
	switch a.Verb {
	case AnswerEvent:
		if a.SubID, err = s.element("EVENT needs a subscription id"); err != nil {
			return err
		}
		if !s.accept(',') {
			return invalid("EVENT needs an event")
		}
		s.space()
		a.Event, err = s.ownEvent()
	case AnswerOK:
		return s.answerOK(a)
	case AnswerEOSE:
		a.SubID, err = s.element("EOSE needs a subscription id")
	case AnswerClosed:
		if a.SubID, err = s.element("CLOSED needs a subscription id"); err == nil {
			a.Text, err = s.reason()
		}
	case AnswerNotice:
		a.Text, err = s.element("NOTICE needs a text")
	case AnswerAuth:
		a.Text, err = s.element("AUTH needs a challenge")
	}
	return err
}

func (s *scanner) answerOK(a *Answer) error {
	id, err := s.element("OK needs an event id")
	if err != nil {
		return err
	}
	if !host.ParseHex(a.ID[:], id) {
		return invalid("OK needs an event id of 64 lower-case hex characters")
	}
	if !s.accept(',') {
		return invalid("OK needs true or false")
	}
	s.space()
	start := s.at
	if !s.literal() || s.text[start] == 'n' {
		return invalid("OK needs true or false")
	}
	a.OK = s.text[start] == 't'
	a.Text, err = s.reason()
	return err
}

// element reads the next element, a string.
func (s *scanner) element(missing string) (string, error) {
	if !s.accept(',') || s.space() != '"' {
		return "", invalid("%s, a string", missing)
	}
	return s.str()
}

// reason reads the next element if there is one and it is a string.
func (s *scanner) reason() (string, error) {
	at := s.at
	if s.accept(',') && s.space() == '"' {
		return s.str()
	}
	s.at = at
	return "", nil
}

// AppendEventPrefix appends what stands before the event's JSON in an EVENT
// message; the message ends with "]". A relay that sends one event to many
// subscriptions writes only this part for each.
func AppendEventPrefix(b []byte, subID string) []byte {
	b = append(b, `["EVENT",`...)
	b = host.AppendString(b, subID)
	return append(b, ',')
}

// AppendOK appends ["OK",id,ok,reason].
func AppendOK(b []byte, id string, ok bool, reason string) []byte {
	b = append(b, `["OK",`...)
	b = host.AppendString(b, id)
	b = append(b, ',')
	b = strconv.AppendBool(b, ok)
	b = append(b, ',')
	b = host.AppendString(b, reason)
	return append(b, ']')
}

// Hints of NIP-67.
const (
	HintFinish = "finish" // the answer has every stored event that matches
	HintMore   = "more"   // there are others
)

// AppendEOSE appends ["EOSE",subID], or ["EOSE",subID,[hint]] if the hint is not empty (NIP-67).
func AppendEOSE(b []byte, subID, hint string) []byte {
	b = appendStrings(b, "EOSE", subID)
	if hint == "" {
		return b
	}
	b = append(b[:len(b)-1], ',')
	return append(appendStrings(b, hint), ']')
}

// AppendClosed appends ["CLOSED",subID,reason].
func AppendClosed(b []byte, subID, reason string) []byte {
	return appendStrings(b, "CLOSED", subID, reason)
}

// AppendNotice appends ["NOTICE",text].
func AppendNotice(b []byte, text string) []byte {
	return appendStrings(b, "NOTICE", text)
}

// AppendAuth appends ["AUTH",challenge] (NIP-42).
func AppendAuth(b []byte, challenge string) []byte {
	return appendStrings(b, "AUTH", challenge)
}

// AppendCount appends ["COUNT",subID,{"count":n}], with the registers of a
// HyperLogLog where there are any (NIP-45).
func AppendCount(b []byte, subID string, n int64, hll []byte) []byte {
	b = append(b, `["COUNT",`...)
	b = host.AppendString(b, subID)
	b = append(b, `,{"count":`...)
	b = strconv.AppendInt(b, n, 10)
	if hll != nil {
		b = append(b, `,"hll":"`...)
		b = hex.AppendEncode(b, hll)
		b = append(b, '"')
	}
	return append(b, "}]"...)
}

// AppendNegMsg appends ["NEG-MSG",subID,hex] (NIP-77).
func AppendNegMsg(b []byte, subID string, msg []byte) []byte {
	b = append(b, `["NEG-MSG",`...)
	b = host.AppendString(b, subID)
	b = append(b, ',', '"')
	b = hex.AppendEncode(b, msg)
	return append(b, '"', ']')
}

// AppendNegErr appends ["NEG-ERR",subID,reason] (NIP-77).
func AppendNegErr(b []byte, subID, reason string) []byte {
	return appendStrings(b, "NEG-ERR", subID, reason)
}

func appendStrings(b []byte, items ...string) []byte {
	b = append(b, '[')
	for i, s := range items {
		if i > 0 {
			b = append(b, ',')
		}
		b = host.AppendString(b, s)
	}
	return append(b, ']')
}

// Error is the reason why a message was not understood.
type Error struct {
	Reason string // for the client, with a prefix ("invalid: ", "unsupported: ", …)
}

func (e *Error) Error() string { return e.Reason }

func invalid(format string, args ...any) error {
	return &Error{Reason: "invalid: " + fmt.Sprintf(format, args...)}
}
