package loop_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"talon/host"
	"talon/host/relaymodel"
	"talon/sdk/abi"
)

// everywhere connects to relays, and fetches and follows all notes.
func everywhere(urls ...string) func(v *abi.StepView) []abi.StepAction {
	return func(v *abi.StepView) (list []abi.StepAction) {
		switch v.Kind {
		case abi.InputInit:
			for _, url := range urls {
				list = append(list, connectTo(url))
			}
		case abi.InputRelayConnected:
			url := string(v.RelayConnected().Relay)
			list = append(list, live(url, "live", 1), fetch(url, "past", 1))
		}
		return list
	}
}

// Two hundred relays that fail and come back, in one goroutine and in virtual time: all
// is here at the end, and the same happens each time.
func TestRepeats(t *testing.T) {
	all := notes(600)
	run := func() []string {
		luck := rand.New(rand.NewPCG(7, 8))
		var remotes []*remote
		var urls []string
		for i := range 200 {
			r := &remote{url: fmt.Sprintf("wss://r%d.example", i), latency: 5 + luck.Int64N(200)}
			for _, e := range all {
				if luck.IntN(40) == 0 {
					r.events = append(r.events, e)
				}
			}
			remotes, urls = append(remotes, r), append(urls, r.url)
		}
		n := newNetwork(t, everywhere(urls...), remotes...)
		for range 300 {
			r, at, down := remotes[luck.IntN(200)], luck.Int64N(1800_000), luck.Int64N(60_000)
			n.clock.After(at, func() { r.setAway(true) })
			n.clock.After(at+down, func() { r.setAway(false) })
		}
		n.pass(2 * 3600_000)
		want := map[host.ID]bool{}
		for _, r := range remotes {
			for _, e := range r.events {
				want[e.ID] = true
			}
		}
		if len(n.stored) != len(want) {
			t.Errorf("%d of %d events are here", len(n.stored), len(want))
		}
		if n.barred > 0 {
			t.Errorf("%d honest relays were barred", n.barred)
		}
		return n.log
	}
	first := run()
	if got := run(); !slices.Equal(got, first) {
		for i := range min(len(got), len(first)) {
			if got[i] != first[i] {
				t.Fatalf("effect %d: %s\nwant %s", i, got[i], first[i])
			}
		}
		t.Fatalf("%d effects, want %d", len(got), len(first))
	}
	t.Logf("%d effects", len(first))
}

// A strategy that is swapped again and again during a first sync bars nobody, and loses
// nothing.
func TestSwaps(t *testing.T) {
	list := notes(3000)
	r := &remote{url: "wss://r.example", latency: 300, events: list}
	id := 0
	n := newNetwork(t, func(v *abi.StepView) (actions []abi.StepAction) {
		url := r.url
		switch v.Kind {
		case abi.InputInit:
			actions = append(actions, connectTo(url))
			if id > 0 {
				actions = append(actions, abi.StepAction{Do: abi.DoUnsubscribe, Relay: url, ID: fmt.Sprint("s", id)})
			}
			if id++; id == 1 {
				return actions
			}
			fallthrough
		case abi.InputRelayConnected:
			s := live(url, fmt.Sprint("s", id), 1)
			s.Live = false
			actions = append(actions, s)
		}
		return actions
	}, r)
	for range 5 {
		n.pass(1300)
		n.plan.fresh = true
		n.loop.Swapped(n.clock.Now())
		n.turn()
	}
	n.pass(60_000)
	if n.barred > 0 || n.plan.count("disconnected") > 0 {
		t.Errorf("barred %d times; the strategy was told\n%s", n.barred, strings.Join(n.plan.told, "\n"))
	}
	if len(n.stored) != len(list) {
		t.Errorf("%d events are here", len(n.stored))
	}
}

// How many subscriptions a relay takes, which refuses by NOTICE only, is learnt, passed
// to the strategy, kept across restarts, and forgotten when the relay is another version.
func TestLearnsSubscriptions(t *testing.T) {
	r := &remote{url: "wss://r.example", latency: 20, profile: relaymodel.Default(), version: "strfry 1"}
	r.profile.Limits.Subscriptions = 5
	r.profile.Refuse.Subscriptions = relaymodel.Answer{By: "notice", Text: "ERROR: too many concurrent REQs"}
	n := newNetwork(t, func(v *abi.StepView) (list []abi.StepAction) {
		switch v.Kind {
		case abi.InputInit:
			list = append(list, connectTo(r.url))
		case abi.InputRelayConnected:
			count := 12
			if limit := v.RelayConnected().Capabilities.MaxSubscriptions; limit > 0 {
				count = int(limit) - 2
			}
			for i := range count {
				list = append(list, live(r.url, fmt.Sprint("l", i), uint32(i)))
			}
		}
		return list
	}, r)
	n.pass(60_000)
	learnt := func() (list []string) {
		for _, s := range n.plan.told {
			if strings.HasPrefix(s, "connected") {
				list = append(list, s)
			}
		}
		return list
	}
	if got := learnt(); !slices.Equal(got, []string{"connected subs=0 message=0", "connected subs=5 message=0"}) {
		t.Fatalf("it was told %q", got)
	}
	if failures := n.health.Get(r.url, n.clock.Now()).Failures; n.plan.count("eose") < 3 || failures != 0 {
		t.Errorf("told %q, failures %v", n.plan.told, failures)
	}
	st := n.loop.Status()
	if len(st) != 1 || st[0].Capabilities.MaxSubscriptions != 5 || !st[0].Up || st[0].Subscriptions != 3 || st[0].Pending != 0 || st[0].CompleteSince == 0 {
		t.Errorf("status %+v", st)
	}
	again := func(version string) string {
		n.stop()
		r.version, n.plan.told = version, nil
		n.start()
		n.pass(1000)
		return n.plan.told[0]
	}
	if got := again("strfry 1"); got != "connected subs=5 message=0" {
		t.Errorf("after a restart: %s", got)
	}
	r.profile.Limits.Subscriptions = 0
	if got := again("strfry 2"); got != "connected subs=0 message=0" {
		t.Errorf("after an upgrade: %s", got)
	}
}

// TestLearnsMessageSize checks that a relay that closes the connection after a large message gets
// smaller ones.
func TestLearnsMessageSize(t *testing.T) {
	list := notes(400)
	r := &remote{url: "wss://r.example", latency: 20, profile: relaymodel.Default(), events: list}
	r.profile.Limits.MessageBytes = 8000
	r.profile.Refuse.Size = relaymodel.Answer{By: "drop"}
	n := newNetwork(t, everywhere(r.url), r)
	n.pass(3600_000)
	if len(n.stored) != len(list) {
		t.Errorf("%d events are here; told %q", len(n.stored), n.plan.told)
	}
	if limit := n.loop.Status()[0].Capabilities.MaxMessage; limit == 0 || limit > 16_000 {
		t.Errorf("it learnt %d bytes", limit)
	}
}

// The failures of a relay that accepts connections and drops them are not forgotten when
// it takes the next one.
func TestAcceptsAndDrops(t *testing.T) {
	r := &remote{url: "wss://r.example", latency: 20}
	n := newNetwork(t, everywhere(r.url), r)
	var drop func()
	drop = func() {
		r.setAway(true)
		r.setAway(false)
		n.clock.After(3000, drop)
	}
	n.clock.After(3000, drop)
	n.pass(3600_000)
	if got := n.plan.count("connected"); got > 20 {
		t.Errorf("%d connections in an hour", got)
	}
}

// The loop wants its next turn when something is due, however far ahead or back that is.
func TestTurn(t *testing.T) {
	for name, at := range map[string]int64{"soon": epoch*1000 + 5000, "in an hour": (epoch + 3600) * 1000} {
		fired := false
		n := newNetwork(t, func(v *abi.StepView) []abi.StepAction {
			if v.Kind == abi.InputInit {
				return []abi.StepAction{{Do: abi.DoSetTimer, ID: "t", At: at}, {Do: abi.DoSetTimer, ID: "never", At: 1<<63 - 1}}
			}
			fired = fired || v.Kind == abi.InputTimerFired && v.Now == at
			return nil
		})
		turns := 0
		for n.clock.Next() <= at {
			n.clock.Step()
			turns++
		}
		if !fired {
			t.Errorf("%s: the timer does not fire in time", name)
		}
		if turns > 400 {
			t.Errorf("%s: %d turns", name, turns)
		}
	}
	n := newNetwork(t, func(v *abi.StepView) []abi.StepAction {
		return []abi.StepAction{{Do: abi.DoSetTimer, ID: "past", At: 1}}[:map[bool]int{true: 1}[v.Kind == abi.InputInit]]
	})
	n.pass(1000)
	if n.plan.count("timer past") != 1 {
		t.Errorf("told %q", n.plan.told)
	}
}
