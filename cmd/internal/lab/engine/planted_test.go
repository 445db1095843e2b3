package engine_test

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"talon/cmd/internal/lab/engine"
	"talon/cmd/internal/lab/result"
	"talon/cmd/internal/lab/scenario"
	"talon/cmd/internal/lab/world"
	"talon/host"
	"talon/host/plugin/guest"
	"talon/host/relaysync/session"
	"talon/internal/testkit"
	"talon/sdk/abi"
	"talon/sdk/abi/manifest"
)

// bug is a fault that a test plants into a strategy. The zero value plants none. One value is
// for one instance.
type bug struct {
	// input changes an input before the strategy gets it. It returns nil to keep the input from
	// the strategy.
	input func(b *buggy, v *abi.StepView, request []byte) []byte

	// action handles an action of the strategy. It passes on with b.do what the host gets.
	action func(b *buggy, a abi.StepAction)

	// effect changes what the host's session does.
	effect func(session.Effect) session.Effect
}

// planted is a strategy whose instances have a bug.
type planted struct {
	engine.Module
	bug bug
}

func (p *planted) New(ctx context.Context) (engine.Instance, error) {
	i, err := p.Module.New(ctx)
	return &buggy{Instance: i, bug: p.bug, late: map[string]abi.StepAction{}, fetching: map[string]string{}}, err
}

// buggy is an instance with a bug.
type buggy struct {
	engine.Instance
	bug bug

	now      int64
	kind     uint32 // of the input
	answer   []byte
	forged   []abi.Input               // inputs that the strategy gets after this one
	late     map[string]abi.StepAction // that a bug holds back, by the id of a timer
	fetching map[string]string         // relays of running historics, by relay and id
}

// anyAction reads every answer.
var anyAction = abi.ActionLimits{Actions: 1 << 20, Filters: 1 << 20, Values: 1 << 20, AllValues: 1 << 30}

func (b *buggy) Call(ctx context.Context, f guest.Func, request []byte, now int64) (answer []byte, fuel int64, err error) {
	var v abi.StepView
	if err := v.Decode(request); err != nil {
		return nil, 0, err
	}
	b.now, b.kind, b.answer, b.forged = v.Now, v.Kind, nil, nil
	if v.Kind == abi.InputTimerFired {
		if a, ok := b.late[v.TimerFired().ID]; ok {
			delete(b.late, v.TimerFired().ID)
			b.do(a)
			return b.answer, 0, nil
		}
	}
	if b.bug.input != nil {
		request = b.bug.input(b, &v, request)
	}
	for request != nil {
		answer, used, err := b.Instance.Call(ctx, f, request, now)
		fuel += used
		if err != nil {
			return nil, fuel, err
		}
		actions, err := abi.DecodeActions(answer, anyAction)
		if err != nil {
			return nil, fuel, err
		}
		for _, a := range actions {
			if b.bug.action == nil {
				b.do(a)
			} else {
				b.bug.action(b, a)
			}
		}
		request = nil
		if len(b.forged) > 0 {
			request = abi.AppendStep(nil, v.Now, b.forged[0])
			b.forged = b.forged[1:]
		}
	}
	return b.answer, fuel, nil
}

// do has the host carry out an action.
func (b *buggy) do(a abi.StepAction) { b.answer = abi.AppendAction(b.answer, &a) }

// pretend answers a request in place of the host, as if the relay had no events.
func (b *buggy) pretend(a *abi.StepAction) {
	switch a.Do {
	case abi.DoSubscribe:
		b.forged = append(b.forged, &abi.Eose{Relay: a.Relay, ID: a.ID})
	case abi.DoHistoric:
		b.forged = append(b.forged, &abi.HistoricDone{Relay: a.Relay, ID: a.ID, Method: max(a.Method, abi.MethodNegentropy), Complete: true})
	}
}

// asks reports whether an action asks a relay for events.
func asks(a *abi.StepAction) bool { return a.Do == abi.DoSubscribe || a.Do == abi.DoHistoric }

// catchesUp reports whether an action asks for what came during an absence.
func catchesUp(a *abi.StepAction) bool {
	return a.Do == abi.DoHistoric && a.Purpose == abi.PurposeReconnect
}

// afterwards holds an action back.
func (b *buggy) afterwards(a abi.StepAction, delay int64) {
	id := fmt.Sprintf("planted-%d-%d", b.now, len(b.late))
	b.late[id] = a
	b.do(abi.StepAction{Do: abi.DoSetTimer, ID: id, At: b.now + delay})
}

// onlyRoots reports whether a filter asks for what tags root events: the third layer.
func onlyRoots(f *abi.Filter) bool {
	for _, t := range f.Tags {
		if len(t.Values) > 0 && len(t.Values[0]) == 64 && strings.Contains("eEq", string(t.Name)) {
			return true
		}
	}
	return false
}

// hide keeps inputs of a kind from the strategy.
func hide(kind uint32) bug {
	return bug{input: func(_ *buggy, v *abi.StepView, request []byte) []byte {
		if v.Kind == kind {
			return nil
		}
		return request
	}}
}

var until = regexp.MustCompile(`"until":[0-9]+`)

// plantedBugs are the bugs by name.
var plantedBugs = map[string]bug{
	"none": {},
	"asks for nothing": {action: func(b *buggy, a abi.StepAction) {
		if asks(&a) {
			b.pretend(&a)
			return
		}
		b.do(a)
	}},
	"no catch-up after an outage": {action: func(b *buggy, a abi.StepAction) {
		if catchesUp(&a) {
			b.pretend(&a)
			return
		}
		b.do(a)
	}},
	"a third layer that asks for nothing": {action: func(b *buggy, a abi.StepAction) {
		if asks(&a) {
			var left []abi.Filter
			for _, f := range a.Filters {
				if !onlyRoots(&f) {
					left = append(left, f)
				}
			}
			if a.Filters = left; len(left) == 0 {
				a.Filters = nil
				b.pretend(&a)
				return
			}
		}
		b.do(a)
	}},
	"a catch-up that starts 20 minutes late": {action: func(b *buggy, a abi.StepAction) {
		if a.Do == abi.DoHistoric {
			b.afterwards(a, 20*60_000)
			return
		}
		b.do(a)
	}},
	"a CLOSE that is never sent": {action: func(b *buggy, a abi.StepAction) {
		if a.Do != abi.DoUnsubscribe {
			b.do(a)
		}
	}},
	"a relay that a new announcement names and nobody contacts": {action: func(b *buggy, a abi.StepAction) {
		if a.Do != abi.DoConnect || b.kind == abi.InputInit {
			b.do(a)
		}
	}},
	"the last value of each chunk of 100 dropped": {action: func(b *buggy, a abi.StepAction) {
		for i := range a.Filters {
			for k := range a.Filters[i].Tags {
				values := &a.Filters[i].Tags[k].Values
				var left []string
				for n, v := range *values {
					if n%100 != 99 {
						left = append(left, v)
					}
				}
				*values = left
			}
		}
		b.do(a)
	}},
	"since in milliseconds": {action: func(b *buggy, a abi.StepAction) {
		for i := range a.Filters {
			if f := &a.Filters[i]; f.Since != nil {
				since := *f.Since * 1000
				f.Since = &since
			}
		}
		b.do(a)
	}},
	"a batch confirmed at its first EOSE": {
		input: func(b *buggy, v *abi.StepView, request []byte) []byte {
			if v.Kind != abi.InputHistoricDone {
				return request
			}
			done := v.HistoricDone()
			delete(b.fetching, done.Relay+" "+done.ID)
			for _, key := range slices.Sorted(maps.Keys(b.fetching)) {
				if relay, id, _ := strings.Cut(key, " "); relay == done.Relay {
					delete(b.fetching, key)
					b.do(abi.StepAction{Do: abi.DoUnsubscribe, Relay: relay, ID: id})
					b.pretend(&abi.StepAction{Do: abi.DoHistoric, Relay: relay, ID: id})
				}
			}
			return request
		},
		action: func(b *buggy, a abi.StepAction) {
			if a.Do == abi.DoHistoric {
				b.fetching[strings.Clone(a.Relay+" "+a.ID)] = ""
			}
			b.do(a)
		},
	},
	"a page boundary inside one second": {effect: func(e session.Effect) session.Effect {
		if send, ok := e.(session.Send); ok && !bytes.Contains(send.Text, []byte(`"since"`)) {
			send.Text = until.ReplaceAllFunc(send.Text, func(b []byte) []byte {
				n, _ := strconv.ParseInt(string(b[len(`"until":`):]), 10, 64)
				return fmt.Appendf(nil, `"until":%d`, n-1)
			})
			return send
		}
		return e
	}},
	"negentropy against an empty set": {effect: func(e session.Effect) session.Effect {
		if b, ok := e.(session.Build); ok {
			b.Filter.IDs, b.Within, b.Without = []host.ID{{}}, nil, nil // there is no such event
			return b
		}
		return e
	}},
	"a subscription that the relay closed and nobody reopens": hide(abi.InputClosed),
	"never unsubscribing from a repository that is gone":      hide(abi.InputRepoGone),
}

// runPlanted runs mirror with a bug, and returns the invariant that it breaks, or an empty text.
func runPlanted(t *testing.T, mirror, polite engine.Module, name, network string, seed uint64) string {
	t.Helper()
	bug, ok := plantedBugs[name]
	if !ok {
		t.Fatalf("there is no bug %q", name)
	}
	s := builtin(t, network)
	cfg := engine.Config{World: world.Draw(s, seed), Level: result.Level(s.Level), Strategy: &planted{mirror, bug}, Throttle: polite}
	cfg.Plant(bug.effect)
	r := run(t, cfg)
	if len(r.Findings) == 0 {
		return ""
	}
	t.Logf("%s: %s, seed %d: after %v: %s: %.120s", name, network, seed, r.Findings[0].At.Duration(), r.Findings[0].Invariant, r.Findings[0].Text)
	return r.Findings[0].Invariant
}

// Scenarios find planted bugs with their defaults. They find nothing in the same strategy
// without a bug (docs/how-to-lab-scenarios.md has this table). Make scale runs every network without
// a bug, make test the two in which most bugs are found.
func TestPlantedBugs(t *testing.T) {
	if testing.Short() {
		t.Skip("compiles modules")
	}
	mirror, polite := open(t, manifest.WorldStrategy, "mirror")[0], open(t, manifest.WorldThrottle, "polite")[0]
	without := map[string]bool{} // networks in which the strategy ran without a bug
	for _, c := range []struct {
		bug, scenario string
		seed          uint64
		invariant     string
	}{
		{"no catch-up after an outage", "small", 3, "late"},
		{"a third layer that asks for nothing", "copies", 1, "late"},
		{"a catch-up that starts 20 minutes late", "copies", 1, "late"},
		{"a CLOSE that is never sent", "late", 1, "twice"},
		{"a relay that a new announcement names and nobody contacts", "small", 1, "late"},
		{"a page boundary inside one second", "pages", 1, "late"},
		{"negentropy against an empty set", "copies", 1, "offered"},
		{"the last value of each chunk of 100 dropped", "start", 3, "late"},
		{"since in milliseconds", "limits", 1, "late"},
		{"a batch confirmed at its first EOSE", "limits", 1, "late"},
		{"a subscription that the relay closed and nobody reopens", "limits", 1, "late"},
		{"never unsubscribing from a repository that is gone", "late", 3, "gone"},
	} {
		if got := runPlanted(t, mirror, polite, c.bug, c.scenario, c.seed); got != c.invariant {
			t.Errorf("%s: %s, seed %d: %q is broken; want %s", c.bug, c.scenario, c.seed, got, c.invariant)
		}
		key := fmt.Sprint(c.scenario, " ", c.seed)
		if without[key] || !testkit.Scale() && key != "limits 1" && key != "copies 1" {
			continue
		}
		without[key] = true
		if got := runPlanted(t, mirror, polite, "none", c.scenario, c.seed); got != "" {
			t.Errorf("no bug: %s, seed %d: %s is broken", c.scenario, c.seed, got)
		}
	}
}

// A strategy that asks for nothing fails in each scenario: in those of the level wire, with
// TALON_TEST_DEVNET in the others too.
func TestAsksForNothing(t *testing.T) {
	if testing.Short() {
		t.Skip("compiles modules")
	}
	mirror, polite := open(t, manifest.WorldStrategy, "mirror")[0], open(t, manifest.WorldThrottle, "polite")[0]
	for _, name := range scenario.Names() {
		if builtin(t, name).Level != string(result.Wire) && os.Getenv("TALON_TEST_DEVNET") == "" {
			continue
		}
		if got := runPlanted(t, mirror, polite, "asks for nothing", name, 1); got == "" {
			t.Errorf("%s: no invariant is broken", name)
		}
	}
}
