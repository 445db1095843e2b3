package strategytest

import (
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"

	"talon/sdk/abi"
	"talon/sdk/strategy"
)

const manifestText = `{
  "talon_manifest": 1, "name": "x", "worlds": ["strategy"], "capabilities": ["log"],
  "config": [{"key": "wait", "type": "int", "default": 5}]
}`

// probe keeps its configuration, and runs a function as its Step.
type probe struct {
	cfg  strategy.Config
	fail error
	step func(in strategy.Input, out *strategy.Actions)
}

func (p *probe) Configure(cfg strategy.Config) error {
	p.cfg = cfg
	return p.fail
}

func (p *probe) Step(in strategy.Input, out *strategy.Actions) { p.step(in, out) }

func TestConfiguration(t *testing.T) {
	p := &probe{}
	New(t, manifestText, p, map[string]any{"wait": int64(7)})
	if p.cfg.Int("wait") != 7 {
		t.Errorf("wait is %d, want 7", p.cfg.Int("wait"))
	}
	p.fail = strategy.WrongValue("wait", "7", "an even number")
	if _, err := Configure(t, manifestText, p, nil); !errors.Is(err, p.fail) {
		t.Errorf("%v, want %v", err, p.fail)
	}
	if _, err := Configure(t, manifestText, p, map[string]any{"wait": "x"}); err == nil || !strings.Contains(err.Error(), "wait") {
		t.Errorf("%v, want an error that names wait", err)
	}
}

func TestActionsAsLines(t *testing.T) {
	filter := strategy.Filter{
		IDs: []strategy.ID{{1}}, Authors: []strategy.ID{{2}, {3}}, Kinds: []uint32{1, 7}, Tags: []strategy.TagFilter{{Name: "e", Values: []string{"ab", "cd"}}},
		Since: 5, Until: 6, Limit: 10,
	}
	p := &probe{step: func(in strategy.Input, out *strategy.Actions) {
		out.Connect("wss://a", 2, strings.Repeat("é", 200))
		out.Disconnect("wss://a", "done")
		out.Subscribe(strategy.Subscription{Relay: "wss://a", ID: "s", Filters: []strategy.Filter{{}, {Kinds: []uint32{1}}}, Live: true})
		out.Unsubscribe("wss://a", "s")
		out.Historic(strategy.Catchup{
			Relay: "wss://a", ID: "h", Filter: filter, Method: strategy.MethodREQ, Purpose: strategy.PurposeReconnect, Page: 500, Push: true, Holdings: true,
		})
		out.SetTimer("t", in.Now()+strategy.Second)
		out.SetTimer("u", -5)
		out.StopTimer("t")
		out.Uncovered("wss://a", 1, 300, 0)
		if out.Len() != 9 || out.Size() == 0 {
			t.Errorf("%d actions of %d bytes", out.Len(), out.Size())
		}
		in.Log(strategy.Warn, "said")
	}}
	h := New(t, manifestText, p, nil)
	h.Want(&abi.StepInit{},
		"connect wss://a priority 2: "+strings.Repeat("é", 128),
		"disconnect wss://a: done",
		"subscribe wss://a s live {} {kinds 1}",
		"unsubscribe wss://a s",
		"historic wss://a h req reconnect page 500 push holdings {ids 01"+strings.Repeat("0", 62)+"; authors 02"+strings.Repeat("0", 62)+
			" 03"+strings.Repeat("0", 62)+"; kinds 1 7; #e ab cd; since 5; until 6; limit 10}",
		"timer t 1700000001000",
		"timer u 1",
		"timer t off",
		"uncovered wss://a repositories 1 roots 300")
	if !slices.Equal(h.Logged, []string{"said"}) {
		t.Errorf("logged %q", h.Logged)
	}
}

// TestInputs gives a strategy each kind of input, and expects that it can read
// what was said.
func TestInputs(t *testing.T) {
	var got any
	p := &probe{step: func(in strategy.Input, out *strategy.Actions) {
		switch in.Kind() {
		case strategy.Init:
			world := in.Init()
			it := world.Repositories()
			it.Next()
			repo := it.Repository()
			got = []any{world.First(), world.Complete(), world.Limits, repo.Address, repo.NumRoots()}
		case strategy.LocalEvent:
			event := in.LocalEvent()
			relays := event.Relays()
			got = []any{event.Kind, relays.Next(), relays.Text(), strategy.Hex(event.ID)}
		case strategy.RepoGone:
			got = in.RepoGone()
		case strategy.RelayConnected:
			got = in.RelayConnected()
		case strategy.RelayDisconnected:
			got = in.RelayDisconnected()
		case strategy.Eose:
			got = in.Eose()
		case strategy.Closed:
			got = in.Closed()
		case strategy.HistoricDone:
			got = in.HistoricDone()
		case strategy.Notice:
			got = in.Notice()
		case strategy.TimerFired:
			got = in.TimerFired()
		case strategy.RootActivity:
			a := in.RootActivity()
			got = a.NumRoots()
		case strategy.Repeats:
			got = in.Repeats()
		}
	}}
	h := New(t, manifestText, p, nil)
	for _, test := range []struct {
		input abi.Input
		want  any
	}{
		{&abi.StepInit{Repositories: []abi.KnownRepository{{Address: "30617:ab:x", Roots: make([][32]byte, 1)}}},
			[]any{true, true, Limits, "30617:ab:x", 1}},
		{&abi.StepInit{Part: 1, More: true, Repositories: []abi.KnownRepository{{}}}, []any{false, false, abi.StepLimits{}, "", 0}},
		{&abi.LocalEvent{Kind: 30617, Relays: []string{"wss://a"}}, []any{uint32(30617), true, "wss://a", strings.Repeat("0", 64)}},
		{&abi.RepoGone{Repository: "x"}, abi.RepoGone{Repository: "x"}},
		{&abi.RelayConnected{Relay: "a", LastConnected: 5}, abi.RelayConnected{Relay: "a", LastConnected: 5}},
		{&abi.RelayDisconnected{Relay: "a", Class: strategy.ClassLost}, abi.RelayDisconnected{Relay: "a", Class: strategy.ClassLost}},
		{&abi.Eose{Relay: "a", Events: 5}, abi.Eose{Relay: "a", Events: 5}},
		{&abi.Closed{Relay: "a", ID: "s"}, abi.Closed{Relay: "a", ID: "s"}},
		{&abi.HistoricDone{Relay: "a", Need: 5}, abi.HistoricDone{Relay: "a", Need: 5}},
		{&abi.Notice{Relay: "a", Text: "x"}, abi.Notice{Relay: "a", Text: "x"}},
		{&abi.TimerFired{ID: "t", At: 5}, abi.TimerFired{ID: "t", At: 5}},
		{&abi.RootActivity{Roots: make([][32]byte, 2), Latest: []uint32{7, 8}}, 2},
		{&abi.Repeats{Relay: "a", Events: 5}, abi.Repeats{Relay: "a", Events: 5}},
	} {
		got = nil
		h.Want(test.input)
		if !reflect.DeepEqual(got, test.want) {
			t.Errorf("%T: %+v, want %+v", test.input, got, test.want)
		}
	}
}

func TestTimersFireInOrder(t *testing.T) {
	var fired []string
	var at []int64
	p := &probe{step: func(in strategy.Input, out *strategy.Actions) {
		if in.Kind() == strategy.Init {
			for i, id := range []string{"c", "a", "b"} {
				out.SetTimer(id, in.Now()+int64(3-i)*strategy.Second)
			}
			return
		}
		fired, at = append(fired, in.TimerFired().ID), append(at, in.Now()-Start)
		if in.TimerFired().ID == "b" {
			out.SetTimer("c", in.Now())
			out.StopTimer("a")
		}
	}}
	h := New(t, manifestText, p, nil)
	h.Step(&abi.StepInit{})
	if h.Pass(strategy.Second - 1); len(fired) != 0 {
		t.Errorf("%q fired early", fired)
	}
	h.WantAfter(strategy.Minute, "timer c 1700000001000", "timer a off")
	if !slices.Equal(fired, []string{"b", "c"}) || !slices.Equal(at, []int64{1000, 1000}) || h.Now != Start+strategy.Minute+strategy.Second-1 {
		t.Errorf("%q fired at %d, and now is %d", fired, at, h.Now-Start)
	}
	h.Step(&abi.StepInit{})
	h.Step(&abi.StepInit{})
	fired = nil
	if h.Pass(strategy.Minute); !slices.Equal(fired, []string{"b", "c"}) {
		t.Errorf("after another init, %q fired", fired)
	}
}

func TestAStepAllocatesNothing(t *testing.T) {
	p := &probe{step: func(in strategy.Input, out *strategy.Actions) {
		if in.Kind() == strategy.Eose {
			eose := in.Eose()
			out.Unsubscribe(eose.Relay, eose.ID)
			out.SetTimer("t", in.Now())
		}
	}}
	call, b := strategy.NewCall(nil), make([]byte, 0, 1<<10)
	request := abi.AppendStep(nil, 5, &abi.Eose{Relay: "wss://a", ID: "s"})
	if n := testing.AllocsPerRun(100, func() { call.Step(p, request, b) }); n != 0 {
		t.Errorf("%v allocations, want 0", n)
	}
}
