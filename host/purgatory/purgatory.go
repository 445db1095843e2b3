// Package purgatory has the times of GRASP that only the host needs: how long an event is
// held, and a ref that was pushed before its event.
//
// Invariants:
//
//  1. Everything is a function of its arguments, the time included.
//  2. How long something is held depends on two stored numbers and the time, so
//     that a crash, or a timer that comes late, changes nothing.
package purgatory

// Holding times of purgatory, in seconds.
const (
	HoldFor   = 30 * 60          // an event without git data; its repository, for an announcement
	ReviveFor = 24 * 60 * 60     // after that, an announcement without its repository
	RefuseFor = 7 * 24 * 60 * 60 // after that, copies of an announcement that sync brings
	GitFirst  = 20 * 60          // a ref under refs/nostr/ without an event
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

// Hold has the data that determine how long one event is held.
type Hold struct {
	Announcement bool  // it has two phases, and a restart
	Since        int64 // unix seconds: when it came, or its 30 minutes were restarted
}

// Phase returns the phase of the event now. Nothing expires because a clock went back.
func (h Hold) Phase(now int64) Phase {
	age := now - h.Since
	switch {
	case age < HoldFor:
		return Waiting
	case !h.Announcement:
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
func (h Hold) Next(now int64) (at int64, ok bool) {
	switch h.Phase(now) {
	case Waiting:
		return h.Since + HoldFor, true
	case Dormant:
		return h.Since + HoldFor + ReviveFor, true
	case Gone:
		return h.Since + HoldFor + ReviveFor + RefuseFor, true
	}
	return 0, false
}

// Restart gives an announcement its 30 minutes again: a state event came for it,
// a push to it was authorised, or a newer announcement replaces it. It reports
// false if it is too late, or if the event is no announcement. One that was
// [Dormant] needs its repository made again.
func (h Hold) Restart(now int64) (Hold, bool) {
	if !h.Announcement || h.Phase(now) > Dormant {
		return h, false
	}
	h.Since = max(h.Since, now)
	return h, true
}

// PlaceholderExpired reports whether a ref under refs/nostr/ that was pushed at
// since, and whose event has not come, is to be deleted.
func PlaceholderExpired(since, now int64) bool { return now-since >= GitFirst }
