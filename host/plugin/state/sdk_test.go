package state_test

import (
	"context"
	"math/rand/v2"
	"strconv"
	"testing"
	"time"

	"talon/host/plugin/state"
	"talon/sdk/policy"
	"talon/sdk/policy/policytest"
)

// keeper is a policy that does as a test wants.
type keeper struct{ do func(policy.Facts) }

func (keeper) Configure(policy.Config) error { return nil }

func (k *keeper) Admit(in policy.Input) policy.Verdict {
	k.do(in.Facts)
	return policy.Pass()
}

// TestHarnessOfTheSDK does the same at random with the state of a relay and with that of
// the harness with which authors test their policies.
func TestHarnessOfTheSDK(t *testing.T) {
	memory, err := state.Open(context.Background(), nil, state.Options{})
	if err != nil {
		t.Fatal(err)
	}
	relay := memory.Of("x")
	p := new(keeper)
	h := policytest.New(t, `{
		"talon_manifest": 1, "name": "x", "worlds": ["policy"],
		"capabilities": ["kv.get", "kv.set", "kv.delete", "kv.incr", "bucket.take"]
	}`, p, nil)
	r := rand.New(rand.NewPCG(1, 2))
	for step := range 50_000 {
		if r.IntN(4) == 0 {
			h.Now += int64(r.IntN(5))
		}
		key := "key" + strconv.Itoa(r.IntN(20))
		ttl := int64(r.IntN(4) * r.IntN(10))
		p.do = func(f policy.Facts) {
			switch r.IntN(5) {
			case 0:
				value, ok := relay.Get([]byte(key), h.Now)
				got, found := f.KVGet(key)
				if ok != found || string(got) != string(value) {
					t.Fatalf("step %d: get %s: %q, %v, the relay has %q, %v", step, key, got, found, value, ok)
				}
			case 1:
				value := make([]byte, r.IntN(3)*4)
				if got, want := f.KVSet(key, value, ttl), relay.Set([]byte(key), value, ttl, h.Now); got != want {
					t.Fatalf("step %d: set %s: %v, the relay says %v", step, key, got, want)
				}
			case 2:
				f.KVDelete(key)
				relay.Delete([]byte(key))
			case 3:
				delta := int64(r.Uint64()) >> r.IntN(64)
				if got, want := f.KVIncr(key, delta, ttl), relay.Incr([]byte(key), delta, ttl, h.Now); got != want {
					t.Fatalf("step %d: incr %s: %d, the relay says %d", step, key, got, want)
				}
			case 4:
				n, burst, every := r.IntN(6), r.IntN(10), int64(1+r.IntN(3000))
				wait, ok := f.Take(key, n, burst, time.Duration(every)*time.Millisecond)
				want := relay.Take([]byte(key), int64(n), int64(burst), every, h.Now)
				if wait.Milliseconds() != want || ok != (want == 0) {
					t.Fatalf("step %d: take %s: %v, %v, the relay says %d ms", step, key, wait, ok, want)
				}
			}
		}
		h.Admit(policytest.Event{})
	}
}
