package strategytest

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"talon/sdk/abi"
	"talon/sdk/strategy"
)

// watcher keeps many subscriptions open on each relay, and opens again what a relay
// ends: which one that is decides all that follows.
type watcher struct {
	relays []string
	values []string
	serial int
}

func (w *watcher) Configure(strategy.Config) error { return nil }

func (w *watcher) Step(in strategy.Input, out *strategy.Actions) {
	switch in.Kind() {
	case strategy.Init:
		world := in.Init()
		for it := world.Repositories(); it.Next(); {
			r := it.Repository()
			w.values = append(w.values, r.Address)
			for relays := r.Relays(); relays.Next(); {
				if url := relays.Text(); !slices.Contains(w.relays, url) {
					w.relays = append(w.relays, url)
					out.Connect(url, 0, "")
				}
			}
		}
	case strategy.RelayConnected:
		relay := in.RelayConnected().Relay
		for _, v := range w.values {
			w.ask(out, relay, v)
		}
	case strategy.Closed:
		c := in.Closed()
		w.ask(out, c.Relay, w.values[w.serial%len(w.values)])
	}
}

func (w *watcher) ask(out *strategy.Actions, relay, value string) {
	w.serial++
	f := strategy.Filter{Tags: []strategy.TagFilter{{Name: "a", Values: []string{value}}}}
	out.Subscribe(strategy.Subscription{Relay: relay, ID: fmt.Sprintf("s%d", w.serial), Filters: []strategy.Filter{f}})
	out.Historic(strategy.Catchup{Relay: relay, ID: fmt.Sprintf("h%d", w.serial), Filter: f})
}

// The same seed makes the same run, to the last input and action; another one another.
func TestConvergeRepeats(t *testing.T) {
	run := func(seed uint64) (lines []string) {
		converge(t, manifestText, new(watcher), nil, seed, 6, func(line string) { lines = append(lines, line) })
		return lines
	}
	for seed := range uint64(5) {
		first := run(seed)
		ended := slices.ContainsFunc(first, func(line string) bool { return strings.Contains(line, fmt.Sprintf("Class:%d", abi.ClassError)) })
		if !ended || len(first) < 1000 {
			t.Fatalf("seed %d: %d lines, relays ended subscriptions: %v", seed, len(first), ended)
		}
		again := run(seed)
		for i := range min(len(first), len(again)) {
			if first[i] != again[i] {
				t.Fatalf("seed %d: line %d is\n%s and then\n%s", seed, i, first[i], again[i])
			}
		}
		if len(first) != len(again) {
			t.Fatalf("seed %d: %d lines and then %d", seed, len(first), len(again))
		}
	}
	if slices.Equal(run(1), run(2)) {
		t.Error("the seed changes nothing")
	}
}
