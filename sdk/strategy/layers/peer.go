package layers

import (
	"slices"

	"talon/sdk/abi"
	"talon/sdk/strategy"
)

// Peer is a relay for a strategy. A [Strategy] asks for content by Clear, Forget, Open and Fetch.
// The [Driver] sends the requests bit by bit, keeps account, and repeats those that failed.
type Peer struct {
	URL       string
	Bootstrap bool // the host never drops it
	Phase     int  // for the flow; 0 after each connection
	Before    bool // it was connected to before

	// Checked is for the flow: the time, in unix milliseconds, at which it last began to fetch
	// everything with any date. 0: never.
	Checked int64
	Caps    abi.Capabilities

	// Confirmed items are here, as far as the relay has them, and their new events come in live.
	Confirmed Items
	Announced bool // likewise layer 1

	// SecondLevel says which deletions and reactions layer 1 asks for. After a change see [Peer.Reannounce].
	SecondLevel SecondLevel

	// Later items are asked for when the flow does it: no plan has them. They are
	// forgotten when the connection ends.
	Later Items

	// Due says that something is still to be asked for: a visit is not over.
	Due bool

	// A flow that changes one of the next three fields calls [Peer.Report].

	Unchecked bool  // all is still to be compared since the relay was connected to
	OldDates  bool  // events with old dates that came there during an absence are not fetched
	NextCheck int64 // unix milliseconds: when all is compared again; 0: with the daily sync

	driver    *Driver
	number    uint32 // in the index
	wanted    bool   // the host was asked to connect
	connected bool
	started   bool // the flow was called for the connection
	forbidden bool // not to be contacted
	taken     bool // over as connected, and the flow was not called yet
	again     bool // everything is to be fetched again on the next connection
	gone      bool
	dirty     bool // a plan is due
	queued    bool // in the driver's list of those with work
	unsettled bool // something was pending
	delayed   bool // its first connection has been put off
	visitor   bool // its place goes round
	failures  uint32
	failing   int64 // unix milliseconds: since the first of the failures
	visit     int64 // unix milliseconds: when it got, or gave back, its place; 0: never
	named     int   // by this many repositories, when it was last looked at
	byAuthors bool  // it is asked for deletions by the authors of comments
	past      Set   // authors of whom it has sent all deletions: later only recent ones are fetched again
	narrow    uint  // how often the relay said that it is too much
	roots     int   // that the latest plan wanted
	covered   int64 // unix milliseconds: until then, live and catch-up have brought all of Confirmed
	ended     int64 // unix milliseconds: end of the latest connection

	next       uint32 // number in the next id
	groups     uint32 // subscriptions of one chunk each so far
	turns      uint64 // openings and jobs so far
	openings   []*opening
	jobs       []*job
	batches    []*batch
	subs       []*sub
	asks       []ask
	lost       []*opening
	closing    []string          // ids to be closed immediately
	stale      []string          // ids of the strategy before, to be closed when ours are open
	gap        bool              // subscriptions were closed before those in their place were open
	missed     *job              // to be fetched when what is to be opened is
	unheard    Content           // there is no subscription for it: what is new is polled
	polled     int64             // unix milliseconds: until then, polls have brought all of it
	reported   [3]uint32         // repositories, root events and authors that the strategy reported to have no subscription
	progress   strategy.Progress // that was reported
	anew       bool              // all is fetched again, since the absence was too long to continue
	everything bool              // all was asked for since the relay was away, whatever its dates
	fetchAt    int64             // unix milliseconds: no further batch before
}

// opening is content that waits for one or more subscriptions.
type opening struct {
	content Content
	Opening
	turn    uint64 // its place among openings and jobs
	which   parts
	group   uint32 // of a lost one: its subscriptions have this group again
	tries   uint
	at      int64  // of a lost one, unix milliseconds: when the relay closed it
	class   uint32 // of a lost one: why
	joined  bool   // it asks for what open subscriptions ask for that it takes the place of
	retryAt int64  // of a lost one, unix milliseconds
}

// Opening says how to subscribe.
type Opening struct {
	Live    bool   // only what is new
	Since   int64  // unix seconds; 0: everything
	Purpose uint32 // PurposeLive: until now the content was live in another subscription
	Missed  int64  // unix seconds; with Live: what is dated since then comes as well. 0: nothing

	// Track makes the content pending until all that is stored has arrived, and
	// confirmed then.
	Track bool
}

// Fetching says how to fetch stored events.
type Fetching struct {
	Method  uint32
	Since   int64 // unix seconds; 0: everything. A relay that compares is asked without: old dates are found
	Purpose uint32
	Track   bool  // as of Opening
	Apart   int64 // milliseconds between one batch of filters and the next
	After   int64 // milliseconds before the first of them

	// Holdings compares with the events that the relay is believed to hold (strategy.Catchup).
	Holdings bool

	Limit uint32 // at most this many, the newest; 0: all. Page by page
}

// job is content that remains to fetch.
type job struct {
	content Content
	Fetching
	turn  uint64 // its place among openings and jobs
	which parts
	until int64 // unix seconds; 0: no condition
	apart bool  // as of the batches that it becomes
}

// batch is one chunk on its way. All its parts have to arrive.
type batch struct {
	content    Content
	todo, busy parts // not here yet; of them, those that were asked for
	until      [3]int64
	fetch      Fetching
	cut        bool  // a part of it is fetched by another job
	dated      bool  // its since counts, even where the relay compares
	stored     bool  // comes with a subscription: its EOSE is awaited
	apart      bool  // its filters are asked for one by one, at the same time
	narrow     uint  // of the peer, when the chunk was cut
	retryAt    int64 // unix milliseconds
	tries      uint
}

// sub is an open subscription.
type sub struct {
	id       uint32
	content  Content
	left     Items // it still asks for them, and they are not wanted any more
	open     Opening
	which    parts
	filters  int
	batch    *batch // that waits for its EOSE
	old      bool   // to be closed when those in its place are open
	replaced bool   // that is old has one in its place, or is polled
	group    uint32 // subscriptions to one chunk have the same
	values   int    // of its filters, as relays count them
	opened   int64  // unix milliseconds
	tries    uint
	narrow   uint   // of the peer, when it was opened
	newest   uint32 // with Missed: stored events that were asked for, at most
}

// ask is a running historic, or a subscription that brings all parts of a batch together.
type ask struct {
	id     uint32
	batch  *batch
	part   int
	joint  parts // of a subscription: those that it asks for
	method uint32
	whole  bool // compared without its since
}

// Connected reports whether the connection is up.
func (p *Peer) Connected() bool { return p.connected }

// Number returns the number of the relay in the index.
func (p *Peer) Number() uint32 { return p.number }

// CoveredUntil returns the time, in unix milliseconds, until which subscriptions and
// fetches brought everything with a recent date. It changes when a connection ends.
func (p *Peer) CoveredUntil() int64 { return p.covered }

// Visitor reports whether the relay has a connection only until others need it.
func (p *Peer) Visitor() bool { return p.visitor }

// Quiet reports whether no request is under way. A request for missed events that the relay refused
// by closing the subscription counts as under way, because no plan asks for it again.
func (p *Peer) Quiet() bool {
	return len(p.openings)+len(p.jobs)+len(p.batches) == 0 &&
		!slices.ContainsFunc(p.lost, func(o *opening) bool {
			return o.Missed > 0 || !o.Live && !o.Track && o.Since < p.driver.since(o.at)
		})
}

// Rests reports whether all that is under way are fetches that failed, and are made again later.
func (p *Peer) Rests() bool {
	return len(p.openings)+len(p.jobs) == 0 && len(p.batches) > 0 &&
		!slices.ContainsFunc(p.batches, func(b *batch) bool { return b.stored || b.busy != 0 || b.retryAt <= p.driver.budget.now })
}

// Pending returns the items whose events are on their way.
func (p *Peer) Pending() Items {
	var items Items
	for c := range p.pending {
		items.AddItems(c.Items)
	}
	return items
}

// pending calls yield with each content that is tracked and on its way.
func (p *Peer) pending(yield func(c *Content) bool) {
	for _, list := range [2][]*opening{p.openings, p.lost} {
		for _, o := range list {
			if o.Track && !yield(&o.content) {
				return
			}
		}
	}
	for _, j := range p.jobs {
		if j.Track && !yield(&j.content) {
			return
		}
	}
	for _, b := range p.batches {
		if b.fetch.Track && !yield(&b.content) {
			return
		}
	}
}

// Waits reports whether announcements that are tracked are on their way.
func (p *Peer) Waits() bool {
	for c := range p.pending {
		if c.Announcements {
			return true
		}
	}
	return false
}

// waiting reports whether something tracked is on its way, layer 1 included.
func (p *Peer) waiting() bool {
	for range p.pending {
		return true
	}
	return false
}

// behind reports whether missed events of Confirmed are not all here yet.
func (p *Peer) behind() bool {
	untracked := p.gap || p.missed != nil || len(p.lost) > 0
	for _, o := range p.openings {
		untracked = untracked || !o.Track
	}
	for _, j := range p.jobs {
		untracked = untracked || !j.Track
	}
	for _, b := range p.batches {
		untracked = untracked || !b.fetch.Track
	}
	return untracked
}

// Plan returns the three-way diff for this relay.
func (p *Peer) Plan() Items {
	wanted := p.Wanted(p.driver.Index.Targets(p.number))
	p.roots = wanted.Roots.Len()
	wanted.RemoveItems(p.Later)
	return Plan(wanted, p.Pending(), p.Confirmed)
}

// Forget makes nothing pending and nothing confirmed. Open subscriptions close once the next ones
// are open.
func (p *Peer) Forget() {
	p.Clear()
	p.Confirmed, p.Announced, p.covered, p.missed, p.everything = Items{}, false, 0, nil, true
	p.unheard, p.Later = Content{}, Items{}
}

// Clear makes nothing pending. Open subscriptions close once the next ones are open. Confirmed
// content stays confirmed, and its missed events are fetched then.
func (p *Peer) Clear() {
	p.missed = p.unfinished()
	for _, a := range p.asks {
		p.closing = append(p.closing, a.name())
	}
	for _, s := range p.subs {
		s.old, s.batch = true, nil
	}
	p.openings, p.jobs, p.batches, p.asks, p.lost = nil, nil, nil, nil, nil
	p.unsettled = false
	if p.missed == nil {
		p.fetchAt = 0
	}
	p.driver.ready(p)
}

// unfinished returns one job for all missed events under way whose content is confirmed, since no
// plan asks for them. It returns nil if there are none. Content that was only reopened was live all
// the time.
func (p *Peer) unfinished() *job {
	var all *job
	add := func(c Content, since, apart int64) {
		if c.empty() {
			return
		}
		if all == nil {
			all = &job{which: allParts, Fetching: Fetching{Method: p.driver.set.Method, Since: since, Purpose: strategy.PurposeReconnect}}
		}
		all.content.Announcements = all.content.Announcements || c.Announcements
		all.content.Items.AddItems(c.Items)
		all.Since, all.Apart = min(all.Since, since), max(all.Apart, apart)
	}
	if p.missed != nil {
		add(p.missed.content, p.missed.Since, p.missed.Apart)
	}
	for _, o := range p.openings {
		switch {
		case o.Live && o.Missed > 0:
			add(o.content, o.Missed, 0)
		case !o.Track && !o.Live && o.Purpose != strategy.PurposeLive:
			add(o.content, o.Since, 0)
		}
	}
	for _, o := range p.lost {
		switch {
		case o.Track:
		case o.Live && o.Missed > 0:
			add(o.content, o.Missed, 0)
		case o.Live:
			add(o.content, p.driver.since(o.at), 0)
		default:
			add(o.content, o.Since, 0)
		}
	}
	for _, j := range p.jobs {
		if !j.Track {
			add(j.content, j.Since, j.Apart)
		}
	}
	for _, b := range p.batches {
		if !b.fetch.Track && (b.fetch.Purpose != strategy.PurposeLive || !b.stored) {
			add(b.content, b.fetch.Since, b.fetch.Apart)
		}
	}
	return all
}

// End ends fetches of content that is not pending. Subscriptions stay.
func (p *Peer) End() {
	p.missed = nil
	p.jobs = deleteFunc(p.jobs, func(j *job) bool { return !j.Track })
	p.batches = deleteFunc(p.batches, func(b *batch) bool { return !b.stored && !b.fetch.Track })
	p.asks = deleteFunc(p.asks, func(a ask) bool {
		if a.batch.fetch.Track {
			return false
		}
		p.closing = append(p.closing, a.name())
		return true
	})
	p.driver.ready(p)
}

// Open subscribes. Items that an open subscription asks for from before, when they
// were wanted, are not asked for once more.
func (p *Peer) Open(c Content, how Opening) {
	c = c.clone()
	p.takeBack(&c, how)
	if c.empty() {
		return
	}
	rest := p.divide(&c, how.Live)
	p.pollNoMore(c, how)
	p.opens(&opening{content: c, Opening: how, which: allParts})
	if !rest.Empty() { // what it missed is fetched
		p.withoutSub(&opening{content: Of(rest), Opening: how, which: allParts})
	}
}

// Reopen reopens everything: confirmed items in one way, the rest in another.
func (p *Peer) Reopen(confirmed, rest Opening) {
	p.Clear()
	announcements := confirmed
	if !p.Announced {
		announcements = rest
	}
	p.Open(Announcements, announcements)
	p.Open(Of(p.Confirmed), confirmed)
	p.Open(Of(p.Plan()), rest)
}

// Fetch fetches stored events.
func (p *Peer) Fetch(c Content, how Fetching) {
	if c.empty() {
		return
	}
	if how.After > 0 {
		p.fetchAt = max(p.fetchAt, p.driver.budget.now+how.After)
	}
	p.fetches(&job{content: c.clone(), Fetching: how, which: allParts})
}

// Reannounce opens layer 1 again, and closes what was open of it then.
func (p *Peer) Reannounce(how Opening) {
	for _, s := range p.subs {
		if s.content.Announcements && s.content.Items.Empty() {
			s.old, s.replaced = true, true
			p.fetchRest(s)
		}
	}
	p.Open(Announcements, how)
}

func (p *Peer) opens(o *opening) {
	p.turns++
	p.everything = p.everything || o.Purpose == strategy.PurposeDaily && o.Since == 0
	o.turn = p.turns
	p.openings = append(p.openings, o)
	p.unsettled = p.unsettled || o.Track
	p.driver.ready(p)
}

func (p *Peer) fetches(j *job) {
	p.turns++
	p.everything = p.everything || j.Purpose == strategy.PurposeDaily && j.Since == 0
	j.turn = p.turns
	p.jobs = append(p.jobs, j)
	p.unsettled = p.unsettled || j.Track
	p.driver.ready(p)
}

// Covered returns the content of all open subscriptions, and of those to be opened.
func (p *Peer) Covered() Items {
	var items Items
	for _, s := range p.subs {
		if !s.old {
			items.AddItems(s.content.Items)
		}
	}
	for _, o := range p.openings {
		items.AddItems(o.content.Items)
	}
	return items
}

// Listening returns the content of all subscriptions: those that are open, will be opened, wait
// until the relay takes them again, or are polled.
func (p *Peer) Listening() Items {
	items := p.Covered()
	for _, o := range p.lost {
		items.AddItems(o.content.Items)
	}
	items.AddItems(p.unheard.Items)
	return items
}

// Replace marks open subscriptions as old. They close once the next ones are open. It forgets
// content that has lost its subscription or waits for one, and reports whether there was any.
// REQUIRES: the relay is [Peer.Quiet].
func (p *Peer) Replace() (missed bool) {
	for _, s := range p.subs {
		s.old = true
	}
	missed = len(p.lost) > 0 || !p.unheard.empty()
	p.lost, p.unheard = nil, Content{}
	p.driver.Stop(p, poll)
	p.driver.ready(p)
	return missed
}

// Crowded reports whether more than that many filters would be open with those for
// items, or more subscriptions than there may be, and to open all again would save a
// quarter of them.
func (p *Peer) Crowded(items Items, limit int, live bool) bool {
	s := p.shape()
	more := sizeOf(Of(items))
	all := more // what subscriptions would have, if all were opened again
	all.announcements = 1
	then, open := s.filtersFor(more), s.subsFor(more, live)
	for _, sub := range p.subs {
		if !sub.old && sub.content.Items.Authors.Empty() {
			all.add(sizeOf(sub.content))
			then += sub.filters
			open++
		}
	}
	for _, o := range p.openings {
		size := sizeOf(o.content)
		all.add(size)
		then += s.filtersFor(size)
		open += s.subsFor(size, o.Live)
	}
	if open > p.maxSubs() && open > s.subsFor(all, live) {
		return true
	}
	return then > limit && 4*s.filtersFor(all) <= 3*then
}

// disconnected forgets the requests that ended with the connection. They are no longer pending.
func (p *Peer) disconnected(now int64) {
	if p.connected && p.started && !p.behind() {
		p.covered = now
		if !p.unheard.empty() {
			p.covered = p.polled
		}
	}
	p.unheard = Content{}
	if p.connected {
		p.ended = now
		p.driver.ended(p)
	}
	p.connected, p.started, p.taken, p.dirty, p.gap, p.Phase = false, false, false, false, false, 0
	p.unsettled, p.fetchAt = false, 0
	p.openings, p.jobs, p.batches, p.subs, p.asks, p.lost = nil, nil, nil, nil, nil, nil
	p.closing, p.stale, p.missed, p.reported, p.progress = nil, nil, nil, [3]uint32{}, strategy.Progress{}
	p.Unchecked, p.anew = false, false
	p.Later, p.Due = Items{}, false
}

// drop takes out items that are no longer wanted.
func (p *Peer) drop(gone Items) {
	p.Confirmed.RemoveItems(gone)
	p.past.Remove(gone.Authors)
	p.Later.RemoveItems(gone)
	p.unheard.Items.RemoveItems(gone)
	for _, list := range [2][]*opening{p.openings, p.lost} {
		for _, o := range list {
			o.content.Items.RemoveItems(gone)
		}
	}
	for _, j := range p.jobs {
		j.content.Items.RemoveItems(gone)
	}
	if p.missed != nil {
		p.missed.content.Items.RemoveItems(gone)
	}
	for _, b := range p.batches {
		b.content.Items.RemoveItems(gone)
	}
	for _, s := range p.subs {
		if !s.old {
			s.left.AddItems(s.content.Items.common(gone))
		}
		s.content.Items.RemoveItems(gone)
	}
	p.driver.ready(p)
}

// leave ends subscriptions that still ask for items that are gone. Others open first for the items
// that are still wanted, so no new event is missed.
func (p *Peer) leave(gone Items) {
	for _, s := range p.subs {
		asks := !s.left.common(gone).Empty()
		s.left.RemoveItems(gone)
		if s.old || !asks {
			continue
		}
		s.old, s.replaced = true, s.content.empty()
		p.fetchRest(s)
		if !s.content.empty() {
			p.opens(&opening{content: s.content.clone(), Opening: Opening{Live: true}, which: s.which, group: s.group})
		}
	}
	p.driver.ready(p)
}

// takeBack removes from c the content that open subscriptions still ask for, because it was wanted
// before and is again. It fetches stored events if opening a subscription would have brought them.
func (p *Peer) takeBack(c *Content, how Opening) {
	if !slices.ContainsFunc(p.subs, func(s *sub) bool { return !s.old && !s.left.Empty() }) {
		return
	}
	back := c.Items
	for part := range 3 {
		var left Items
		for _, s := range p.subs {
			if !s.old && s.which&(1<<part) != 0 {
				left.AddItems(s.left)
			}
		}
		back = back.common(left)
	}
	if back.Empty() {
		return
	}
	for _, s := range p.subs {
		if !s.old {
			again := s.left.common(back)
			s.left.RemoveItems(again)
			s.content.Items.AddItems(again)
		}
	}
	c.Items.RemoveItems(back)
	since := how.Since
	if how.Live {
		since = how.Missed
	}
	if !how.Live || since > 0 {
		p.fetches(&job{
			content: Of(back.Clone()), which: allParts,
			Fetching: Fetching{Method: strategy.MethodREQ, Since: since, Purpose: how.Purpose, Track: how.Track},
		})
	}
}
