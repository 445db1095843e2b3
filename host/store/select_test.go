package store

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// TestBest compares with sorting everything, for sort keys of which many are alike or equal.
func TestBest(t *testing.T) {
	rnd := rand.New(rand.NewPCG(5, 5))
	for range 3000 {
		spread := 1 + rnd.Int64N(400)
		found := make([]sortKey, rnd.IntN(200))
		for i := range found {
			seq := 1 + rnd.Int64N(spread)
			found[i] = sortKey{at: seq % 7, prefix: uint64(seq % 5), seq: seq}
		}
		want := slices.Clone(found)
		slices.SortFunc(want, sortKey.compare)
		want = slices.Compact(want)
		limit := 1 + rnd.IntN(60)
		got := best(slices.Clone(found), limit)
		if len(got) > len(want) || !slices.Equal(got, want[:len(got)]) {
			t.Fatalf("best %d of %v: got %v, which is not how %v begins", limit, found, got, want)
		}
		if n := len(got); n < len(want) && (n < limit || want[n].tied(want[limit-1])) {
			t.Fatalf("best %d of %v: got only %d of %v", limit, found, n, want)
		}
	}
}
