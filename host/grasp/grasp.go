// Package grasp implements the GRASP rules that only the host needs: how long events are
// held, which held events a deletion takes, and the host's events as package sdk/grasp
// reads them. The rules themselves are there, since policy modules need them too.
//
// Invariants:
//
//  1. Everything is a function of its arguments, the time included.
//  2. How long something is held depends on two stored numbers and the time, so
//     that a crash, or a timer that comes late, changes nothing.
package grasp

import (
	"talon/host"
	rules "talon/sdk/grasp"
)

// Event returns what the rules read of e. Tags are shared, not copied.
func Event(e *host.Event) *rules.Event {
	return &rules.Event{
		Stamp: rules.Stamp{ID: e.ID, PubKey: e.PubKey, CreatedAt: e.CreatedAt},
		Kind:  int(e.Kind),
		Tags:  e.Tags,
	}
}

// Deletes reports whether a deletion (kind 5) deletes e, stored or held: by an e tag with
// its id, or by an a tag with its address if e is not younger than the deletion. Of the
// same second is not younger. Only the author's deletion counts, and a deletion is not
// deleted (NIP-09).
func Deletes(deletion, e *host.Event) bool {
	if deletion.Kind != host.KindDeletion || e.Kind == host.KindDeletion || deletion.PubKey != e.PubKey {
		return false
	}
	id, address := e.ID.String(), ""
	if a, ok := e.Address(); ok && e.CreatedAt <= deletion.CreatedAt {
		address = a.String()
	}
	for _, tag := range deletion.Tags {
		if len(tag) < 2 {
			continue
		}
		switch tag[0] {
		case "e":
			if tag[1] == id {
				return true
			}
		case "a":
			if address != "" && tag[1] == address {
				return true
			}
		}
	}
	return false
}

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
