package host

import (
	"iter"

	"talon/sdk/grasp"
)

// A refused event may be accepted after another event. The rule about which one stands here:
// [Event.Needs] says what a refused event may wait for, and [Event.Meets] says which waits an
// accepted event ends. The rule knows no policy: a policy gives a reason for people only.
//
// A refused event may wait for:
//
//   - an event that it names;
//   - an event that names it;
//   - an announcement under the same identifier, if it is an announcement or a state;
//   - any event of its author, or an announcement that lists its author, if it describes its author.

// Need is one thing that a refused event may wait for.
type Need struct {
	By    NeedBy
	Value string
}

// NeedBy says how an accepted event meets a [Need].
type NeedBy byte

// Values of NeedBy.
const (
	NeedsEvent        NeedBy = 'n' // the accepted event has this id or address
	NeedsMention      NeedBy = 'o' // it names this id or address
	NeedsAnnouncement NeedBy = 'd' // it announces this identifier
	NeedsAuthor       NeedBy = 'p' // this key signed it, or it is an announcement that lists the key as a maintainer
)

// Needs iterates over the things that an event may wait for after it was refused.
func (e *Event) Needs() iter.Seq[Need] {
	return func(yield func(Need) bool) {
		if !e.eachName(func(name string) bool { return yield(Need{NeedsMention, name}) }) {
			return
		}
		switch {
		case e.Kind == grasp.KindAnnouncement, e.Kind == grasp.KindState:
			if d := e.D(); d != "" && !yield(Need{NeedsAnnouncement, d}) {
				return
			}
		case grasp.DescribesAuthor(int(e.Kind)):
			if !yield(Need{NeedsAuthor, e.PubKey.String()}) {
				return
			}
		}
		for name := range e.References() {
			if !yield(Need{NeedsEvent, name}) {
				return
			}
		}
	}
}

// Meets iterates over the needs that an event meets after it was accepted.
func (e *Event) Meets() iter.Seq[Need] {
	return func(yield func(Need) bool) {
		if !e.eachName(func(name string) bool { return yield(Need{NeedsEvent, name}) }) || !yield(Need{NeedsAuthor, e.PubKey.String()}) {
			return
		}
		if e.Kind == grasp.KindAnnouncement {
			if !yield(Need{NeedsAnnouncement, e.D()}) {
				return
			}
			for _, key := range e.Maintainers() {
				if !yield(Need{NeedsAuthor, key.String()}) {
					return
				}
			}
		}
		for name := range e.References() {
			if !yield(Need{NeedsMention, name}) {
				return
			}
		}
	}
}

// eachName calls yield with the event's id and its address, if it has one, until yield returns
// false. It reports whether yield never did.
func (e *Event) eachName(yield func(string) bool) bool {
	if !yield(e.ID.String()) {
		return false
	}
	a, ok := e.Address()
	return !ok || yield(a.String())
}
