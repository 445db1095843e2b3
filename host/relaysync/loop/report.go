package loop

import (
	"talon/host"
	"talon/host/relaysync/session"
	"talon/sdk/abi"
)

// Report takes what the session of a connection tells.
func (s *Loop) Report(now int64, relay string, conn ConnID, report session.Report) {
	s.tick(now)
	r := s.relays[relay]
	if r == nil || r.conn != conn || !r.up {
		return // of a connection that was ended
	}
	switch in := report.(type) {
	case *session.Eose:
		if sub := r.subs[in.Input.ID]; sub != nil && sub.serial == in.Serial {
			sub.eose = true
			r.productive = true
			s.prove(r)
			s.gap(r, sub.purpose, in.Gap)
			s.progress(r)
			s.step(&in.Input)
		}
	case *session.Closed:
		// News of something that was replaced by another with the same id is no news.
		if sub := r.subs[in.Input.ID]; sub != nil && sub.serial == in.Serial {
			delete(r.subs, in.Input.ID)
			s.log(Debug, "subscription closed by the relay", "relay", r.url, "reason", in.Input.Reason)
			s.progress(r)
			s.step(&in.Input)
		}
	case *session.Done:
		if h := r.hists[in.Input.ID]; h != nil && h.serial == in.Serial {
			delete(r.hists, in.Input.ID)
			r.productive = r.productive || in.Input.Complete
			s.prove(r)
			r.partial = r.partial || !in.Input.Complete
			s.gap(r, h.purpose, in.Gap)
			if in.Missing != nil && in.Input.Have > 0 {
				s.missing.add(r.url, in.Input.Have, in.Missing)
				s.missing.log(s)
			}
			s.progress(r)
			s.step(&in.Input)
		}
	case *session.Notice:
		s.log(Info, "notice of a relay", "relay", r.url, "text", in.Input.Text)
		s.step(&in.Input)
	case *session.Refused:
		s.refused(relay, in.Event, in.Mark)
	case *session.Limited:
		s.limit(r, in.Reason)
	case *session.Learnt:
		s.learnt(r, in.Capabilities)
	}
}

// gap logs that live sync missed something.
func (s *Loop) gap(r *relay, purpose uint32, g session.Gap) {
	if g.Events == 0 {
		return
	}
	s.do(Measure{What: MeasuredGap, Relay: r.url, Value: g.Events})
	if purpose == abi.PurposeDaily {
		s.log(Warn, "sustained sync gap: events found by the daily sync", "relay", r.url, "count", g.Events, "event", g.First)
	} else {
		s.log(Warn, "sync gap: events found by catching up", "relay", r.url, "count", g.Events, "event", g.First)
	}
}

// limit slows down what is asked of a relay.
func (s *Loop) limit(r *relay, reason string) {
	st := s.deps.Health.Report(r.url, ConnResult{Outcome: OutcomeRateLimited, Reason: reason}, s.clock)
	s.setState(r, st)
	s.log(Warn, "a relay says that it is asked too much", "relay", r.url, "reason", reason, "again_in", Duration(st.Wait))
	s.do(Tell{r.conn, session.CoolDown{Until: s.clock + st.Wait}})
}

// refused keeps an event for another try.
func (s *Loop) refused(relay string, e *host.Event, mark uint64) {
	s.retries.Add(e, relay, mark, s.clock/1000)
}

// maxTrying is how many events are decided again at once.
const maxTrying = 64

// retry submits again what is due.
func (s *Loop) retry() {
	for s.trying < maxTrying {
		a, ok := s.retries.Next()
		if !ok {
			return
		}
		s.retries.Dequeue()
		s.trying++
		s.stats.Retries++
		s.do(Resubmit{a.Event, a.Source})
	}
}

// Retry is what became of an event of a Resubmit.
type Retry struct {
	Event   *host.Event
	Relay   string
	Mark    uint64 // taken before it was decided
	Refused bool
	Failed  bool // the host failed
}

// Retried takes what became of events that were submitted again.
func (s *Loop) Retried(now int64, list ...Retry) {
	s.tick(now)
	for _, r := range list {
		s.trying--
		switch {
		case r.Failed:
			s.retries.Requeue(r.Event.ID)
		case r.Refused:
			s.refused(r.Relay, r.Event, r.Mark)
		default:
			s.retries.Forget(r.Event.ID)
		}
	}
}

// PoliciesChanged takes the news that other policies decide: all refused events are decided
// again, and other repositories may be ours.
func (s *Loop) PoliciesChanged(now int64) {
	s.tick(now)
	s.retries.TryAll()
	s.readAgain(func(was, _ *repo) bool { return was == nil })
}
