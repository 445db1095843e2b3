package layers

import (
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
)

// TestSetAgainstMap does the same to sets and to maps.
func TestSetAgainstMap(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	type both struct {
		set   Set
		model map[uint32]bool
	}
	sets := make([]both, 4)
	for i := range sets {
		sets[i].model = make(map[uint32]bool)
	}
	for step := range 20_000 {
		a, b := &sets[random.IntN(len(sets))], &sets[random.IntN(len(sets))]
		shared, before := a.set, slices.Collect(a.set.All())
		switch random.IntN(5) {
		case 0, 1:
			n := random.Uint32N(200)
			shared = Set{}
			a.set.Add(n)
			a.model[n] = true
		case 2:
			a.set.AddSet(b.set)
			maps.Copy(a.model, b.model)
		case 3:
			other := b.set.Clone()
			model := maps.Clone(b.model)
			a.set.Remove(other)
			maps.DeleteFunc(a.model, func(n uint32, _ bool) bool { return model[n] })
		case 4:
			limit := random.IntN(20)
			shared, a.set = Set{}, a.set.Clone()
			taken := a.set.Take(limit)
			lowest := before[:min(limit, len(before))]
			if got := slices.Collect(taken.All()); !slices.Equal(got, lowest) {
				t.Fatalf("step %d: took %v, want %v", step, got, lowest)
			}
			for _, n := range lowest {
				delete(a.model, n)
			}
		}
		if !shared.Empty() && !slices.Equal(slices.Collect(shared.All()), before) {
			t.Fatalf("step %d: a copy has changed", step)
		}
		want := slices.Sorted(maps.Keys(a.model))
		if got := slices.Collect(a.set.All()); !slices.Equal(got, want) || a.set.Len() != len(want) || a.set.Empty() != (len(want) == 0) {
			t.Fatalf("step %d: %v, want %v", step, got, want)
		}
		if n := random.Uint32N(200); a.set.Has(n) != a.model[n] {
			t.Fatalf("step %d: Has(%d) is %v", step, n, a.set.Has(n))
		}
		for i := 1; i < len(a.set.spans); i++ {
			if a.set.spans[i-1].to >= a.set.spans[i].from {
				t.Fatalf("step %d: spans %v touch", step, a.set.spans)
			}
		}
	}
}

func TestSpansOfBits(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	for range 2000 {
		words, want := make([]uint64, 6), Set{}
		for range random.IntN(12) {
			from := random.Uint32N(384)
			for n := from; n < min(384, from+random.Uint32N(100)); n++ {
				words[n/64] |= 1 << (n % 64)
				want.Add(n)
			}
		}
		if got := spansOf(words, 0, 5); !slices.Equal(got.spans, want.spans) {
			t.Fatalf("%v, want %v", got.spans, want.spans)
		}
		if slices.Max(words) != 0 {
			t.Fatal("bits are left")
		}
	}
}

func TestPlan(t *testing.T) {
	wanted := Items{Repos: SetOf(1, 2, 3), Roots: SetOf(1, 2, 3, 4, 5)}
	got := Plan(wanted, Items{Repos: SetOf(1), Roots: SetOf(2)}, Items{Repos: SetOf(3, 9), Roots: SetOf(4, 5)})
	if !slices.Equal(slices.Collect(got.Repos.All()), []uint32{2}) || !slices.Equal(slices.Collect(got.Roots.All()), []uint32{1, 3}) {
		t.Errorf("%v", got)
	}
}
