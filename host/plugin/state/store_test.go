package state_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"testing"
	"time"

	"talon/host/plugin/state"
	"talon/host/store"
	"talon/host/store/postgres"
	"talon/internal/testkit"
)

// TestStore keeps state in a real database, over restarts.
func TestStore(t *testing.T) {
	dir, now := t.TempDir(), int64(1_700_000_000)
	var db *store.Store
	open := func() *state.Memory {
		t.Helper()
		var err error
		if db, err = store.Open(context.Background(), dir, store.Options{Readers: 1}); err != nil {
			t.Fatal(err)
		}
		m, err := state.Open(context.Background(), db, state.Options{Now: func() time.Time { return time.Unix(now, 0) }})
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
	const n = 3000
	counter := func(i int) []byte { return binary.BigEndian.AppendUint32(nil, uint32(i)) }
	m := open()
	for i := range n {
		p := m.Of(fmt.Sprint("plugin ", i%2))
		p.Incr(counter(i), int64(i), int64(i%2*10), now)
		p.Take(counter(i), 1, 1, 5000, now)
	}
	bytes := m.Bytes("plugin 0") + m.Bytes("plugin 1")
	for restart := range 3 {
		if err := m.Save(context.Background()); err != nil {
			t.Fatal(err)
		}
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
		m = open()
		if got := m.Bytes("plugin 0") + m.Bytes("plugin 1"); got != bytes {
			t.Errorf("restart %d: %d bytes are used, want %d", restart, got, bytes)
		}
		for i := range n {
			p := m.Of(fmt.Sprint("plugin ", i%2))
			if got := p.Incr(counter(i), 0, 0, now); got != int64(i) {
				t.Fatalf("restart %d: counter %d is %d", restart, i, got)
			}
			if got := p.Take(counter(i), 1, 1, 5000, now); got != 5000 {
				t.Fatalf("restart %d: bucket %d says %d", restart, i, got)
			}
		}
	}
	now += 10 // every second counter, and all buckets
	if err := m.Save(context.Background()); err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	m = open()
	defer db.Close()
	if m.Bytes("plugin 0") == 0 || m.Bytes("plugin 1") != 0 {
		t.Errorf("after all of plugin 1 has expired: %v", m.Sizes())
	}
	if got := m.Of("plugin 0").Incr(counter(2), 0, 0, now); got != 2 {
		t.Errorf("a counter without expiry is %d", got)
	}
}

// TestStoreOfMany has three processes remember the same things in one database of
// PostgreSQL, which crashes meanwhile.
func TestStoreOfMany(t *testing.T) {
	var server testkit.Postgres
	t.Cleanup(server.Stop)
	url := server.URL(t) // or skip
	var all []*state.Plugin
	for range 3 {
		db, err := postgres.Open(t.Context(), url, postgres.Options{Readers: 1})
		if err != nil {
			t.Fatal(err)
		}
		m, err := state.Open(t.Context(), db, state.Options{})
		if err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(context.Background())
		ended := make(chan error)
		go func() { ended <- m.Run(ctx) }()
		t.Cleanup(func() {
			stop()
			if err := <-ended; err != nil {
				t.Error(err)
			}
			_ = db.Close()
		})
		all = append(all, m.Of("plugin"))
	}
	var sum int64
	agree := func(what string) {
		t.Helper()
		testkit.Eventually(t, what, func() bool {
			for _, p := range all {
				if value, ok := p.Get([]byte("key"), 1); p.Incr([]byte("sum"), 0, 0, 1) != sum || !ok || string(value) != what {
					return false
				}
			}
			return true
		})
	}
	for round, what := range []string{"one", "two", "three"} {
		for i := range 300 {
			all[i%3].Incr([]byte("sum"), int64(i), 0, 1)
			sum += int64(i)
		}
		if round == 1 {
			server.Restart(t)
		}
		all[round].Set([]byte("key"), []byte(what), 0, 1)
		agree(what)
	}
	all[0].Delete([]byte("key"))
	testkit.Eventually(t, "a key is forgotten by all", func() bool {
		for _, p := range all {
			if _, ok := p.Get([]byte("key"), 1); ok {
				return false
			}
		}
		return true
	})
}
