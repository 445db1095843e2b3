package session

// drain keeps requests that we closed for as long as the relay may still send something
// for them: events that were on their way are wanted, and no breach of the rules.
type drain struct {
	byID  map[string]*request
	order []*request // the one closed first is first
}

// maxDraining bounds the requests that are kept.
const maxDraining = 128

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
	for len(d.byID) > maxDraining {
		d.remove(d.order[0])
	}
	s.check(s.now + s.limits.AnswerTime)
}

func (d *drain) remove(r *request) {
	delete(d.byID, r.id)
	for len(d.order) > 0 && d.byID[d.order[0].id] != d.order[0] {
		d.order[0] = nil
		d.order = d.order[1:]
	}
}

// forgetDrained removes requests for which nothing has come for long, and those that
// were closed long ago.
func (s *Session) forgetDrained() {
	d, l := &s.draining, s.limits
	for _, r := range d.order {
		if r == nil || d.byID[r.id] != r {
			continue
		}
		if by := min(r.heard+l.AnswerTime, r.sent+l.PageTime); s.now >= by {
			d.remove(r)
		} else {
			s.check(by)
		}
	}
}
