package strategytest

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"talon/sdk/abi"
	"talon/sdk/strategy"
	"talon/sdk/strategy/story"
)

// teacher answers each input with what a story can show of it.
func teacher() *probe {
	return &probe{step: func(in strategy.Input, out *strategy.Actions) {
		switch in.Kind() {
		case strategy.LocalEvent:
			e := in.LocalEvent()
			out.Connect("wss://a", e.Kind, strategy.Hex(e.ID)[:4])
			out.SetTimer("t", in.Now()+90*strategy.Second)
		case strategy.RelayConnected:
			values := []string{"x8", "x9", strings.Repeat("0", 64), "0001" + strings.Repeat("0", 60), "0002" + strings.Repeat("0", 60)}
			var filters []strategy.Filter
			for _, name := range []string{"e", "E"} {
				filters = append(filters, strategy.Filter{Tags: []strategy.TagFilter{{Name: name, Values: values}}, Since: in.Now()/1000 - 60})
			}
			out.Subscribe(strategy.Subscription{Relay: "wss://a", ID: "s", Filters: filters})
			out.Historic(strategy.Catchup{Relay: "wss://a", ID: "h", Filter: strategy.Filter{Limit: in.RelayConnected().Capabilities.MaxLimit}})
		case strategy.TimerFired:
			out.Disconnect("wss://a", in.TimerFired().ID)
		case strategy.Eose, strategy.HistoricDone:
			out.Disconnect("wss://a", in.Eose().ID+in.HistoricDone().ID)
		case strategy.Closed:
			out.Unsubscribe("wss://a", in.Closed().ID)
		}
	}}
}

func TestStory(t *testing.T) {
	const text = `# A remark.
config wait 7
init
event 1621 30617:ab:x id 1..2
----
connect wss://a priority 1621: 0001
connect wss://a priority 1621: 0002

connected wss://a max_limit 5
----
subscribe wss://a s {#e #E x8 x9 0000..0002; since -1m}
historic wss://a h auto {limit 5}

after 3m
----
at 1m30s
disconnect wss://a: t

closed wss://a s too-much
----
unsubscribe wss://a s

connected wss://a
eose wss://a all
----
subscribe wss://a s {#e #E x8 x9 0000..0002; since 2m}
historic wss://a h auto {}
disconnect wss://a: s
`
	native := func(config map[string]any) (story.Step, error) {
		return New(t, manifestText, teacher(), config).step, nil
	}
	if played, err := story.Play(text, native); err != nil || played != text {
		t.Errorf("the story is played so (%v):\n%s", err, played)
	}
	wrong := strings.Replace(text, "unsubscribe wss://a s", "unsubscribe wss://a t", 1)
	if played, err := story.Play(wrong, native); err != nil || played != text || !strings.Contains(story.Difference(wrong, played), "unsubscribe wss://a t") {
		t.Errorf("a wrong answer is not seen (%v):\n%s", err, story.Difference(wrong, played))
	}
	for change, want := range map[string]string{
		"init\n":       "the story has no init",
		"max_limit 5":  "wss://a max_limit x: ",
		"after 3m\n":   "ends before these are told",
		"eose wss://a": `"nonsense" is no input`,
	} {
		with := map[string]string{"init\n": "", "max_limit 5": "max_limit x", "after 3m\n": "", "eose wss://a": "nonsense"}[change]
		broken := strings.Replace(text, change, with, 1)
		if change == "after 3m\n" {
			broken = strings.TrimSuffix(text[:strings.LastIndex(text, "----")], "\n")
		}
		if _, err := story.Play(broken, native); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %s", change, err, want)
		}
	}
}

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
