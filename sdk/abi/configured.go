package abi

import "unicode/utf8"

// Configured is the message Configured.
type Configured struct {
	Failure string
	Idle    []string
	About   About
}

// About is the message About.
type About struct {
	Grasps   []string
	Criteria string
	Curation string
	Writes   Writes
}

// Writes is the enum Writes.
type Writes uint32

const (
	WritesUnsaid Writes = iota
	WritesOpen
	WritesRestricted
)

// AppendConfigured appends c.
func AppendConfigured(b []byte, c *Configured) []byte {
	b = appendNonEmpty(b, 1, c.Failure)
	b = appendTexts(b, 2, c.Idle)
	about := appendTexts(nil, 1, c.About.Grasps)
	about = appendNonEmpty(about, 2, c.About.Criteria)
	about = appendNonEmpty(about, 3, c.About.Curation)
	about = appendUint(about, 4, uint64(c.About.Writes))
	return appendNonEmpty(b, 3, about)
}

// maxNames is the most functions and the most GRASPs that a Configured names.
const maxNames = 16

// DecodeConfigured reads a Configured. The strings are copies.
func DecodeConfigured(b []byte) (Configured, error) {
	var c Configured
	r := reader{rest: b}
	for r.next() {
		known := r.is(1, wireBytes) || r.is(2, wireBytes)
		switch {
		case known && !utf8.Valid(r.data):
			return Configured{}, ErrMalformed
		case r.is(1, wireBytes):
			c.Failure = string(r.data)
		case r.is(2, wireBytes):
			if len(c.Idle) == maxNames {
				return Configured{}, ErrMalformed
			}
			c.Idle = append(c.Idle, string(r.data))
		case r.is(3, wireBytes):
			if err := c.About.decode(r.data); err != nil {
				return Configured{}, err
			}
		}
	}
	if r.bad {
		return Configured{}, ErrMalformed
	}
	return c, nil
}

func (a *About) decode(b []byte) error {
	r := reader{rest: b}
	for r.next() {
		if r.key&7 == wireBytes && r.key>>3 <= 3 && !utf8.Valid(r.data) {
			return ErrMalformed
		}
		switch {
		case r.is(1, wireBytes):
			if len(a.Grasps) == maxNames {
				return ErrMalformed
			}
			a.Grasps = append(a.Grasps, string(r.data))
		case r.is(2, wireBytes):
			a.Criteria = string(r.data)
		case r.is(3, wireBytes):
			a.Curation = string(r.data)
		case r.is(4, wireVarint):
			// What a later version says is nothing to this one.
			if a.Writes = Writes(min(r.num, uint64(WritesRestricted)+1)); a.Writes > WritesRestricted {
				a.Writes = WritesUnsaid
			}
		}
	}
	return r.err()
}
