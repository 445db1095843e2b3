package policytest

import (
	"context"
	"math/rand/v2"
	"strconv"
	"testing"

	"talon/host/plugin/state"
	"talon/sdk/abi"
)

// TestStateIsThatOfARelay does the same at random with the state of a harness and
// with that of a relay.
func TestStateIsThatOfARelay(t *testing.T) {
	memory, err := state.Open(context.Background(), nil, state.Options{})
	if err != nil {
		t.Fatal(err)
	}
	relay := memory.Of("x")
	h := New(t, factsManifest, new(all), nil)
	harness := host{h}
	r := rand.New(rand.NewPCG(1, 2))
	out := make([]byte, abi.MaxValue)
	for step := range 50_000 {
		if r.IntN(4) == 0 {
			h.Now += int64(r.IntN(5))
		}
		key := "key" + strconv.Itoa(r.IntN(20))
		ttl := int64(r.IntN(4) * r.IntN(10))
		var got, want int64
		what := ""
		switch r.IntN(5) {
		case 0:
			what = "get"
			value, ok := relay.Get([]byte(key), h.Now)
			n := harness.KVGet(key, out)
			if ok != (n >= 0) || ok && string(out[:n]) != string(value) {
				t.Fatalf("step %d: get %s: %d, the relay has %q, %v", step, key, n, value, ok)
			}
		case 1:
			what = "set"
			value := make([]byte, r.IntN(3)*4)
			got = int64(harness.KVSet(key, value, ttl))
			if !relay.Set([]byte(key), value, ttl, h.Now) {
				want = abi.NoRoom
			}
		case 2:
			what = "delete"
			harness.KVDelete(key)
			relay.Delete([]byte(key))
		case 3:
			what = "incr"
			delta := int64(r.Uint64()) >> r.IntN(64)
			got, want = harness.KVIncr(key, delta, ttl), relay.Incr([]byte(key), delta, ttl, h.Now)
		case 4:
			what = "take"
			n, burst, every := r.IntN(6), r.IntN(10), int64(r.IntN(3000))
			got, want = harness.BucketTake(key, int32(n), int32(burst), every), relay.Take([]byte(key), int64(n), int64(burst), every, h.Now)
		}
		if got != want {
			t.Fatalf("step %d: %s %s: %d, the relay says %d", step, what, key, got, want)
		}
	}
}
