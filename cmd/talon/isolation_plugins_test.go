//go:build linux

package main_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nbd-wtf/go-nostr"

	"talon/host/plugin/plugintest"
	"talon/host/plugin/wasmtest"
	"talon/internal/testkit"
	"talon/sdk/abi"
)

// BenchmarkIsolationPlugins has somebody attack a server by events that are hard for one of
// its modules, 50 a second over one connection with throwaway keys, or by a module that is
// hard to compile. Somebody else publishes one event after another: it reports how long
// they take and how many are refused, alone and during each attack. Run it with
// scripts/isolation, for two binaries to compare.
func BenchmarkIsolationPlugins(b *testing.B) {
	for _, attack := range attacks() {
		b.Run(strings.ReplaceAll(attack.name, " ", "-"), func(b *testing.B) {
			for b.Loop() {
				isolate(b, attack)
			}
		})
	}
}

// attack is a module that is hard for large events, or to compile.
type attack struct {
	name     string
	sidecar  string
	imports  []wasmtest.Import
	types    []wasmtest.Type
	code     wasmtest.Code // what it does about large events
	manifest string

	late []wasmtest.Func // of a module that comes into the folder meanwhile

	program bool // that never answers about large events, in the place of a module

	strategy bool // one that never rests decides over sync
}

const isolationTime = 5 * time.Second

// i32s are n parameters.
func i32s(n int) []wasmtest.ValType { return slices.Repeat([]wasmtest.ValType{wasmtest.I32}, n) }

// again repeats code for ever.
func again(c ...wasmtest.Code) wasmtest.Code {
	return wasmtest.Body(wasmtest.Loop(wasmtest.Void), wasmtest.Body(c...), wasmtest.Br(0), wasmtest.End)
}

// attacks are made when they are asked for: each Talon that a test starts is this program,
// and would make them.
func attacks() []attack {
	return []attack{
		{name: "none"},
		{name: "traps", code: wasmtest.Unreachable},
		{name: "traps, fails open", sidecar: `on-failure = "open"`, code: wasmtest.Unreachable},
		{name: "grows its memory", sidecar: "[budgets]\nmemory = '64MiB'\nfuel = 20000000", code: wasmtest.Body(
			again(wasmtest.I32Const(1), wasmtest.MemoryGrow, wasmtest.I32Const(-1), wasmtest.I32Eq, wasmtest.If(wasmtest.Void), wasmtest.Unreachable, wasmtest.End))},
		{
			name: "takes from a bucket", manifest: `, "capabilities": ["bucket.take"]`,
			imports: []wasmtest.Import{{Module: abi.ImportModule, Name: abi.CapBucketTake, Type: 3}},
			types:   []wasmtest.Type{{Params: append(i32s(4), wasmtest.I64), Results: []wasmtest.ValType{wasmtest.I64}}},
			code: again(wasmtest.I32Const(0), wasmtest.I32Const(32), wasmtest.I32Const(1), wasmtest.I32Const(1<<30), wasmtest.I64Const(1),
				wasmtest.Call(0), wasmtest.Drop),
		},
		{
			name: "writes to the log", manifest: `, "capabilities": ["log"]`,
			imports: []wasmtest.Import{{Module: abi.ImportModule, Name: abi.CapLog, Type: 3}},
			types:   []wasmtest.Type{{Params: i32s(3)}},
			code:    again(wasmtest.I32Const(0), wasmtest.I32Const(300<<10), wasmtest.I32Const(64), wasmtest.Call(0)),
		},
		{
			name: "writes what it remembers", manifest: `, "capabilities": ["kv.set"]`,
			imports: []wasmtest.Import{{Module: abi.ImportModule, Name: abi.CapKVSet, Type: 3}},
			types:   []wasmtest.Type{{Params: append(i32s(4), wasmtest.I64), Results: i32s(1)}},
			code: again(wasmtest.I32Const(0), wasmtest.I32Const(32), wasmtest.I32Const(300<<10), wasmtest.I32Const(64), wasmtest.I64Const(60),
				wasmtest.Call(0), wasmtest.Drop),
		},
		{name: "a program that hangs", program: true},
		{name: "a strategy that never rests", strategy: true},
		{name: "compiles for long", late: slices.Repeat([]wasmtest.Func{repeated(nil, 40_000, wasmtest.I32Const(1), wasmtest.I32Load8U, wasmtest.Drop)}, 40)},
		{name: "compiles 8 kB for long", late: []wasmtest.Func{nested(2000, 2000)}},
		{name: "has many locals", late: slices.Repeat([]wasmtest.Func{nested(200, 50_000)}, 10)},
		{name: "jumps to many places", late: slices.Repeat([]wasmtest.Func{{Code: wasmtest.Body(
			wasmtest.Block(wasmtest.Void), wasmtest.I32Const(0), wasmtest.BrTable(make([]uint32, 30_000)...), wasmtest.End, wasmtest.End)}}, 100)},
		{name: "has a million functions", late: slices.Repeat([]wasmtest.Func{repeated(nil, 4, wasmtest.I32Const(1), wasmtest.Drop)}, 1_000_000)},
		{name: "has one function of 5 MB", late: []wasmtest.Func{repeated([]wasmtest.Locals{{N: 1, Type: wasmtest.I64}}, 1_000_000,
			wasmtest.LocalGet(0), wasmtest.I32Const(1), wasmtest.I32Load8U, wasmtest.Drop, wasmtest.Drop)}},
	}
}

// repeated returns a function that does something the given number of times.
func repeated(locals []wasmtest.Locals, times int, c ...wasmtest.Code) wasmtest.Func {
	return wasmtest.Func{Locals: locals, Code: wasmtest.Body(bytes.Repeat(wasmtest.Body(c...), times), wasmtest.End)}
}

// nested is a function of loops one in the other, each of which may go on in each around
// it, with all of its locals.
func nested(loops int, locals uint32) wasmtest.Func {
	var c wasmtest.Code
	for i := range loops {
		c = append(c, wasmtest.Body(wasmtest.Loop(wasmtest.Void), wasmtest.LocalGet(uint32(i)), wasmtest.BrIf(uint32(i/2)))...)
	}
	return wasmtest.Func{
		Locals: []wasmtest.Locals{{N: locals, Type: wasmtest.I32}},
		Code:   wasmtest.Body(c, bytes.Repeat(wasmtest.End, loops+1)),
	}
}

// attackModule is a policy that passes small events, and does something about others.
func attackModule(a attack) []byte {
	i32 := i32s(1)
	at := func(addr int32) wasmtest.Code { return wasmtest.Body(wasmtest.I32Const(addr), wasmtest.End) }
	// The events of a self-test are smaller, or larger.
	large := wasmtest.Body(wasmtest.LocalGet(0), wasmtest.I32Const(4000), wasmtest.I32Sub, wasmtest.I32Const(16_000), wasmtest.I32LtU, wasmtest.If(wasmtest.Void), a.code, wasmtest.End)
	first := uint32(len(a.imports))
	m := &wasmtest.Module{
		Types:   append([]wasmtest.Type{{}, {Params: i32, Results: i32}, {Params: i32, Results: []wasmtest.ValType{wasmtest.I64}}}, a.types...),
		Imports: a.imports,
		Funcs: []wasmtest.Func{
			{Code: wasmtest.End},
			{Type: 1, Code: at(4096)},
			{Type: 2, Code: wasmtest.Body(wasmtest.I64Const(0), wasmtest.End)},
			{Type: 2, Code: wasmtest.Body(large, wasmtest.I64Const(0), wasmtest.End)},
		},
		Memories: []wasmtest.Limits{{Min: 8}},
		Exports: []wasmtest.Export{
			{Name: abi.ExportMemory, Kind: wasmtest.KindMemory}, {Name: abi.ExportMarker, Index: first},
			{Name: abi.ExportBuffer, Index: first + 1}, {Name: abi.ExportConfigure, Index: first + 2}, {Name: abi.ExportAdmit, Index: first + 3},
		},
		Datas: []wasmtest.Data{{
			Offset: at(300 << 10),
			Bytes:  []byte(`{"talon_manifest": 1, "name": "attacked", "worlds": ["policy"], "place": 10` + a.manifest + `}`),
		}},
	}
	m.Funcs = append(m.Funcs, a.late...)
	return m.Bytes()
}

// hanging is a program that has no opinion, and hangs where it would have one.
const hanging = `#!/bin/sh
while read -r line; do
	case "$line" in *"attack attack"*) sleep 3600 ;; esac
	id=${line#*'"id":"'}
	printf '{"id":"%s","action":"accept"}\n' "${id%%'"'*}"
done
`

// isolate measures one attack.
func isolate(b *testing.B, a attack) {
	dir := generalRelay(b)
	place := func(name string, data []byte) { dropFile(b, filepath.Join(dir, name), data) }
	if a.code != nil {
		place("attacked.wasm", attackModule(a))
		place("attacked.toml", []byte(a.sidecar))
	}
	if a.program {
		path := filepath.Join(b.TempDir(), "hanging")
		testkit.WriteProgram(b, path, hanging)
		place("attacked.toml", fmt.Appendf(nil, "exec = %q\nplace = 10\n", path))
	}
	if a.strategy {
		built := plugintest.Build(b, "cmd/talon/testdata/busystrategy")
		if err := os.Rename(filepath.Join(built, "busystrategy.wasm"), filepath.Join(dir, "busystrategy.wasm")); err != nil {
			b.Fatal(err)
		}
	}
	s := serve(b, b.TempDir(), "--plugins", dir, "--allow-exec", "true")
	stop := make(chan struct{})
	var attacking sync.WaitGroup
	if a.code != nil || a.program {
		p := dial(b, s, false)
		attacking.Go(func() { flood(b, p, stop) })
	}
	var size float64
	if a.late != nil {
		module := attackModule(attack{code: wasmtest.Nop, late: a.late})
		size = float64(len(module))
		place("late.wasm", module)
	}
	events := sign(b, 2_000_000, 2_002_000)
	p := dial(b, s, false)
	var times []time.Duration
	refused := 0
	begun := time.Now()
	for _, e := range events {
		if time.Since(begun) > isolationTime {
			break
		}
		f, took := p.put(b, e)
		if !f.stored() {
			refused++
		}
		times = append(times, took)
		if a.late != nil {
			time.Sleep(isolationTime / 5000)
		}
	}
	close(stop)
	attacking.Wait()
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(float64(len(times)), "events")
	b.ReportMetric(100*float64(refused)/float64(len(times)), "%refused")
	reportTimes(b, "", times)
	if a.strategy {
		b.ReportMetric(s.metrics()[`talon_plugin_decision_seconds_sum{function="step",module="busystrategy"}`], "s-in-strategy")
	}
	if a.late != nil {
		m := s.metrics()
		for name := range m {
			if strings.HasPrefix(name, "talon_plugin_changes_total{") && strings.Contains(name, `"late"`) {
				_, result, _ := strings.Cut(name, `result="`)
				b.ReportMetric(m[name], strings.TrimSuffix(result, `"}`))
			}
		}
		b.ReportMetric(size/1e3, "kB-of-module")
	}
	rss, _ := s.memory()
	b.ReportMetric(rss/1e6, "MB")
}

// flood sends 50 large events a second, each by another key.
func flood(b *testing.B, p *peer, stop chan struct{}) {
	tick := time.NewTicker(time.Second / 50)
	defer tick.Stop()
	for i := 0; ; i++ {
		select {
		case <-stop:
			return
		case <-tick.C:
		}
		e := nostr.Event{CreatedAt: nostr.Now(), Kind: 1, Content: strings.Repeat("attack ", 1000)}
		if err := e.Sign(nostr.GeneratePrivateKey()); err != nil {
			b.Error(err)
			return
		}
		if _, err := p.Write(appendFrame(nil, `["EVENT",`+e.String()+`]`)); err != nil {
			b.Error(err)
			return
		}
		if _, err := p.next(); err != nil {
			b.Error(err)
			return
		}
	}
}
