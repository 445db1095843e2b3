// Package host is the vocabulary of Talon: the values that its packages pass
// to each other. It holds no machinery.
//
// Every change of stored events becomes an [Item] in one pipeline (package ingest). A policy
// answers an item with a [Ruling], and the pipeline answers it with a [Verdict]. A commit returns
// its effects as data ([Outcome]). It never calls upward.
//
// Invariants:
//
//  1. An [Event] is immutable once it has been parsed; it may be shared between
//     goroutines.
//  2. Event.JSON is the text that is stored and sent, and parses to the same
//     event.
//  3. Reasons that reach a client start with a prefix of NIP-01 or NIP-42
//     ("invalid: ", "blocked: ", …).
package host

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"log/slog"
	"strconv"
	"strings"

	"talon/sdk/grasp"
)

// ID is an event id: the SHA-256 of the event's canonical serialization.
type ID [32]byte

// PubKey is an author's x-only secp256k1 public key. The SDK's grasp.PubKey stays a plain
// [32]byte, because authors of modules build on it. The methods of this type print hex digits.
type PubKey [32]byte

// Sig is a BIP-340 signature.
type Sig [64]byte

func (id ID) String() string     { return hex.EncodeToString(id[:]) }
func (pk PubKey) String() string { return hex.EncodeToString(pk[:]) }
func (s Sig) String() string     { return hex.EncodeToString(s[:]) }

// LogValue returns the hex digits, for log lines of every format.
func (id ID) LogValue() slog.Value { return slog.StringValue(id.String()) }

// LogValue returns the hex digits, as that of an ID.
func (pk PubKey) LogValue() slog.Value { return slog.StringValue(pk.String()) }

// Tag is one tag of an event: its name and its values. It may be empty.
type Tag = []string

// Tags are the tags of an event, in its order. They convert without a copy to and from [][]string,
// the type of the rules and the SDK.
type Tags []Tag

// Event is a nostr event (NIP-01) whose fields have the right shape. [Event.CheckID] checks its id,
// and package schnorr its signature.
type Event struct {
	ID        ID
	PubKey    PubKey
	CreatedAt int64 // unix seconds, not negative
	Kind      Kind
	Tags      Tags
	Content   string
	Sig       Sig

	// JSON is the event as it is stored and sent: one JSON object with the
	// seven fields of NIP-01, each once, and no others.
	JSON []byte

	// Audience says who may receive the event; nil is everybody. The text does not contain it: the
	// pipeline asks the modules for it, and the store keeps it.
	Audience *Audience
}

// ErrID says that an event's id is not the hash of its content.
var ErrID = errors.New("event id does not match the content")

// CheckID returns [ErrID] unless the id is the hash of the rest of the event.
func (e *Event) CheckID() error {
	var stack [2048]byte
	if ID(sha256.Sum256(e.AppendCanonical(stack[:0]))) != e.ID {
		return ErrID
	}
	return nil
}

// AppendCanonical appends the serialization whose SHA-256 is the event's id
// (NIP-01): [0,pubkey,created_at,kind,tags,content] without white space.
func (e *Event) AppendCanonical(b []byte) []byte {
	b = append(b, `[0,"`...)
	b = hex.AppendEncode(b, e.PubKey[:])
	b = append(b, `",`...)
	b = strconv.AppendInt(b, e.CreatedAt, 10)
	b = append(b, ',')
	b = strconv.AppendUint(b, uint64(e.Kind), 10)
	b = append(b, ',')
	b = appendTags(b, e.Tags)
	b = append(b, ',')
	b = AppendString(b, e.Content)
	return append(b, ']')
}

// AppendJSON appends the event as a JSON object, its fields in the order of
// NIP-01.
func (e *Event) AppendJSON(b []byte) []byte {
	b = append(b, `{"id":"`...)
	b = hex.AppendEncode(b, e.ID[:])
	b = append(b, `","pubkey":"`...)
	b = hex.AppendEncode(b, e.PubKey[:])
	b = append(b, `","created_at":`...)
	b = strconv.AppendInt(b, e.CreatedAt, 10)
	b = append(b, `,"kind":`...)
	b = strconv.AppendUint(b, uint64(e.Kind), 10)
	b = append(b, `,"tags":`...)
	b = appendTags(b, e.Tags)
	b = append(b, `,"content":`...)
	b = AppendString(b, e.Content)
	b = append(b, `,"sig":"`...)
	b = hex.AppendEncode(b, e.Sig[:])
	return append(b, `"}`...)
}

func appendTags(b []byte, tags Tags) []byte {
	b = append(b, '[')
	for i, tag := range tags {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, '[')
		for j, s := range tag {
			if j > 0 {
				b = append(b, ',')
			}
			b = AppendString(b, s)
		}
		b = append(b, ']')
	}
	return append(b, ']')
}

// AppendString appends s as a JSON string with the escapes that NIP-01 prescribes for ids. It uses
// the short escapes of JSON, and \u00xx for the other control characters. It escapes nothing else.
func AppendString(b []byte, s string) []byte {
	const digits = "0123456789abcdef"
	b = append(b, '"')
	start := 0
	for i := 0; i < len(s); i++ {
		c := s[i]
		if c >= 0x20 && c != '"' && c != '\\' {
			continue
		}
		b = append(b, s[start:i]...)
		start = i + 1
		switch c {
		case '"', '\\':
			b = append(b, '\\', c)
		case '\n':
			b = append(b, '\\', 'n')
		case '\r':
			b = append(b, '\\', 'r')
		case '\t':
			b = append(b, '\\', 't')
		case '\b':
			b = append(b, '\\', 'b')
		case '\f':
			b = append(b, '\\', 'f')
		default:
			b = append(b, '\\', 'u', '0', '0', digits[c>>4], digits[c&15])
		}
	}
	b = append(b, s[start:]...)
	return append(b, '"')
}

// D returns the value of the first d tag, "" if there is none: for NIP-01 a
// missing and an empty d name the same address.
func (e *Event) D() string {
	for _, tag := range e.Tags {
		if len(tag) > 0 && tag[0] == "d" {
			if len(tag) > 1 {
				return tag[1]
			}
			return ""
		}
	}
	return ""
}

// Header returns the event with nothing but its id, author, time and kind.
func (e *Event) Header() *Event {
	h := &Event{ID: e.ID, PubKey: e.PubKey, CreatedAt: e.CreatedAt, Kind: e.Kind}
	h.JSON = h.AppendJSON(nil)
	return h
}

// Address returns the event's address, and false for a kind that has none.
func (e *Event) Address() (Address, bool) {
	switch e.Kind.Class() {
	case Replaceable:
		return Address{Kind: e.Kind, PubKey: e.PubKey}, true
	case Addressable:
		return Address{Kind: e.Kind, PubKey: e.PubKey, D: e.D()}, true
	}
	return Address{}, false
}

// Expiration returns the time after which the event must not be served
// (NIP-40), and false if it has none. A value that is not a whole number of
// seconds is no expiration.
func (e *Event) Expiration() (int64, bool) {
	for _, tag := range e.Tags {
		if len(tag) > 1 && tag[0] == "expiration" {
			at, err := strconv.ParseInt(tag[1], 10, 64)
			return at, err == nil
		}
	}
	return 0, false
}

// Protected reports whether only the author may publish the event (NIP-70).
func (e *Event) Protected() bool {
	for _, tag := range e.Tags {
		if len(tag) > 0 && tag[0] == "-" {
			return true
		}
	}
	return false
}

// Before reports whether e comes before f in the order of NIP-01 answers:
// newest first, ties by lowest id.
func (e *Event) Before(f *Event) bool {
	if e.CreatedAt != f.CreatedAt {
		return e.CreatedAt > f.CreatedAt
	}
	return string(e.ID[:]) < string(f.ID[:])
}

// Kind is an event's kind, 0 to 65535.
type Kind uint16

// Kinds that the host itself acts on.
const (
	KindDeletion Kind = 5     // NIP-09
	KindVanish   Kind = 62    // NIP-62
	KindGiftWrap Kind = 1059  // NIP-59
	KindReport   Kind = 1984  // NIP-56
	KindAuth     Kind = 22242 // NIP-42

	KindAnnouncement Kind = grasp.KindAnnouncement
)

// Class says how events of a kind are kept (NIP-01).
type Class uint8

const (
	Regular     Class = iota // each event is kept
	Replaceable              // the newest for an author and kind is kept
	Addressable              // the newest for an author, kind and d is kept
	Ephemeral                // sent to those who listen, not kept
)

func (c Class) String() string {
	return [...]string{"regular", "replaceable", "addressable", "ephemeral"}[c]
}

// Class returns how events of kind k are kept. Kinds from 40000 are regular.
func (k Kind) Class() Class {
	switch {
	case k == 0, k == 3, k >= 10000 && k < 20000:
		return Replaceable
	case k >= 20000 && k < 30000:
		return Ephemeral
	case k >= 30000 && k < 40000:
		return Addressable
	}
	return Regular
}

// Address names the newest event of an author, kind and d tag: the value of an
// "a" tag (NIP-01). D is empty for replaceable kinds.
type Address struct {
	Kind   Kind
	PubKey PubKey
	D      string
}

// String returns kind:pubkey:d.
func (a Address) String() string {
	return strconv.Itoa(int(a.Kind)) + ":" + a.PubKey.String() + ":" + a.D
}

// ParseAddress parses kind:pubkey:d. The d part is all that follows the second
// colon, colons included. It reports false for anything else, and for kinds
// that have no address.
func ParseAddress(s string) (Address, bool) {
	kind, rest, ok := strings.Cut(s, ":")
	if !ok {
		return Address{}, false
	}
	pubkey, d, ok := strings.Cut(rest, ":")
	if !ok {
		return Address{}, false
	}
	n, err := strconv.ParseUint(kind, 10, 16)
	if err != nil || len(kind) > 1 && kind[0] == '0' {
		return Address{}, false
	}
	a := Address{Kind: Kind(n), D: d}
	if !ParseHex(a.PubKey[:], pubkey) {
		return Address{}, false
	}
	switch a.Kind.Class() {
	case Replaceable:
		return a, d == ""
	case Addressable:
		return a, true
	}
	return Address{}, false
}

// ParseHex fills dst from s, which must be exactly twice as long and lower-case
// hex.
func ParseHex(dst []byte, s string) bool {
	if len(s) != 2*len(dst) {
		return false
	}
	for i := 0; i < len(s); i++ {
		if c := s[i]; (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}
	for i := range dst {
		dst[i] = hexDigit(s[2*i])<<4 | hexDigit(s[2*i+1])
	}
	return true
}

// hexDigit returns the value of a lower-case hex digit.
func hexDigit(c byte) byte {
	if c <= '9' {
		return c - '0'
	}
	return c - 'a' + 10
}
