package negentropy

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// TestWith adds items at random. The result must equal a set that a builder made, down to its sums,
// and the first set must not change.
func TestWith(t *testing.T) {
	rnd := rand.New(rand.NewPCG(7, 8))
	for _, n := range []int{0, 1, 63, 64, chunkLen - 1, chunkLen, chunkLen + 1, 3*chunkLen - 5, 4 * chunkLen} {
		for _, span := range []uint64{1, 100, 1 << 20} { // one time for all, some in common, few
			list := make([]Item, n)
			for i := range list {
				list[i] = item(i, 1<<21+rnd.Uint64N(span))
			}
			set := setOf(list...)
			for round := range 6 {
				before := set.list()
				var add []Item
				for range []int{0, 1, 10, 70, chunkLen + 3}[rnd.IntN(5)] {
					at := 1<<21 + rnd.Uint64N(span)
					switch round % 3 {
					case 0:
						at += span // behind all others, as what is new will be
					case 1:
						at -= rnd.Uint64N(2) * span
					}
					add = append(add, item(1_000_000+rnd.IntN(1<<30), at))
				}
				if len(list) > 0 {
					for range rnd.IntN(4) {
						add = append(add, list[rnd.IntN(len(list))])
					}
				}
				if len(add) > 0 {
					add = append(add, add[0])
				}
				given := slices.Clone(add)
				next := set.With(add...)
				if !slices.Equal(add, given) {
					t.Fatal("With has changed what it was given")
				}
				if !slices.Equal(set.list(), before) {
					t.Fatalf("With has changed a set of %d items", set.Len())
				}
				list = append(list, add...)
				want := setOf(list...)
				if next.Len() != want.Len() || !slices.EqualFunc(next.items.chunks, want.items.chunks, sameChunk) {
					t.Fatalf("%d items and %d more: not the set that a builder makes", len(before), len(add))
				}
				for range 20 {
					lo := rnd.IntN(want.Len() + 1)
					hi := lo + rnd.IntN(want.Len()+1-lo)
					if next.fingerprint(lo, hi) != want.fingerprint(lo, hi) {
						t.Fatalf("wrong fingerprint of [%d, %d)", lo, hi)
					}
				}
				if got := next.Bytes(); got != want.Bytes() {
					t.Fatalf("%d bytes, want %d", got, want.Bytes())
				}
				set = next
			}
		}
	}
}

func sameChunk(a, b chunk) bool {
	return slices.Equal(a.times, b.times) && slices.Equal(a.ids, b.ids) && slices.Equal(a.sums, b.sums)
}

func TestWithNothingNew(t *testing.T) {
	set := setOf(item(1, 10), item(2, 20))
	if set.With() != set || set.With(item(2, 20), item(1, 10)) != set {
		t.Error("a set that has all the items is made again")
	}
	if new(Set).With().Len() != 0 {
		t.Error("nothing is not empty")
	}
}

func TestShared(t *testing.T) {
	const n = 3*chunkLen + 10
	var list []Item
	for i := range n {
		list = append(list, item(i, 1000+uint64(i)))
	}
	set := setOf(list...)
	newest := set.With(item(n, 1<<40))
	again := newest.With(item(n+1, 1<<41))
	middle := newest.With(item(n+2, 1000+chunkLen+5))
	for name, tt := range map[string]struct {
		a, b *Set
		want int
	}{
		"itself":            {set, set, n},
		"newer items":       {set, newest, 3 * chunkLen},
		"two steps":         {set, again, 3 * chunkLen},
		"in the middle":     {again, middle, chunkLen},
		"at the front":      {set, set.With(item(n+3, 1)), 0},
		"of another origin": {set, setOf(list...), 0},
		"empty":             {set, new(Set), 0},
	} {
		if got := tt.a.Shared(tt.b); got != tt.want {
			t.Errorf("%s: %d, want %d", name, got, tt.want)
		}
		if got := tt.b.Shared(tt.a); got != tt.want {
			t.Errorf("%s, the other way: %d, want %d", name, got, tt.want)
		}
	}
}
