package purgatory

import (
	"talon/host"
	"talon/host/store/semantics"
)

// Holding times of purgatory, in seconds. They depend on stored numbers and the time alone, so
// a crash, or a timer that comes late, changes nothing.
const (
	HoldFor   = 30 * 60          // an event without git data; its repository, for an announcement
	ReviveFor = 24 * 60 * 60     // after that, an announcement without its repository
	RefuseFor = 7 * 24 * 60 * 60 // after that, copies of an announcement that sync brings
)

// Phase is the phase of a held event.
type Phase uint8

const (
	Waiting   Phase = iota // it counts, and so does its repository
	Dormant                // of an announcement: its repository is gone, it may be revived
	Gone                   // it is to be forgotten, but for the memory that it was here
	Forgotten              // nothing is to be remembered any more
)

func (p Phase) String() string {
	return [...]string{"waiting", "dormant", "gone", "forgotten"}[p]
}

// Term has the data that determine how long one event is held.
type Term struct {
	Announcement bool  // it has two phases, and a restart
	Since        int64 // unix seconds: when it came, or its 30 minutes were restarted
}

// Phase returns the phase of the event now. Nothing expires because a clock went back.
func (t Term) Phase(now int64) Phase {
	age := now - t.Since
	switch {
	case age < HoldFor:
		return Waiting
	case !t.Announcement:
		return Forgotten
	case age < HoldFor+ReviveFor:
		return Dormant
	case age < HoldFor+ReviveFor+RefuseFor:
		return Gone
	}
	return Forgotten
}

// Next returns when the phase changes, in unix seconds, and false if it does not
// change any more.
func (t Term) Next(now int64) (at int64, ok bool) {
	switch t.Phase(now) {
	case Waiting:
		return t.Since + HoldFor, true
	case Dormant:
		return t.Since + HoldFor + ReviveFor, true
	case Gone:
		return t.Since + HoldFor + ReviveFor + RefuseFor, true
	}
	return 0, false
}

// Restart gives an announcement its 30 minutes again: a state event came for it,
// a push to it was authorised, or a newer announcement replaces it. It reports
// false if it is too late, or if the event is no announcement. One that was
// [Dormant] needs its repository made again.
func (t Term) Restart(now int64) (Term, bool) {
	if !t.Announcement || t.Phase(now) > Dormant {
		return t, false
	}
	t.Since = max(t.Since, now)
	return t, true
}

// termOf returns the term of an event that came, or whose time was restarted, at since.
func termOf(e *host.Event, since int64) Term {
	return Term{Announcement: e.Kind == host.KindAnnouncement, Since: since}
}

// phaseOf returns the phase of an event now. One that has expired (NIP-40) is forgotten.
func phaseOf(e *host.Event, t Term, now int64) Phase {
	if semantics.Expired(e, now) {
		return Forgotten
	}
	return t.Phase(now)
}

// Due returns when a held event is due for the next sweep: its phase changes, or it expires
// (NIP-40).
func Due(e *host.Event, since int64, dormant bool) int64 {
	t := termOf(e, since)
	at, _ := t.Next(since)
	if dormant {
		at, _ = t.Next(at)
	}
	if expires, ok := e.Expiration(); ok {
		at = min(at, expires)
	}
	return at
}
