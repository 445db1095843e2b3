package relaysync

import (
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"talon/internal/testkit"
	"talon/sdk/abi"
)

func snapshot(t testing.TB, w *world, q Query) Snapshot {
	t.Helper()
	st, err := w.sync.Status(t.Context(), q)
	if err != nil {
		t.Fatal(err)
	}
	return st
}

func one(t testing.TB, w *world, url string) RelaySnapshot {
	t.Helper()
	st := snapshot(t, w, Query{Relay: url})
	if len(st.Relays) != 1 {
		t.Fatalf("%d relays, want one", len(st.Relays))
	}
	return st.Relays[0]
}

// An operator sees which relays are connected, what they can do, what is open there, and
// how repositories are covered.
func TestStatus(t *testing.T) {
	r := newRemote(t, nil)
	r.add(notes(t, 3)...)
	gone := newRemote(t, func(r *remote) { r.handler = http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}) })
	repo := announce(t, alice, "demo", epoch, r.url, gone.url)
	address, _ := repo.Address()
	about := abi.Filter{Tags: []abi.TagFilter{{Name: "a", Values: []string{address.String()}}}}
	w := start(t, func(v *abi.StepView) []abi.StepAction {
		switch v.Kind {
		case abi.InputInit:
			return []abi.StepAction{connectTo(r.url), connectTo(gone.url)}
		case abi.InputRelayConnected:
			return []abi.StepAction{live(r.url, "live", kinds(7), about), fetch(r.url, "past", abi.MethodREQ, kinds(1))}
		}
		return nil
	}, nil)
	w.put(repo)
	testkit.Eventually(t, "everything is here", func() bool { return !one(t, w, r.url).Complete.IsZero() })
	testkit.Eventually(t, "the other one failed", func() bool { return one(t, w, gone.url).Failures == 1 })
	testkit.Eventually(t, "the repository is followed", func() bool { return snapshot(t, w, Query{}).Repositories == 1 })

	st := snapshot(t, w, Query{})
	if st.Connections != 1 || st.Tracked != 2 || st.Complete != 1 || st.MaxConnections != DefaultLimits.Connections || len(st.Relays) != 2 {
		t.Errorf("%+v", st)
	}
	a := one(t, w, r.url)
	if a.State != StateConnected || a.Health != "healthy" || a.Subscriptions != 1 || a.Filters != 2 || a.Pending != 0 || a.Bytes == 0 || a.Repositories != 1 ||
		a.Connected.IsZero() || time.Since(a.Complete) > time.Hour || a.Limits.Negentropy == "" {
		t.Errorf("%+v", a)
	}
	b := one(t, w, gone.url)
	if b.State != StateResting || b.Health != "dead" || b.Reason == "" || time.Until(b.Next) < 11*time.Hour || !b.Complete.IsZero() {
		t.Errorf("%+v", b)
	}
	of := snapshot(t, w, Query{Repository: address.String()})
	if len(of.Relays) != 2 || len(of.Coverage) != 1 || of.Coverage[0].Relays != 2 || of.Coverage[0].Connected != 1 || of.Coverage[0].Complete != 1 || len(of.Coverage[0].Listed) != 2 {
		t.Errorf("%+v", of)
	}
	if limited := snapshot(t, w, Query{Limit: 1}); len(limited.Relays) != 1 || limited.Tracked != 2 {
		t.Errorf("%+v", limited)
	}
	for q, want := range map[Query]error{
		{Relay: "wss://nobody.example.com"}: ErrUnknownRelay, {Relay: "\x1b"}: ErrUnknownRelay, {Repository: "30617:ab:\x1b"}: ErrUnknownRepository,
	} {
		if _, err := w.sync.Status(t.Context(), q); !errors.Is(err, want) || strings.Contains(err.Error(), "\x1b") {
			t.Errorf("%+v: %v", q, err)
		}
	}
	w.stop()
	if _, err := w.sync.Status(t.Context(), Query{}); !errors.Is(err, errNotRunning) {
		t.Errorf("after the end: %v", err)
	}
}

// The operator has a relay compared again: the strategy gets the input that it was lost,
// and that nothing counts that it knows of it. A relay that rests goes on resting.
func TestNow(t *testing.T) {
	r := newRemote(t, nil)
	anew := make(chan bool, 10)
	w := start(t, func(v *abi.StepView) []abi.StepAction {
		switch v.Kind {
		case abi.InputInit:
			return []abi.StepAction{connectTo(r.url)}
		case abi.InputRelayConnected:
			anew <- v.RelayConnected().Anew
			return []abi.StepAction{live(r.url, "live", kinds(7))}
		}
		return nil
	}, nil)
	if <-anew {
		t.Error("the first connection is made anew")
	}
	w.plan.wait(t, 1, "eose live")
	for _, url := range []string{r.url, ""} {
		if n, err := w.sync.Now(t.Context(), url); n != 1 || err != nil {
			t.Fatalf("%d relays, %v", n, err)
		}
		if !<-anew {
			t.Error("the strategy is not told to compare everything")
		}
	}
	w.plan.wait(t, 2, "disconnected")
	r.cut()
	if <-anew {
		t.Error("a later connection is made anew")
	}
	if _, err := w.sync.Now(t.Context(), "wss://nobody.example.com"); !errors.Is(err, ErrUnknownRelay) {
		t.Errorf("%v", err)
	}
}

// A relay that is barred for hours is connected to immediately when the operator says so.
func TestUnbar(t *testing.T) {
	broken := newRemote(t, nil)
	broken.refuse(true)
	w := start(t, onConnect(broken.url, live(broken.url, "live", kinds(7))), func(_ *Config, deps *Deps) {
		deps.Health.(*calm).first = 12 * time.Hour
	})
	testkit.Eventually(t, "it rests", func() bool { return one(t, w, broken.url).State == StateResting })
	broken.refuse(false)
	if err := w.sync.Unbar(t.Context(), broken.url); err != nil {
		t.Fatal(err)
	}
	w.plan.wait(t, 1, "eose live")
	if err := w.sync.Unbar(t.Context(), "wss://nobody.example.com"); !errors.Is(err, ErrUnknownRelay) {
		t.Errorf("%v", err)
	}
}
