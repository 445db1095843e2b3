package postgres

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"

	"talon/host"
	"talon/host/store/semantics"
	"talon/host/store/storetest"
	"talon/internal/testkit"
)

// told is one commit as a node knows it: its own, or another's.
func told(c host.Commit) string {
	var b strings.Builder
	for _, p := range c.Published {
		fmt.Fprint(&b, " +", p.Seq, " ", p.Event.ID)
	}
	for _, e := range c.Removed {
		fmt.Fprint(&b, " -", e.ID)
	}
	for _, h := range c.Held {
		fmt.Fprint(&b, " ", h.Status, " ", h.Event.ID, h.Synced)
	}
	return fmt.Sprint(b.String(), c.Arrived, c.Gap)
}

// operation of a random history, and its outcome.
type op struct {
	n       int
	event   *host.Event
	run     func(tx *Tx) (host.Commit, string, error)
	outcome string
}

// operations makes a random one.
func randomOp(r *rand.Rand, n int) op {
	author, d := byte(r.IntN(3)), host.Tag{"d", fmt.Sprint(r.IntN(2))}
	kinds := []host.Kind{1, 1, 0, 30000, host.KindAnnouncement, host.KindDeletion}
	tags := []host.Tag{d}
	kind := kinds[r.IntN(len(kinds))]
	if kind == host.KindDeletion {
		tags = []host.Tag{{"e", storetest.Event(r.IntN(n+1), 0, 1, 0).ID.String()}, {"a", fmt.Sprintf("30000:%s:%s", host.PubKey{author}, d[1])}}
	}
	e := storetest.Event(r.IntN(n+1), author, kind, int64(r.IntN(20)), tags...)
	o := op{n: n, event: e}
	switch r.IntN(8) {
	case 0, 1:
		o.run = func(tx *Tx) (c host.Commit, s string, err error) {
			out, err := tx.Hold(e, host.HoldOptions{Reason: "purgatory: waits", Synced: n%2 == 0}, 100)
			return host.Commit{Removed: out.Removed, Held: out.Held}, fmt.Sprint(out.Code, out.Reason), err
		}
	case 2:
		o.run = func(tx *Tx) (c host.Commit, s string, err error) {
			out, err := tx.Release(host.Release{IDs: []host.ID{e.ID, storetest.Event(n/2, 0, 1, 0).ID}}, 100)
			for _, x := range out.Events {
				s += fmt.Sprint(x.Status)
				if x.Status == host.StatusReleased {
					c.Published = append(c.Published, host.Published{Event: x.Event, Seq: x.Seq})
				}
			}
			c.Removed, c.Held = out.Removed, out.Held
			return c, s, err
		}
	default:
		o.run = func(tx *Tx) (c host.Commit, s string, err error) {
			out, err := tx.Put(e, 100)
			if out.Code == host.Stored {
				c.Published = []host.Published{{Event: e, Seq: out.Seq}}
			}
			c.Removed, c.Held = out.Removed, out.Held
			return c, fmt.Sprint(out.Code, out.Reason), err
		}
	}
	return o
}

func merge(a, b host.Commit) host.Commit {
	a.Published, a.Removed, a.Held = append(a.Published, b.Published...), append(a.Removed, b.Removed...), append(a.Held, b.Held...)
	return a
}

// TestNodesAgree has three stores of one database written concurrently. All get the same
// commits in the same order, and one store that does what they did in that order says the
// same.
func TestNodesAgree(t *testing.T) {
	url := server.URL(t)
	type commit struct {
		at  int64 // twice its number; what changes nothing comes after the commit before
		ops []op
	}
	var mu sync.Mutex
	var all []commit
	var histories [3][]string
	var stores [3]*Store
	for i := range stores {
		stores[i] = opened(t, url, Options{Readers: 1, Held: semantics.HeldLimits{ByAuthor: 5}})
	}
	var running sync.WaitGroup
	for i, s := range stores {
		history := &histories[i]
		note := func(c host.Commit) { *history = append(*history, told(c)) }
		running.Go(func() {
			r := rand.New(rand.NewPCG(1, uint64(i)))
			for round := range 60 {
				if r.IntN(3) == 0 {
					if err := s.CatchUp(note); err != nil {
						t.Error(err)
					}
				}
				var c host.Commit
				var ops []op
				var events []*host.Event
				for k := range 1 + r.IntN(5) {
					ops = append(ops, randomOp(r, 10+round+k))
					events = append(events, ops[k].event)
				}
				tx, err := s.BeginAfter(note, func(int) []*host.Event { return events })
				if err != nil {
					t.Error(err)
					return
				}
				for k := range ops {
					one, outcome, err := ops[k].run(tx)
					if err != nil {
						t.Error(err)
					}
					ops[k].outcome, c = outcome, merge(c, one)
				}
				if r.IntN(6) == 0 {
					if err := tx.Rollback(); err != nil {
						t.Error(err)
					}
					continue
				}
				before := s.known.commits
				if err := tx.Commit(); err != nil {
					t.Error(err)
				}
				at := 2 * s.known.commits
				if s.known.commits > before {
					note(c)
				} else {
					at++
				}
				mu.Lock()
				all = append(all, commit{at, ops})
				mu.Unlock()
			}
		})
	}
	running.Wait()
	for i, s := range stores {
		if err := s.CatchUp(func(c host.Commit) { histories[i] = append(histories[i], told(c)) }); err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(histories[i], histories[0]) {
			for k := range histories[i] {
				if k >= len(histories[0]) || histories[i][k] != histories[0][k] {
					t.Fatalf("store %d, commit %d of %d: %s; store 0 of %d: %s", i, k, len(histories[i]), histories[i][k], len(histories[0]), histories[0][min(k, len(histories[0])-1)])
				}
			}
			t.Fatalf("store %d knows %d commits, store 0 %d", i, len(histories[i]), len(histories[0]))
		}
	}
	if len(histories[0]) < 20 {
		t.Fatalf("only %d commits", len(histories[0]))
	}
	slices.SortFunc(all, func(a, b commit) int { return int(a.at - b.at) })
	one := opened(t, server.URL(t), Options{Readers: 1, Held: semantics.HeldLimits{ByAuthor: 5}})
	for _, c := range all {
		tx, err := one.Begin()
		if err != nil {
			t.Fatal(err)
		}
		for _, o := range c.ops {
			if _, outcome, err := o.run(tx); err != nil || outcome != o.outcome {
				_ = tx.Rollback()
				t.Fatalf("commit %d: got %q, %v from one store; %q from three", c.at/2, outcome, err, o.outcome)
			}
		}
		if err := tx.Commit(); err != nil {
			t.Fatal(err)
		}
	}
	filter := host.Filter{Limit: -1}
	if a, b := storetest.Selected(t, tested{stores[1]}, 0, filter), storetest.Selected(t, tested{one}, 0, filter); !slices.Equal(a, b) {
		t.Errorf("got %q\nwant %q", a, b)
	}
	storetest.Check(t, tested{stores[2]})
}

// TestNodesAndCrashes has two stores written while the server crashes and a third follows:
// it gets each event that was acknowledged, once, in the order of commits.
func TestNodesAndCrashes(t *testing.T) {
	url := server.URL(t)
	var seqs []int64
	var followed []host.ID
	reader := opened(t, url, Options{Readers: 1})
	follow := func() {
		// The server may be away.
		_ = reader.CatchUp(func(c host.Commit) {
			for _, p := range c.Published {
				seqs, followed = append(seqs, p.Seq), append(followed, p.Event.ID)
			}
		})
	}
	var mu sync.Mutex
	acknowledged := map[host.ID]bool{}
	var writing sync.WaitGroup
	for i := range 2 {
		s := opened(t, url, Options{Readers: 1})
		writing.Go(func() {
			for n := 0; n < 40; n++ {
				for { // as a client does that hears an error
					e := storetest.Event(1000*i+n, 1, 1, int64(n), host.Tag{"t", "x"})
					tx, err := s.Begin()
					if err == nil {
						if _, err = tx.Put(e, 0); err == nil {
							err = tx.Commit()
						}
						_ = tx.Rollback()
					}
					if err == nil {
						mu.Lock()
						acknowledged[e.ID] = true
						mu.Unlock()
						break
					}
					if t.Context().Err() != nil {
						t.Error(err)
						return
					}
				}
			}
		})
	}
	crashed := make(chan struct{})
	go func() {
		defer close(crashed)
		for range 2 {
			testkit.Eventually(t, "more is written", func() bool {
				mu.Lock()
				defer mu.Unlock()
				return len(acknowledged)%20 == 10 || len(acknowledged) == 80
			})
			server.Restart(t)
		}
	}()
	done := make(chan struct{})
	go func() { writing.Wait(); <-crashed; close(done) }()
	for ended := false; !ended; {
		select {
		case <-reader.Changed():
		case <-done:
			ended = true
		}
		follow()
	}
	// The last look may have met the end of the server, whose connections are made again.
	testkit.Eventually(t, "all is known", func() bool { follow(); return len(followed) >= len(acknowledged) })
	if !slices.IsSorted(seqs) || len(slices.Compact(slices.Clone(seqs))) != len(seqs) {
		t.Errorf("told in the order %v", seqs)
	}
	for _, id := range followed {
		delete(acknowledged, id)
	}
	if len(acknowledged) > 0 {
		t.Errorf("%d events were acknowledged and not told of", len(acknowledged))
	}
	storetest.Check(t, tested{reader})
}

// TestGap: who has been away for longer than the log reaches back gets notice of that,
// and the events that are there now.
func TestGap(t *testing.T) {
	url := server.URL(t)
	a, b := opened(t, url, Options{}), opened(t, url, Options{})
	put := func(events ...*host.Event) { t.Helper(); storetest.Put(t, tested{a}, 0, events...) }
	caught := func() (list []string) {
		t.Helper()
		if err := b.CatchUp(func(c host.Commit) { list = append(list, told(c)) }); err != nil {
			t.Fatal(err)
		}
		return list
	}
	first, old, current := storetest.Event(1, 1, 1, 1), storetest.Event(2, 1, 0, 1), storetest.Event(3, 1, 0, 2)
	put(first)
	want := told(host.Commit{Published: []host.Published{{Event: first, Seq: 1}}})
	if got := caught(); !slices.Equal(got, []string{want}) {
		t.Errorf("got %q", got)
	}
	put(old)
	put(current)
	if _, err := a.conn.Exec(t.Context(), `DELETE FROM log WHERE n = 2`); err != nil {
		t.Fatal(err)
	}
	gap := told(host.Commit{Gap: true})
	if got := caught(); !slices.Equal(got, []string{gap, told(host.Commit{Published: []host.Published{{Event: current, Seq: 3}}})}) {
		t.Errorf("got %q", got)
	}
	// Another history with the same numbers is none that it knows, as after a failover.
	if _, err := a.conn.Exec(t.Context(), `UPDATE total SET token = '\x11'; UPDATE log SET token = '\x11', before = '\x12'`); err != nil {
		t.Fatal(err)
	}
	if got := caught(); !slices.Equal(got, []string{gap}) {
		t.Errorf("got %q", got)
	}
	if got := caught(); got != nil {
		t.Errorf("again: %q", got)
	}
}

// TestTurn: who holds the turn and does not go on loses it, and what it did is undone.
func TestTurn(t *testing.T) {
	url := server.URL(t)
	a, b := opened(t, url, Options{idle: idleTime}), opened(t, url, Options{})
	lost, e := storetest.Event(1, 1, 1, 1), storetest.Event(2, 1, 1, 1)
	frozen, err := a.Begin()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := frozen.Put(lost, 0); err != nil {
		t.Fatal(err)
	}
	storetest.Put(t, tested{b}, 0, e) // waits for idleTime
	if err := frozen.Commit(); err == nil {
		t.Error("a transaction that the server has ended was committed")
	}
	if has(t, b, lost) || !has(t, a, e) {
		t.Error("what was committed is not what is stored")
	}
	storetest.Put(t, tested{a}, 0, lost)
	storetest.Check(t, tested{a})
}

// TestAlone: a store knows whether others write, and is woken by what they commit.
func TestAlone(t *testing.T) {
	url := server.URL(t)
	a := opened(t, url, Options{})
	testkit.Eventually(t, "it is alone", a.Alone)
	b := opened(t, url, Options{})
	testkit.Eventually(t, "neither is alone", func() bool { return !a.Alone() && !b.Alone() })
	for len(a.Changed()) > 0 {
		<-a.Changed()
	}
	held := storetest.Event(1, 1, host.KindAnnouncement, 1)
	storetest.Hold(t, tested{b}, 100, host.HoldOptions{}, held)
	<-a.Changed()
	if text, err := a.Held(t.Context(), held.ID); err != nil || text == nil {
		t.Errorf("what another holds is not found: %v", err)
	}
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	testkit.Eventually(t, "it is alone again", a.Alone)
}
