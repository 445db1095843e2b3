package postgres

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"talon/host"
	"talon/host/store/storetest"
	"talon/internal/testkit"
)

// line is a connection to the server that breaks on request.
type line struct {
	net.Conn
	before, after atomic.Bool // the next message is sent; the answer to a commit has come
}

func dialLine(ctx context.Context, network, address string) (net.Conn, error) {
	var d net.Dialer
	conn, err := d.DialContext(ctx, network, address)
	return &line{Conn: conn}, err
}

var errCut = errors.New("the line is cut")

func (l *line) Write(b []byte) (int, error) {
	if l.before.CompareAndSwap(true, false) {
		l.Close()
		return 0, errCut
	}
	return l.Conn.Write(b)
}

func (l *line) Read(b []byte) (int, error) {
	n, err := l.Conn.Read(b)
	if n > 0 && bytes.Contains(b[:n], []byte("COMMIT\x00")) && l.after.CompareAndSwap(true, false) {
		l.Close()
		return 0, errCut
	}
	return n, err
}

func opened(t *testing.T, url string, o Options) *Store {
	t.Helper()
	o.idle = cmp.Or(o.idle, patient)
	s, err := Open(t.Context(), url, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func has(t *testing.T, s *Store, e *host.Event) bool {
	t.Helper()
	text, err := s.Get(t.Context(), e.ID)
	if err != nil {
		t.Fatal(err)
	}
	return text != nil
}

// TestCommitIsCut breaks the line before a commit reaches the server, and after the server
// has carried it out: Commit says what is so, and the store goes on.
func TestCommitIsCut(t *testing.T) {
	s := opened(t, server.URL(t), Options{Dial: dialLine})
	storetest.Put(t, tested{s}, 0, storetest.Event(1, 1, 1, 1, host.Tag{"t", "x"})) // statements are prepared
	for n, after := range []bool{false, true, false, true} {
		e := storetest.Event(10+n, 1, 1, 1, host.Tag{"t", "x"})
		tx, err := s.Begin()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := tx.Put(e, 0); err != nil {
			t.Fatal(err)
		}
		writer := s.conn.PgConn().Conn().(*line)
		writer.before.Store(!after)
		writer.after.Store(after)
		err = tx.Commit()
		if (err == nil) != after || writer.before.Load() || writer.after.Load() {
			t.Errorf("cut after the commit: %v; commit: %v", after, err)
		}
		if has(t, s, e) != after {
			t.Errorf("cut after the commit: %v; stored: %v", after, !after)
		}
		storetest.Put(t, tested{s}, 0, storetest.Event(100+n, 1, 1, 1, host.Tag{"t", "x"}))
		storetest.Check(t, tested{s})
	}
}

// TestServerCrashes writes while the server crashes: what Commit acknowledged is there
// afterwards, once.
func TestServerCrashes(t *testing.T) {
	url := server.URL(t)
	s := opened(t, url, Options{})
	var restarts sync.WaitGroup
	defer restarts.Wait()
	var acknowledged []*host.Event
	for n := 0; n < 60; n++ {
		if n%20 == 10 {
			restarts.Wait() // a slow one must not meet the next
			restarts.Go(func() { server.Restart(t) })
		}
		for { // as a client does that hears an error
			e := storetest.Event(n, 1, 1, int64(n), host.Tag{"t", "x"})
			tx, err := s.Begin()
			if err == nil {
				if _, err = tx.Put(e, 0); err == nil {
					err = tx.Commit()
				}
				tx.Rollback()
			}
			if err == nil {
				acknowledged = append(acknowledged, e)
				break
			}
			if t.Context().Err() != nil {
				t.Fatal(err)
			}
		}
	}
	// The rest reads, and is not about a server that is away, so it uses another store.
	restarts.Wait()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = opened(t, url, Options{})
	if got, want := storetest.Selected(t, tested{s}, 0, host.Filter{Limit: -1}), storetest.Texts(acknowledged...); !slices.Equal(got, want) {
		t.Errorf("%d events are stored, want the %d acknowledged", len(got), len(want))
	}
	storetest.Check(t, tested{s})
}

// TestStandby: who waits takes the place of who ends, and may be stopped while it waits.
func TestStandby(t *testing.T) {
	url := server.URL(t)
	first := opened(t, url, Options{})
	storetest.Put(t, tested{first}, 0, storetest.Event(1, 1, 1, 1))
	waiting := func(n int) {
		t.Helper()
		testkit.Eventually(t, "one waits for the lock", func() bool {
			var have int
			err := first.pool.QueryRow(t.Context(), `
				SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted AND objid = 'meta'::regclass::oid`).Scan(&have)
			return err == nil && have == n
		})
	}
	ctx, cancel := context.WithCancel(t.Context())
	failed := make(chan error, 1)
	go func() {
		_, err := Open(ctx, url, Options{Wait: true})
		failed <- err
	}()
	waiting(1)
	cancel()
	if err := <-failed; !errors.Is(err, context.Canceled) {
		t.Errorf("stopped while it waits: %v", err)
	}
	waiting(0)
	took := make(chan *Store, 1)
	go func() {
		s, err := Open(t.Context(), url, Options{Wait: true})
		if err != nil {
			t.Error(err)
		}
		took <- s
	}()
	waiting(1)
	storetest.Put(t, tested{first}, 0, storetest.Event(2, 1, 1, 1))
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	second := <-took
	if second == nil {
		return
	}
	defer second.Close()
	if out := storetest.Put(t, tested{second}, 0, storetest.Event(2, 1, 1, 1), storetest.Event(3, 1, 1, 1)); out[0].Code != host.Duplicate || out[1].Seq != 3 {
		t.Errorf("after the other's events: %+v", out)
	}
	storetest.Check(t, tested{second})
}

// TestOpenFails names what is wrong, and not the password.
func TestOpenFails(t *testing.T) {
	url := server.URL(t)
	s := opened(t, url, Options{})
	for _, tt := range []struct{ name, sql, want string }{
		{"newer", `UPDATE meta SET version = 99, oldest = 99`, "run the newer version"},
		{"foreign", `ALTER TABLE meta RENAME COLUMN talon TO one`, "not Talon's"},
	} {
		if _, err := s.conn.Exec(t.Context(), tt.sql); err != nil {
			t.Fatal(err)
		}
		if _, err := Open(t.Context(), url, Options{}); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: got %v", tt.name, err)
		}
		if _, err := OpenReadOnly(t.Context(), url, Options{}); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s, read-only: got %v", tt.name, err)
		}
	}
	for _, url := range []string{"postgres://u:hunter2@127.0.0.1:1/db", "postgres://u:hunter2@[:1/db", "postgres://u:hunter2@/x?host=/nowhere&port=zz"} {
		if _, err := Open(t.Context(), url, Options{}); err == nil || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("got %v", err)
		}
	}
	if _, err := OpenReadOnly(t.Context(), server.URL(t), Options{}); err == nil {
		t.Error("a schema that is not there can be read")
	}
}

// TestCheckFinds damages the database in one way at a time, and repairs it before the next.
func TestCheckFinds(t *testing.T) {
	testkit.SkipRace(t)
	s := opened(t, server.URL(t), Options{Readers: 1})
	d := host.Tag{"d", "x"}
	storetest.Put(t, tested{s}, 0, storetest.Event(1, 1, 1, 10, d), storetest.Event(2, 1, 30617, 10, d))
	storetest.Hold(t, tested{s}, 100, host.HoldOptions{}, storetest.Event(3, 2, 30617, 10, d))
	storetest.Check(t, tested{s})
	exec := func(t *testing.T, sql string) {
		t.Helper()
		if _, err := s.conn.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	var repair strings.Builder
	repair.WriteString(`TRUNCATE held_weight;`) // the trigger fills it with the rows of held
	for _, table := range []string{"event", "tag", "total", "deleted_id", "deleted_address", "held", "held_tag"} {
		exec(t, fmt.Sprintf(`CREATE TABLE sound_%s AS TABLE %[1]s`, table))
		fmt.Fprintf(&repair, `TRUNCATE %s; INSERT INTO %[1]s OVERRIDING SYSTEM VALUE TABLE sound_%[1]s;`, table)
	}
	for _, tt := range []struct{ name, sql, want string }{
		{"text that is no event", `UPDATE event SET json = '{}' WHERE seq = 1`, "its text cannot be read"},
		{"author", `UPDATE event SET pubkey = '\x00' WHERE seq = 1`, "does not agree with its text"},
		{"place", `UPDATE event SET place = '\x00' WHERE seq = 1`, "does not agree with its text"},
		{"expiry", `UPDATE event SET expires = 7 WHERE seq = 1`, "does not agree with its text"},
		{"address", `UPDATE event SET address = NULL WHERE seq = 2`, "does not agree with its text"},
		{"tag missing", `DELETE FROM tag WHERE seq = 1`, "not in the index"},
		{"tag too many", `INSERT INTO tag VALUES ('\x11', 1, '\x22', 1)`, "the events call for"},
		{"seq", `UPDATE total SET seq = 1`, "the highest number given"},
		{"events", `UPDATE total SET events = 17`, "17 events"},
		{"held", `UPDATE total SET held = 17`, "17 held events"},
		{"placeholders", `UPDATE total SET placeholders = 17`, "17 placeholders"},
		{"deleted", `INSERT INTO deleted_id SELECT id, pubkey FROM event WHERE seq = 1`, "stored, but deleted"},
		{"address deleted", `INSERT INTO deleted_address SELECT address, created_at FROM event WHERE seq = 2`, "deleted its address"},
		{"weight", `UPDATE held_weight SET events = 7 WHERE class = 1`, "the weight of class 1"},
		{"weight missing", `DELETE FROM held_weight`, "the weight of class 0"},
		{"parent missing", `UPDATE held SET parent = '\x01', cause = 1`, "on which it depends is not here"},
		{"due", `UPDATE held SET due = 7`, "due at 7"},
		{"dormant", `UPDATE held SET dormant = true`, "which is wrong"},
		{"held tag missing", `DELETE FROM held_tag`, "held event 1: not in the index"},
		{"stored too", `UPDATE held SET id = (SELECT id FROM event WHERE seq = 1)`, "stored as well"},
		{"held and deleted", `INSERT INTO deleted_id SELECT id, pubkey FROM held`, "held, but deleted"},
		{"newer one stored", `UPDATE event SET address = (SELECT address FROM held), place = '\x00' WHERE seq = 2`, "a newer version is stored"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			exec(t, tt.sql)
			var problems []string
			if _, err := s.Check(t.Context(), func(*host.Event) error { return nil }, func(p string) { problems = append(problems, p) }); err != nil {
				t.Fatal(err)
			}
			if !strings.Contains(strings.Join(problems, "\n"), tt.want) {
				t.Errorf("no problem says %q: %q", tt.want, problems)
			}
			exec(t, repair.String())
			storetest.Check(t, tested{s})
		})
	}
}

// TestDamaged goes on with rows whose text cannot be read any more.
func TestDamaged(t *testing.T) {
	s := opened(t, server.URL(t), Options{})
	storetest.Put(t, tested{s}, 0, storetest.Event(1, 1, 0, 1, host.Tag{"t", "x"}))
	e := storetest.Event(2, 1, 30617, 1, host.Tag{"d", "x"})
	storetest.Hold(t, tested{s}, 100, host.HoldOptions{}, e)
	// The length stays, so that the noted totals and usage are still those of the rows.
	if _, err := s.conn.Exec(t.Context(), `UPDATE event SET json = set_byte(json, 0, 0); UPDATE held SET json = set_byte(json, 0, 0)`); err != nil {
		t.Fatal(err)
	}
	newer := storetest.Event(4, 1, 0, 2)
	storetest.Put(t, tested{s}, 0, newer)
	if out := storetest.Release(t, tested{s}, 100, host.Release{IDs: []host.ID{e.ID}}); out.Events[0].Status != host.StatusAbsent {
		t.Errorf("got %+v", out)
	}
	if got := storetest.Selected(t, tested{s}, 0, host.Filter{Limit: 10}); !slices.Equal(got, storetest.Texts(newer)) {
		t.Errorf("got %q", got)
	}
	storetest.Check(t, tested{s})
}
