package layers_test

import (
	"fmt"
	"math/rand/v2"
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
