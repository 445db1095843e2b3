package layers

import (
	"encoding/binary"
	"math/rand/v2"
	"testing"
)

// TestRootsAgainstMap adds, finds and drops ids, enough that all of the table grows.
func TestRootsAgainstMap(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	r := roots{seed: 3}
	model := make(map[[32]byte]uint32)
	id := func() (id [32]byte) {
		binary.LittleEndian.PutUint64(id[:], random.Uint64N(20_000))
		return id
	}
	for step := range 100_000 {
		id := id()
		n, free, known := r.find(&id)
		want, has := model[id]
		if known != has || known && n != want {
			t.Fatalf("step %d: %d, %v, want %d, %v", step, n, known, want, has)
		}
		switch {
		case !known:
			n = r.add(&id, free)
			if *r.id(n) != id {
				t.Fatalf("step %d: the number stands for something else", step)
			}
			model[id] = n
		case step%3 == 0:
			r.drop(n)
			delete(model, id)
		}
		if r.used != len(model) {
			t.Fatalf("step %d: %d, want %d", step, r.used, len(model))
		}
	}
	slots, limit := 0, 0
	for i := range r.table {
		slots += len(r.table[i].slots)
		limit = max(limit, len(r.table[i].slots))
		if len(r.table[i].slots) <= 16 {
			t.Errorf("segment %d never grew", i)
		}
	}
	if slots > 3*len(model) {
		t.Errorf("%d slots for %d ids", slots, len(model))
	}
	if limit > slots/segments*4 {
		t.Errorf("one segment has %d slots of %d: a step in which it grows costs too much", limit, slots)
	}
}
