package main

import (
	"strconv"
	"strings"
	"testing"

	"talon/sdk/abi"
	"talon/sdk/strategy"
	"talon/sdk/strategy/strategytest"
)

func start(t *testing.T, values map[string]any) *strategytest.Harness {
	return strategytest.New(t, manifest, new(hello), values)
}

func announce(repo string, relays ...string) *abi.LocalEvent {
	return &abi.LocalEvent{Kind: 30617, Repositories: []string{repo}, Relays: relays}
}

// root is an id in hex.
func root(first string) string { return first + strings.Repeat("0", 62) }

func TestStory(t *testing.T) {
	h := start(t, nil)
	h.Want(&abi.StepInit{})
	h.Want(announce("30617:ab:x", "wss://a", "wss://b"),
		`connect wss://a priority 1: named by 30617:ab:x`,
		`connect wss://b priority 1: named by 30617:ab:x`)
	h.Want(&abi.RelayConnected{Relay: "wss://a"},
		`subscribe wss://a wanted-0 startup {kinds 30617 30618} {#a 30617:ab:x}`)
	h.Want(announce("30617:ab:y", "wss://a"),
		`subscribe wss://a wanted-0 startup {kinds 30617 30618} {#a 30617:ab:x 30617:ab:y}`)
	// An issue is followed, together with those of the next two seconds.
	h.Want(&abi.LocalEvent{ID: [32]byte{1}, Kind: 1621, Repositories: []string{"30617:ab:y"}},
		`timer roots 1700000002000`)
	h.Want(&abi.LocalEvent{ID: [32]byte{2}, Kind: 1617, Repositories: []string{"30617:ab:y"}})
	h.WantAfter(gather, `subscribe wss://a wanted-0 startup {kinds 30617 30618} {#a 30617:ab:x 30617:ab:y} {#e `+root("01")+" "+root("02")+`} {#E `+root("01")+" "+root("02")+`}`)

	// Lost and back: everything again.
	h.Want(&abi.RelayDisconnected{Relay: "wss://a", Class: abi.ClassLost, Connected: true})
	h.Want(announce("30617:ab:x", "wss://b", "wss://b"))
	h.Want(&abi.RelayConnected{Relay: "wss://a"},
		`subscribe wss://a wanted-0 startup {kinds 30617 30618} {#a 30617:ab:y} {#e `+root("01")+" "+root("02")+`} {#E `+root("01")+" "+root("02")+`}`)

	// The last repository of a relay goes, and the relay with it.
	h.Want(&abi.RepoGone{Repository: "30617:ab:y"},
		`disconnect wss://a: no repository names it`)
	h.Want(&abi.RelayDisconnected{Relay: "wss://a", Class: abi.ClassAsked, Connected: true})
	h.Want(&abi.RepoGone{Repository: "30617:ab:unknown"})
}

func TestTakesOver(t *testing.T) {
	h := start(t, nil)
	h.Want(&abi.StepInit{
		More: true, Limits: strategytest.Limits,
		Relays: []abi.RelayState{
			{
				URL: "wss://kept", Wanted: true, Connected: true,
				Subscriptions: []abi.OpenSubscription{{ID: "old", Filters: []abi.Filter{{}}}},
				Historics:     []abi.RunningHistoric{{ID: "older"}},
			},
			{URL: "wss://left", Wanted: true, Connected: true},
			{URL: "wss://bootstrap", Bootstrap: true, Wanted: true, Connected: true},
			{URL: "wss://known"},
		},
		Repositories: []abi.KnownRepository{{Address: "30617:ab:x", Relays: []string{"wss://kept"}}},
	})
	h.Want(&abi.StepInit{
		Part:         1,
		Repositories: []abi.KnownRepository{{Address: "30617:ab:y", Relays: []string{"wss://kept", "wss://new"}}},
	},
		`disconnect wss://left: no repository names it`,
		`unsubscribe wss://kept old`,
		`unsubscribe wss://kept older`,
		`subscribe wss://kept wanted-0 startup {kinds 30617 30618} {#a 30617:ab:x 30617:ab:y}`,
		`connect wss://new priority 1: named by 30617:ab:y`,
		`subscribe wss://bootstrap wanted-0 startup {kinds 30617 30618}`)

	// The bootstrap relay was there all along.
	h.Want(announce("30617:ab:z", "wss://bootstrap"),
		`subscribe wss://bootstrap wanted-0 startup {kinds 30617 30618} {#a 30617:ab:z}`)
	h.Want(&abi.RepoGone{Repository: "30617:ab:z"},
		`subscribe wss://bootstrap wanted-0 startup {kinds 30617 30618}`)

	// A world that begins again is all that there is.
	h.Want(&abi.StepInit{Relays: []abi.RelayState{{URL: "wss://kept", Wanted: true}}},
		`disconnect wss://kept: no repository names it`)
}

func TestKeepsToLimits(t *testing.T) {
	h := start(t, map[string]any{"max_relays": int64(2)})
	h.Want(&abi.StepInit{Repositories: []abi.KnownRepository{
		{Address: "30617:ab:x", Relays: []string{"wss://a", "wss://b", "wss://c"}}, {Address: "30617:ab:y", Relays: []string{"wss://c"}},
	}},
		`connect wss://c priority 2: named by 30617:ab:x`,
		`connect wss://a priority 1: named by 30617:ab:x`)
	h.Want(announce("30617:ab:x", "wss://b", "wss://c"),
		`disconnect wss://a: no repository names it`,
		`connect wss://b priority 1: named by 30617:ab:x`)
}

func TestManyRepositories(t *testing.T) {
	h := start(t, nil)
	limits := abi.StepLimits{Connections: 9, Subscriptions: 2, Filters: 2, Values: 3, Actions: 9}
	init := &abi.StepInit{Limits: limits, Relays: []abi.RelayState{{URL: "wss://a", Wanted: true, Connected: true}}}
	for i := range 9 {
		init.Repositories = append(init.Repositories, abi.KnownRepository{Address: strconv.Itoa(i), Relays: []string{"wss://a"}})
	}
	h.Want(init,
		`subscribe wss://a wanted-0 startup {kinds 30617 30618} {#a 0 1}`,
		`subscribe wss://a wanted-1 startup {#a 2 3} {#a 4 5}`)
	for i := range 6 {
		h.Step(&abi.RepoGone{Repository: strconv.Itoa(i)})
	}
	h.Want(&abi.RepoGone{Repository: "6"},
		`subscribe wss://a wanted-0 startup {kinds 30617 30618} {#a 7 8}`,
		`unsubscribe wss://a wanted-1`)
}

// TestMoreThanOneAnswerHolds lets the harness refuse an answer that is too large.
func TestMoreThanOneAnswerHolds(t *testing.T) {
	for name, change := range map[string]func(*abi.StepLimits){
		"actions": func(l *abi.StepLimits) { l.Actions = 3 },
		"bytes":   func(l *abi.StepLimits) { l.Bytes = 1000 },
	} {
		h := start(t, nil)
		init := &abi.StepInit{Limits: strategytest.Limits}
		init.Limits.Values, init.Limits.Filters = 2, 1 // nine repositories, and announcements
		change(&init.Limits)
		for _, url := range []string{"wss://a", "wss://b"} {
			r := abi.RelayState{URL: url, Wanted: true, Connected: true}
			for i := range 9 {
				r.Subscriptions = append(r.Subscriptions, abi.OpenSubscription{ID: "old-" + strconv.Itoa(i)})
			}
			init.Relays = append(init.Relays, r)
		}
		for i := range 9 {
			init.Repositories = append(init.Repositories, abi.KnownRepository{Address: "repo-" + strconv.Itoa(i), Relays: []string{"wss://a", "wss://b", "wss://c"}})
		}
		done := make(map[string]int)
		for _, a := range append(h.Step(init), h.Pass(0)...) {
			if a.Do != abi.DoSetTimer {
				done[strategytest.Line(&a)]++
			}
		}
		if n := 2*9 + 2*10 + 1; len(done) != n {
			t.Errorf("%s: %d different actions, want %d", name, len(done), n)
		}
		for line, n := range done {
			if n != 1 {
				t.Errorf("%s: %d times %s", name, n, line)
			}
		}
	}
}

func TestNothingIsAllowed(t *testing.T) {
	h := start(t, nil)
	h.Want(&abi.StepInit{
		Limits:       abi.StepLimits{Actions: 9},
		Relays:       []abi.RelayState{{URL: "wss://a", Wanted: true, Connected: true}},
		Repositories: []abi.KnownRepository{{Address: "x", Relays: []string{"wss://a", "wss://b"}}},
	})
}

func TestSubscribesAgainAfterAMinute(t *testing.T) {
	h := start(t, nil)
	h.Step(&abi.StepInit{
		Relays:       []abi.RelayState{{URL: "wss://a", Wanted: true, Connected: true}},
		Repositories: []abi.KnownRepository{{Address: "x", Relays: []string{"wss://a"}}},
	})
	h.Want(&abi.Closed{Relay: "wss://a", ID: "wanted-0", Class: abi.ClassRateLimited}, `timer again 1700000060000`)
	h.WantAfter(strategy.Minute-1, []string{}...)
	h.WantAfter(1, `subscribe wss://a wanted-0 startup {kinds 30617 30618} {#a x}`)
	h.WantAfter(strategy.Day, []string{}...)
}
