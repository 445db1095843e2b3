package plugin

import (
	"encoding/binary"
	"fmt"
	"testing"
	"time"

	"talon/host"
)

// TestJournalShares checks that equal decisions take the room of one, and that entries of
// different ones are not mixed up.
func TestJournalShares(t *testing.T) {
	const entries = 10_000
	id := func(n int) (id host.ID) {
		binary.LittleEndian.PutUint64(id[:], uint64(n))
		return id
	}
	chains := []*chain{{names: []string{"open"}}, {names: []string{"lists", "open"}}}
	ask := func(n int) *question {
		q := &question{source: "client", now: 1000, fuel: int64(n), chain: chains[0], asked: 1, ruling: host.Ruling{Action: host.Accept, Module: "open"}}
		switch {
		case n%2 == 1:
			q.ruling = host.Ruling{Action: host.Reject, Reason: "blocked: spam", Module: "lists"}
		case n >= entries/2:
			q.chain, q.asked = chains[1], 2
		}
		if n == 4 {
			q.source = "sync"
		}
		if n == 5 {
			q.ruling.Reason = "blocked: other"
		}
		return q
	}
	j := newJournal(entries)
	shared := map[*decision]bool{}
	for n := range entries {
		event := id(n)
		var opinions []opinion
		if n == 6 {
			opinions = []opinion{{by: &generation{name: "shadow"}, ruling: host.Ruling{Action: host.Reject}}}
		}
		j.add(&event, ask(n), opinions)
		shared[j.ring[n].decision] = true
	}
	// Three common ones, and three single ones. After one or two of these a common one is kept again.
	if len(shared) != 8 {
		t.Errorf("%d decisions are kept, want 8", len(shared))
	}
	for n := range entries {
		why, ok := j.find(id(n), time.Unix(1000, 0))
		want, shadows := ask(n), 0
		if n == 6 {
			shadows = 1
		}
		if !ok || why.Source != want.source || why.Ruling.Reason != want.ruling.Reason || why.Ruling.Plugin != want.ruling.Module ||
			why.Ruling.Fuel != want.fuel || fmt.Sprint(why.Asked) != fmt.Sprint(want.chain.names) || len(why.Shadow) != shadows {
			t.Errorf("event %d: %+v", n, why)
		}
	}
}
