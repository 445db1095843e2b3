package relaysync

import (
	"context"
	"errors"
	"maps"
	"testing"

	"talon/host/relaysync/known"
	"talon/host/relaysync/match"
)

// rows keeps what is saved, or fails to.
type rows struct {
	relays map[string][]byte
	fail   error
}

func (m *rows) Load(context.Context) (map[string][]byte, error) { return maps.Clone(m.relays), nil }

func (m *rows) Save(_ context.Context, relays map[string][]byte) error {
	if m.fail != nil {
		return m.fail
	}
	maps.Copy(m.relays, relays)
	maps.DeleteFunc(m.relays, func(_ string, b []byte) bool { return b == nil })
	return nil
}

// What was refused is known after a restart as long as the same policies decide; what other
// policies refused is neither believed nor left behind.
func TestRefusals(t *testing.T) {
	keep := &rows{relays: map[string][]byte{}}
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
		if len(keep.relays) != rows {
			t.Errorf("%s: %d rows", when, len(keep.relays))
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

	// What could not be written is written with the next.
	r = begin()
	refuse(r, 20, 30)
	was := maps.Clone(keep.relays)
	keep.fail = errors.New("no space")
	if r.save(t.Context()) == nil {
		t.Error("it does not fail")
	}
	keep.relays, keep.fail = was, nil
	save(r)
	check(begin(), "after a failure", 10, 30, 3)
}
