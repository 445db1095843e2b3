package purgatory

import (
	"bytes"

	"talon/host"
	"talon/host/store/semantics"
	"talon/sdk/grasp"
)

// A module may hold an event until another event matches a filter. The row keeps the filter. When
// such an event comes, package wake submits the held one to the pipeline again, and the policies
// decide with the facts as they are then:
//
//   - They accept it: [Put] takes it out of purgatory.
//   - A module holds it again: the row stays, with the filter of the new verdict. Its time does
//     not start again.
//   - A policy holds it for another cause: the row gives way to one of that cause ([Hold]).
//   - They refuse it: [Release] removes it.
//
// Git data that comes does not release it.

// Lifetimes of events that a module holds, in seconds.
const (
	DefaultWait = 7 * 24 * 60 * 60  // if the module names none
	MaxWait     = 30 * 24 * 60 * 60 // if it names a longer one
)

// MayAwait reports whether events of a kind may wait for another event. Announcements and states may
// not: whatever is held of them counts for repositories, refs and pushes.
func MayAwait(k host.Kind) bool { return k != host.KindAnnouncement && k != grasp.KindState }

// waitFor makes a row wait for an event that matches a filter.
func waitFor(r *Row, e *host.Event, h *host.HoldOptions, now int64) {
	seconds := h.Wait
	if seconds <= 0 {
		seconds = DefaultWait
	}
	r.Cause, r.Wake, r.Due = CauseVerdict, h.Wake, now+min(seconds, MaxWait)
	if expires, ok := e.Expiration(); ok {
		r.Due = min(r.Due, expires)
	}
}

// holdAwaiting answers an event that waits for another and comes again, and reports whether it goes on
// waiting. If not, it is held for another cause now.
func holdAwaiting(rows Rows, r *Row, h *host.HoldOptions, out *host.Outcome) (bool, error) {
	if h.Wake == nil {
		return false, nil
	}
	out.Code, out.Reason = host.Held, r.Reason
	if bytes.Equal(r.Wake, h.Wake) {
		return true, nil
	}
	r.Wake = h.Wake
	return true, rows.UpdateHeld(r)
}

// refuse removes rows of events that waited for another one, and that the policies refuse now.
func refuse(rows Rows, ids []host.ID, changes *[]host.HeldChange) error {
	for _, id := range ids {
		r, err := rows.Held(id)
		if err != nil {
			return err
		}
		if r == nil || r.Cause != CauseVerdict {
			continue
		}
		if err := remove(rows, []*Row{r}, host.StatusExpired, changes); err != nil {
			return err
		}
	}
	return nil
}

// DueFits reports whether the time of a row is one that the rules give. For [CauseVerdict] the
// module chose it.
func DueFits(e *host.Event, c Cause, since, due int64, dormant bool) bool {
	if c != CauseVerdict {
		return due == Due(e, c, since, dormant)
	}
	expires, ok := e.Expiration()
	return !dormant && due <= since+MaxWait && (due > since || ok && due == expires) && (!ok || due <= expires)
}

// quota is what rows of a cause may take together: those that a module holds have their own.
type quota struct {
	part               Class // of the classes that count them
	whole              Weight
	byAuthor           int64
	own, network, full string // reasons
}

func quotaOf(l *semantics.HeldLimits, c Cause) quota {
	if c == CauseVerdict {
		return quota{
			VerdictPart, Weight{l.Verdicts, l.VerdictBytes}, l.VerdictsByAuthor,
			semantics.ReasonOwnAwaiting, semantics.ReasonNetworkAwaiting, semantics.ReasonFullAwaiting,
		}
	}
	return quota{0, Weight{l.Events, l.Bytes}, l.ByAuthor, semantics.ReasonOwnFull, semantics.ReasonNetwork, semantics.ReasonFull}
}

// known returns the part that only known people use: a quarter.
func (q *quota) known() Weight {
	return Weight{q.whole.Events / knownShare, q.whole.Bytes / knownShare}
}
