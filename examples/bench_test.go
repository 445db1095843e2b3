package examples

import (
	"strings"
	"testing"

	"talon/host/plugin/guest"
	"talon/sdk/abi"
)

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
