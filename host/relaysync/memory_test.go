package relaysync

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"talon/host/relaysync/holdings"
	"talon/host/relaysync/known"
	"talon/host/relaysync/match"
	"talon/host/relaysync/relaysynctest"
)

// TestRefusals checks that refusals are known after a restart while the same policies decide.
// Refusals of other policies are neither believed nor left behind.
func TestRefusals(t *testing.T) {
	keep := new(relaysynctest.Memory)
	policies, hash := "first", match.NewHash(1, 2)
	list := notes(t, 2500)
	begin := func() *refusals {
		r := &refusals{keep: keep, policies: func() string { return policies }, known: known.New(hash, 5000, 1000), now: func() int64 { return epoch }}
		if err := r.load(t.Context()); err != nil {
			t.Fatal(err)
		}
		return r
	}
	refuse := func(r *refusals, from, to int) {
		for _, e := range list[from:to] {
			r.known.Refuse(e, epoch, r.known.MarkInFlight(e.ID, "wss://x"))
		}
	}
	check := func(r *refusals, when string, from, to, rows int) {
		t.Helper()
		for i, e := range list {
			if r.known.Has(e.ID, epoch) != (i >= from && i < to) {
				t.Fatalf("%s: event %d is known: %v", when, i, i < from || i >= to)
			}
		}
		if n := len(keep.Rows()); n != rows {
			t.Errorf("%s: %d rows", when, n)
		}
	}
	save := func(r *refusals) {
		t.Helper()
		if err := r.save(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	r := begin()
	save(r)
	refuse(r, 0, 1500)
	save(r)
	check(begin(), "after a restart", 0, 1500, 3)
	refuse(r, 1500, 2500) // and it crashes before it is written
	check(begin(), "after a crash", 0, 1500, 3)

	policies = "second"
	r = begin()
	check(r, "other policies since a restart", 0, 0, 3)
	refuse(r, 0, 10)
	save(r)
	check(begin(), "what these refused", 0, 10, 2)
	policies = "third"
	r.forget()
	check(r, "other policies while it runs", 0, 0, 2)
	refuse(r, 10, 20)
	save(r)
	check(begin(), "what those refused", 10, 20, 2)

	// A failed write is made up for by the next one.
	r = begin()
	refuse(r, 20, 30)
	keep.Fail(nil, errors.New("no space"))
	if r.save(t.Context()) == nil {
		t.Error("it does not fail")
	}
	keep.Fail(nil, nil)
	save(r)
	check(begin(), "after a failure", 10, 30, 3)
}

// TestBeliefs checks that the next line sees the records of a line immediately: already written,
// being written, or not writable.
func TestBeliefs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		keep := new(relaysynctest.Holdings)
		b := newBeliefs(keep, 10)
		relay := "wss://a"
		there := func(when string, want int) {
			t.Helper()
			if set, err := b.get(t.Context(), relay); err != nil || set.Len() != want {
				t.Errorf("%s: %d events, %v; want %d", when, set.Len(), err, want)
			}
		}
		put := func(n int) {
			set := holdings.New(10)
			set.Keep()
			for i := range n {
				set.Add([32]byte{byte(i)})
			}
			b.put(relay, set.Encode())
		}
		there("nothing", 0)
		put(1)
		there("put", 1)
		keep.Fail(func() { there("while it is written", 1) }, nil)
		ctx, stop := context.WithCancel(t.Context())
		var failures []error
		go b.run(ctx, time.Minute, func(err error) { failures = append(failures, err) })
		time.Sleep(61 * time.Second)
		synctest.Wait()
		there("written", 1)
		put(2)
		keep.Fail(func() { put(3) }, errors.New("no space"))
		time.Sleep(time.Minute)
		synctest.Wait()
		if len(failures) != 1 {
			t.Errorf("failures: %v", failures)
		}
		keep.Fail(nil, errors.New("no space"))
		there("not written", 3)
		keep.Fail(nil, nil)
		time.Sleep(time.Minute)
		synctest.Wait()
		if set := holdings.Decode(keep.Rows()[relay], 10); set.Len() != 3 {
			t.Errorf("%d events are written", set.Len())
		}
		b.put(relay, nil)
		there("forgotten", 0)
		stop()
		synctest.Wait()
		if err := b.flush(t.Context()); err != nil || keep.Rows()[relay] != nil {
			t.Errorf("it is not forgotten: %v", err)
		}
	})
}
