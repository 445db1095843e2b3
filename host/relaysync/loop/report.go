package loop

import (
	"talon/host"
	"talon/host/relaysync/session"
	"talon/sdk/abi"
)

// Report handles a report of the session of a connection.
func (s *Loop) Report(now int64, relay string, conn ConnID, report session.Report) {
	s.tick(now)
	r := s.relays[relay]
	if r == nil || r.conn != conn || !r.up {
		return // of a connection that was ended
	}
	switch in := report.(type) {
	case *session.Eose:
		if sub := r.subs[in.Input.ID]; sub != nil && sub.serial == in.Serial {
			if !sub.eose {
				sub.eose = true
				r.countHeard(sub, 1)
			}
			s.onProductive(r)
			s.gap(r, sub.purpose, in.Gap)
			s.progress(r)
			s.step(&in.Input)
		}
	case *session.Closed:
		// News of something that was replaced by another with the same id is no news.
		if sub := r.subs[in.Input.ID]; sub != nil && sub.serial == in.Serial {
			r.forgetSub(in.Input.ID)
			s.log(session.Debug, "subscription closed by the relay", "relay", r.url, "reason", in.Input.Reason)
			s.progress(r)
			s.step(&in.Input)
		}
	case *session.Done:
		if h := r.hists[in.Input.ID]; h != nil && h.serial == in.Serial {
			delete(r.hists, in.Input.ID)
			if in.Input.Complete {
				s.onProductive(r)
			}
			if h.method == abi.MethodAuto && in.Input.Method == abi.MethodREQ {
				s.withoutNegentropy(r)
			}
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
		s.log(session.Info, "notice of a relay", "relay", r.url, "text", in.Input.Text)
		s.step(&in.Input)
	case *session.Repeats:
		s.step(&in.Input)
	case *session.Refused:
		s.refused(relay, in.Event, in.Position)
	case *session.Limited:
		s.limit(r, in.Reason)
	case *session.Delayed:
		r.delayed = in.Subscriptions
		s.progress(r)
	case *session.Learnt:
		s.learnt(r, in.Capabilities)
		s.paced(r, in.Pace)
	}
}

// withoutNegentropy logs, once for each relay, that pages replace a comparison.
func (s *Loop) withoutNegentropy(r *relay) {
	if !r.paged {
		r.paged = true
		s.log(session.Warn, "a relay does not compare (NIP-77): stored events are read page by page, those that are here too", "relay", r.url)
	}
}

// gap logs that live sync missed something.
func (s *Loop) gap(r *relay, purpose uint32, g session.Gap) {
	if g.Events == 0 {
		return
	}
	s.perform(MetricChange{What: MeasuredGap, Relay: r.url, Value: g.Events})
	if purpose == abi.PurposeDaily {
		s.log(session.Warn, "sustained sync gap: events found by the daily sync", "relay", r.url, "count", g.Events, "event", g.First)
	} else {
		s.log(session.Warn, "sync gap: events found by catching up", "relay", r.url, "count", g.Events, "event", g.First)
	}
}

// limit slows down what is asked of a relay.
func (s *Loop) limit(r *relay, reason string) {
	st := s.deps.Health.Report(r.url, ConnResult{Outcome: OutcomeRateLimited, Reason: reason}, s.clock)
	s.setState(r, st)
	s.log(session.Warn, "a relay says that it is asked too much", "relay", r.url, "reason", reason, "again_in", Duration(st.Wait))
	s.rest(r, st.Wait)
}

// refused keeps an event for another try.
func (s *Loop) refused(relay string, e *host.Event, position uint64) {
	s.retries.Add(e, relay, position, s.clock/1000)
}

// maxTrying is how many events are decided again concurrently.
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
		s.perform(Resubmit{a.Event, a.Source})
	}
}

// Retry is the result of a Resubmit.
type Retry struct {
	Event    *host.Event
	Relay    string
	Position uint64 // taken before it was decided
	Refused  bool
	Failed   bool // the host failed
}

// Retried handles the results of events that were submitted again.
func (s *Loop) Retried(now int64, list ...Retry) {
	s.tick(now)
	for _, r := range list {
		s.trying--
		switch {
		case r.Failed:
			s.retries.Requeue(r.Event.ID)
		case r.Refused:
			s.refused(r.Relay, r.Event, r.Position)
		default:
			s.retries.Forget(r.Event.ID)
		}
	}
}

// PoliciesChanged reports that other policies decide: all refused events are decided
// again, and other repositories may be ours.
func (s *Loop) PoliciesChanged(now int64) {
	s.tick(now)
	s.retries.TryAll()
	s.readAgain(func(was, _ *repo) bool { return was == nil })
}

// missing gathers what comparisons show that relays lack, so that the log has one line a
// relay and hour: a relay that is new to a repository lacks much, and each of its filters
// is compared by itself.
type missing struct {
	relays map[string]*missingAt
	next   int64 // unix milliseconds; nothing is due before
}

type missingAt struct {
	count       uint32 // since the last line
	comparisons int
	example     *session.MissingAtRelay // of the last comparison
	next        int64                   // unix milliseconds; no line before
}

// never is a time beyond all others.
const never = 1<<63 - 1

// missingEvery is between two lines about one relay.
const missingEvery = 60 * minute

func newMissing() missing { return missing{relays: make(map[string]*missingAt), next: never} }

func (m *missing) add(relay string, count uint32, example *session.MissingAtRelay) {
	at := m.relays[relay]
	if at == nil {
		at = new(missingAt)
		m.relays[relay] = at
	}
	m.next = min(m.next, at.next)
	at.count += count
	at.comparisons++
	at.example = example
}

// log writes the lines that are due, and forgets relays about which there was nothing to
// say for an hour.
func (m *missing) log(s *Loop) {
	if s.clock < m.next {
		return
	}
	m.next = never
	for _, relay := range sortedKeys(m.relays) {
		at := m.relays[relay]
		if s.clock < at.next {
			m.next = min(m.next, at.next)
			continue
		}
		if at.count == 0 {
			delete(m.relays, relay)
			continue
		}
		attrs := []any{"relay", relay, "count", at.count, "event", at.example.Event}
		switch repos := at.example.Repositories; {
		case at.comparisons > 1:
			attrs = append(attrs, "comparisons", at.comparisons)
		case len(repos) == 1:
			attrs = append(attrs, "repo", repos[0])
		case len(repos) > 1:
			attrs = append(attrs, "repos", len(repos))
		}
		s.log(session.Warn, "the relay lacks events that are here", attrs...)
		*at = missingAt{next: s.clock + missingEvery}
		m.next = min(m.next, at.next)
	}
}

// limitsSeen is what a relay showed of its limits beyond what it says of itself. It is kept
// across restarts, and forgotten when the relay says that it is another version, or after
// a while.
type limitsSeen struct {
	Version       string `json:"version,omitempty"` // what the relay said of itself then
	At            int64  `json:"at,omitempty"`      // when it was learnt last
	Subscriptions uint32 `json:"subscriptions,omitempty"`
	Values        uint32 `json:"values,omitempty"` // of all subscriptions together
	Filters       uint32 `json:"filters,omitempty"`
	Limit         uint32 `json:"limit,omitempty"` // of the events in one answer
	Message       uint32 `json:"message,omitempty"`
	Fit           int    `json:"fit,omitempty"`  // bytes of the longest message that it answered
	Over          int    `json:"over,omitempty"` // of the shortest upon which it hung up
	Pace          uint32 `json:"pace,omitempty"` // messages that it takes in a minute
	disconnects   int    // connections in a row that ended so
}

// learntFor is how long that counts for a relay that does not say that it has changed, in
// milliseconds.
const learntFor = 7 * 24 * 60 * minute

// minMessage is the lower bound of the message size to ask for when a relay closes
// connections upon large messages.
const minMessage = 4 << 10

// Merge combines what a relay advertises now with what it showed before, unless it showed
// that as another version.
func (d *Dial) Merge(said abi.Capabilities, version string) abi.Capabilities {
	if version == d.learnt.Version {
		d.learnt.merge(&said)
	}
	return said
}

// Pace returns how many messages the relay takes in a minute, as it showed before. 0: it has not complained.
func (d *Dial) Pace(o *Opened) uint32 {
	if o.Informed && o.Version != d.learnt.Version {
		return 0
	}
	return d.learnt.Pace
}

func (l *limitsSeen) merge(caps *abi.Capabilities) {
	low := func(to *uint32, showed uint32) {
		if showed != 0 && (*to == 0 || showed < *to) {
			*to = showed
		}
	}
	low(&caps.MaxSubscriptions, l.Subscriptions)
	low(&caps.MaxMessage, l.Message)
	low(&caps.MaxValues, l.Values)
	low(&caps.MaxFilters, l.Filters)
	low(&caps.MaxLimit, l.Limit)
}

// says takes what a relay says of itself.
func (s *Loop) says(r *relay, version string) {
	if version != r.learnt.Version {
		r.learnt = limitsSeen{Version: version}
	}
}

// learnt takes what the session of a relay has learnt.
func (s *Loop) learnt(r *relay, caps abi.Capabilities) {
	l := &r.learnt
	for _, o := range []struct {
		was, is       uint32
		to            *uint32
		another, none string // that it states another limit, or none
		unit          string
	}{
		{r.caps.MaxSubscriptions, caps.MaxSubscriptions, &l.Subscriptions, "a relay takes fewer subscriptions than it says", "a relay limits the number of subscriptions and does not say so", "subscriptions"},
		{r.caps.MaxValues, caps.MaxValues, &l.Values, "a relay takes fewer values in its subscriptions than it says", "a relay limits the values of subscriptions and does not say so", "values"},
		{r.caps.MaxFilters, caps.MaxFilters, &l.Filters, "a relay takes fewer filters in a request than it says", "a relay limits the filters of a request and does not say so", "filters"},
		{r.caps.MaxLimit, caps.MaxLimit, &l.Limit, "a relay takes lower limits of events than it says", "a relay bounds the limit of a filter and does not say so", "limit"},
		{r.caps.MaxMessage, caps.MaxMessage, &l.Message, "a relay takes shorter messages than it says", "a relay limits the size of messages and does not say so", "bytes"},
	} {
		if o.is == o.was {
			continue
		}
		*o.to, l.At = o.is, s.clock
		message, level := o.another, session.Info
		if o.was == 0 {
			message = o.none
		} else if uint64(o.is)*4 > uint64(o.was)*3 {
			level = session.Debug // a relay may lower it without end
		}
		s.log(level, message, "relay", r.url, o.unit, o.is)
	}
	r.caps = caps
	s.changed[r.url] = true
}

// paced takes the pace that the session of a relay has learnt.
func (s *Loop) paced(r *relay, pace uint32) {
	l := &r.learnt
	switch {
	case pace == l.Pace:
		return
	case pace == 0:
		s.log(session.Info, "a relay is asked at the usual pace again", "relay", r.url)
	case l.Pace != 0 && pace > l.Pace:
		s.log(session.Debug, "a relay is asked faster again", "relay", r.url, "messages_per_minute", pace)
	default:
		l.At = s.clock
		s.log(session.Info, "a relay is asked more slowly", "relay", r.url, "messages_per_minute", pace)
	}
	l.Pace = pace
	s.changed[r.url] = true
}

// onEnded looks at the end of a connection: a relay may have no other answer to a message
// that is too large for it.
func (s *Loop) onEnded(r *relay, e *Ended) {
	l := &r.learnt
	l.Fit = max(l.Fit, e.Answered)
	if l.Over != 0 && l.Fit >= l.Over {
		l.Over = 0
	}
	if e.Unanswered <= max(l.Fit, minMessage) || e.Restart {
		l.disconnects = 0
		return
	}
	if l.disconnects++; l.disconnects < 2 && l.Over == 0 {
		return // that may have been chance
	}
	if l.Over == 0 || e.Unanswered < l.Over {
		l.Over = e.Unanswered
	}
	if limit := uint32(max((l.Fit+l.Over)/2, minMessage)); r.caps.MaxMessage == 0 || limit < r.caps.MaxMessage {
		caps := r.caps
		caps.MaxMessage = limit
		s.learnt(r, caps)
	}
}
