package layers_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"testing"

	"talon/sdk/abi"
	"talon/sdk/strategy"
	"talon/sdk/strategy/layers"
	"talon/sdk/strategy/strategytest"
)

const manifest = `{"talon_manifest": 1, "name": "x", "worlds": ["strategy"]}`

// flow opens and fetches all, in each way.
type flow struct {
	layers.Driver
	set layers.Settings
}

func (f *flow) Configure(strategy.Config) error {
	f.Driver.Configure(f, f.set)
	return nil
}

func (f *flow) Fresh(p *layers.Peer, purpose uint32) {
	f.After(p, layers.Daily, strategy.Hour)
	p.Forget()
	p.Open(layers.Announcements, layers.Opening{Live: true})
	p.Fetch(layers.Announcements, layers.Fetching{Track: true, Purpose: purpose})
	f.New(p, p.Plan())
}

func (f *flow) Resume(p *layers.Peer, since int64) {
	p.Clear()
	p.Open(layers.Announcements, layers.Opening{Since: since})
	p.Open(layers.Of(p.Confirmed), layers.Opening{Since: since})
	f.New(p, p.Plan())
}

func (f *flow) New(p *layers.Peer, items layers.Items) {
	if p.Crowded(items, 10, false) {
		p.Clear()
		p.Open(layers.Of(p.Confirmed), layers.Opening{Live: true})
		items = p.Plan()
	}
	p.Open(layers.Of(items), layers.Opening{Track: true})
}

func (f *flow) Settled(p *layers.Peer) { f.After(p, layers.Delay, strategy.Minute) }

func (f *flow) Timer(p *layers.Peer, kind layers.Kind) {
	if kind == layers.Daily {
		f.Fresh(p, strategy.PurposeDaily)
	} else {
		p.Fetch(layers.Of(p.Confirmed), layers.Fetching{Apart: 1000})
	}
}

// TestWhateverHappens gives a driver inputs of all kinds, in any order and under any
// limits. The harness refuses an answer over them; no answer may take the strategy
// into a loop.
func TestWhateverHappens(t *testing.T) {
	for seed := range uint64(60) {
		random := rand.New(rand.NewPCG(seed, 1))
		pick := func(list ...uint32) uint32 { return list[random.IntN(len(list))] }
		h := strategytest.New(t, manifest, &flow{set: layers.Settings{
			Kinds: []uint32{30617, 1621}, Values: random.IntN(20) + 1, Connections: 5, Margin: 900, Within: strategy.Minute,
			Window: random.Int64N(2) * strategy.Second, Check: strategy.Minute, AtOnce: random.IntN(2) == 0, Keep: random.IntN(3) == 0,
			Skip: func(url string) bool { return url == "wss://5" },
		}}, nil)
		limits := strategytest.Limits
		limits.Subscriptions, limits.Filters, limits.Values = pick(0, 1, 3, 70), pick(0, 1, 2, 3, 10), pick(0, 1, 2, 5, 200)
		limits.Historics, limits.Actions, limits.Bytes = pick(0, 1, 10), pick(2, 3, 1000), pick(0, 600, 1500, 1<<18)
		relay := func() string { return fmt.Sprintf("wss://%d", random.IntN(8)) }
		repo := func() string { return fmt.Sprintf("30617:ab:%d", random.IntN(30)) }
		ids := []string{"", "x", "live-99999999999", "past--1"}
		for step := range 600 {
			var in abi.Input
			id := func() string {
				if random.IntN(4) == 0 {
					return ids[random.IntN(len(ids))]
				}
				return fmt.Sprintf("%s-%d", []string{"live", "req", "past"}[random.IntN(3)], random.IntN(step/3+5))
			}
			switch random.IntN(12) {
			case 0:
				in = &abi.RelayConnected{Relay: relay(), DisconnectedAt: random.Int64N(h.Now), Capabilities: abi.Capabilities{
					Negentropy: pick(0, 1, 2), MaxSubscriptions: pick(0, 0, 1, 5), MaxFilters: pick(0, 0, 1, 4), MaxMessage: pick(0, 0, 100, 4096),
				}}
			case 1:
				in = &abi.RelayDisconnected{Relay: relay(), Class: pick(7, 8, 9, 10, 11), Connected: random.IntN(2) == 0, Failures: pick(0, 9), RetryAt: int64(pick(0, 1))}
			case 2:
				in = &abi.Eose{Relay: relay(), ID: id(), Events: pick(0, 5), MinCreatedAt: random.Int64N(100)}
			case 3:
				in = &abi.Closed{Relay: relay(), ID: id(), Class: pick(0, 1, 5, 10)}
			case 4, 5:
				in = &abi.HistoricDone{Relay: relay(), ID: id(), Complete: random.IntN(3) > 0, Class: pick(0, 1, 4, 5), Method: pick(0, 1, 2), MinCreatedAt: random.Int64N(100)}
			case 6:
				in = &abi.RepoGone{Repository: repo()}
			case 7:
				in = &abi.LocalEvent{Kind: 30617, Repositories: []string{repo()}, Relays: []string{relay(), relay(), ""}, Level: pick(0, 1, 2, 9)}
			case 8, 9:
				in = &abi.LocalEvent{ID: [32]byte{byte(random.IntN(256))}, Kind: 1621, Repositories: []string{repo(), repo()}}
			case 10:
				in = &abi.TimerFired{ID: "next", At: h.Now}
			default:
				h.Pass(random.Int64N(2 * strategy.Minute))
				continue
			}
			if step%200 == 0 {
				in = &abi.StepInit{
					Seed: int64(seed), Limits: limits, Own: []string{"wss://3"},
					Relays:       []abi.RelayState{{URL: "wss://1", Bootstrap: true, Connected: true, Subscriptions: []abi.OpenSubscription{{ID: "live-3"}}}, {URL: ""}},
					Repositories: []abi.KnownRepository{{Address: repo(), Relays: []string{relay()}, Roots: make([][32]byte, 3)}, {}},
				}
			}
			for _, a := range h.Step(in) {
				if a.Relay == "wss://3" || a.Relay == "wss://5" {
					t.Fatalf("seed %d: our own address, or one to be skipped, in %s", seed, strategytest.Line(&a))
				}
			}
		}
	}
}

// TestLetGoHalfway: an answer holds only some of the relays that are let go. Nothing
// more is asked of these.
func TestLetGoHalfway(t *testing.T) {
	h := strategytest.New(t, manifest, &flow{set: layers.Settings{
		Kinds: []uint32{30617}, Values: 1, Connections: 9, Check: strategy.Hour, AtOnce: true,
	}}, nil)
	limits := strategytest.Limits
	limits.Actions = 3
	init := &abi.StepInit{Limits: limits, Repositories: []abi.KnownRepository{{Address: "30617:ab:x"}}}
	for i := range 9 {
		url := fmt.Sprintf("wss://%d", i)
		init.Relays = append(init.Relays, abi.RelayState{URL: url, Wanted: true, Connected: true})
		init.Repositories[0].Relays = append(init.Repositories[0].Relays, url)
	}
	h.Step(init)
	gone := map[string]bool{}
	look := func(actions []abi.StepAction) {
		for _, a := range actions {
			if gone[a.Relay] {
				t.Errorf("after it was let go: %s", strategytest.Line(&a))
			}
			if a.Do == abi.DoDisconnect {
				gone[a.Relay] = true
			}
		}
	}
	look(h.Step(&abi.RepoGone{Repository: "30617:ab:x"}))
	look(h.Pass(strategy.Minute))
	if len(gone) != 9 {
		t.Errorf("let go of %v, want all nine", gone)
	}
}

// counting counts the fresh starts of each step.
type counting struct {
	flow
	inStep, most, all int
}

func (c *counting) Configure(strategy.Config) error {
	c.Driver.Configure(c, c.set)
	return nil
}

func (c *counting) Step(in strategy.Input, out *strategy.Actions) {
	c.inStep = 0
	c.Driver.Step(in, out)
	c.most = max(c.most, c.inStep)
}

func (c *counting) Fresh(p *layers.Peer, purpose uint32) {
	c.inStep++
	c.all++
	c.flow.Fresh(p, purpose)
}

func (c *counting) Timer(p *layers.Peer, kind layers.Kind) {
	if kind == layers.Daily {
		c.Fresh(p, strategy.PurposeDaily)
	}
}

// TestAllAtOnce: relays that are taken over together, and those whose time comes
// together, are served over many steps, which follow immediately.
func TestAllAtOnce(t *testing.T) {
	const relays, atOnce = 200, 6
	c := &counting{flow: flow{set: layers.Settings{Values: 100, Connections: relays, Check: strategy.Hour}}}
	h := strategytest.New(t, manifest, c, nil)
	init := &abi.StepInit{Limits: strategytest.Limits, Repositories: []abi.KnownRepository{{Address: "30617:ab:x"}}}
	for i := range relays {
		url := fmt.Sprintf("wss://%d", i)
		init.Relays = append(init.Relays, abi.RelayState{URL: url, Wanted: true, Connected: true})
		if i < layers.MaxRelaysOfRepo {
			init.Repositories[0].Relays = append(init.Repositories[0].Relays, url)
		} else {
			init.Relays[i].Bootstrap = true
		}
	}
	h.Step(init)
	for _, want := range []int{relays, 2 * relays} {
		h.Pass(strategy.Second)
		if c.all != want || c.most > atOnce {
			t.Errorf("%d of %d have begun, and %d in one step, want at most %d", c.all, want, c.most, atOnce)
		}
		h.Pass(strategy.Hour - strategy.Second)
	}
}

// visitWorld is a host whose relays answer immediately, but for those that are down.
type visitWorld struct {
	h     *strategytest.Harness
	queue []abi.Input
	down  map[string]bool
	up    map[string]int64 // since when
	lost  map[string]int64 // the end of the latest connection, or the beginning of all
	visit map[string]int   // connections
	gap   int64            // the longest time for which a relay was not connected
	most  int              // connections at the same time
}

func (w *visitWorld) do(actions []abi.StepAction) {
	for i := range actions {
		a := &actions[i]
		switch a.Do {
		case abi.DoConnect:
			if w.down[a.Relay] {
				w.queue = append(w.queue, &abi.RelayDisconnected{Relay: a.Relay, Class: abi.ClassUnreachable, Failures: 1, RetryAt: w.h.Now + strategy.Hour})
				continue
			}
			w.up[a.Relay] = w.h.Now
			w.gap = max(w.gap, w.h.Now-w.lost[a.Relay])
			w.visit[a.Relay]++
			w.most = max(w.most, len(w.up))
			w.queue = append(w.queue, &abi.RelayConnected{Relay: a.Relay, DisconnectedAt: w.lost[a.Relay]})
		case abi.DoDisconnect:
			delete(w.up, a.Relay)
			w.lost[a.Relay] = w.h.Now
		case abi.DoSubscribe:
			w.queue = append(w.queue, &abi.Eose{Relay: a.Relay, ID: a.ID})
		case abi.DoHistoric:
			w.queue = append(w.queue, &abi.HistoricDone{Relay: a.Relay, ID: a.ID, Complete: true})
		}
	}
}

func (w *visitWorld) pass(millis int64) {
	for end := w.h.Now + millis; w.h.Now < end; {
		w.do(w.h.Pass(strategy.Minute))
		for len(w.queue) > 0 {
			in := w.queue[0]
			w.queue = w.queue[1:]
			w.do(w.h.Step(in))
			w.do(w.h.Pass(0))
		}
	}
}

// scale reports whether tests run in their full size, as make scale has them run.
func scale() bool { return os.Getenv("TALON_TEST_SCALE") != "" }

// seeds returns how many random stories a test tells: some in make test, all in make scale.
func seeds(some, all uint64) uint64 {
	if scale() {
		return all
	}
	return some
}

// TestVisits: of 300 relays only some can be connected to at the same time. Each of the
// others is visited every few hours, those that cannot be reached take nobody's turn for
// long, and the relays that most repositories name keep their places.
func TestVisits(t *testing.T) {
	const relays, dead = 300, 20
	for _, places := range []uint32{20, 200, 299} {
		t.Run(fmt.Sprint(places), func(t *testing.T) {
			if places == 299 && !scale() {
				t.Skip("TALON_TEST_SCALE is not set: 20 and 200 places are tried")
			}
			w := &visitWorld{down: map[string]bool{}, up: map[string]int64{}, lost: map[string]int64{}, visit: map[string]int{}}
			w.h = strategytest.New(t, manifest, &flow{set: layers.Settings{Values: 100, Check: strategy.Minute, Visit: 6 * strategy.Hour, Within: 15 * strategy.Minute}}, nil)
			limits := strategytest.Limits
			limits.Connections = places
			init := &abi.StepInit{Limits: limits}
			url := func(i int) string { return fmt.Sprintf("wss://%03d", i) }
			for i := range relays {
				w.down[url(i)] = i >= relays-dead
				w.lost[url(i)] = w.h.Now
				init.Repositories = append(init.Repositories, abi.KnownRepository{Address: fmt.Sprintf("30617:ab:%d", i), Level: abi.SyncLevelFull, Relays: []string{url(i)}})
			}
			// Five relays have ten repositories each.
			for i := range 45 {
				init.Repositories = append(init.Repositories, abi.KnownRepository{Address: fmt.Sprintf("30617:cd:%d", i), Level: abi.SyncLevelFull, Relays: []string{url(i % 5)}})
			}
			// One more has a connection, and no repository.
			init.Relays = []abi.RelayState{{URL: "wss://bootstrap", Bootstrap: true, Connected: true}}
			w.do(w.h.Step(init))
			w.pass(40 * strategy.Minute)
			if n := len(w.visit); places >= 200 && n != relays-dead {
				t.Errorf("%d relays were connected to in the first 40 minutes", n)
			}
			w.pass(3*strategy.Day - 40*strategy.Minute)
			for i := range relays - dead {
				if _, up := w.up[url(i)]; !up {
					w.gap = max(w.gap, w.h.Now-w.lost[url(i)])
				}
				// Three days have twelve times six hours: none is compared twice as often.
				if n := w.visit[url(i)]; n == 0 || n > 25 || i < 5 && n != 1 {
					t.Errorf("%s was connected to %d times", url(i), n)
				}
			}
			if w.gap > 6*strategy.Hour {
				t.Errorf("a relay was not compared for %d minutes", w.gap/strategy.Minute)
			}
			if w.most+1 > int(places) {
				t.Errorf("%d connections at once", w.most)
			}
		})
	}
}

// TestNoVisits: a strategy whose settings say nothing of visits keeps its relays.
func TestNoVisits(t *testing.T) {
	w := &visitWorld{up: map[string]int64{}, lost: map[string]int64{}, visit: map[string]int{}}
	w.h = strategytest.New(t, manifest, &flow{set: layers.Settings{Values: 100, Check: strategy.Minute}}, nil)
	limits := strategytest.Limits
	limits.Connections = 2
	init := &abi.StepInit{Limits: limits, Repositories: []abi.KnownRepository{{Address: "30617:ab:x", Relays: []string{"wss://1", "wss://2", "wss://3"}}}}
	w.do(w.h.Step(init))
	w.pass(strategy.Day)
	if w.visit["wss://1"] != 1 || w.visit["wss://2"] != 1 || w.visit["wss://3"] != 0 {
		t.Errorf("connections: %v", w.visit)
	}
}

// A relay closes a subscription while those in its place are not all open: what comes until then
// is fetched.
func TestClosedWhileReplaced(t *testing.T) {
	h := strategytest.New(t, manifest, &flow{set: layers.Settings{
		Kinds: []uint32{30617, 1621}, Values: 10, Margin: 900, Within: strategy.Hour, Check: strategy.Minute,
	}}, nil)
	const relay = "wss://a"
	few := strategytest.Limits
	few.Actions = 2 // of one step
	open, since := map[string]bool{}, 0
	take := func(actions []abi.StepAction) (closed bool) {
		for _, a := range actions {
			switch a.Do {
			case abi.DoSubscribe:
				open[a.ID] = true
			case abi.DoUnsubscribe:
				closed = closed || open[a.ID]
				delete(open, a.ID)
			case abi.DoHistoric:
				if at := a.Filters[0].Since; a.Purpose == abi.PurposeReconnect && at != nil && *at == h.Now/1000-900 {
					since++
				}
			}
		}
		return closed
	}
	announce := func(n int) []abi.StepAction {
		return h.Step(&abi.LocalEvent{
			Kind: 30617, ID: [32]byte{1}, Repositories: []string{fmt.Sprintf("30617:ab:%d", n)}, Relays: []string{relay}, Level: abi.SyncLevelFull,
		})
	}
	take(h.Step(&abi.StepInit{Limits: few}))
	take(announce(0))
	take(h.Pass(0))
	take(h.Step(&abi.RelayConnected{Relay: relay}))
	for n := 1; n < 10; n++ {
		take(h.Pass(1000))
		for id := range open {
			take(h.Step(&abi.Eose{Relay: relay, ID: id}))
		}
		before := maps.Clone(open)
		if take(announce(n)); len(before) < 4 {
			continue
		}
		// All is opened again, in several steps.
		for id := range before {
			if id != "live-0" {
				take(h.Step(&abi.Closed{Relay: relay, ID: id, Class: abi.ClassError}))
			}
		}
		take(h.Pass(0))
		if since == 0 {
			t.Error("what came until the others were open is not fetched")
		}
		return
	}
	t.Error("nothing is opened again")
}
