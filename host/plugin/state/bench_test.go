package state

import (
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"testing"
)

// BenchmarkPlugin is the cost of one call among 50,000 keys or buckets, by as
// many goroutines as there are processors.
func BenchmarkPlugin(b *testing.B) {
	const n = 50_000
	names := make([][]byte, n)
	for i := range names {
		names[i] = fmt.Appendf(nil, "%064d", i)
	}
	fill := func(b *testing.B) *Plugin {
		p := memory(b, newDisk(), nil, Options{Quota: 1 << 30}).Of("p")
		for i, name := range names {
			p.Set(name, name, 0, start)
			p.Incr(names[i][1:], 1, 60, start)
			p.Take(name, 1, 10, 1000, start)
		}
		return p
	}
	full := func(b *testing.B) *Plugin {
		p := memory(b, newDisk(), nil, Options{Quota: 8 << 20}).Of("p")
		for i := range 40_000 {
			p.Take(fmt.Append(nil, i), 1, 10, 1000, start)
		}
		return p
	}
	var fresh atomic.Int64
	for _, bench := range []struct {
		name  string
		setup func(*testing.B) *Plugin
		call  func(p *Plugin, name []byte)
	}{
		{"Get", fill, func(p *Plugin, name []byte) { p.Get(name, start) }},
		{"Get-one-key", fill, func(p *Plugin, name []byte) { p.Get(names[0], start) }},
		{"Set", fill, func(p *Plugin, name []byte) { p.Set(name, name, 0, start) }},
		{"Incr", fill, func(p *Plugin, name []byte) { p.Incr(name[1:], 1, 60, start) }},
		{"Take", fill, func(p *Plugin, name []byte) { p.Take(name, 1, 1<<20, 1000, start) }},
		{"Take-refused", fill, func(p *Plugin, name []byte) { p.Take(name, 10, 10, 1000, start) }},
		{"Take-new-without-room", full, func(p *Plugin, name []byte) {
			var key [16]byte
			p.Take(fmt.Appendf(key[:0], "%x", fresh.Add(1)), 1, 10, 1000, start)
		}},
		{"Set-without-room", full, func(p *Plugin, name []byte) { p.Set(name, make([]byte, MaxValue), 0, start) }},
	} {
		b.Run(bench.name, func(b *testing.B) {
			p := bench.setup(b)
			b.ReportAllocs()
			b.ResetTimer()
			b.RunParallel(func(pb *testing.PB) {
				r := rand.New(rand.NewPCG(1, 2))
				for pb.Next() {
					bench.call(p, names[r.IntN(n)])
				}
			})
		})
	}
}
