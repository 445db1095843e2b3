package session

// drain keeps requests that we closed for as long as the relay may still send something
// for them: events that were on their way are wanted, and no breach of the rules. A relay
// may have hundreds of answers to go when we change our minds, and sends them in turn: of
// those closed long ago only the ids are kept, and what comes for them is passed over.
type drain struct {
	byID  map[string]*request
	order []*request // the one closed first is first
	whole int        // of them, those whose events are still taken
}

// maxDraining bounds the requests whose events are taken, and maxDrainingIDs all that
// are kept.
const (
	maxDraining    = 128
	maxDrainingIDs = 4096
)

func newDrain() drain { return drain{byID: make(map[string]*request)} }

// drain keeps a request that was closed just now. The request itself may be sent again,
// under another id.
func (s *Session) drain(r *request) {
	old := &request{
		id: r.id, number: r.number, matchers: r.matchers, purpose: r.purpose, events: r.events, eose: r.eose, stored: true, closed: true,
		sent: s.now, heard: s.now,
	}
	d := &s.draining
	d.byID[old.id] = old
	d.order = append(d.order, old)
	if d.whole++; d.whole > maxDraining {
		d.strip(d.least())
	}
	if len(d.byID) > maxDrainingIDs {
		d.remove(d.order[0])
	}
	s.check(s.now + s.limits.AnswerTime)
}

// least returns the request of which least is to be expected: the first to be closed of
// those that were answered, or of all.
func (d *drain) least() (least *request) {
	for _, r := range d.order {
		switch {
		case r.matchers == nil || d.byID[r.id] != r:
		case r.eose:
			return r
		case least == nil:
			least = r
		}
	}
	return least
}

// strip keeps no more of a request than that it was ours.
func (d *drain) strip(r *request) {
	if r.matchers != nil {
		r.matchers = nil
		d.whole--
	}
}

func (d *drain) remove(r *request) {
	d.strip(r)
	delete(d.byID, r.id)
	for len(d.order) > 0 && d.byID[d.order[0].id] != d.order[0] {
		d.order[0] = nil
		d.order = d.order[1:]
	}
}

// forgetDrained lets go of requests for which nothing has come for long, and of those
// that were closed long ago.
func (s *Session) forgetDrained() {
	d, l := &s.draining, s.limits
	for _, r := range d.order {
		if r == nil || d.byID[r.id] != r {
			continue
		}
		by := r.sent + l.PageTime
		silent := min(r.heard+l.AnswerTime, by)
		switch {
		case s.now >= by, s.now >= silent && r.eose:
			d.remove(r)
		case s.now >= silent:
			d.strip(r) // its answer may still wait for its turn
			s.check(by)
		default:
			s.check(silent)
		}
	}
}
