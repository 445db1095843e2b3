package guest

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"talon/host"
	"talon/host/plugin/wasmtest"
	"talon/sdk/abi"
)

// BenchmarkDecision is the cost of one decision of a typical Go module, a list
// look-up and three tags read, about an event of 1 kB with four tags: encoding
// the request, the module, metrics. It reports the median and the 99th percentile
// of 100,000 calls.
func BenchmarkDecision(b *testing.B) {
	authors := make([]any, 1000)
	for i := range authors {
		authors[i] = fmt.Sprintf("%x", sha256.Sum256([]byte{byte(i), byte(i >> 8)}))
	}
	for _, bench := range []struct {
		name, folder string
		config       map[string]any
	}{
		{"lists", "plugins/lists", map[string]any{"deny_authors": authors, "deny_tags": []any{"t:spam", "client:spam"}}},
		{"hello-policy", "examples/hello-policy", nil},
		{"limits", "plugins/limits", nil},
		{"open", "plugins/open", map[string]any{"every": true}},
		{"words", "plugins/lists", map[string]any{"deny_words": []any{"casino", "viagra", "airdrop"}}},
	} {
		b.Run(bench.name, func(b *testing.B) {
			m := loadGo(b, bench.folder, func(o *Options) { o.Config, o.Clock = bench.config, nil })
			it, ctx := item(1, strings.Repeat("x ", 200)), b.Context()
			var q Request
			decide := func() {
				if _, _, err := m.Rule(ctx, Admit, q.Admit(it, now), nil, now, "client"); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportAllocs()
			for b.Loop() {
				decide()
			}
			reportSamples(b, decide)
		})
	}
}

// reportSamples reports how long calls take, without what looking at the clock
// takes.
func reportSamples(b *testing.B, f func()) {
	b.Helper()
	b.StopTimer()
	samples := make([]time.Duration, 100_000)
	measure := func(f func()) {
		for i := range samples {
			start := time.Now()
			f()
			samples[i] = time.Since(start)
		}
		slices.Sort(samples)
	}
	measure(func() {})
	clock := samples[len(samples)/2]
	measure(f)
	b.ReportMetric(float64(samples[len(samples)/2]-clock), "median-ns")
	b.ReportMetric(float64(samples[len(samples)*99/100]-clock), "p99-ns")
}

// BenchmarkStart makes three Go modules ready, self-tests included: without
// compiled code, and with it.
func BenchmarkStart(b *testing.B) {
	folders := []string{"plugins/lists", "plugins/open", "examples/hello-policy"}
	modules := make([][]byte, len(folders))
	for i, folder := range folders {
		modules[i] = goModule(b, folder)
	}
	start := func(b *testing.B, cache string) {
		for _, wasm := range modules {
			o := Options{Name: "x", CacheDir: cache}
			if err := SelfTest(b.Context(), wasm, o); err != nil {
				b.Fatal(err)
			}
			m, err := Load(b.Context(), wasm, o)
			if err != nil {
				b.Fatal(err)
			}
			m.Close(context.Background())
		}
	}
	b.Run("cold", func(b *testing.B) {
		for b.Loop() {
			start(b, b.TempDir())
		}
	})
	b.Run("warm", func(b *testing.B) {
		cache := b.TempDir()
		start(b, cache)
		for b.Loop() {
			start(b, cache)
		}
	})
}

// BenchmarkInstance makes one more instance of a loaded module.
func BenchmarkInstance(b *testing.B) {
	m := loadGo(b, "plugins/open", nil)
	for b.Loop() {
		inst, err := newInstance(b.Context(), m)
		if err != nil {
			b.Fatal(err)
		}
		b.ReportMetric(float64(inst.memory.Size()), "guest-bytes")
		inst.close()
	}
}

// BenchmarkEndlessLoop is how long the default budget lasts in a loop that does
// nothing, with a new instance each time.
func BenchmarkEndlessLoop(b *testing.B) {
	for name, code := range map[string]wasmtest.Code{
		"loop":      wasmtest.Body(forever, wasmtest.Unreachable),
		"recursion": wasmtest.Body(wasmtest.LocalGet(0), wasmtest.Call(3)),
		"recursion with a full stack": wasmtest.Body(
			bytes.Repeat(wasmtest.Body(wasmtest.LocalGet(0), wasmtest.I32Load8U), 300), wasmtest.LocalGet(0), wasmtest.Call(3), wasmtest.Drop,
			bytes.Repeat(wasmtest.I32Add, 299), wasmtest.Drop, wasmtest.I64Const(0)),
	} {
		b.Run(name, func(b *testing.B) {
			m, _, err := load(b, guest{admit: code}.assemble(), func(o *Options) { o.Log = nil })
			if err != nil {
				b.Fatal(err)
			}
			for b.Loop() {
				if _, err := ask(b, m, item(1, ""), nil); AsFailure(err) == nil || AsFailure(err).Cause != CauseFuel {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkHostFunctions is the cost of one call of a host function, as a guest
// sees it: 50 calls within one decision, divided by 50.
func BenchmarkHostFunctions(b *testing.B) {
	for _, f := range hostCalls {
		b.Run(f.name, func(b *testing.B) {
			const calls = 50
			m := mustLoad(b, f.guest(calls).assemble(), func(o *Options) {
				o.State, o.Sets = newState(b), VectorSets{"authors": {strings.Repeat("ab", 32)}}
			})
			facts := &fakeFacts{stored: map[host.ID][]byte{{}: storedJSON(b)}}
			ctx := b.Context()
			b.ReportAllocs()
			for b.Loop() {
				if _, _, err := m.Rule(ctx, Admit, nil, facts, now, "client"); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.Elapsed())/float64(b.N)/calls, "ns/call")
		})
	}
}

// hostCall is a call of a host function in a guest. Key and member are 32 bytes
// at address 0.
type hostCall struct {
	name string
	typ  wasmtest.Type
	args wasmtest.Code
}

// hostCalls are a call of each host function that policies use often.
var hostCalls = []hostCall{
	{abi.CapKVGet, funcType(wasmtest.I32, 4), consts(0, 32, scratchAddr, 64)},
	{abi.CapKVIncr, funcType(wasmtest.I64, 2, wasmtest.I64, wasmtest.I64), wasmtest.Body(consts(64, 32), wasmtest.I64Const(1), wasmtest.I64Const(60))},
	{abi.CapSetsContains, funcType(wasmtest.I32, 4), consts(messageAddr, 7, 0, 32)},
	{abi.CapBucketTake, funcType(wasmtest.I64, 4, wasmtest.I64), wasmtest.Body(consts(0, 32, 1, 1<<30), wasmtest.I64Const(1))},
	{abi.CapMetric, funcType(0, 3, wasmtest.F64), wasmtest.Body(consts(abi.MetricCounter, messageAddr, 7), wasmtest.F64Const(1))},
	{abi.CapStoreGet, funcType(wasmtest.I32, 3), consts(0, scratchAddr, 1000)},
	{abi.CapHeldGet, funcType(wasmtest.I32, 3), consts(0, scratchAddr, 1000)},
}

// funcType is a function with n parameters of type i32 and then more. A result of
// 0 is none.
func funcType(result wasmtest.ValType, n int, more ...wasmtest.ValType) wasmtest.Type {
	t := wasmtest.Type{Params: append(params(n), more...)}
	if result != 0 {
		t.Results = []wasmtest.ValType{result}
	}
	return t
}

func consts(values ...int32) wasmtest.Code {
	var code wasmtest.Code
	for _, v := range values {
		code = append(code, wasmtest.I32Const(v)...)
	}
	return code
}

// guest calls the function n times and passes.
func (h hostCall) guest(n int) guest {
	g := guest{
		manifest: withCapabilities(h.name), imports: imported(abi.ImportModule, h.name, typeExtra),
		message: []byte("authors"), change: func(m *wasmtest.Module) { m.Types = append(m.Types, h.typ) },
	}
	for range n {
		g.admit = append(g.admit, wasmtest.Body(h.args, wasmtest.Call(0))...)
		if len(h.typ.Results) > 0 {
			g.admit = append(g.admit, wasmtest.Drop...)
		}
	}
	g.admit = append(g.admit, wasmtest.I64Const(0)...)
	return g
}
