package plugin

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"talon/host"
	"talon/internal/testkit"
)

// runJournal notes decisions, one for each byte, in a journal and in a plain list, of which the last
// ones count: the journal must find those, and nothing else.
func runJournal(t *testing.T, limit int, program []byte) {
	j := newJournal(limit)
	type noted struct {
		event  host.ID
		source string
	}
	var all []noted // the oldest first; taken again, an event keeps its place
	now := time.Now()
	for n, b := range program {
		id := host.ID{b % 40, 1}
		q := traceOf(id, now.Unix())
		q.source, q.ruling.Action = fmt.Sprint(n/2), host.Action(b%3)
		j.add(q)
		again := false
		for i := range all {
			if all[i].event == id {
				all[i].source, again = q.source, true
			}
		}
		if !again && limit > 0 {
			all = append(all, noted{id, q.source})
			all = all[max(0, len(all)-limit):]
		}
		for event := range byte(40) {
			id := host.ID{event, 1}
			why, found := j.find(id, now)
			want := ""
			for _, e := range all {
				if e.event == id {
					want = e.source
				}
			}
			if found != (want != "") || found && why.Source != want {
				t.Fatalf("event %d is found: %v, from %q, want %q", event, found, why.Source, want)
			}
		}
	}
}

func FuzzJournal(f *testing.F) {
	testkit.SkipRace(f)
	f.Add(uint8(3), []byte{1, 2, 3, 1, 4, 2, 5, 6, 1})
	f.Add(uint8(0), []byte{1, 2})
	for seed := range uint64(testkit.Sized(5, 10)) {
		r := rand.New(rand.NewPCG(seed, 6))
		program := make([]byte, 400)
		for i := range program {
			program[i] = byte(r.Uint32())
		}
		f.Add(uint8(1+3*seed), program)
	}
	f.Fuzz(func(t *testing.T, limit uint8, program []byte) {
		runJournal(t, int(limit)%64, program[:min(len(program), 800)])
	})
}
