package store

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"talon/host"
	"talon/host/contain"
)

// putSome puts events and commits.
func putSome(t *testing.T, s *Store, from, n int) {
	t.Helper()
	tx, err := s.Begin()
	if err != nil {
		t.Fatal(err)
	}
	for i := range n {
		if _, err := tx.Put(tagged(from+i), 0); err != nil {
			t.Fatal(err)
		}
	}
	if err := tx.Commit(); err != nil {
		t.Fatal(err)
	}
}

func tagged(n int) *host.Event {
	return fake(n, byte(n%3), 1, int64(n%50), host.Tag{"t", "x"}, host.Tag{"d", fmt.Sprint(n)})
}

// wantWhole checks that the store has this number of events, and that what it keeps in memory agrees with
// the database.
func wantWhole(t *testing.T, s *Store, events int64) {
	t.Helper()
	if n := s.Stats().Events; n != events {
		t.Errorf("%d events are stored, want %d", n, events)
	}
	if s.writer.stale {
		t.Error("what is kept in memory was not read again")
	}
	compareIndexes(t, s, rand.New(rand.NewPCG(1, 1)))
	check(t, s)
}

// Memtables that a panic leaves half changed are made again from the database, also where the panic
// comes in the rollback.
func TestPanicInPut(t *testing.T) {
	for _, tt := range []struct {
		name    string
		corrupt func(*memtable)
		panics  float64
	}{
		{"rows without events", func(m *memtable) { m.events = nil }, 1},
		{"no map", func(m *memtable) {
			m.removed = nil
			m.shards = [memShards]map[[keySize]byte]memKey{}
			m.events = m.events[:1]
		}, 1},
		{"no memtable", nil, 2},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := open(t)
			putSome(t, s, 0, 40)
			tx, err := s.Begin()
			if err != nil {
				t.Fatal(err)
			}
			if _, err := tx.Put(tagged(100), 0); err != nil {
				t.Fatal(err)
			}
			m := s.active()
			if tt.corrupt != nil {
				func() {
					m.mu.Lock()
					defer m.mu.Unlock()
					tt.corrupt(m)
				}()
			} else {
				s.recent.Store(&[]*memtable{nil})
			}
			deletion := fake(101, 1, host.KindDeletion, 60, host.Tag{"e", tagged(1).ID.String()}, host.Tag{"t", "x"})
			for n := 0; err == nil && n < 300; n++ {
				if _, err = tx.Put(deletion, 0); err == nil {
					_, err = tx.Put(tagged(102+n), 0)
				}
			}
			if !contain.Panicked(err) {
				t.Fatalf("got %v, want a panic", err)
			}
			if err := tx.Rollback(); err != nil {
				t.Fatal(err)
			}
			if n := testutil.ToFloat64(s.panics.Collector()); n != tt.panics {
				t.Errorf("%v panics are counted, want %v", n, tt.panics)
			}
			wantWhole(t, s, 40)
			putSome(t, s, 500, 10)
			wantWhole(t, s, 50)
		})
	}
}

// A panic after the database has committed takes nothing back. No transaction begins
// until the memory of the writer was read again from the database.
func TestPanicAfterCommit(t *testing.T) {
	s := open(t)
	putSome(t, s, 0, 40)
	tx, err := s.Begin()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Put(tagged(100), 0); err != nil {
		t.Fatal(err)
	}
	cache := s.eventCache
	tx.w.conn.sqlite.RegisterCommitHook(func() int {
		s.eventCache = nil
		return 0
	})
	if err := tx.Commit(); err != nil {
		t.Errorf("an event that is stored is answered with %v", err)
	}
	if _, err := s.Begin(); !contain.Panicked(err) {
		t.Errorf("a transaction begins on memory that is not that of the database: %v", err)
	}
	s.writer.conn.sqlite.RegisterCommitHook(nil)
	s.eventCache = cache
	putSome(t, s, 500, 10)
	wantWhole(t, s, 51)
}
