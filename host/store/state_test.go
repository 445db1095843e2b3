package store

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"talon/host"
)

// state returns all that plugins remember, in order.
func state(t testing.TB, s *Store) (list []host.StateEntry) {
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

func saveState(t testing.TB, s *Store, entries ...host.StateEntry) {
	t.Helper()
	if err := s.SaveState(context.Background(), entries); err != nil {
		t.Fatal(err)
	}
}

func wantState(t testing.TB, s *Store, want ...host.StateEntry) {
	t.Helper()
	if got := state(t, s); fmt.Sprintf("%#v", got) != fmt.Sprintf("%#v", want) {
		t.Errorf("got %#v, want %#v", got, want)
	}
}

// TestStateFails: a save that fails leaves nothing behind, and the store goes on.
func TestStateFails(t *testing.T) {
	s := open(t)
	old := host.StateEntry{Module: "a", Key: "k", Value: []byte("old")}
	saveState(t, s, old)
	if err := s.writer.conn.script(`CREATE TEMP TRIGGER refuse BEFORE INSERT ON state WHEN new.key = x'62' BEGIN SELECT raise(ABORT, 'disk is full'); END`); err != nil {
		t.Fatal(err)
	}
	bad := []host.StateEntry{{Module: "a", Key: "k", Value: []byte("new")}, {Module: "bad", Key: "b", Value: []byte("x")}}
	err := s.SaveState(context.Background(), bad)
	if err == nil || !strings.Contains(err.Error(), "bad") || !strings.Contains(err.Error(), "disk is full") {
		t.Errorf("got %v", err)
	}
	wantState(t, s, old)
	put(t, s, 0, fake(1, 1, 1, 1))
	saveState(t, s, bad[0])
	wantState(t, s, bad[0])
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := s.SaveState(ctx, bad[:1]); !errors.Is(err, context.Canceled) {
		t.Errorf("save: got %v", err)
	}
	if err := s.LoadState(ctx, nil); err == nil {
		t.Error("load goes on though the context has ended")
	}
	enough := errors.New("enough")
	if err := s.LoadState(context.Background(), func(host.StateEntry) error { return enough }); err != enough {
		t.Errorf("load: got %v, want %v", err, enough)
	}
}

// TestMigrateEvents opens a database as the first release made it.
func TestMigrateEvents(t *testing.T) {
	dir := t.TempDir()
	s := merged(t, dir)
	e := fake(1, 1, 1, 1)
	put(t, s, 0, e)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	raw(t, filepath.Join(dir, FileName), `DROP TABLE state; `+noHeld+`UPDATE meta SET value = 1 WHERE name = 'version'`)
	if _, err := OpenReadOnly(context.Background(), dir, Options{}); err == nil || !strings.Contains(err.Error(), "talon serve") {
		t.Errorf("an old database, read-only: %v", err)
	}
	s = reopen(t, dir)
	if got := selected(t, s, 0, host.Filter{Limit: -1}); len(got) != 1 || got[0] != string(e.JSON) {
		t.Errorf("after migration: %q", got)
	}
	saveState(t, s, host.StateEntry{Module: "a", Key: "k", Value: []byte("x")})
	check(t, s)
}

// BenchmarkSaveState writes 500 buckets of 50,000, as a busy second does, and says
// for how long a commit of events waits.
func BenchmarkSaveState(b *testing.B) {
	s := open(b)
	all := make([]host.StateEntry, 50_000)
	for i := range all {
		all[i] = host.StateEntry{Module: "rate", Space: 1, Key: fmt.Sprintf("%064d", i), Value: make([]byte, 8), Expires: int64(1 + i)}
	}
	saveState(b, s, all...)
	n := 0
	for b.Loop() {
		part := make([]host.StateEntry, 500)
		for i := range part {
			n = (n + 7919) % len(all)
			part[i] = all[n]
			part[i].Expires = time.Now().Unix()
		}
		saveState(b, s, part...)
	}
}
