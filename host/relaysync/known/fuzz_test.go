package known

import (
	"math/rand/v2"
	"slices"
	"testing"

	"talon/host"
	"talon/host/relaysync/match"
)

// modelRefusal is a refusal of the plain list that a set is compared with.
type modelRefusal struct {
	id     host.ID
	at     int64
	weight int
	valid  bool // it is the last refusal of its event, and nothing has taken it back
}

// runSet carries out operations, three bytes each, on a set and on a plain list of refusals.
func runSet(t *testing.T, program []byte) {
	const limit, age = 12, 30
	k := New(match.NewHash(1, 2), limit, age)
	now := int64(1000)
	var model []modelRefusal // in their order
	takeBack := func(id host.ID) {
		for i := range model {
			if model[i].id == id {
				model[i].valid = false
			}
		}
	}
	room := func() int {
		n := limit
		for _, r := range model {
			n -= r.weight
		}
		return n
	}
	for ; len(program) >= 3; program = program[3:] {
		a, b := program[1], program[2]
		id := host.ID{a % 16}
		e := &host.Event{ID: id, CreatedAt: int64(a)}
		for range int(b%3) * tagsOfOne {
			e.Tags = append(e.Tags, host.Tag{"t", string(rune('a' + len(e.Tags)))})
		}
		switch program[0] % 10 {
		case 0, 1, 2, 3:
			k.Exclude(e, now)
			takeBack(id)
			d := match.NewHash(1, 2).Digest(e)
			model = append(model, modelRefusal{id, now, 1 + d.Tags()/tagsOfOne, true})
			for len(model) > 1 && (room() < 0 || now-model[0].at >= age) {
				model = model[1:]
			}
		case 4:
			k.Add(id)
			takeBack(id)
			k.Remove(id)
		case 5:
			now += int64(b % 16)
		case 6:
			if b%8 == 0 {
				k.Invalidate()
				model = nil
			}
		case 7:
			generation := k.MarkInFlight(id, "relay")
			if b%2 == 0 {
				k.Invalidate()
				model = nil
				k.Refuse(e, now, generation) // by a policy that decides no more
			}
			k.Decided(id, host.Verdict{Code: host.Rejected}, nil)
			if _, in := k.InFlight(id); in {
				t.Fatal("an event is in flight that was decided")
			}
		case 8:
			if b%4 == 0 {
				k.Unwritten()
			}
			// Another set begins with the pages that this one has written.
			k.Unwritten()
			pages, _ := k.Pages(now)
			other := New(match.NewHash(1, 2), limit, age)
			other.Restore(pages, now)
			for n := range byte(16) {
				if id := (host.ID{n}); other.Has(id, now) != k.Has(id, now) {
					t.Fatalf("after a restart, event %d is refused: %v", n, other.Has(id, now))
				}
			}
		}
		ids := make([]host.ID, 16)
		var rest []host.ID
		for n := range ids {
			ids[n] = host.ID{byte(n)}
			refused := slices.ContainsFunc(model, func(r modelRefusal) bool { return r.id == ids[n] && r.valid && now-r.at < age })
			if k.Has(ids[n], now) != refused {
				t.Fatalf("event %d is refused: %v, want %v", n, !refused, refused)
			}
			if !refused {
				rest = append(rest, ids[n])
			}
		}
		if !slices.Equal(k.NotRefused(ids, now), rest) || !slices.Equal(k.Unknown(ids, now), rest) {
			t.Fatal("the events that were not refused are others")
		}
		if k.max != room() {
			t.Fatalf("there is room for %d, want %d", k.max, room())
		}
	}
}

func FuzzSet(f *testing.F) {
	f.Add([]byte{0, 1, 0, 0, 2, 1, 4, 1, 0, 8, 0, 0, 5, 0, 15, 0, 3, 2, 7, 1, 0, 8, 0, 0})
	for seed := range uint64(12) {
		r := rand.New(rand.NewPCG(seed, 9))
		program := make([]byte, 900)
		for i := range program {
			program[i] = byte(r.Uint32())
		}
		f.Add(program)
	}
	f.Fuzz(func(t *testing.T, program []byte) { runSet(t, program[:min(len(program), 1500)]) })
}
