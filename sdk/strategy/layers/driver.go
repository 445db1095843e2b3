package layers

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"talon/sdk/abi"
	"talon/sdk/strategy"
)

// Strategy has the parts that differ between strategies. The driver calls it after a change at a
// connected relay, and it asks for content of that relay.
type Strategy interface {
	// Fresh is called for a relay that nothing, or too little, is known to be here
	// of: a first connection, one after too long, or one that was taken over.
	Fresh(p *Peer, purpose uint32)

	// Resume is called for a relay that was away for a while. Confirmed content is here up to
	// since, in unix seconds.
	Resume(p *Peer, since int64)

	// New is called with items that are wanted, and neither pending nor confirmed.
	New(p *Peer, items Items)

	// Settled is called when nothing that was tracked is on its way any more.
	Settled(p *Peer)

	// Timer is called when a time of [Driver.After] has come, and the relay is
	// connected.
	Timer(p *Peer, kind Kind)
}

// Watcher is a flow with more callbacks.
type Watcher interface {
	Strategy

	// Ended is called for a relay whose connection has ended, or from which nothing
	// is wanted any more.
	Ended(p *Peer)

	// Fetched is called after a fetch has ended, or after the stored events of a subscription have
	// arrived, before anything else follows from that.
	Fetched(p *Peer, c Content, f Fetched)

	// Turn is called in each step, before the actions are written. It returns false if it has more
	// work. Then another step follows immediately.
	Turn() bool
}

// Kind names a timer of a peer.
type Kind uint8

const (
	wake  Kind = iota // something is to be tried again
	poll              // what is new and has no subscription is to be fetched
	Daily             // everything again. It is kept while the relay is away
	Delay
	Deadline
	Begin // the relay is to be connected to
	kinds
)

// Settings are the common settings of flows.
type Settings struct {
	Kinds       []uint32    // of local events that matter
	Values      int         // of one filter
	Connections int         // at most; 0: as many as the host allows
	Page        uint32      // events of a page of REQ; 0: the host chooses
	SecondLevel SecondLevel // of layer 1, at first
	Authors     bool        // the authors of comments are noted, so that relays can be asked for their deletions: see [Peer.AskAuthors]
	AskAuthors  bool        // relays are asked for these at first
	Method      uint32      // of what the driver fetches of itself: what was missed of what is confirmed
	Apart       bool        // the comparison of root events by E comes before those by e and q: that lists fewer ids, and takes one answer longer
	Push        bool        // also send what a relay lacks, after negentropy
	Margin      int64       // seconds that since lies before what is known to be here
	Within      int64       // milliseconds of absence after which Fresh takes the place of Resume; 0: never
	Window      int64       // milliseconds that local events are gathered; 0: not at all
	Eager       bool        // the first local event after a window is not kept waiting: it opens one, for those that follow
	Check       int64       // milliseconds between looks at connections: relays with nothing left are closed, others get their place
	AtOnce      bool        // relays with nothing left are closed immediately
	Keep        bool        // relays with nothing left are kept
	Jitter      int64       // milliseconds at most before the first connection to a relay
	Visit       int64       // milliseconds in which each relay that gets no connection is visited once; 0: never

	// Skip reports whether a relay is never followed, also if a repository names it. nil: all are
	// followed.
	Skip func(url string) bool
}

// Driver runs a [Strategy]. It keeps the index, the relays and the timers, and sends the requests
// of the flow in short steps.
type Driver struct {
	Index Index

	strategy Strategy
	watcher  Watcher // the flow, if it is one
	set      Settings
	timers   Timers
	budget   stepBudget
	writer   writer
	peers    []*Peer // by number in the index; nil: the relay has none
	busy     []*Peer // with work to do
	own      []string
	random   uint64
	connect  bool // relays may be waiting for a connection
	more     bool // the watcher has more to do
	gone     []goneRepo
	pinned   int // bootstrap relays that have a connection although no repository names them
}

// Configure prepares d. It is called before the first Step.
func (d *Driver) Configure(f Strategy, set Settings) {
	d.strategy, d.set = f, set
	d.watcher, _ = f.(Watcher)
	d.Index.Drop = func(relay uint32, gone Items) {
		if p := d.peer(relay); p != nil {
			p.drop(gone)
		}
	}
	d.Index.freed = func(gone Items) {
		for p := range d.Peers {
			p.leave(gone)
		}
	}
	d.Index.Reset(0)
	d.timers.reset()
}

// Now returns the time of the step in unix milliseconds.
func (d *Driver) Now() int64 { return d.budget.now }

// since is a point in time as a filter has it, with the margin.
func (d *Driver) since(millis int64) int64 { return max(millis/1000-d.set.Margin, 1) }

// Since returns the time of the step less the margin, in unix seconds.
func (d *Driver) Since() int64 { return d.since(d.budget.now) }

// Random returns a number from 0 to n-1.
func (d *Driver) Random(n int64) int64 {
	if n <= 0 {
		return 0
	}
	d.random += 0x9e3779b97f4a7c15
	x := d.random
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return int64((x ^ x>>31) >> 1 % uint64(n))
}

// After sets a timer of a relay, unless one of that kind comes sooner.
func (d *Driver) After(p *Peer, kind Kind, millis int64) {
	d.timers.Sooner(p.key(kind), d.budget.now+millis)
}

// Stop ends a timer of a relay.
func (d *Driver) Stop(p *Peer, kind Kind) { d.timers.Stop(p.key(kind)) }

// Keys of timers that belong to no relay come before those of relays.
const (
	keyWindow = iota
	keyCheck
	keyFirst
)

func (p *Peer) key(kind Kind) uint64 { return keyFirst + uint64(p.number)*uint64(kinds) + uint64(kind) }

// Peers calls yield with each relay, in the order of their numbers.
func (d *Driver) Peers(yield func(*Peer) bool) {
	for _, p := range d.peers {
		if p != nil && !yield(p) {
			return
		}
	}
}

func (d *Driver) peer(relay uint32) *Peer {
	if int(relay) >= len(d.peers) {
		return nil
	}
	return d.peers[relay]
}

func (d *Driver) find(url string) *Peer {
	if relay, ok := d.Index.Find(url); ok {
		return d.peer(relay)
	}
	return nil
}

// addPeer returns the peer for a relay, a new one if there is none.
func (d *Driver) addPeer(relay uint32) *Peer {
	if p := d.peer(relay); p != nil {
		return p
	}
	for len(d.peers) <= int(relay) {
		d.peers = append(d.peers, nil)
	}
	p := &Peer{URL: d.Index.relays[relay].url, SecondLevel: d.set.SecondLevel, byAuthors: d.set.AskAuthors, driver: d, number: relay}
	d.peers[relay] = p
	return p
}

func (d *Driver) ready(p *Peer) {
	if !p.queued && !p.gone {
		p.queued = true
		d.busy = append(d.busy, p)
	}
}

// Step takes one input of the strategy.
func (d *Driver) Step(in strategy.Input, out *strategy.Actions) {
	d.budget = stepBudget{out: out, now: in.Now(), limits: d.budget.limits, left: work}
	switch in.Kind() {
	case strategy.Init:
		if !d.learn(in.Init()) {
			return
		}
	case strategy.LocalEvent:
		d.localEvent(in.LocalEvent())
	case strategy.RepoGone:
		d.repoGone(in.RepoGone().Repository)
	case strategy.RelayConnected:
		d.connected(in.RelayConnected())
	case strategy.RelayDisconnected:
		d.disconnected(in.RelayDisconnected())
	case strategy.Eose:
		if e := in.Eose(); d.find(e.Relay) != nil {
			d.find(e.Relay).eose(e)
		}
	case strategy.Closed:
		if c := in.Closed(); d.find(c.Relay) != nil {
			d.find(c.Relay).closed(c, in.Now())
		}
	case strategy.HistoricDone:
		if h := in.HistoricDone(); d.find(h.Relay) != nil {
			d.find(h.Relay).historicDone(h, in.Now())
		}
	case strategy.TimerFired:
		d.timers.set = 0
	case strategy.RootActivity:
		d.active(in.RootActivity())
	}
	for d.budget.left > 0 {
		key, ok := d.timers.Take(in.Now())
		if !ok {
			break
		}
		d.fire(key)
	}
	d.more = d.watcher != nil && !d.watcher.Turn()
	d.flush()
}

// goneRepo is a repository that is not ours any more.
type goneRepo struct {
	address string
	at      int64 // unix milliseconds
	roots   int
}

// Bounds of the memory of repositories that are gone. After goneFor subscriptions that still ask
// for them are closed. Within that time most have been replaced for other reasons.
const (
	goneFor      = 26 * strategy.Hour
	maxGone      = 1 << 10
	maxGoneRoots = 1 << 16
)

// repoGone takes a repository from its relays. Its number and those of its roots are kept
// for a while: open subscriptions ask for them, and if the repository comes back it is not
// asked for once more.
func (d *Driver) repoGone(address string) {
	n, ok := d.Index.Repo(address)
	if !ok {
		return
	}
	d.cameBack(address)
	d.gone = append(d.gone, goneRepo{d.Index.Address(n), d.budget.now, d.Index.repos[n].roots.Len()})
	d.Index.detach(n)
	d.forgetGone()
	if d.set.AtOnce {
		d.closeUnused()
	}
}

// cameBack notes that a repository is ours again.
func (d *Driver) cameBack(address string) {
	d.gone = slices.DeleteFunc(d.gone, func(g goneRepo) bool { return g.address == address })
}

// forgetGone gives numbers back: of repositories that have been gone for long, and of those
// for which there is no room.
func (d *Driver) forgetGone() {
	roots := 0
	for _, g := range d.gone {
		roots += g.roots
	}
	for len(d.gone) > 0 && (d.budget.now-d.gone[0].at >= goneFor || len(d.gone) > maxGone || roots > maxGoneRoots) {
		roots -= d.gone[0].roots
		d.Index.RemoveRepo(d.gone[0].address)
		d.gone = slices.Delete(d.gone, 0, 1)
	}
}

// Spend subtracts the work of a watcher from the step's budget, and reports whether some
// is left.
func (d *Driver) Spend(work int) bool {
	d.budget.left -= work
	return d.budget.left > 0
}

// Fetched is the result of one fetch.
type Fetched struct {
	Complete          bool
	Lacks             uint32 // events that are here and not there, if they were compared
	Events, New, Kept uint32 // that came, that were not known here, that were stored or held
	Sent              int64  // bytes, of the messages that asked
	Oldest            int64  // unix seconds, of what came
}

// fetched reports to the watcher that a fetch has ended.
func (d *Driver) fetched(p *Peer, c Content, h abi.HistoricDone) {
	if d.watcher != nil {
		d.watcher.Fetched(p, c, Fetched{
			Complete: h.Complete, Lacks: h.Have, Events: h.Need, New: h.New, Kept: h.Kept, Sent: h.Sent, Oldest: h.MinCreatedAt,
		})
	}
}

// ended reports to the watcher that a relay is not connected any more.
func (d *Driver) ended(p *Peer) {
	if d.watcher != nil {
		d.watcher.Ended(p)
	}
}

// learn takes a part of the world, and reports whether it is complete.
func (d *Driver) learn(world strategy.World) bool {
	if world.First() {
		d.budget.limits = world.Limits
		d.Index.Reset(world.Seed)
		d.timers.reset()
		d.peers, d.busy, d.own, d.gone, d.random = nil, nil, nil, nil, uint64(world.Seed)
		for it := world.Own(); it.Next(); {
			d.own = append(d.own, strings.Clone(it.Text()))
		}
	}
	for it := world.Relays(); it.Next(); {
		d.adopt(it.Relay())
	}
	for it := world.Repositories(); it.Next(); {
		r := it.Repository()
		// A repository whose roots do not fit into one part is in the next one
		// again.
		relays := r.Relays()
		if known := d.Index.Known(r.Address); !known || relays.Next() {
			relays = r.Relays()
			d.Index.SetRepo(r.Address, r.Level, &relays, d.skips)
		}
		d.Index.AddRoots(r.Address, r.NumRoots(), r.Root)
		dates := r.Active()
		for i := range r.NumRoots() {
			if !dates.Next() {
				break
			}
			id := r.Root(i)
			d.Index.Touch(&id, min(int64(dates.Active()), d.budget.now/1000))
		}
		if repo, ok := d.Index.Repo(r.Address); ok && d.set.Authors {
			latest := r.AuthorLatest()
			for i := range r.NumAuthors() {
				latest.Next()
				key := r.Author(i)
				d.Index.AddAuthor(repo, &key, min(int64(latest.AuthorLatest()), d.budget.now/1000))
			}
		}
	}
	if !world.Complete() {
		return false
	}
	d.Index.moreAuthors = Set{} // each relay gets a plan
	for p := range d.Peers {
		if p.connected {
			p.taken = true
			d.ready(p)
		}
	}
	d.open()
	d.timers.Set(keyCheck, d.budget.now+d.set.Check)
	d.closeUnused()
	return true
}

// adopt takes a relay as another strategy has left it.
func (d *Driver) adopt(state abi.RelayStateView) {
	if d.isOwn(state.URL) {
		return
	}
	relay, ok := d.Index.Relay(state.URL)
	if !ok {
		return
	}
	p := d.addPeer(relay)
	p.Before = state.LastConnected > 0
	p.Bootstrap, p.wanted, p.connected, p.Caps = state.Bootstrap, state.Wanted, state.Connected, state.Capabilities
	stale := func(id string) {
		p.stale = append(p.stale, strings.Clone(id))
		if n, ok := number(id); ok && n >= p.next {
			p.next = n + 1
		}
	}
	for it := state.Subscriptions(); it.Next(); {
		stale(it.Subscription().ID)
	}
	for it := state.Historics(); it.Next(); {
		stale(it.Historic().ID)
	}
}

func (d *Driver) isOwn(url string) bool { return slices.Contains(d.own, url) }

func (d *Driver) skips(url string) bool { return d.isOwn(url) || d.set.Skip != nil && d.set.Skip(url) }

func (d *Driver) localEvent(e abi.LocalEventView) {
	if !slices.Contains(d.set.Kinds, e.Kind) {
		return
	}
	for it := e.Repositories(); it.Next(); {
		if e.Kind == 30617 {
			d.cameBack(it.Text())
			relays := e.Relays()
			d.Index.SetRepo(it.Text(), e.Level, &relays, d.skips)
		} else if len(e.ID) == 32 {
			d.Index.AddRoot(it.Text(), (*[32]byte)(e.ID))
			d.Index.Touch((*[32]byte)(e.ID), min(e.CreatedAt, d.budget.now/1000))
		}
	}
	d.moreWanted(e.Kind == 30617)
}

// moreWanted begins a batch window if something became wanted, or an announcement came.
func (d *Driver) moreWanted(announced bool) {
	switch {
	case d.Index.Touched.Empty() && !announced:
	case d.set.Window == 0:
		d.open()
	case d.set.Eager && !d.timers.has(keyWindow):
		d.open()
		d.timers.Set(keyWindow, d.budget.now+d.set.Window)
	default:
		d.timers.Sooner(keyWindow, d.budget.now+d.set.Window)
	}
}

// open ends a batch window: relays from which more is wanted get a plan, or a
// connection.
func (d *Driver) open() {
	for relay := range d.Index.Touched.All() {
		p := d.addPeer(relay)
		d.connect = d.connect || !p.wanted
		if p.started {
			p.dirty = true
			d.ready(p)
		}
	}
	d.Index.Touched = Set{}
	if d.set.AtOnce {
		d.closeUnused()
	}
}

func (d *Driver) connected(c abi.RelayConnected) {
	p := d.find(c.Relay)
	if p == nil {
		return
	}
	p.disconnected(d.budget.now)
	negentropy := p.Caps.Negentropy
	p.connected, p.Caps, p.failures, p.narrow = true, c.Capabilities, 0, 0
	if p.Caps.Negentropy == strategy.SupportUnknown {
		p.Caps.Negentropy = negentropy
	}
	ended := max(p.ended, c.DisconnectedAt)
	p.Before = p.Before || c.LastConnected > 0 || ended > 0
	if c.Anew || d.budget.now-ended > (recentDays-1)*strategy.Day {
		p.past = Set{}
	}
	known := p.covered > 0 && (p.Announced || !p.Confirmed.Empty())
	switch {
	case p.again, c.Anew:
		d.start(p, strategy.PurposeDaily)
	case known && (d.set.Within == 0 || d.budget.now-ended <= d.set.Within || p.visitor):
		p.started = true
		p.resumes(d.set.Method)
		d.strategy.Resume(p, d.since(p.covered))
	case known:
		d.start(p, strategy.PurposeReconnect)
	default:
		d.start(p, strategy.PurposeStartup)
	}
}

// start begins again with a relay.
func (d *Driver) start(p *Peer, purpose uint32) {
	p.started, p.again, p.everything, p.anew = true, false, true, purpose == strategy.PurposeReconnect
	d.strategy.Fresh(p, purpose)
}

func (d *Driver) disconnected(e abi.RelayDisconnected) {
	p := d.find(e.Relay)
	if p == nil {
		return
	}
	p.disconnected(d.budget.now)
	for _, kind := range [...]Kind{wake, poll, Delay, Deadline} {
		d.Stop(p, kind)
	}
	if p.failures == 0 {
		p.failing = d.budget.now
	}
	p.failures = e.Failures
	switch {
	case e.Class == strategy.ClassForbidden:
		p.wanted, p.forbidden = false, true
	case e.Class == strategy.ClassLimit, e.RetryAt == 0:
		// Looked at again with the next check.
		p.wanted = false
	}
}

// fire runs the work of a timer.
func (d *Driver) fire(key uint64) {
	switch key {
	case keyWindow:
		if d.set.Eager && !d.Index.Touched.Empty() {
			d.timers.Set(keyWindow, d.budget.now+d.set.Window)
		}
		d.open()
		return
	case keyCheck:
		d.timers.Set(keyCheck, d.budget.now+d.set.Check)
		d.closeUnused()
		d.evictFailing()
		d.rotateVisits()
		d.forgetGone()
		d.connect = true
		return
	}
	p, kind := d.peer(uint32((key-keyFirst)/uint64(kinds))), Kind((key-keyFirst)%uint64(kinds))
	switch {
	case p == nil:
	case kind == Begin:
		d.connect = true
	case kind == Daily && !p.connected:
		p.again = true
	case !p.connected:
	case kind == wake:
		p.onWake(d.budget.now)
	case kind == poll:
		p.poll(d.budget.now)
	default:
		d.budget.left -= workPlan + p.roots/10
		d.strategy.Timer(p, kind)
	}
}

// closeUnused lets relays go from which nothing is wanted.
func (d *Driver) closeUnused() {
	for p := range d.Peers {
		if p.Bootstrap || !d.Index.ReposOf(p.number).Empty() {
			continue
		}
		if p.wanted || p.connected {
			if d.set.Keep {
				continue
			}
			if !d.budget.room(1, len(p.URL)) {
				d.timers.Sooner(keyCheck, d.budget.now+strategy.Second)
				break
			}
			d.budget.out.Disconnect(p.URL, "nothing left")
			d.connect = true
		}
		p.gone, p.queued = true, false
		if p.connected {
			d.ended(p)
		}
		for kind := range kinds {
			d.Stop(p, kind)
		}
		d.peers[p.number] = nil
		d.Index.Forget(p.number)
	}
	d.busy = deleteFunc(d.busy, func(p *Peer) bool { return p.gone })
}

// freeConnections is how many relays may be asked for.
func (d *Driver) freeConnections() int {
	limit := max(int(d.budget.limits.Connections)-d.pinned, 0)
	if d.set.Connections > 0 {
		limit = min(limit, d.set.Connections)
	}
	return limit
}

// waiting are the relays that wait for a connection: those that do not fail come
// first, then those that more repositories name.
func (d *Driver) waiting() (list []*Peer, wanted int) {
	d.pinned = 0
	for p := range d.Peers {
		switch {
		case p.wanted:
			wanted++
		case p.Bootstrap && d.Index.ReposOf(p.number).Empty():
			d.pinned++
		case !p.forbidden && !d.Index.ReposOf(p.number).Empty():
			p.named = d.Index.ReposOf(p.number).Len()
			list = append(list, p)
		}
	}
	slices.SortStableFunc(list, func(a, b *Peer) int {
		return cmp.Or(
			cmp.Compare(a.failures, b.failures),
			cmp.Compare(b.named, a.named),
			strings.Compare(a.URL, b.URL))
	})
	return list, wanted
}

// maxFailures in a row cost a relay its place, if another one waits for it. They last at
// least failingTime: a throttle may try a relay eagerly that was up for long.
const (
	maxFailures = 5
	failingTime = 75 * strategy.Second
)

// evictFailing gives the places of relays that cannot be reached to those that wait.
func (d *Driver) evictFailing() {
	list, wanted := d.waiting()
	short := wanted + len(list) - d.freeConnections()
	for p := range d.Peers {
		if short <= 0 || !d.budget.room(1, len(p.URL)) {
			return
		}
		if p.wanted && !p.connected && !p.Bootstrap && p.failures >= maxFailures && d.budget.now-p.failing >= failingTime {
			d.budget.out.Disconnect(p.URL, "cannot be reached, others wait")
			p.wanted, p.visit = false, d.budget.now
			short--
		}
	}
}

// flush writes the pending actions, as far as the answer holds them, and sets the timer for the
// rest.
func (d *Driver) flush() {
	t := &d.budget
	if d.connect {
		d.connect = !d.assignConnections()
	}
	for len(d.busy) > 0 && !t.full && t.left > 0 {
		p := d.busy[0]
		if p.taken {
			p.taken = false
			d.start(p, strategy.PurposeStartup)
			t.left -= workPlan + p.roots/10
		}
		if p.dirty && p.started {
			p.dirty = false
			items := p.Plan()
			t.left -= workPlan + p.roots/10
			if !items.Empty() {
				d.strategy.New(p, items)
			}
		}
		if !p.work(t) {
			break
		}
		if p.unsettled && !p.waiting() {
			p.unsettled = false
			d.strategy.Settled(p)
			continue
		}
		d.busy, p.queued = d.busy[1:], false
	}
	if len(d.busy) == 0 {
		d.busy = nil
	}
	at := int64(0)
	if first, ok := d.timers.first(); ok {
		at = first.at
	}
	if len(d.busy) > 0 || d.connect || d.more {
		at = t.now
		if t.out.Len() == 0 && t.full {
			at += strategy.Second // not even one action fits
		}
	}
	if at != d.timers.set {
		d.timers.set = at
		if at == 0 {
			t.out.StopTimer("next")
		} else {
			t.out.SetTimer("next", at)
		}
	}
}

// work bounds the work of one step, in tag values that it writes. Other work is counted in the same
// unit. A step of that size takes well under a millisecond in a guest. The rest follows in the next
// step.
const (
	work     = 500
	workPlan = 100 // a plan for a relay, and as much for each 1,000 roots
	workDo   = 20  // an action
)

// stepBudget is the step that is under way.
type stepBudget struct {
	out    *strategy.Actions
	now    int64 // unix milliseconds
	limits abi.StepLimits
	left   int  // work that may still be done
	full   bool // something has to wait for the next step
}

// room reports whether the answer holds that many more actions with that many
// bytes of text, and the timer after them.
func (t *stepBudget) room(actions, size int) bool {
	const rest = 400 // of an action: ids, a reason, lengths; the timer
	if t.left > 0 && t.out.Len()+actions < int(t.limits.Actions) && (t.limits.Bytes == 0 || t.out.Size()+size+rest <= int(t.limits.Bytes)) {
		return true
	}
	t.full = true
	return false
}

// Common reads the settings that all the layered strategies have under the same
// name.
func Common(cfg strategy.Config) (Settings, error) {
	set := Settings{
		Values:      int(cfg.Int("values_per_filter")),
		Connections: int(cfg.Int("max_relays")),
		Page:        uint32(cfg.Int("page_events")),
		Margin:      cfg.Int("since_margin_minutes") * strategy.Minute / strategy.Second,
		Check:       cfg.Int("check_seconds") * strategy.Second,
		Visit:       visitHours(cfg),
		SecondLevel: SecondLevel(cfg.Int("second_level")),
	}
	if set.SecondLevel == authorsSecondLevel {
		set.SecondLevel, set.Authors, set.AskAuthors = GitSecondLevel, true, true
	}
	for _, kind := range cfg.Ints("own_kinds") {
		switch kind {
		case 30617, 1617, 1618, 1619, 1621:
			set.Kinds = append(set.Kinds, uint32(kind))
		default:
			return set, strategy.WrongValue("own_kinds", strconv.FormatInt(kind, 10), "some of 30617, 1617, 1618, 1619, 1621")
		}
	}
	return set, nil
}

// Hours reads two settings, the fewest and the most hours. It returns the fewest, and the
// difference, in milliseconds.
func Hours(cfg strategy.Config, from, to string) (low, over int64, err error) {
	low, limit := cfg.Int(from)*strategy.Hour, cfg.Int(to)*strategy.Hour
	if limit < low {
		return 0, 0, strategy.WrongValue(to, strconv.FormatInt(limit/strategy.Hour, 10), "at least as many hours as "+from)
	}
	return low, limit - low + 1, nil
}
