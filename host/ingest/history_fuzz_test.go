package ingest

import (
	"math/rand/v2"
	"testing"

	"talon/host"
	"talon/internal/testkit"
)

// runHistory carries out operations, three bytes each, on a history and on a list of changes that
// forgets nothing. A decision that the list calls stale must be stale. The history may call
// others stale only if they are older than it reaches.
func runHistory(t *testing.T, program []byte) {
	var h history
	type modelChange struct {
		version uint64
		n       int
		held    bool
		open    bool
	}
	var model []modelChange
	size := 0
	next := func(n int) *host.Event {
		e := event(n)
		if n%16 == 0 {
			e.JSON = make([]byte, 1<<20) // so that the bound of bytes is met
		}
		return e
	}
	for ; len(program) >= 3; program = program[3:] {
		n := int(program[1]) % 40
		switch program[0] % 10 {
		case 0, 1, 2:
			held := program[2]%2 == 0
			h.add(change{event: next(n), held: held})
			model = append(model, modelChange{h.version, n, held, true})
		case 3:
			if len(h.open) == 0 { // what others have committed comes before a batch
				h.note(change{event: next(n)})
				model = append(model, modelChange{h.version, n, false, false})
			}
		case 4:
			h.commit()
			for i := range model {
				model[i].open = false
			}
		case 5:
			h.rollback()
			kept := model[:0]
			for _, c := range model {
				if !c.open {
					kept = append(kept, c)
				}
			}
			model = kept
		case 6:
			h.noteGitData()
		case 7:
			if len(h.open) == 0 && program[2]%8 == 0 {
				h.invalidate()
			}
		case 8:
			for range int(program[2]) {
				h.add(change{event: next(n)})
				model = append(model, modelChange{h.version, n, false, true})
			}
		}
		size = 0
		for i, c := range h.changes {
			size += len(c.event.JSON)
			if i > 0 && c.version <= h.changes[i-1].version || c.version > h.version {
				t.Fatalf("change %d has version %d after %d", i, c.version, h.changes[i-1].version)
			}
		}
		if size != h.bytes || len(h.changes) > historyEvents || size > historyBytes && len(h.changes) > 1 {
			t.Fatalf("%d changes have %d bytes, and %d are counted", len(h.changes), size, h.bytes)
		}
		for _, version := range []uint64{0, h.version / 2, h.version - min(h.version, uint64(program[2])), h.version} {
			for _, held := range []bool{false, true} {
				f := &host.Reads{Stored: []host.Filter{{IDs: []host.ID{event(n).ID}}}}
				if held {
					f = &host.Reads{Held: f.Stored}
				}
				want := false
				for _, c := range model {
					want = want || c.version > version && c.n == n && c.held == held
				}
				if got := h.stale(f, version); got != want && (want || version >= h.complete) {
					t.Fatalf("a decision of version %d about %d is stale: %v, want %v", version, n, got, want)
				}
			}
		}
	}
}

func FuzzHistory(f *testing.F) {
	testkit.SkipRace(f)
	f.Add([]byte{0, 1, 0, 4, 0, 0, 0, 2, 1, 5, 0, 0, 3, 3, 3, 7, 0, 8, 8, 16, 255, 5, 0, 0})
	for seed := range uint64(testkit.Sized(5, 12)) {
		r := rand.New(rand.NewPCG(seed, 4))
		program := make([]byte, 900)
		for i := range program {
			program[i] = byte(r.Uint32())
		}
		f.Add(program)
	}
	f.Fuzz(func(t *testing.T, program []byte) { runHistory(t, program[:min(len(program), 900)]) })
}
