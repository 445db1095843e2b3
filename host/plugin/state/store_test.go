package state_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"strconv"
	"testing"
	"time"

	"talon/host/plugin/state"
	"talon/host/store"
	"talon/host/store/postgres"
	"talon/internal/testkit"
	"talon/sdk/policy"
	"talon/sdk/policy/policytest"
)

// TestStore keeps state in a real database, over restarts.
func TestStore(t *testing.T) {
	dir, now := t.TempDir(), int64(1_700_000_000)
	var db *store.Store
	open := func() *state.Memory {
		t.Helper()
		var err error
		if db, err = store.Open(context.Background(), dir, store.Options{Readers: 1}); err != nil {
			t.Fatal(err)
		}
		m, err := state.Open(context.Background(), db, state.Options{Now: func() time.Time { return time.Unix(now, 0) }})
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
	const n = 3000
	counter := func(i int) []byte { return binary.BigEndian.AppendUint32(nil, uint32(i)) }
	m := open()
	for i := range n {
		p := m.Of(fmt.Sprint("plugin ", i%2))
		p.Incr(counter(i), int64(i), int64(i%2*10), now)
		p.Take(counter(i), 1, 1, 5000, now)
	}
	bytes := m.Bytes("plugin 0") + m.Bytes("plugin 1")
	for restart := range 3 {
		if err := m.Save(context.Background()); err != nil {
			t.Fatal(err)
		}
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
		m = open()
		if got := m.Bytes("plugin 0") + m.Bytes("plugin 1"); got != bytes {
			t.Errorf("restart %d: %d bytes are used, want %d", restart, got, bytes)
		}
		for i := range n {
			p := m.Of(fmt.Sprint("plugin ", i%2))
			if got := p.Incr(counter(i), 0, 0, now); got != int64(i) {
				t.Fatalf("restart %d: counter %d is %d", restart, i, got)
			}
			if got := p.Take(counter(i), 1, 1, 5000, now); got != 5000 {
				t.Fatalf("restart %d: bucket %d says %d", restart, i, got)
			}
		}
	}
	now += 10 // every second counter, and all buckets
	if err := m.Save(context.Background()); err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	m = open()
	defer db.Close()
	if m.Bytes("plugin 0") == 0 || m.Bytes("plugin 1") != 0 {
		t.Errorf("after all of plugin 1 has expired: %v", m.Sizes())
	}
	if got := m.Of("plugin 0").Incr(counter(2), 0, 0, now); got != 2 {
		t.Errorf("a counter without expiry is %d", got)
	}
}

// TestStoreOfMany has three processes remember the same things in one database of
// PostgreSQL, which crashes meanwhile.
func TestStoreOfMany(t *testing.T) {
	var server testkit.Postgres
	t.Cleanup(server.Stop)
	url := server.URL(t) // or skip
	var all []*state.Plugin
	for range 3 {
		db, err := postgres.Open(t.Context(), url, postgres.Options{Readers: 1})
		if err != nil {
			t.Fatal(err)
		}
		m, err := state.Open(t.Context(), db, state.Options{})
		if err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(context.Background())
		ended := make(chan error)
		go func() { ended <- m.Run(ctx) }()
		t.Cleanup(func() {
			stop()
			if err := <-ended; err != nil {
				t.Error(err)
			}
			_ = db.Close()
		})
		all = append(all, m.Of("plugin"))
	}
	var sum int64
	agree := func(what string) {
		t.Helper()
		testkit.Eventually(t, what, func() bool {
			for _, p := range all {
				if value, ok := p.Get([]byte("key"), 1); p.Incr([]byte("sum"), 0, 0, 1) != sum || !ok || string(value) != what {
					return false
				}
			}
			return true
		})
	}
	for round, what := range []string{"one", "two", "three"} {
		for i := range 300 {
			all[i%3].Incr([]byte("sum"), int64(i), 0, 1)
			sum += int64(i)
		}
		if round == 1 {
			server.Restart(t)
		}
		all[round].Set([]byte("key"), []byte(what), 0, 1)
		agree(what)
	}
	all[0].Delete([]byte("key"))
	testkit.Eventually(t, "a key is forgotten by all", func() bool {
		for _, p := range all {
			if _, ok := p.Get([]byte("key"), 1); ok {
				return false
			}
		}
		return true
	})
}

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
