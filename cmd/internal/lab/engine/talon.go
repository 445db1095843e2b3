package engine

import (
	"context"
	"log/slog"
	"maps"
	"slices"

	"talon/cmd/internal/lab/world"
	"talon/host"
	"talon/host/gitfetch/queue"
	"talon/host/relaymodel"
	"talon/host/relaysync"
	"talon/host/relaysync/health"
	"talon/host/relaysync/known"
	"talon/host/relaysync/loop"
	"talon/host/relaysync/match"
	"talon/internal/simclock"
	"talon/sdk/grasp"
)

// talon is one that runs the modules under test.
type talon struct {
	*world.Talon
	e      *engine
	limits relaysync.Limits
	remote *remote // how others see it
	skew   int64   // its clock is wrong by so much
	disk   float64 // how much slower than usual its disk is
	stops  int     // faults that keep it down

	// Each start creates the fields below.
	up       bool
	runs     int // starts so far
	loop     *loop.Loop
	known    *known.Set
	hash     match.Hash
	health   loop.Health
	keeper   *health.Keeper
	strategy strategy
	throttle Instance
	lines    map[loop.ConnID]*line
	turning  simclock.Alarm
	pipeline pipeline
	fetcher  *fetcher // nil: there are no git servers
	began    int64

	// The fields below stay over a restart.
	records   map[string][]byte
	holdings  map[string][]byte // what relays are believed to hold
	healthy   memory
	named     map[string]bool          // ids and addresses of what is stored
	held      map[host.ID]*world.Event // in purgatory
	heldUntil map[host.ID]int64
	direct    map[host.ID]bool         // that clients sent
	data      map[uint32]bool          // git data that is here, by event
	domains   map[string]*queue.Record // what is known of git servers
	use       [2]usage                 // of the strategy, of the throttle
	stats     loop.Stats
}

func newTalon(e *engine, w *world.Talon) *talon {
	t := &talon{
		Talon: w, e: e, limits: relaysync.DefaultLimits, remote: e.remotes[e.w.TalonPlace(w.Number)], disk: 1,
		hash: match.NewHash(relaymodel.Mix(e.w.Seed), uint64(w.Number)), healthy: memory{}, holdings: map[string][]byte{}, named: map[string]bool{},
		held: map[host.ID]*world.Event{}, heldUntil: map[host.ID]int64{}, direct: map[host.ID]bool{}, data: map[uint32]bool{}, domains: map[string]*queue.Record{},
	}
	t.limits.Connections = e.w.Scenario.Talon.Connections
	t.limits.Subscriptions = e.w.Scenario.Talon.Subscriptions
	t.limits.Relays = max(t.limits.Relays, len(e.remotes))
	t.turning = e.NewAlarm(t.turn)
	return t
}

// start begins, or begins again.
func (t *talon) start(first bool) error {
	t.runs++
	t.known = known.New(t.hash, t.limits.Refused, t.limits.RefusedAge)
	t.lines = map[loop.ConnID]*line{}
	t.pipeline = pipeline{}
	var bootstrap []string
	for _, r := range t.e.w.Relays {
		if r.Bootstrap {
			bootstrap = append(bootstrap, r.URL)
		}
	}
	if err := t.startHealth(); err != nil {
		return err
	}
	t.strategy = strategy{t: t}
	if first {
		// A module that cannot be started at all is an error of the caller.
		var err error
		if t.strategy.instance, err = t.e.cfg.Strategy.New(t.e.ctx); err != nil {
			return err
		}
		t.strategy.fresh = true
	}
	service := grasp.Service{Host: t.Domain}
	l, err := loop.New(loop.Config{
		Own: []string{t.Domain}, Bootstrap: bootstrap, AllowPush: t.e.w.Scenario.Talon.Push, Limits: t.limits.Loop(),
		Seed: int64(relaymodel.Mix(t.e.w.Seed+uint64(t.Number)) >> 1),
	}, loop.Deps{
		Strategy: &t.strategy, Facts: t, Health: t.health,
		Hosted: func(a *grasp.Announcement) (bool, error) { return a.ListsService(service), nil },
	})
	if err != nil {
		return err
	}
	t.loop, t.up, t.began = l, true, t.e.Now()
	l.Start(t.now(), t.records)
	if len(t.e.gits) > 0 {
		t.fetcher = newFetcher(t)
		t.fetcher.work()
	}
	t.turn()
	return nil
}

// startHealth begins with the throttle, if there is one.
func (t *talon) startHealth() (err error) {
	if t.e.cfg.Throttle != nil {
		if t.throttle, err = t.e.cfg.Throttle.New(t.e.ctx); err != nil {
			return err
		}
	}
	t.keeper, err = health.Open(t.e.ctx, throttleModule{t}, t.healthy, slog.New(slog.DiscardHandler))
	t.health = t.keeper
	return err
}

// stop ends everything. With crash set nothing is saved that was not before.
func (t *talon) stop(crash bool) {
	if !t.up {
		return
	}
	t.up = false
	if t.fetcher != nil {
		t.fetcher.stop(crash)
		t.fetcher = nil
	}
	for _, id := range slices.Sorted(maps.Keys(t.lines)) {
		t.lines[id].disconnect()
	}
	if records := t.loop.Stop(t.now()); !crash {
		t.save(records)
	}
	t.keepHealth()
	t.count()
	t.close()
}

// keepHealth saves what is known of relays, as the keeper does now and then.
func (t *talon) keepHealth() {
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	_ = t.keeper.Run(ended, 1<<62)
}

// close ends the modules.
func (t *talon) close() {
	t.strategy.close()
	if t.throttle != nil {
		t.throttle.Close()
		t.throttle = nil
	}
}

// count adds what the loop has counted.
func (t *talon) count() {
	st := t.loop.Stats()
	t.stats.Faults += st.Faults
	t.stats.Retries += st.Retries
	t.stats.Polls += st.Polls
	for i, n := range st.Refused {
		t.stats.Refused[i] += n
	}
}

func (t *talon) save(records map[string][]byte) {
	if t.records == nil {
		t.records = map[string][]byte{}
	}
	maps.Copy(t.records, records)
	for relay, record := range records {
		if record == nil {
			delete(t.holdings, relay)
		}
	}
	maps.DeleteFunc(t.records, func(_ string, r []byte) bool { return r == nil })
}

// now is the time of its clock, in unix milliseconds.
func (t *talon) now() int64 { return t.e.unix() + t.skew }

// sinceBegin is a time of its clock as one of the run.
func (t *talon) sinceBegin(at int64) int64 {
	if at >= never/2 {
		return never
	}
	return at - t.e.w.Start - t.skew
}

// turn gives the loop its turn, and does what it wants done.
func (t *talon) turn() {
	if !t.up {
		return
	}
	t.perform()
	next := t.loop.Turn(t.now())
	t.perform()
	t.turning.Set(t.sinceBegin(next))
}

func (t *talon) perform() {
	for effects := t.loop.Effects(); len(effects) > 0; effects = t.loop.Effects() {
		for _, e := range effects {
			t.effect(e)
		}
	}
}

func (t *talon) effect(e loop.Effect) {
	switch e := e.(type) {
	case loop.Dial:
		t.dial(e)
	case loop.CloseConn:
		if l := t.lines[e.Conn]; l != nil {
			l.disconnect()
		}
	case loop.Execute:
		if l := t.lines[e.Conn]; l != nil {
			l.do(e.Command)
		}
	case loop.Save:
		t.save(e.Records)
		t.loop.Saved(t.now(), nil)
	case loop.Resubmit:
		t.resubmit(e)
	case loop.MetricChange:
		t.e.watch.measure(t, e)
	}
}

// dial begins an attempt. If the world has no such relay, the attempt fails as one with an
// unknown host name.
func (t *talon) dial(d loop.Dial) {
	r := t.e.watch.remotes[d.Relay]
	if r == nil || r == t.remote {
		t.e.watch.strange(t, d.Relay, r == t.remote)
		t.e.After(50, func() {
			t.loop.Down(t.now(), d.Relay, d.Conn, relaysync.Classify(errNoName, false))
			t.turn()
		})
		return
	}
	l := newLine(t, r, d)
	t.lines[d.Conn] = l
	l.dial()
}

// fault begins or ends one.
func (t *talon) fault(f *world.Fault, begins bool) {
	switch f.What {
	case "restart", "crash":
		if begins {
			if t.stops++; t.stops == 1 {
				t.stop(f.What == "crash")
				t.remote.setAway(1, 0)
				t.e.git[t.Domain].setAway(1, 0)
			}
		} else if t.stops--; t.stops == 0 {
			t.remote.setAway(-1, 0)
			t.e.git[t.Domain].setAway(-1, 0)
			if err := t.start(false); err != nil {
				t.e.watch.failed(t, err)
			}
		}
	case "swap":
		if begins && t.up {
			t.strategy.close()
			t.loop.Swapped(t.now())
			t.turn()
		}
	case "disk":
		t.disk = map[bool]float64{true: f.Factor, false: 1}[begins]
	case "skew":
		if begins {
			t.skew += f.Skew
		} else {
			t.skew -= f.Skew
		}
		if t.up {
			t.turn() // what is due by the new time
		}
	}
}

// memory is a disk that keeps records.
type memory map[string][]byte

func (m memory) Load(context.Context) (map[string][]byte, error) { return maps.Clone(m), nil }

func (m memory) Save(_ context.Context, records map[string][]byte) error {
	maps.Copy(m, records)
	maps.DeleteFunc(m, func(_ string, r []byte) bool { return r == nil })
	return nil
}

// store is what is stored here: what others are served.
func (t *talon) store() *relaymodel.Store { return t.remote.relay.Store() }

// Query answers the loop's queries of the store.
func (t *talon) Query(f host.Filter) (texts [][]byte, err error) {
	for _, e := range t.store().Query(&f) {
		texts = append(texts, e.JSON)
	}
	return texts, nil
}

// HeldBy answers the loop's queries of purgatory.
func (t *talon) HeldBy(f host.Filter) (texts [][]byte, err error) {
	for _, e := range t.heldBy(&f) {
		texts = append(texts, e.JSON)
	}
	return texts, nil
}

func (t *talon) heldBy(f *host.Filter) (list []*host.Event) {
	for _, e := range t.held {
		if f.Matches(e.Event) {
			list = append(list, e.Event)
		}
	}
	slices.SortFunc(list, func(a, b *host.Event) int {
		if a.Before(b) {
			return -1
		}
		return 1
	})
	return list
}

func (t *talon) missing(ids []host.ID) (missing []host.ID) {
	for _, id := range ids {
		if t.store().Get(id) == nil {
			missing = append(missing, id)
		}
	}
	return missing
}

// sign proves itself to relays that ask for it.
func (t *talon) sign(e *host.Event) error {
	e.PubKey = host.PubKey(t.hashedKey())
	return world.Sign(e)
}

func (t *talon) hashedKey() (key [32]byte) {
	for i := range key {
		key[i] = byte(relaymodel.Mix(uint64(t.Number*32 + i)))
	}
	return key
}
