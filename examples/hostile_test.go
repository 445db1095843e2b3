package examples

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"talon/host/plugin/guest"
	"talon/sdk/abi"
)

// TestHostileEvents asks the same policy in every language about events that nobody
// expects. None may fail, and all must decide alike.
func TestHostileEvents(t *testing.T) {
	requests := append(hostileRequests(), changedRequests(2000)...)
	for _, name := range names {
		t.Run(name, func(t *testing.T) {
			config := map[string]any{"max_capitals": int64(3)}
			if name == "allow-rate" {
				config = allowed(100)
			}
			var want []string // of the first language
			for i := range languages {
				l := &languages[i]
				t.Run(l.name, func(t *testing.T) {
					m := load(t, compile(t, l, name), guest.Options{Name: name, Config: config, State: newState(t), Instances: 1})
					got := make([]string, len(requests))
					for i, request := range requests {
						r, _, err := m.Rule(t.Context(), guest.Admit, request, nil, 1_700_000_000, "client")
						if err != nil {
							t.Fatalf("%.200x: %v", request, err)
						}
						got[i] = fmt.Sprintf("%v by %q with %q", r.Action, r.Rule, r.Reason)
					}
					if want == nil {
						want = got
					}
					for i := range got {
						if got[i] != want[i] {
							t.Fatalf("%.200x: the answer is %s, in %s it is %s", requests[i], got[i], languages[0].name, want[i])
						}
					}
				})
			}
		})
	}
}

// TestMalformedRequests asks what a host never asks. A module may trap; it must not
// run on, or answer with garbage.
func TestMalformedRequests(t *testing.T) {
	inEachLanguage(t, "allow-rate", func(t *testing.T, wasm []byte) {
		m := load(t, wasm, guest.Options{Name: "allow-rate", Config: allowed(100), State: newState(t), Instances: 1, Clock: hurried()})
		for _, sample := range samples() {
			const cuts = 40
			for n := range cuts {
				request := sample[:n*len(sample)/cuts]
				if _, _, err := m.Rule(t.Context(), guest.Admit, request, nil, 1_700_000_000, "client"); err != nil && !gaveUp(err) {
					t.Fatalf("%x: %v", request, err)
				}
			}
		}
	})
}

// hostileRequests are about events that are well-formed and unusual.
func hostileRequests() (list [][]byte) {
	many := make([][]string, 20_000)
	for i := range many {
		many[i] = []string{"t"}
	}
	wide := make([]string, 20_000)
	for _, e := range []abi.Event[[]string]{
		{},
		{PubKey: author(1), Kind: 1, Content: strings.Repeat("A", 1<<20)},
		{PubKey: author(1), Kind: 1, Content: strings.Repeat("\x00", 1000)},
		{PubKey: author(1), Kind: 1, Content: strings.Repeat("😀Ä", 1000) + "AAAA"},
		{PubKey: author(99), Kind: 1<<32 - 1, CreatedAt: -1 << 63},
		{PubKey: author(100), Kind: 1, CreatedAt: 1<<63 - 1, Content: "AAAA"},
		{PubKey: author(2)[:31], Kind: 1, Content: "AAA"},
		{PubKey: append(author(2), 0), Kind: 1, Content: "AAA"},
		{PubKey: author(3), Kind: 1, Tags: many},
		{PubKey: author(3), Kind: 1, Tags: [][]string{wide}},
		{PubKey: author(3), Kind: 1, Tags: [][]string{{strings.Repeat("x", 1<<20), ""}}},
		{PubKey: author(4), ID: make([]byte, 1000), Sig: make([]byte, 1000), Kind: 1},
	} {
		list = append(list, admitRequest(&e))
	}
	// Fields twice, of other types, and unknown ones.
	e := abi.AppendEvent(nil, &abi.Event[[]string]{PubKey: author(5), Kind: 1, Content: "AAAA"})
	e = append(e, 0x20, 0x07)                                           // the kind again
	e = append(e, 0x10, 0x01, 0x22, 0x01, 'x', 0x35, 1, 2, 3, 4)        // pubkey, kind and content of other types
	e = append(e, 0xf8, 0xff, 0xff, 0xff, 0x0f, 0x01, 0xfa, 0x7f, 0x00) // field numbers of the future
	return append(list, append(append([]byte{0x0a, byte(len(e))}, e...), 0x18, 0x01))
}

// changedRequests are requests after changes that leave them well-formed.
func changedRequests(n int) (list [][]byte) {
	random := rand.New(rand.NewPCG(5, 6))
	others := samples()
	for len(list) < n {
		request := admitRequest(&abi.Event[[]string]{
			PubKey: author(random.IntN(120)), Kind: uint32(random.IntN(3)), Content: strings.Repeat("aB", random.IntN(3)) + strings.Repeat("X", random.IntN(6)),
			Tags: [][]string{{"t", "x"}, {"e"}},
		})
		for range 1 + random.IntN(3) {
			request = mutate(random, bytes.Clone(request), others)
		}
		ok := wellFormed(request) && wellFormed(last(request, 2))
		each(request, 1, func(event []byte) { ok = ok && wellFormed(event) })
		if ok {
			list = append(list, request)
		}
	}
	return list
}

// hurried is a clock that moves a minute each time, so that a module that failed
// need not rest.
func hurried() func() time.Time {
	var mu sync.Mutex
	at := time.Unix(1_700_000_000, 0)
	return func() time.Time {
		mu.Lock()
		defer mu.Unlock()
		at = at.Add(time.Minute)
		return at
	}
}

// BenchmarkDecision is one decision of the same policy in every language, about a
// note of 400 bytes of content with four tags. The list of allow-rate has 100
// authors, of whom this is the last. It reports the fuel and the size of the module.
func BenchmarkDecision(b *testing.B) {
	request := admitRequest(&abi.Event[[]string]{
		ID: make([]byte, 32), PubKey: author(99), Sig: make([]byte, 64), CreatedAt: 1_700_000_000, Kind: 1, Content: strings.Repeat("x ", 200),
		Tags: [][]string{{"e", strings.Repeat("ab", 32), "wss://relay.example.com", "root"}, {"p", strings.Repeat("cd", 32)}, {"t", "nostr"}, {"client", "talon"}},
	})
	for _, name := range names {
		b.Run(name, func(b *testing.B) {
			for i := range languages {
				l := &languages[i]
				b.Run(l.name, func(b *testing.B) {
					o := guest.Options{Name: name, State: newState(b), Instances: 1}
					if name == "allow-rate" {
						o.Config = allowed(100)
					}
					wasm := compile(b, l, name)
					m := load(b, wasm, o)
					ctx, spent := b.Context(), int64(0)
					b.ReportAllocs()
					for b.Loop() {
						_, fuel, err := m.Rule(ctx, guest.Admit, request, nil, 1_700_000_000, "client")
						if err != nil {
							b.Fatal(err)
						}
						spent = fuel
					}
					b.ReportMetric(float64(spent), "fuel")
					b.ReportMetric(float64(len(wasm)), "bytes")
					b.ReportMetric(float64(m.MemoryUsed()), "memory")
				})
			}
		})
	}
}
