package strategytest

import (
	"slices"
	"strings"
	"testing"

	"talon/sdk/abi"
	"talon/sdk/abi/manifest"
	"talon/sdk/strategy"
)

// Start is the time of a harness when it is made, in unix milliseconds.
const Start int64 = 1_700_000_000_000

// Limits is what a host carries out, unless a test says otherwise.
var Limits = abi.StepLimits{
	Connections: 100, Subscriptions: 70, Filters: 10, Values: 200, Historics: 10, Timers: 1000, Actions: 1000,
	Bytes: 256 << 10,
}

// Harness runs one configured strategy. Change its fields between steps.
type Harness struct {
	Now    int64    // unix milliseconds
	Logged []string // lines that the strategy has logged

	t        testing.TB
	step     Step
	manifest *manifest.Manifest
	limits   abi.StepLimits
	timers   map[string]int64
}

// Step answers an encoded StepRequest with encoded StepActions, which are valid until
// the next call.
type Step func(request []byte) ([]byte, error)

// New configures s with values, as an operator writes them, and ends the test if
// that fails.
func New(t testing.TB, manifestText string, s strategy.Strategy, values map[string]any) *Harness {
	t.Helper()
	h, err := Configure(t, manifestText, s, values)
	if err != nil {
		t.Fatalf("configure: %v", err)
	}
	return h
}

// Configure does what New does, and returns the error.
func Configure(t testing.TB, manifestText string, s strategy.Strategy, values map[string]any) (*Harness, error) {
	t.Helper()
	m, err := manifest.Parse([]byte(manifestText))
	if err != nil {
		t.Fatal(err)
	}
	settings, err := m.Resolve(values)
	if err != nil {
		return nil, err
	}
	if err := strategy.Configure(s, settings); err != nil {
		return nil, err
	}
	h := newHarness(t, nil)
	h.manifest = m
	call := strategy.NewCall(host{h})
	h.step = func(request []byte) ([]byte, error) { return call.Step(s, request, nil) }
	return h, nil
}

func newHarness(t testing.TB, step Step) *Harness {
	return &Harness{Now: Start, t: t, step: step, limits: Limits, timers: make(map[string]int64)}
}

// Step gives the strategy an input and returns what is to be done. An init without
// limits gets [Limits].
func (h *Harness) Step(input abi.Input) []abi.StepAction {
	h.t.Helper()
	if init, ok := input.(*abi.StepInit); ok && init.Part == 0 {
		if init.Limits == (abi.StepLimits{}) {
			init.Limits = Limits
		}
		h.limits = init.Limits
		clear(h.timers)
	}
	b, err := h.step(abi.AppendStep(nil, h.Now, input))
	if err != nil {
		h.t.Fatalf("ask the strategy: %v", err)
	}
	if limit := h.limits.Bytes; limit > 0 && len(b) > int(limit) {
		h.t.Fatalf("the answer has %d bytes; the limit is %d", len(b), limit)
	}
	actions, err := abi.DecodeActions(b, abi.ActionLimits{
		Actions: int(h.limits.Actions), Filters: int(h.limits.Filters), Values: int(h.limits.Values), AllValues: 1 << 20,
	})
	if err != nil {
		h.t.Fatalf("a host refuses the answer: %v", err)
	}
	for _, a := range actions {
		switch {
		case a.Do != abi.DoSetTimer:
		case a.At == 0:
			delete(h.timers, a.ID)
		default:
			h.timers[a.ID] = a.At
		}
	}
	if len(h.timers) > int(h.limits.Timers) {
		h.t.Fatalf("%d timers are set; the limit is %d", len(h.timers), h.limits.Timers)
	}
	return actions
}

// Want fails the test unless the strategy answers input with these actions, in
// this order, each as [Line] writes it.
func (h *Harness) Want(input abi.Input, lines ...string) {
	h.t.Helper()
	h.compare(h.Step(input), lines)
}

// Pass lets time pass, fires the timers that are due, in order, and returns what
// is to be done.
func (h *Harness) Pass(millis int64) []abi.StepAction {
	h.t.Helper()
	end := h.Now + millis
	var all []abi.StepAction
	for fired := 0; ; fired++ {
		id, at, due := h.next(end)
		if !due {
			break
		}
		if fired > 10_000 {
			h.t.Fatalf("10,000 timers in %d milliseconds", millis)
		}
		delete(h.timers, id)
		h.Now = max(h.Now, at)
		all = append(all, h.Step(&abi.TimerFired{ID: id, At: at})...)
	}
	h.Now = end
	return all
}

// next returns the timer that is due first, until end.
func (h *Harness) next(end int64) (id string, at int64, due bool) {
	for i, t := range h.timers {
		if t <= end && (!due || t < at || t == at && i < id) {
			id, at, due = i, t, true
		}
	}
	return id, at, due
}

// WantAfter does what Want does, for what happens while time passes.
func (h *Harness) WantAfter(millis int64, lines ...string) {
	h.t.Helper()
	h.compare(h.Pass(millis), lines)
}

func (h *Harness) compare(actions []abi.StepAction, want []string) {
	h.t.Helper()
	got := make([]string, len(actions))
	for i := range actions {
		got[i] = Line(&actions[i])
	}
	if !slices.Equal(got, want) {
		h.t.Errorf("the strategy says\n\t%s\nwant\n\t%s", strings.Join(got, "\n\t"), strings.Join(want, "\n\t"))
	}
}

// host answers host functions from the fields of a Harness.
type host struct{ h *Harness }

func (f host) Log(_ strategy.Level, text string) {
	if !slices.Contains(f.h.manifest.Capabilities, abi.CapLog) {
		f.h.t.Fatalf("the strategy logs, but its manifest does not ask for the capability %q", abi.CapLog)
	}
	f.h.Logged = append(f.h.Logged, text)
}
