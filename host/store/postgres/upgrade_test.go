package postgres

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"

	"talon/host"
	"talon/host/store/semantics"
	"talon/host/store/storetest"
	"talon/internal/testkit"
)

// after returns the layout of a program that comes after another: with one step more, which
// programs from a version on can work with.
func after(l *layout, oldest int, step string) *layout {
	return &layout{append(slices.Clip(l.steps), step), append(slices.Clip(l.oldest), oldest), l.fills}
}

// TestRollingUpgrade has nodes of this version and of the next ones on one database: they write
// together where the schema lets them, and refuse to where it does not.
func TestRollingUpgrade(t *testing.T) {
	url := server.URL(t)
	next := after(&present, present.version(), `
		CREATE TABLE addition (x bigint);
		ALTER TABLE event ADD COLUMN addition bigint; ALTER TABLE tag ADD COLUMN addition text NOT NULL DEFAULT 'x';
		ALTER TABLE total ADD COLUMN addition bigint NOT NULL DEFAULT 1; ALTER TABLE writer ADD COLUMN addition bigint;
		ALTER TABLE log ADD COLUMN addition bigint; ALTER TABLE held ADD COLUMN addition bigint`)
	last := after(next, next.version(), `ALTER TABLE addition DROP COLUMN x`)
	open := func(l *layout) *Store {
		t.Helper()
		return opened(t, url, Options{Readers: 1, layout: l})
	}
	a, b := open(&present), open(&present)

	// While the first two write, the third brings the schema to its version.
	stop := make(chan struct{})
	var writing sync.WaitGroup
	var counts [2]int
	for i, s := range []*Store{a, b} {
		writing.Go(func() {
			for n := 0; ; n++ {
				select {
				case <-stop:
					return
				default:
				}
				storetest.Put(t, tested{s}, 0, storetest.Event(1000*i+n, byte(i), 30000, int64(n), host.Tag{"d", fmt.Sprint(n % 3)}))
				counts[i]++
			}
		})
	}
	c := open(next)
	for n := range 20 {
		storetest.Put(t, tested{c}, 0, storetest.Event(5000+n, 5, 1, int64(n)))
	}
	close(stop)
	writing.Wait()
	if counts[0] == 0 || counts[1] == 0 {
		t.Errorf("%v were put meanwhile", counts)
	}
	e := storetest.Event(6000, 6, 0, 1, host.Tag{"t", "x"})
	storetest.Put(t, tested{c}, 0, e)
	storetest.Hold(t, tested{a}, 0, host.HoldOptions{Reason: "purgatory: waits"}, storetest.Event(6001, 6, host.KindAnnouncement, 1, host.Tag{"d", "x"}))
	for _, s := range []*Store{a, b, c} {
		var told []*host.Event
		err := s.CatchUp(func(c host.Commit) {
			if c.Gap {
				t.Error("a node has a gap")
			}
			for _, p := range c.Published {
				told = append(told, p.Event)
			}
		})
		if err != nil {
			t.Fatal(err)
		}
		if s == b && (len(told) == 0 || told[len(told)-1].ID != e.ID) {
			t.Errorf("the node that wrote nothing meanwhile has learnt of %d events, the last %v", len(told), told)
		}
		if got := storetest.Selected(t, tested{s}, 0, host.Filter{IDs: []host.ID{e.ID}, Limit: 1}); len(got) != 1 {
			t.Errorf("%q is stored", got)
		}
		storetest.Check(t, tested{s})
	}

	// A node of the version before may come back, by itself or by a new connection.
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	a = open(&present)
	storetest.Put(t, tested{a}, 0, storetest.Event(6002, 6, 0, 2))
	server.Restart(t)
	storetest.Put(t, tested{b}, 0, storetest.Event(6003, 6, 0, 3))

	// An update does not start while processes run that cannot work with it. After it, such
	// processes do not start.
	tooEarly := func() error {
		s, err := Open(t.Context(), url, Options{Readers: 1, layout: last})
		if err == nil {
			_ = s.Close()
		}
		return err
	}
	if err := tooEarly(); !errors.Is(err, semantics.ErrInUse) {
		t.Errorf("a version that the others cannot work with: %v", err)
	}
	for _, s := range []*Store{a, b} {
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	storetest.Put(t, tested{c}, 0, storetest.Event(6004, 6, 0, 4)) // it stays
	d := open(last)
	storetest.Put(t, tested{d}, 0, storetest.Event(6005, 6, 0, 5))
	storetest.Put(t, tested{c}, 0, storetest.Event(6006, 6, 0, 6))
	for name, open := range map[string]func() (*Store, error){
		"write": func() (*Store, error) { return Open(t.Context(), url, Options{Readers: 1}) },
		"read":  func() (*Store, error) { return OpenReadOnly(t.Context(), url, Options{Readers: 1}) },
	} {
		if s, err := open(); !errors.Is(err, semantics.ErrNewer) || !strings.Contains(err.Error(), "run the newer version") {
			t.Errorf("open to %s what is too new: %v", name, err)
			if err == nil {
				_ = s.Close()
			}
		}
	}
	storetest.Check(t, tested{d})
}

// TestTooOldToReconnect: a program that lost its connection while the schema was changed does not
// write with what it knows.
func TestTooOldToReconnect(t *testing.T) {
	url := server.URL(t)
	s := opened(t, url, Options{Readers: 1})
	storetest.Put(t, tested{s}, 0, storetest.Event(1, 1, 1, 1))
	s.writing.Lock()
	s.closeWriter()
	s.writing.Unlock()
	opened(t, url, Options{Readers: 1, layout: after(&present, present.version()+1, `CREATE TABLE other (x bigint)`)})
	if tx, err := s.Begin(); !errors.Is(err, semantics.ErrNewer) {
		t.Errorf("it writes to a schema that it cannot work with: %v", err)
		if err == nil {
			_ = tx.Rollback()
		}
	}
}

// TestDeadlock has an update of the schema, and the first transaction of a connection, wait in a circle
// with another session. They go on after the server has ended them.
func TestDeadlock(t *testing.T) {
	for _, tt := range []struct {
		name, has, wants string // tables that the other session locks
		run              func(t *testing.T, url string, s *Store) error
	}{
		{"update", "writer", "event", func(t *testing.T, url string, _ *Store) error {
			s, err := Open(t.Context(), url, Options{Readers: 1, layout: after(&present, present.version(), `
				ALTER TABLE event ADD COLUMN addition bigint; ALTER TABLE writer ADD COLUMN addition bigint`)})
			if err == nil {
				err = s.Close()
			}
			return err
		}},
		{"begin", "total", "writer", func(_ *testing.T, _ string, s *Store) error {
			tx, err := s.Begin()
			if err == nil {
				err = tx.Rollback()
			}
			return err
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			url := server.URL(t)
			s := opened(t, url, Options{Readers: 1})
			other, err := pgx.Connect(t.Context(), url)
			if err != nil {
				t.Fatal(err)
			}
			defer other.Close(context.Background())
			lock := func(table string) error {
				_, err := other.Exec(t.Context(), `LOCK TABLE `+table)
				return err
			}
			// The server ends who waits for deadlock_timeout first.
			if _, err := other.Exec(t.Context(), `SET deadlock_timeout = '60s'; BEGIN`); err != nil {
				t.Fatal(err)
			}
			if err := lock(tt.has); err != nil {
				t.Fatal(err)
			}
			done := make(chan error, 1)
			go func() { done <- tt.run(t, url, s) }()
			testkit.Eventually(t, "it waits for table "+tt.has, func() bool {
				var waits bool
				err := other.QueryRow(t.Context(), `
					SELECT count(*) > 0 FROM pg_locks h JOIN pg_locks w USING (pid)
					WHERE h.relation = $1::regclass AND h.granted AND w.relation = $2::regclass AND NOT w.granted`, tt.wants, tt.has).Scan(&waits)
				return err == nil && waits
			})
			if err := lock(tt.wants); err != nil && !deadlocked(err) { // after a pause it is this session that ends
				t.Error(err)
			}
			if _, err := other.Exec(t.Context(), `ROLLBACK`); err != nil {
				t.Error(err)
			}
			if err := <-done; err != nil {
				t.Error(err)
			}
		})
	}
}

// Each step of the schema says which programs may run at the same time: none needs a newer one than itself.
func TestOldest(t *testing.T) {
	if len(present.oldest) != len(present.steps) {
		t.Fatalf("oldest has %d entries for %d steps", len(present.oldest), len(present.steps))
	}
	for i, v := range present.oldest {
		if v < 1 || v > i+1 || i > 0 && v < present.oldest[i-1] {
			t.Errorf("step %d: the oldest program has version %d", i+1, v)
		}
	}
}
