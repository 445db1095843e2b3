package storetest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"talon/host"
	"talon/host/store/semantics"
)

func testState(t *testing.T, x Engine) {
	dir := x.New(t)
	s := reopen(t, x, dir)
	wantState(t, s)
	Put(t, s, 0, Event(1, 1, 1, 1))
	total := s.Total()
	a := host.StateEntry{Module: "a", Key: "\x00\xff", Value: []byte("\x00value"), Expires: 0}
	bucket := host.StateEntry{Module: "a", Space: 1, Key: "\x00\xff", Value: []byte("8"), Expires: 20}
	b := host.StateEntry{Module: "b", Key: "", Value: []byte{}, Expires: 30}
	saveState(t, s, a, bucket, b)
	wantState(t, s, a, bucket, b)
	a.Value, a.Expires = []byte("other"), 25
	saveState(t, s, host.StateEntry{Module: "a", Key: "\x00\xff", Value: []byte("earlier")}, a, host.StateEntry{Module: "b", Space: 1})
	wantState(t, s, a, bucket, b)
	sweepState(t, s, 19)
	wantState(t, s, a, bucket, b)
	sweepState(t, s, 20)
	wantState(t, s, a, b)
	saveState(t, s, host.StateEntry{Module: "b"}, host.StateEntry{Module: "never seen"})
	wantState(t, s, a)
	if s.Total() != total {
		t.Errorf("state changes the totals of events: %v, %v before", s.Total(), total)
	}
	Check(t, s)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if err := s.SaveState(context.Background(), nil); !errors.Is(err, semantics.ErrClosed) {
		t.Errorf("save after close: %v", err)
	}
	if err := s.SweepState(context.Background(), 0); !errors.Is(err, semantics.ErrClosed) {
		t.Errorf("sweep after close: %v", err)
	}
	if err := s.LoadState(context.Background(), nil); !errors.Is(err, semantics.ErrClosed) {
		t.Errorf("load after close: %v", err)
	}
	s = reopen(t, x, dir)
	wantState(t, s, a)
	ro, err := x.ReadOnly(context.Background(), dir)
	if err != nil {
		t.Fatal(err)
	}
	defer ro.Close()
	wantState(t, ro, a)
	if err := ro.SaveState(context.Background(), []host.StateEntry{b}); !errors.Is(err, semantics.ErrReadOnly) {
		t.Errorf("save: got %v, want %v", err, semantics.ErrReadOnly)
	}
	if err := ro.SweepState(context.Background(), 1000); !errors.Is(err, semantics.ErrReadOnly) {
		t.Errorf("sweep: got %v, want %v", err, semantics.ErrReadOnly)
	}
}

// testStateWaitsForTx: the state is not part of a transaction of events.
func testStateWaitsForTx(t *testing.T, x Engine) {
	s := open(t, x)
	tx, err := s.Begin()
	if err != nil {
		t.Fatal(err)
	}
	e := host.StateEntry{Module: "a", Key: "k", Value: []byte("x")}
	done := make(chan error)
	go func() { done <- s.SaveState(context.Background(), []host.StateEntry{e}) }()
	if _, err := tx.Put(Event(1, 1, 1, 1), 0); err != nil {
		t.Fatal(err)
	}
	if err := tx.Rollback(); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	wantState(t, s, e)
	if got := s.Total().Events; got != 0 {
		t.Errorf("%d events are stored", got)
	}
}

// testStateSweep removes more than fits into one scan.
func testStateSweep(t *testing.T, x Engine) {
	s := open(t, x)
	var entries []host.StateEntry
	for i := range 10_010 {
		entries = append(entries, host.StateEntry{Module: "a", Key: fmt.Sprint(i), Value: []byte("x"), Expires: 5})
	}
	stays := host.StateEntry{Module: "a", Space: 1, Key: "stays", Value: []byte("x"), Expires: 6}
	saveState(t, s, append(entries, stays)...)
	sweepState(t, s, 5)
	wantState(t, s, stays)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := s.SweepState(ctx, 6); err == nil {
		t.Error("sweep goes on though the context has ended")
	}
	wantState(t, s, stays)
}

// state returns all that plugins remember, in order.
func state(t testing.TB, s Store) (list []host.StateEntry) {
	t.Helper()
	err := s.LoadState(context.Background(), func(e host.StateEntry) error {
		list = append(list, e)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	slices.SortFunc(list, func(a, b host.StateEntry) int { return strings.Compare(fmt.Sprint(a), fmt.Sprint(b)) })
	return list
}

func saveState(t testing.TB, s Store, entries ...host.StateEntry) {
	t.Helper()
	if err := s.SaveState(context.Background(), entries); err != nil {
		t.Fatal(err)
	}
}

func sweepState(t testing.TB, s Store, now int64) {
	t.Helper()
	if err := s.SweepState(context.Background(), now); err != nil {
		t.Fatal(err)
	}
}

func wantState(t testing.TB, s Store, want ...host.StateEntry) {
	t.Helper()
	if got := state(t, s); fmt.Sprintf("%#v", got) != fmt.Sprintf("%#v", want) {
		t.Errorf("got %#v, want %#v", got, want)
	}
}

// testRelays checks that records of relays survive a restart, each sort under its own name, and
// that a deleted record is gone.
func testRelays(t *testing.T, x Engine) {
	dir := x.New(t)
	s := reopen(t, x, dir)
	save := func(about string, relays map[string][]byte) {
		t.Helper()
		if err := s.SaveRelays(t.Context(), about, relays); err != nil {
			t.Fatal(err)
		}
	}
	save("health", map[string][]byte{"wss://a": []byte("1"), "wss://b": []byte("2")})
	save("capabilities", map[string][]byte{"wss://a": []byte("3")})
	save("health", map[string][]byte{"wss://a": []byte("4"), "wss://b": nil, "wss://never": nil})
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = reopen(t, x, dir)
	for about, want := range map[string]map[string]string{
		"health": {"wss://a": "4"}, "capabilities": {"wss://a": "3"}, "nothing": {},
	} {
		relays, err := s.Relays(t.Context(), about)
		if err != nil {
			t.Fatal(err)
		}
		got := make(map[string]string)
		for url, text := range relays {
			got[url] = string(text)
		}
		if !maps.Equal(got, want) {
			t.Errorf("%s is %v, want %v", about, got, want)
		}
	}
	for url, want := range map[string]string{"wss://a": "4", "wss://b": "", "wss://never": ""} {
		if got, err := s.Relay(t.Context(), "health", url); string(got) != want || err != nil {
			t.Errorf("%s is %q, %v; want %q", url, got, err, want)
		}
	}
}
