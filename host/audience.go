package host

import (
	"bytes"
	"encoding/hex"
	"errors"
	"slices"
)

// Audience says who may receive an event. A nil audience is everybody. An empty audience is nobody.
// An audience is immutable.
type Audience struct {
	Keys []PubKey // who proves one of these keys (NIP-42); each once
	Set  string   // or a member of this set of a module; see [Reader.Sets]

	// Repository says that the event belongs to a repository that is not for everybody. Events that
	// refer to it belong to the repository too.
	Repository bool
}

// MaxAudienceKeys bounds the keys of an audience.
const MaxAudienceKeys = 1000

// Nobody is the audience of an event that nobody receives.
var Nobody = &Audience{}

// StrictestAudience returns the strictest of several audiences: nobody, then keys, then a set, then
// everybody. Two lists of keys give their common keys. Two different sets give nobody.
func StrictestAudience(list ...*Audience) (out *Audience) {
	for _, a := range list {
		out = out.stricter(a)
	}
	return out
}

func (a *Audience) stricter(b *Audience) *Audience {
	switch {
	case a == nil:
		return b
	case b == nil || a.Equal(b):
		return a
	}
	out := &Audience{Repository: a.Repository || b.Repository}
	switch {
	case a.nobody() || b.nobody():
	case a.Keys != nil && b.Keys != nil:
		for _, key := range a.Keys {
			if slices.Contains(b.Keys, key) {
				out.Keys = append(out.Keys, key)
			}
		}
	case a.Keys != nil:
		out.Keys = a.Keys
	case b.Keys != nil:
		out.Keys = b.Keys
	case a.Set == b.Set:
		out.Set = a.Set
	}
	return out
}

// StricterRepository returns the stricter of a and b if b is that of a repository, else a.
func (a *Audience) StricterRepository(b *Audience) *Audience {
	if b == nil || !b.Repository {
		return a
	}
	return a.stricter(b)
}

func (a *Audience) nobody() bool { return len(a.Keys) == 0 && a.Set == "" }

// Equal reports whether two audiences are the same.
func (a *Audience) Equal(b *Audience) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a.Set == b.Set && a.Repository == b.Repository && slices.Equal(a.Keys, b.Keys)
}

// Each calls yield with a text for each key and set of the audience: the values of the condition
// [AudienceOf].
func (a *Audience) Each(yield func(value string)) {
	if a == nil {
		return
	}
	for _, key := range a.Keys {
		yield(keyValue(key))
	}
	if a.Set != "" {
		yield(setValue(a.Set))
	}
}

func keyValue(key PubKey) string  { return "k" + string(key[:]) }
func setValue(name string) string { return "s" + name }

// The first byte of an encoded audience.
const (
	audienceKeys       = 1 << 0
	audienceSet        = 1 << 1
	audienceRepository = 1 << 2
)

var errAudience = errors.New("an audience is damaged: run `talon check`")

// Encode returns the audience as stores keep it, nil for everybody.
func (a *Audience) Encode() []byte {
	if a == nil {
		return nil
	}
	b := []byte{0}
	if a.Repository {
		b[0] |= audienceRepository
	}
	switch {
	case len(a.Keys) > 0:
		b[0] |= audienceKeys
		for i := range a.Keys {
			b = append(b, a.Keys[i][:]...)
		}
	case a.Set != "":
		b[0] |= audienceSet
		b = append(b, a.Set...)
	}
	return b
}

// ParseAudience reads the output of Encode.
func ParseAudience(b []byte) (*Audience, error) {
	if b == nil {
		return nil, nil
	}
	if len(b) == 0 || b[0]&^(audienceKeys|audienceSet|audienceRepository) != 0 {
		return nil, errAudience
	}
	a := &Audience{Repository: b[0]&audienceRepository != 0}
	rest := b[1:]
	switch b[0] & (audienceKeys | audienceSet) {
	case 0:
		if len(rest) > 0 {
			return nil, errAudience
		}
	case audienceKeys:
		if len(rest) == 0 || len(rest)%len(PubKey{}) != 0 {
			return nil, errAudience
		}
		for ; len(rest) > 0; rest = rest[len(PubKey{}):] {
			a.Keys = append(a.Keys, PubKey(rest))
		}
	case audienceSet:
		if len(rest) == 0 {
			return nil, errAudience
		}
		a.Set = string(rest)
	default:
		return nil, errAudience
	}
	return a, nil
}

// String returns the audience as people read it.
func (a *Audience) String() string {
	switch {
	case a == nil:
		return "everybody"
	case len(a.Keys) > 0:
		var b bytes.Buffer
		b.WriteString("keys")
		for i := range a.Keys {
			b.WriteByte(' ')
			b.WriteString(hex.EncodeToString(a.Keys[i][:]))
		}
		return b.String()
	case a.Set != "":
		return "set " + a.Set
	}
	return "nobody"
}

// Reader is the client that reads. A nil reader receives only events for everybody.
type Reader struct {
	Keys []PubKey // that it has proven (NIP-42)
	Sets []string // of which one of the keys is a member
	All  bool     // it is the host, which sees every event

	// WithheldOnly leaves out the events that are for everybody.
	WithheldOnly bool
}

// Everything is the reader that sees every event: the host and its operator.
var Everything = &Reader{All: true}

// Values returns the values of [AudienceOf] that select the withheld events that the reader
// receives.
func (r *Reader) Values() (list []string) {
	if r == nil {
		return nil
	}
	for _, key := range r.Keys {
		list = append(list, keyValue(key))
	}
	for _, name := range r.Sets {
		list = append(list, setValue(name))
	}
	return list
}

// Receives reports whether the reader may receive an event of this audience.
func (r *Reader) Receives(a *Audience) bool {
	switch {
	case r == nil:
		return a == nil
	case a == nil:
		return !r.WithheldOnly
	case r.All:
		return true
	case a.Set != "" && slices.Contains(r.Sets, a.Set):
		return true
	}
	return slices.ContainsFunc(r.Keys, func(key PubKey) bool { return slices.Contains(a.Keys, key) })
}

// For returns a copy of the event for an audience.
func (e *Event) For(a *Audience) *Event {
	out := *e
	out.Audience = a
	return &out
}
