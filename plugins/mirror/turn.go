package main

import (
	"slices"

	"talon/sdk/strategy"
	"talon/sdk/strategy/layers"
)

// relay is the state of a relay that its peer does not hold.
type relay struct {
	peer     *layers.Peer // nil: it has none yet
	weight   int          // of its repositories that no relay was compared for
	live     layers.Set   // repositories for which it is listened to
	liveOnly bool         // it is listened to for live alone, else for all that it may have

	up      bool
	visitor bool // it has its connection for a short while
	changed bool // it is in the list of those
	metAt   int64

	state       state
	whole       bool // everything is being compared, in one turn or several
	asked       bool // for something, in this turn
	how         layers.Fetching
	stage       stage
	wide        width
	failed      bool  // to compare whatever it has
	defers      bool  // it is listened to for repositories once it has sent its announcements, and shown whether it compares
	unwanted    int   // events of those that were probed
	cost        int64 // bytes that the latest comparison of everything took to ask for
	due         bool  // a comparison of everything, now
	all         bool  // with all that is here, whatever the relay is believed to hold
	began       int64
	compared    int64 // when the latest complete comparison began; 0: there was none
	heardUntil  int64 // until then subscriptions brought everything
	complete    int64 // when the latest fetch of everything began, whatever its date (no NIP-77)
	absent      bool  // it was away since then: what came to it meanwhile may have old dates
	everything  bool  // the comparison is such a fetch
	interval    int64
	turnAt      int64
	silent      bool  // it has not answered for a while
	stalls      uint  // turns in a row that ended without an answer
	notBefore   int64 // comes the next turn then
	answers     int   // to fetches
	before      int   // of them, when that was last looked at
	freshEvents int   // events of the turn that were not here and have come about since the latest one

	waits     int   // mirror.ended when others were being asked for all that it is to be asked for
	brought   bool  // something, since it was connected to
	fruitless int64 // connections in a row that brought nothing and ended soon
	won, lost int   // how often it delivered first, and not

	secondLevel     layers.SecondLevel // that layer 1 should ask for; none: not known yet
	moreSecondLevel bool               // than were looked at
	looksAt         bool               // the newest deletions and reactions are on their way

	heardAt int64 // since when it is listened to for all that it may have
	twice   int   // events that others delivered first since then
	returns uint  // times that it was spared, and had what the others had not
	alone   alone
}

type state uint8

const (
	idle    state = iota
	queued        // its turn comes
	running       // it is compared with
)

// stage is how everything is compared.
type stage uint8

const (
	narrow    stage = iota // by what is wanted
	probing                // the newest events are looked at
	comparing              // whatever the relay has
)

// width says whether to compare all events of a relay.
type width uint8

const (
	unknown width = iota
	wide          // most of it is wanted
	tooWide
)

const (
	probed      = 8      // events
	worthWide   = 10_000 // bytes that it takes to ask for what is wanted
	probedAgain = 3      // of a relay that was connected to before the strategy began
	maxUnwanted = 200    // events of a comparison of whatever a relay has
	paidBy      = 5      // milliseconds until the next comparison, for each byte that one took to ask for
)

// at returns the record of the relay with this number.
func (s *mirror) at(n uint32) *relay {
	for int(n) >= len(s.relays) {
		s.relays = append(s.relays, nil)
	}
	if s.relays[n] == nil {
		s.relays[n] = new(relay)
	}
	return s.relays[n]
}

// relay returns the record of a peer. The number of a peer that is gone is used again.
func (s *mirror) relay(p *layers.Peer) *relay {
	r := s.at(p.Number())
	if r.peer != nil && r.peer != p {
		*r = relay{weight: r.weight}
	}
	r.peer = p
	return r
}

const (
	unproductive = 10 * strategy.Minute // a connection that brought nothing in less is no good
	patience     = 5 * strategy.Second  // without an answer, before another relay may have a turn beside
	stall        = strategy.Minute      // without an answer, before the turn ends
	longTurn     = 10 * strategy.Minute // with answers, before it does
	maxPenance   = 6                    // times what one such connection is waited for
)

// penance returns how long a relay waits for its turn after short connections that brought
// nothing. It grows with their number and with the cost of a comparison. It counts from the end
// of the latest connection in which the relay had a turn. Otherwise a relay with only short
// connections would never have a turn.
func (r *relay) penance() int64 {
	if r.fruitless < 2 {
		return 0
	}
	return min((patience+r.cost*paidBy)*min(r.fruitless-1, maxPenance), strategy.Hour)
}

// busy is how many relays are being compared with and answer.
func (s *mirror) busy() (n int) {
	for _, r := range s.running {
		if !r.silent {
			n++
		}
	}
	return n
}

// starting reports whether relays that answer still wait for their first comparison.
func (s *mirror) starting() bool {
	first := func(r *relay) bool { return r.compared == 0 && !r.silent }
	return slices.ContainsFunc(s.queue, first) || slices.ContainsFunc(s.running, first)
}

// soon returns the delay until a relay is asked for newly wanted content that has no subscription
// there.
func (s *mirror) soon(r *relay) int64 {
	if s.starting() || r.compared == 0 {
		return 5 * strategy.Second
	}
	return min(max(r.interval/4, 30*strategy.Second), strategy.Hour)
}

// enqueue lets a relay have its turn, when others have had theirs.
func (s *mirror) enqueue(r *relay) {
	switch {
	case !r.up || r.state != idle:
	case s.Now() < r.notBefore:
		s.After(r.peer, layers.Delay, r.notBefore-s.Now())
	default:
		r.state, r.peer.Due = queued, true
		s.queue = append(s.queue, r)
	}
}

// enqueueWhole is enqueue for a comparison of everything.
func (s *mirror) enqueueWhole(r *relay) {
	r.due = true
	s.enqueue(r)
}

// leave takes a relay out of turn.
func (s *mirror) leave(r *relay) {
	same := func(o *relay) bool { return o == r }
	s.queue, s.running = slices.DeleteFunc(s.queue, same), slices.DeleteFunc(s.running, same)
	r.state, r.peer.Due = idle, false
}

// Turn takes the decisions that are due. It reports whether these were all.
func (s *mirror) Turn() bool {
	s.cover.due.AddSet(s.Index.Moved)
	s.Index.Moved = layers.Set{}
	for !s.cover.due.Empty() {
		some := s.cover.due.Take(16)
		for n := range some.All() {
			s.choose(n)
		}
		if !s.Spend(16 * chooseWork) {
			return false
		}
	}
	for len(s.changed) > 0 {
		r := s.changed[0]
		s.changed, r.changed = s.changed[1:], false
		if r.up && !r.visitor && !s.asksFirst(r) {
			s.listen(r)
			if !s.Spend(0) {
				return false
			}
		}
	}
	for _, r := range slices.Clone(s.running) {
		if r.ready() {
			s.next(r)
		}
	}
	for len(s.queue) > 0 && s.busy() < s.slots {
		best := -1
		for i, r := range s.queue {
			if r.waits != s.ended && (best < 0 || r.weight > s.queue[best].weight) {
				best = i
			}
		}
		if best < 0 {
			break
		}
		r := s.queue[best]
		s.queue = slices.Delete(s.queue, best, best+1)
		s.begin(r)
		if !s.Spend(0) {
			return false
		}
	}
	// One of which nothing had to be asked is done already.
	return !slices.ContainsFunc(s.running, (*relay).ready)
}

// ready reports whether nothing of a turn is under way now.
func (r *relay) ready() bool { return r.peer.Quiet() || r.failed || r.peer.Rests() }

// begin gives a relay its turn.
func (s *mirror) begin(r *relay) {
	p := r.peer
	// If something is on its way, others may wait for the end of this turn.
	r.state, r.before, r.asked, r.silent, r.turnAt = running, r.answers, !p.Pending().Empty(), false, s.Now()
	s.running = append(s.running, r)
	s.After(p, layers.Deadline, patience)
	if r.defers = s.mayDefer(r); !r.defers {
		s.listen(r)
	}
	if !r.whole && (r.compared == 0 || r.all || r.due || s.Now() >= r.compared+r.interval || r.metAt > r.compared) {
		s.beginWhole(r)
	}
	switch {
	case r.stage == narrow && r.defers:
		p.Later = layers.Items{}
		p.Later = p.Plan()
	case r.stage == narrow:
		s.fetch(r)
	case r.defers:
		s.deferNoMore(r)
	}
}

// mayDefer reports whether one REQ may bring what is stored at a relay and what is new there. A subscription before
// that, and a fetch, would send the values twice. The relay has not been asked yet, and may have no NIP-77, or it was
// away.
func (s *mirror) mayDefer(r *relay) bool {
	p := r.peer
	if r.whole || r.visitor || p.Caps.Negentropy == strategy.SupportYes || !p.AnswersOnce() || !p.Listening().Empty() {
		return false
	}
	return r.compared == 0 || r.paged() && r.metAt > r.compared
}

// fetchesAll reports whether the next comparison with a relay without NIP-77 is a fetch of everything, whatever its date.
func (s *mirror) fetchesAll(r *relay) bool {
	return r.compared == 0 || r.all || r.absent && s.Now() >= r.checkAt(s.check)
}

// asksFirst reports whether a relay is listened to only after its announcements.
func (s *mirror) asksFirst(r *relay) bool {
	return r.defers || r.state == queued && s.turnIsNext(r) && s.mayDefer(r)
}

// turnIsNext reports whether a relay that waits for its turn need not wait for others.
func (s *mirror) turnIsNext(r *relay) bool {
	return r.waits != s.ended && len(s.queue)+s.busy() <= s.slots
}

// deferNoMore listens to a relay, and reports whether it asks for what is stored, too.
func (s *mirror) deferNoMore(r *relay) (asked bool) {
	if r.defers {
		r.defers = false
		asked = s.listen(r)
	}
	return asked
}

// beginWhole begins to compare all wanted events with a relay. It may take several turns.
func (s *mirror) beginWhole(r *relay) {
	p := r.peer
	p.End()
	r.whole, r.began, r.freshEvents = true, s.Now(), 0
	r.how = layers.Fetching{Purpose: strategy.PurposeStartup, Track: true, Holdings: !r.all}
	switch {
	case r.all:
		r.how.Purpose = strategy.PurposeDaily
	case r.compared > 0 && r.metAt > r.compared:
		r.how.Purpose = strategy.PurposeReconnect
	case r.compared == 0:
		s.claim(r)
		s.Spend(s.Index.ReposOf(p.Number()).Len() / 20)
	}
	worth := r.compared == 0 && p.Before || r.compared > 0 && r.cost > worthWide || r.wide == wide
	if worth && !r.all && !r.paged() && r.wide != tooWide {
		r.asked = true
		if r.wide == wide {
			s.beginWide(r)
			return
		}
		r.stage = probing
		probe := layers.Fetching{Method: strategy.MethodREQ, Limit: probed, Purpose: r.how.Purpose}
		if r.compared == 0 {
			probe.Limit = probedAgain
		}
		p.Fetch(layers.Everything, probe)
		return
	}
	s.beginNarrow(r)
}

// beginWide compares all events of a relay, without a list of wanted items. It is for relays that
// have few other events.
func (s *mirror) beginWide(r *relay) {
	r.stage, r.failed, r.cost = comparing, false, 0
	r.peer.Fetch(layers.Everything, layers.Fetching{Method: strategy.MethodNegentropy, Holdings: true, Purpose: r.how.Purpose})
}

// beginNarrow compares the wanted events of a relay.
func (s *mirror) beginNarrow(r *relay) {
	p := r.peer
	r.stage, r.cost = narrow, 0
	r.everything = s.fetchesAll(r)
	if r.paged() && r.compared > 0 && !r.all && (!r.everything || s.overlap > 0) {
		overlap := s.overlapShort
		if r.everything {
			overlap = s.overlap
		}
		again := layers.Fetching{Method: strategy.MethodREQ, Since: s.since(r.here(), overlap), Purpose: r.how.Purpose}
		p.Fetch(layers.Announcements, again)
		missed := p.Confirmed.Clone()
		if r.defers {
			heard := both(missed, s.heard(r))
			p.Open(layers.Of(heard), layers.Opening{Live: true, Missed: again.Since, Purpose: again.Purpose})
			missed.RemoveItems(heard)
		}
		p.Fetch(layers.Of(missed), again)
		return
	}
	p.Confirmed = layers.Items{}
	if !p.Waits() {
		p.Announced = false
		p.Fetch(layers.Announcements, r.how)
	}
}

// paged reports whether a relay has no NIP-77.
func (r *relay) paged() bool { return r.peer.Caps.Negentropy == strategy.SupportNo }

// here is the time until which everything with a recent date is here.
func (r *relay) here() int64 { return max(r.compared, r.heardUntil) }

// checkAt is when everything may be fetched again from a relay without NIP-77.
func (r *relay) checkAt(every int64) int64 { return r.complete + every }

// fetch asks a relay for its wanted items, except those that others are being asked for now. Fewer
// of these are missing afterwards. It reports whether it asked for anything.
func (s *mirror) fetch(r *relay) bool {
	p := r.peer
	p.Later = layers.Items{}
	wanted := p.Plan()
	items := wanted
	for _, other := range s.running {
		if other != r {
			items.RemoveItems(other.peer.Pending())
		}
	}
	p.Later = layers.Plan(wanted, items, layers.Items{})
	s.Spend(50 + wanted.Len()/10)
	how := layers.Fetching{Purpose: strategy.PurposeStartup, Track: true}
	if r.whole {
		how = r.how
	}
	p.Fetch(layers.Of(items), how)
	r.asked = r.asked || !items.Empty()
	return !items.Empty()
}

// next goes on with a relay when all that it was asked for is here.
func (s *mirror) next(r *relay) {
	p := r.peer
	rests := p.Rests() // before subscriptions are opened, which do not hold up a turn
	asked := s.deferNoMore(r)
	switch {
	case r.stage == probing && r.wide == wide:
		s.beginWide(r)
		return
	case r.stage == probing, r.failed:
		p.End()
		r.failed = false
		s.beginNarrow(r)
		s.fetch(r)
		return
	case r.stage == comparing:
		// All events that it had at the beginning are here. Items that became wanted since were
		// compared then, or have a live subscription.
		p.Later = layers.Items{}
		p.Confirmed.AddItems(p.Plan())
		p.Announced = true
	case !p.Later.Empty():
		asked = s.listen(r) || asked
		if s.fetch(r) || asked {
			return
		}
	}
	s.Stop(p, layers.Deadline)
	s.leave(r)
	if r.asked {
		s.ended++
	}
	if rests && !p.Quiet() {
		s.After(p, layers.Delay, stall) // the rest is asked for again by then, and the next turn takes its end
		return
	}
	if !p.Later.Empty() {
		r.waits = s.ended // others are being asked for it
		s.enqueue(r)
		return
	}
	if r.whole {
		s.complete(r)
	}
	if r.visitor && !p.Visitor() {
		r.visitor = false
		s.cover.due.AddSet(s.Index.ReposOf(p.Number()))
	}
	s.After(p, layers.Delay, max(r.next()-s.Now(), strategy.Second))
}

// next is when a relay is compared with again.
func (r *relay) next() int64 { return r.compared + r.interval }

// complete notes a comparison of everything, and says when the next one is.
func (s *mirror) complete(r *relay) {
	away := r.compared > 0 && r.metAt > r.compared
	if s.adaptive && !r.visitor && (r.all || r.secondLevel == layers.NoSecondLevel) {
		r.looksAt = true
		r.peer.Fetch(layers.AllSecondLevel, layers.Fetching{Method: strategy.MethodREQ, Limit: probed, Purpose: r.how.Purpose})
	}
	if r.everything {
		r.complete, r.absent = r.began, false
		if r.paged() && r.peer.AnswersOnce() {
			// All letters were asked for, whatever the date. The daily sync would bring the same.
			s.After(r.peer, layers.Daily, s.daily+s.Random(s.over))
		}
	}
	r.compared, r.whole, r.due, r.all = r.began, false, false, r.all && r.how.Holdings
	r.stalls, r.notBefore = 0, 0
	if r.stage == comparing {
		r.stage = narrow
		s.change(r)
	}
	defer s.report(r)
	switch {
	case r.paged():
		// Pages bring events again that are here. Listening costs less.
		r.interval = seldom
		if r.absent {
			r.interval = max(r.checkAt(s.check)-r.compared, strategy.Second)
		}
	case s.hears(r):
		// The comparison finds the events that do not come live.
		r.interval = s.longest
		if r.cost > cheap {
			r.interval = seldom
		}
		s.weighUp(r)
	case r.freshEvents > 0 && !away:
		// It had events that others lack, or had them sooner.
		r.returns++
		s.spare(r, false)
		r.interval = s.longest
	default:
		least, longest := s.visits(r.cost)
		r.interval = min(max(2*r.interval, least), longest)
	}
}

// report reports that everything was compared, and when that is due again.
func (s *mirror) report(r *relay) {
	p := r.peer
	p.Unchecked, p.NextCheck = false, r.next()
	p.OldDates = r.absent && r.paged() // a comparison finds them
	p.Report()
}

const (
	cheap  = 2000             // bytes that a comparison may take that is made although all is listened to
	seldom = 2 * strategy.Day // the daily comparison comes before
)

// visits returns the shortest and the longest time between two comparisons with a spared relay.
// Costly comparisons come less often.
func (s *mirror) visits(cost int64) (shortest, longest int64) {
	shortest = min(max(s.min, cost*paidBy), s.longest)
	return shortest, min(max(10*shortest, 30*strategy.Minute), s.longest)
}

const (
	eventBytes = 800 // of an event that comes once more, about
	maxTwice   = 8   // events that come once more before it is asked what that costs
	alike      = 200 // bytes that it takes to ask for whatever a relay has
	racing     = 15  // seconds in which an event may still come live from another relay
)

// weighUp spares a relay if occasional comparisons with it cost less than its copies of events that
// others have delivered.
func (s *mirror) weighUp(r *relay) {
	if r.liveOnly || r.visitor || r.compared == 0 || r.paged() || r.twice < maxTwice<<min(r.returns, 6) {
		return
	}
	if s.lacked > s.came/8 && (r.won > 0 || r.lost < maxTrials/2) {
		return // copies are not everywhere, and it has some that others have not, or sooner
	}
	if s.hasAlone(r) {
		return
	}
	heard := max(s.Now()-r.heardAt, strategy.Minute)
	worth := func(cost int64) bool {
		_, every := s.visits(cost)
		return int64(r.twice)*eventBytes*every > 2*(cost+alike)*heard
	}
	switch {
	case worth(r.cost):
		s.spare(r, true)
		r.interval, _ = s.visits(r.cost)
		s.After(r.peer, layers.Delay, max(r.next()-s.Now(), strategy.Second))
	case r.wide == unknown && r.cost > worthWide && worth(alike):
		s.enqueueWhole(r) // by a filter without values, if that is possible
	}
}

// spare has a relay listened to for its share of the repositories, or for all.
func (s *mirror) spare(r *relay, spared bool) {
	if r.visitor {
		return
	}
	r.heardAt, r.twice = s.Now(), 0
	if r.liveOnly != spared {
		r.liveOnly = spared
		s.change(r)
	}
}

// hears reports whether a relay is listened to for all that it may have.
func (s *mirror) hears(r *relay) bool {
	return !r.liveOnly || r.live.Len() == s.Index.ReposOf(r.peer.Number()).Len()
}

// waited looks at a relay after some time of its turn. A relay that does not answer lets others
// have a turn, and waits longer for its next one. A relay that has answered for long has another
// turn soon. Open requests stay open.
func (s *mirror) waited(r *relay) {
	p := r.peer
	switch {
	case r.state != running:
		return
	case r.answers == r.before && !r.silent:
		r.silent = true
		s.deferNoMore(r)
		s.After(p, layers.Deadline, stall-patience)
		return
	case r.answers == r.before:
		r.stalls++
		r.notBefore = s.Now() + min(strategy.Minute<<min(r.stalls, 6), strategy.Hour)
		r.failed = r.stage == comparing
	case s.Now() < r.turnAt+longTurn:
		r.before, r.silent = r.answers, false
		s.After(p, layers.Deadline, patience)
		return
	}
	s.leave(r)
	s.deferNoMore(r)
	s.ended++
	s.After(p, layers.Delay, max(r.notBefore-s.Now(), patience))
}

// Fetched records the result of a fetch.
func (s *mirror) Fetched(p *layers.Peer, c layers.Content, f layers.Fetched) {
	r := s.relay(p)
	r.answers++
	if r.whole {
		r.cost += f.Sent
	}
	switch {
	case c.SecondLevel:
		s.probedSecondLevel(r, f)
	case r.stage == probing && c.All:
		r.unwanted = int(f.New) - int(f.Kept)
		r.wide = tooWide
		if f.Complete && 8*r.unwanted <= int(f.Events) {
			r.wide = wide
		}
	case r.compared == 0 && !c.Announcements && !c.All:
		s.came += int(f.New)
		s.lacked += int(f.Lacks)
	case r.stage == comparing && c.All:
		r.failed = !f.Complete
		if r.failed || f.New-f.Kept > max(maxUnwanted, f.Kept) {
			r.wide = tooWide
		}
	}
	if f.New > 0 {
		r.brought = true
		recent := f.Oldest >= s.since(r.compared, s.overlapShort) && f.Oldest < s.since(s.Now(), racing)
		if r.compared > 0 && f.Kept > 0 && recent {
			r.freshEvents += int(f.Kept)
		}
	}
}

// probedSecondLevel takes the newest deletions and reactions of a relay. If the relay has few that
// are not wanted, layer 1 asks for all of them there. Many clients do not say the kind of the event
// that they delete.
func (s *mirror) probedSecondLevel(r *relay, f layers.Fetched) {
	asked := r.looksAt
	r.looksAt = false
	switch {
	case !asked || !f.Complete:
		return
	case r.wide == wide || 8*(f.New-f.Kept) <= f.Events:
		r.secondLevel, r.moreSecondLevel = layers.WholeSecondLevel, f.Events >= probed
	default:
		r.secondLevel, r.moreSecondLevel = layers.GitSecondLevel, false
	}
	if general := s.authors && r.secondLevel == layers.GitSecondLevel; r.peer.AskAuthors(general) && general {
		s.After(r.peer, layers.Delay, strategy.Second)
	}
	s.change(r)
}
