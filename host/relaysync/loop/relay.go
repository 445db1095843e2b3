package loop

import (
	"cmp"
	"slices"

	"talon/sdk/abi"
)

// relay is what the loop knows of a relay.
type relay struct {
	url       string
	bootstrap bool
	wanted    bool
	priority  uint32
	reason    string

	conn    ConnID // 0: nothing is under way
	up      bool
	since   int64 // that it is
	retryAt int64 // not before
	state   State
	last    ConnResult // of the latest attempt or connection

	caps           abi.Capabilities
	learnt         learnt
	informed       int64 // when its NIP-11 document was read; 0: never
	lastConnected  int64
	disconnectedAt int64
	lost           bool  // the latest connection ended, and not because we ended it
	polled         bool  // the log says that not everything there has a subscription
	productive     bool  // the connection has brought something
	proven         bool  // and was up for long enough: failures before it are forgotten
	partial        bool  // a historic of this connection was not complete
	compareAgain   bool  // the operator has everything compared with the next connection
	received       int64 // bytes of connections that ended
	completeSince  int64 // since when nothing is pending; 0: something is

	subs  map[string]*subRecord
	hists map[string]*histRecord
}

// newRelay returns the record of a relay as it is known from before.
func (s *Loop) newRelay(url string) *relay {
	st := s.deps.Health.Recall(url, s.clock)
	return &relay{url: url, state: st, last: ConnResult{Reason: st.Ending}, subs: map[string]*subRecord{}, hists: map[string]*histRecord{}}
}

// subRecord is a subscription as far as the loop needs to know.
type subRecord struct {
	serial  uint64       // tells it from another with the same id
	filters []abi.Filter // only small ones
	count   int          // filters
	live    bool
	eose    bool
	purpose uint32
}

type histRecord struct {
	serial  uint64
	filter  abi.Filter // only a small one
	method  uint32
	purpose uint32
}

// kept reports whether the host keeps the connection up.
func (r *relay) kept() bool { return r.wanted || r.bootstrap }

// pending returns how many subscriptions and historics are not complete.
func (r *relay) pending() int {
	n := len(r.hists)
	for _, sub := range r.subs {
		if !sub.eose {
			n++
		}
	}
	return n
}

// progress notes since when nothing is pending.
func (s *Loop) progress(r *relay) {
	switch {
	case r.pending() > 0 || len(r.subs) == 0 && !r.productive:
		r.completeSince = 0
	case r.completeSince == 0:
		r.completeSince = s.clock
	}
}

// provenTime is how long a connection that brings something is up before the failures
// before it are forgotten: a relay may accept connections, and drop them.
const provenTime = 30_000

// prove forgets the failures of a relay that works.
func (s *Loop) prove(r *relay) {
	switch {
	case !r.up || r.proven || !r.productive:
	case s.clock-r.since < provenTime:
		s.dialAt = min(s.dialAt, r.since+provenTime)
	default:
		r.proven = true
		s.setState(r, s.deps.Health.Report(r.url, ConnResult{Outcome: OutcomeOK, Productive: true, Took: s.clock - r.since}, s.clock))
	}
}

// relay returns the record of a relay, a new one if there is none, nil if there are too
// many.
func (s *Loop) relay(url string) *relay {
	if r := s.relays[url]; r != nil {
		return r
	}
	if len(s.relays) >= s.cfg.Limits.Relays && !s.evict() {
		return nil
	}
	r := s.newRelay(url)
	s.relays[url] = r
	return r
}

// evict forgets the relay that nobody wants and that was not connected to for longest.
func (s *Loop) evict() bool {
	var oldest *relay
	for _, r := range s.relays {
		if !r.kept() && r.conn == 0 && (oldest == nil || r.lastConnected < oldest.lastConnected || r.lastConnected == oldest.lastConnected && r.url < oldest.url) {
			oldest = r
		}
	}
	if oldest == nil {
		return false
	}
	delete(s.relays, oldest.url)
	s.changed[oldest.url] = true
	s.do(Measure{What: MeasuredForgotten, Relay: oldest.url})
	return true
}

// dialAll begins attempts where they are due and the limits allow: bootstrap relays
// first, then by priority, then those that failed least. Whatever makes an attempt
// possible before dialAt sets that to 0.
func (s *Loop) dialAll() {
	if s.clock < s.dialAt {
		return
	}
	s.dialAt = never
	used, dialing := 0, 0
	st := &s.stats
	st.Tracked, st.Connected, st.Dead = 0, 0, 0
	var due, unproven []*relay
	for _, r := range s.relays {
		if r.up && r.productive && !r.proven {
			unproven = append(unproven, r)
		}
		switch {
		case r.conn != 0:
			used++
			if !r.up {
				dialing++
			}
		case !r.kept():
		case s.clock >= r.retryAt:
			due = append(due, r)
		default:
			s.dialAt = min(s.dialAt, r.retryAt)
		}
		if r.kept() {
			st.Tracked++
		}
		if r.up {
			st.Connected++
		}
		if r.state.Status == StatusDead {
			st.Dead++
		}
	}
	slices.SortFunc(unproven, func(a, b *relay) int { return cmp.Compare(a.url, b.url) })
	for _, r := range unproven {
		s.prove(r)
	}
	slices.SortFunc(due, func(a, b *relay) int {
		return cmp.Or(first(a.bootstrap, b.bootstrap), cmp.Compare(b.priority, a.priority), cmp.Compare(a.state.Failures, b.state.Failures), cmp.Compare(a.url, b.url))
	})
	for _, r := range due {
		if used >= s.cfg.Limits.Connections || dialing >= s.cfg.Limits.Dials {
			return // until one of them ends
		}
		if wait := s.deps.Health.Allow(r.url, s.clock); wait > 0 {
			r.retryAt = s.clock + wait
			s.dialAt = min(s.dialAt, r.retryAt)
			continue
		}
		used++
		dialing++
		s.dial(r)
	}
}

// never is a time that does not come.
const never = 1<<63 - 1

// first orders what is so before what is not.
func first(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return -1
	}
	return 1
}

// informedFor is how long what a relay says of itself counts, in milliseconds.
const informedFor = 6 * 60 * minute

func (s *Loop) dial(r *relay) {
	if r.learnt.At != 0 && s.clock-r.learnt.At > learntFor {
		r.learnt = learnt{Version: r.learnt.Version}
		r.informed = 0
		r.caps.MaxSubscriptions, r.caps.MaxMessage = 0, 0
	}
	known := r.informed != 0 && s.clock-r.informed < informedFor
	if !known && r.caps.Negentropy == abi.SupportNo {
		r.caps.Negentropy = abi.SupportUnknown // it may have learnt
	}
	s.serial++
	r.conn = ConnID(s.serial)
	r.last.Took = 0
	s.do(Dial{Conn: r.conn, Relay: r.url, Capabilities: r.caps, Inform: !known, learnt: r.learnt})
}

// Up takes the news that a relay is connected.
func (s *Loop) Up(now int64, url string, conn ConnID, o Opened) {
	s.tick(now)
	r := s.relays[url]
	if r == nil || r.conn != conn {
		return
	}
	r.up, r.since, r.productive, r.proven, r.partial, r.completeSince = true, s.clock, false, false, false, 0
	s.dialAt = 0
	r.caps = o.Capabilities
	if o.Informed {
		r.informed = s.clock
		s.says(r, o.Version)
	}
	s.setState(r, s.deps.Health.Report(url, ConnResult{Outcome: OutcomeOK, Took: o.Took}, s.clock))
	s.do(Measure{What: MeasuredAttempt, Relay: url, Value: 1})
	s.do(Measure{What: MeasuredConnected, Relay: url, Value: 1})
	s.log(Info, "connected to a relay", "relay", url)
	if r.lost {
		long := 0
		if s.clock-r.disconnectedAt > shortAbsence {
			long = 1
		}
		s.stats.Reconnections[long]++
		r.lost = false
	}
	last, at := r.lastConnected, r.disconnectedAt
	r.lastConnected = s.clock
	s.changed[url] = true
	anew := r.compareAgain
	r.compareAgain = false
	s.step(&abi.RelayConnected{Relay: url, Capabilities: r.caps, LastConnected: last, DisconnectedAt: at, Anew: anew})
}

// Down takes the news that a connection ended, or could not be made.
func (s *Loop) Down(now int64, url string, conn ConnID, e Ended) {
	s.tick(now)
	r := s.relays[url]
	if r == nil {
		return
	}
	r.received += e.Received
	if r.conn != conn {
		return
	}
	wasUp := r.up
	if wasUp {
		s.hungUp(r, &e)
	}
	s.isDown(r)
	r.lost = r.lost || wasUp && !e.Restart
	r.last = e.Result
	before := r.state.Status
	if e.Restart {
		// We ended it.
		s.deps.Health.Forget(url)
		r.state.Wait = 0
	} else {
		e.Result.Productive = r.productive
		r.state = s.deps.Health.Report(url, e.Result, s.clock)
	}
	r.productive = false
	r.retryAt = s.clock + max(r.state.Wait, leastWait)
	s.setState(r, r.state)
	switch {
	case e.Restart:
		s.log(Info, "a relay takes less than it was asked for: connecting again", "relay", url, "subscriptions", r.caps.MaxSubscriptions)
	case !wasUp:
		s.do(Measure{What: MeasuredAttempt, Relay: url})
		s.log(Warn, "could not connect to a relay", "relay", url, "attempt", r.state.Failures, "again_in", Duration(r.state.Wait), "err", e.Result.Reason)
	default:
		s.log(Info, "a relay's connection ended", "relay", url, "reason", e.Result.Reason, "again_in", Duration(r.state.Wait))
	}
	if r.state.Status == StatusDead && before != StatusDead {
		level := Warn // anybody can name a relay that there is not
		if r.bootstrap {
			level = Error
		}
		s.log(level, "a relay is dead", "relay", url, "failures", r.state.Failures, "failing_for", Duration(r.state.Failing), "again_in", Duration(r.state.Wait))
	}
	retryAt := int64(0)
	if r.kept() {
		retryAt = r.retryAt
	}
	s.step(&abi.RelayDisconnected{
		Relay: url, Class: e.Class, Reason: e.Result.Reason, Connected: wasUp, Failures: uint32(max(0, r.state.Failures)), RetryAt: retryAt,
	})
}

// shortAbsence is how long what is known of a relay counts, as the source document has it.
const shortAbsence = 15 * minute

// leastWait is between two attempts, whatever the throttle says.
const leastWait = 250

// isDown notes that a relay has no connection any more.
func (s *Loop) isDown(r *relay) {
	if r.up {
		r.disconnectedAt = s.clock
		s.changed[r.url] = true
		s.do(Measure{What: MeasuredConnected, Relay: r.url})
	}
	r.conn, r.up, r.completeSince = 0, false, 0
	clear(r.subs)
	clear(r.hists)
	s.dialAt = 0
}

// hangUp ends a relay's connection because the strategy, or the operator, asked for it.
func (s *Loop) hangUp(r *relay, why string) {
	if r.conn == 0 {
		return
	}
	s.do(HangUp{r.conn}) // what it still reports finds that the relay has no such connection
	if r.up {
		s.log(Info, why, "relay", r.url)
	}
	s.isDown(r)
	r.lost = false
	r.retryAt = s.clock + leastWait
	s.deps.Health.Forget(r.url)
}

func (s *Loop) setState(r *relay, st State) {
	r.state = st
	s.do(Measure{What: MeasuredState, Relay: r.url, State: st})
}
