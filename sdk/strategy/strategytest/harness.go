// Package strategytest runs a strategy natively for go test, as a story of inputs and actions:
//
//	func TestConnects(t *testing.T) {
//		h := strategytest.New(t, manifest, new(plan), nil)
//		h.Want(&abi.RelayConnected{Relay: "wss://r"},
//			`subscribe wss://r announcements {kinds 30617 30618}`)
//		h.WantAfter(5*strategy.Second, `disconnect wss://r: nothing left`)
//	}
//
// The configuration is checked against the manifest, inputs and actions are
// encoded, read in place and decoded within limits, as a host does it.
package strategytest

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"talon/sdk/abi"
	"talon/sdk/abi/manifest"
	"talon/sdk/strategy"
	"talon/sdk/strategy/story"
)

// Start is the time of a harness when it is made, in unix milliseconds.
const Start int64 = story.Start

// Limits are the limits of a host, unless a test sets others.
var Limits = story.Limits

// Harness runs one configured strategy. Change its fields between steps.
type Harness struct {
	Now    int64    // unix milliseconds
	Logged []string // lines that the strategy has logged

	t        testing.TB
	step     story.Step
	player   *story.Player
	manifest *manifest.Manifest
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

// Configure is like New, but returns the error.
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
	h := &Harness{Now: Start, t: t, manifest: m}
	call := strategy.NewCall(host{h})
	h.step = func(request []byte) ([]byte, error) { return call.Step(s, request, nil) }
	h.player = story.NewPlayer(h.step)
	return h, nil
}

// Step gives the strategy an input and returns its actions. An init without limits gets [Limits].
func (h *Harness) Step(input abi.Input) []abi.StepAction {
	h.t.Helper()
	if init, ok := input.(*abi.StepInit); ok && init.Part == 0 && init.Limits == (abi.StepLimits{}) {
		init.Limits = Limits
	}
	h.player.Now = h.Now
	actions, err := h.player.Step(input)
	if err != nil {
		h.t.Fatal(err)
	}
	return actions
}

// Want fails the test unless the strategy answers input with these actions, in
// this order, each as [Line] writes it.
func (h *Harness) Want(input abi.Input, lines ...string) {
	h.t.Helper()
	h.compare(h.Step(input), lines)
}

// Pass lets time pass, fires the timers that are due, in order, and returns the actions.
func (h *Harness) Pass(millis int64) []abi.StepAction {
	h.t.Helper()
	var all []abi.StepAction
	h.player.Now = h.Now
	err := h.player.Pass(millis, 10_000, fmt.Sprintf("10,000 timers in %d milliseconds", millis), func(_ int64, actions []abi.StepAction) {
		all = append(all, actions...)
	})
	if err != nil {
		h.t.Fatal(err)
	}
	h.Now = h.player.Now
	return all
}

// WantAfter is like Want, for the actions while time passes.
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

// Line writes an action as one line, as [story.Line] does.
func Line(a *abi.StepAction) string { return story.Line(a) }
