package loop

import (
	"cmp"
	"slices"

	"talon/host/relaysync/session"
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

	visitless bool // it waits until an announcement that names it has a visit left

	state State
	last  ConnResult // of the latest attempt or connection

	caps           abi.Capabilities
	learnt         limitsSeen
	restarts       int   // connections that ended because it takes less than was known
	restartedAt    int64 // the latest of them
	informed       int64 // when its NIP-11 document was read; 0: never
	lastConnected  int64
	disconnectedAt int64
	lost           bool  // the latest connection ended, and not because we ended it
	polled         bool  // the log says that not everything there has a subscription
	paged          bool  // the log says that it does not compare
	productive     bool  // the connection has brought something
	proven         bool  // and was up for long enough: failures before it are forgotten
	partial        bool  // a historic of this connection was not complete
	delayed        int   // subscriptions that may have missed events, while they waited for room or when others replaced them
	compareAgain   bool  // the operator has everything compared with the next connection
	received       int64 // bytes of connections that ended
	uncovered      uncovered
	open           [Reasons]reason // why it is not complete
	completeSince  int64           // since when nothing is open; 0: something is
	reported       report          // by the strategy, of this connection
	reports        bool            // the strategy has told something of this connection
	back           bool            // the connection comes after one that was lost, and is not counted
	away           int64           // how long it was lost then
	took           int64           // the latest attempt that succeeded, at least 1; 0: none did
	restUntil      int64           // nothing new is asked for before

	subs  map[string]*subRecord
	hists map[string]*histRecord
	heard map[uint64]int32 // open subscriptions for each repository
	wide  int              // of them, those to everything

	counted counts // in those of the loop
	queued  bool   // in the loop's list of relays that are to be dialed
}

// newRelay returns the record of a relay as it is known from before.
func (s *Loop) newRelay(url string) *relay {
	st := s.deps.Health.Get(url, s.clock)
	return &relay{url: url, state: st, last: ConnResult{Reason: st.LastEnd}, subs: map[string]*subRecord{}, hists: map[string]*histRecord{}}
}

// uncovered is what has no subscription at a relay, because the relay has no room for it.
type uncovered struct {
	repositories, roots, authors uint32
	since                        int64 // unix milliseconds; 0: everything has one. It is kept while the relay is away
}

func (u *uncovered) any() bool { return u.repositories+u.roots+u.authors > 0 }

// subRecord is a subscription as far as the loop needs to know.
type subRecord struct {
	serial  uint64       // tells it from another with the same id
	filters []abi.Filter // only small ones
	count   int          // filters
	live    bool
	eose    bool
	purpose uint32
	repos   []uint64 // hashes of the repositories that it asks for
	wide    bool     // it asks for everything
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
	n := len(r.hists) + r.delayed
	for _, sub := range r.subs {
		if !sub.eose {
			n++
		}
	}
	return n
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
	s.update(r)
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
	s.counts.add(oldest.counted, -1)
	s.changed[oldest.url] = true
	s.perform(MetricChange{What: MeasuredForgotten, Relay: oldest.url})
	return true
}

// Up reports that a relay is connected.
func (s *Loop) Up(now int64, url string, conn ConnID, o Opened) {
	s.tick(now)
	r := s.relays[url]
	if r == nil || r.conn != conn {
		return
	}
	r.up, r.since, r.productive, r.proven, r.partial, r.delayed, r.completeSince = true, s.clock, false, false, false, 0, 0
	r.caps, r.took = o.Capabilities, max(o.Duration, 1)
	if o.Informed {
		r.informed = s.clock
		s.says(r, o.Version)
	}
	s.setState(r, s.deps.Health.Report(url, ConnResult{Outcome: OutcomeOK, Duration: o.Duration}, s.clock))
	s.perform(MetricChange{What: MeasuredAttempt, Relay: url, Value: 1})
	s.perform(MetricChange{What: MeasuredConnected, Relay: url, Value: 1})
	s.log(session.Info, "connected to a relay", "relay", url)
	if r.lost {
		s.reconnected(r)
		r.lost = false
	}
	s.progress(r)
	last, at := r.lastConnected, r.disconnectedAt
	r.lastConnected = s.clock
	s.changed[url] = true
	anew := r.compareAgain
	r.compareAgain = false
	s.step(&abi.RelayConnected{Relay: url, Capabilities: r.caps, LastConnected: last, DisconnectedAt: at, Anew: anew})
}

// Down reports that a connection ended, or could not be made.
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
		s.onEnded(r, &e)
	}
	s.isDown(r)
	r.lost = r.lost || wasUp && !e.Restart
	r.last = e.Result
	before := r.state
	switch {
	case e.Restart:
		// We ended it.
		r.restarts, r.restartedAt = r.restarts+1, s.clock
		s.deps.Health.Forget(url, s.clock)
		r.state.Wait = 0
	case e.Postponed > 0:
		// We did not begin it.
		s.deps.Health.Forget(url, s.clock)
		r.state.Wait = e.Postponed
	default:
		e.Result.Productive = r.productive
		r.state = s.deps.Health.Report(url, e.Result, s.clock)
	}
	r.productive = false
	r.retryAt = s.clock + max(r.state.Wait, minWait)
	s.setState(r, r.state)
	switch {
	case e.Restart:
		s.log(session.Info, "a relay takes less than it was asked for: connecting again", "relay", url, "subscriptions", r.caps.MaxSubscriptions)
	case e.Postponed > 0:
		s.log(session.Debug, "a relay is contacted later", "relay", url, "again_in", Duration(e.Postponed), "reason", e.Result.Reason)
	case !wasUp:
		s.perform(MetricChange{What: MeasuredAttempt, Relay: url})
		s.log(session.Warn, "could not connect to a relay", "relay", url, "attempt", r.state.Failures, "again_in", Duration(r.state.Wait), "err", e.Result.Reason)
	default:
		s.log(session.Info, "a relay's connection ended", "relay", url, "reason", e.Result.Reason, "again_in", Duration(r.state.Wait))
	}
	verdict := ""
	switch {
	case r.state.Status == StatusDead && before.Status != StatusDead:
		verdict = "a relay is dead"
	case r.state.Barred && !before.Barred:
		verdict = "a relay is barred"
	}
	if verdict != "" {
		level := session.Warn // anybody can name a relay that there is not
		if r.bootstrap {
			level = session.Error
		}
		s.log(level, verdict, "relay", url, "failures", r.state.Failures, "failing_for", Duration(r.state.Failing), "again_in", Duration(r.state.Wait), "reason", r.state.Reason)
	}
	failures, retryAt := uint32(max(0, r.state.Failures)), int64(0)
	if e.Postponed > 0 {
		failures = max(failures, 1) // a relay that can be reached comes first
	}
	if r.kept() {
		retryAt = r.retryAt
	}
	s.step(&abi.RelayDisconnected{
		Relay: url, Class: e.Class, Reason: e.Result.Reason, Connected: wasUp, Failures: failures, RetryAt: retryAt,
	})
}

// minWait is between two attempts, whatever the throttle says.
const minWait = 250

// isDown notes that a relay has no connection any more.
func (s *Loop) isDown(r *relay) {
	if r.up {
		r.disconnectedAt = s.clock
		s.changed[r.url] = true
		s.perform(MetricChange{What: MeasuredConnected, Relay: r.url})
	}
	if r.back {
		r.back = false
		s.countReconnection(r.away > shortAbsence)
	}
	r.conn, r.up, r.restUntil, r.reported, r.reports = 0, false, 0, report{}, false
	r.uncovered.repositories, r.uncovered.roots, r.uncovered.authors = 0, 0, 0
	clear(r.subs)
	clear(r.hists)
	clear(r.heard)
	r.wide = 0
	s.progress(r)
	s.update(r)
}

// disconnectRelay ends a relay's connection because the strategy, or the operator, asked for it.
func (s *Loop) disconnectRelay(r *relay, why string) {
	if r.conn == 0 {
		return
	}
	s.perform(CloseConn{r.conn}) // what it still reports finds that the relay has no such connection
	if r.up {
		s.log(session.Info, why, "relay", r.url)
	}
	s.isDown(r)
	r.lost = false
	r.retryAt = s.clock + minWait
	s.update(r)
	s.deps.Health.Forget(r.url, s.clock)
}

func (s *Loop) setState(r *relay, st State) {
	r.state = st
	s.update(r)
	s.perform(MetricChange{What: MeasuredState, Relay: r.url, State: st})
}

// counts are numbers of relays.
type counts struct{ used, dialing, tracked, connected, complete, dead int }

func (c *counts) add(o counts, sign int) {
	c.used += sign * o.used
	c.dialing += sign * o.dialing
	c.tracked += sign * o.tracked
	c.connected += sign * o.connected
	c.complete += sign * o.complete
	c.dead += sign * o.dead
}

// counts returns what one relay adds to those of the loop.
func (r *relay) counts() (c counts) {
	set := func(n *int, yes bool) {
		if yes {
			*n = 1
		}
	}
	set(&c.used, r.conn != 0)
	set(&c.dialing, r.conn != 0 && !r.up)
	set(&c.tracked, r.kept())
	set(&c.connected, r.up)
	set(&c.complete, r.completeSince != 0)
	set(&c.dead, r.state.Status == StatusDead)
	return c
}

// provenTime is how long a connection that brings something is up before the failures
// before it are forgotten: a relay may accept connections, and drop them.
const provenTime = 30_000

// update counts a relay again and schedules its next task: an attempt, a proof that it works, or the end of
// its rest. Each change of a field that counts or moves the schedule calls update. So a turn costs what has
// changed, however many relays there are.
func (s *Loop) update(r *relay) {
	s.counts.add(r.counted, -1)
	r.counted = r.counts()
	s.counts.add(r.counted, 1)
	if r.queued {
		r.queued = false
		s.due = slices.DeleteFunc(s.due, func(o *relay) bool { return o == r })
	}
	at := int64(0) // nothing is
	switch {
	case r.conn == 0 && r.kept():
		at = max(r.retryAt, 1)
	case r.up:
		if r.productive && !r.proven {
			at = r.since + provenTime
		}
		if r.restUntil > 0 && (at == 0 || r.restUntil < at) {
			at = r.restUntil
		}
	}
	s.schedule.set(r.url, at)
}

// onProductive notes that a connection has brought something.
func (s *Loop) onProductive(r *relay) {
	if !r.productive {
		r.productive = true
		s.update(r)
	}
}

// dialAll begins attempts where they are due and the limits allow: bootstrap relays
// first, then by priority, then those that failed least. It forgets the failures of
// relays that work.
func (s *Loop) dialAll() {
	for t := s.schedule.due(s.clock); t != nil; t = s.schedule.due(s.clock) {
		r := s.relays[t.id]
		switch {
		case r == nil:
		case r.up:
			s.passed(r)
		default:
			at, _ := slices.BinarySearchFunc(s.due, r, inOrder)
			s.due, r.queued = slices.Insert(s.due, at, r), true
		}
	}
	for s.mayDial() {
		r := s.due[0]
		if wait := s.visitWait(r); wait > 0 {
			r.visitless, r.retryAt = true, s.clock+wait
			s.update(r)
			continue
		}
		if wait := s.deps.Health.Allow(r.url, s.clock); wait > 0 {
			r.retryAt = s.clock + wait
			s.update(r)
			continue
		}
		s.dial(r)
	}
}

// passed does what is due of a connected relay.
func (s *Loop) passed(r *relay) {
	if r.productive && !r.proven && s.clock >= r.since+provenTime {
		r.proven = true
		works := ConnResult{Outcome: OutcomeOK, Productive: true, Duration: s.clock - r.since}
		s.setState(r, s.deps.Health.Report(r.url, works, s.clock))
	}
	if r.restUntil != 0 && s.clock >= r.restUntil {
		r.restUntil = 0
		s.progress(r)
	}
	s.update(r)
}

// inOrder says which of two relays is dialed first.
func inOrder(a, b *relay) int {
	return cmp.Or(
		First(a.bootstrap, b.bootstrap), cmp.Compare(b.priority, a.priority),
		cmp.Compare(a.state.Failures, b.state.Failures), cmp.Compare(a.url, b.url))
}

// First orders what is so before what is not.
func First(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return -1
	}
	return 1
}

// mayDial reports whether an attempt is due, and the limits allow it.
func (s *Loop) mayDial() bool {
	return len(s.due) > 0 && s.counts.used < s.cfg.Limits.Connections && s.counts.dialing < s.cfg.Limits.Dials
}

// informedFor is how long what a relay says of itself counts, in milliseconds.
const informedFor = 6 * 60 * minute

// restartsFor is how long after the latest of them the restarts of a relay's sessions are counted.
const restartsFor = 6 * 60 * minute

func (s *Loop) dial(r *relay) {
	if r.learnt.At != 0 && s.clock-r.learnt.At > learntFor {
		r.learnt = limitsSeen{Version: r.learnt.Version}
		r.informed = 0
		r.caps.MaxSubscriptions, r.caps.MaxMessage, r.caps.MaxValues, r.caps.MaxFilters = 0, 0, 0, 0
	}
	if s.clock-r.restartedAt > restartsFor {
		r.restarts = 0
	}
	known := r.informed != 0 && s.clock-r.informed < informedFor
	if !known && r.caps.Negentropy == abi.SupportNo {
		r.caps.Negentropy = abi.SupportUnknown // it may have learnt
	}
	s.payVisit(r)
	s.serial++
	r.conn, r.visitless = ConnID(s.serial), false
	r.last.Duration = 0
	s.update(r)
	s.perform(Dial{Conn: r.conn, Relay: r.url, Capabilities: r.caps, Inform: !known, Stranger: s.stranger(r), Restarts: r.restarts, learnt: r.learnt, Within: AttemptTime(r.state.Failing, r.took)})
}

// Bounds of the attempts to find a relay again that was connected to.
const (
	shortAttempt = 4000        // ms at least: the system sends the first packet three times in it
	shortFor     = 10 * minute // of an absence
)

// AttemptTime returns how long an attempt to reach a lost relay may last, in milliseconds. 0
// means no special limit. failing is how long the relay has failed. took is how long the latest
// successful attempt lasted, or 0 if there is none. An attempt that began before the relay was
// back may get no answer at all, so it must end soon.
func AttemptTime(failing, took int64) int64 {
	if took == 0 || failing >= shortFor {
		return 0
	}
	return max(shortAttempt, 3*took)
}
