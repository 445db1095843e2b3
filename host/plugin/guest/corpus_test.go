package guest

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"flag"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"runtime/metrics"
	"strings"
	"testing"
	"time"

	"talon/host/plugin/sidecar"
	"talon/host/plugin/wasmtest"
	"talon/internal/testkit"
	"talon/sdk/abi"
)

// The corpus is a folder of modules with one fault each, for tests of everything
// that a module is dropped into. The modules and the table hostile.json are
// written by this test: go test -run Corpus -update ./host/plugin/guest

var update = flag.Bool("update", false, "write ../testdata/hostile and testdata/fuel.golden")

var corpusDir = filepath.Join("..", "testdata", "hostile")

// fault is a line of hostile.json.
type fault struct {
	Name    string `json:"name"`
	File    string `json:"file"`              // NAME.wasm, or NAME.wasm.gz
	Sidecar string `json:"sidecar,omitempty"` // text of the side-car that it is dropped with

	// Refused says that it never decides; it does until it is asked about an event
	// of kind [laterKind] otherwise, and fails then.
	Refused bool   `json:"refused"`
	Reason  string `json:"reason"`          // regular expression of the refusal or of the failure
	Cause   Cause  `json:"cause,omitempty"` // of the failure

	make func() []byte
}

// laterKind is the kind of the events on which modules fail that look good
// before.
const laterKind = 66

// later runs the code if the request is about an event of laterKind, and passes
// otherwise. The kind is behind the keys and lengths of request.event, of id,
// pubkey and created_at.
func later(code wasmtest.Code) wasmtest.Code {
	const kindAt = bufferAddr + 3 + 34 + 34 + 6 + 1
	return wasmtest.Body(
		wasmtest.I32Const(kindAt), wasmtest.I32Load8U, wasmtest.I32Const(laterKind), wasmtest.I32Eq,
		wasmtest.If(wasmtest.Void), code, wasmtest.End, wasmtest.I64Const(0))
}

func (g guest) with(change func(g *guest)) guest {
	change(&g)
	return g
}

// serving is a guest whose only function is another one.
func serving(world string, f Func, code wasmtest.Code) guest {
	return guest{
		manifest: `{"talon_manifest": 1, "name": "guest", "worlds": ["` + world + `"], "functions": ["` + f.String() + `"]}`,
		admit:    code, change: rename(abi.ExportAdmit, f.export()),
	}
}

// calling is a guest that calls a host function and then does more.
func calling(capability string, typ uint32, code ...wasmtest.Code) guest {
	return guest{
		manifest: withCapabilities(capability), imports: imported(abi.ImportModule, capability, typ),
		admit: wasmtest.Body(append(code, wasmtest.I64Const(0))...),
	}
}

func faults() []fault {
	n := func(v int32) wasmtest.Code { return wasmtest.I32Const(v) }
	loops := wasmtest.Body(forever, wasmtest.Unreachable)
	recurses := wasmtest.Body(wasmtest.LocalGet(0), wasmtest.Call(3), wasmtest.Return)
	grows := wasmtest.Body(repeat(wasmtest.Body(n(1), wasmtest.MemoryGrow, wasmtest.Drop)), wasmtest.Unreachable)
	of := func(g guest) func() []byte { return func() []byte { return g.assemble() } }
	raw := func(b []byte) func() []byte { return func() []byte { return b } }
	manifest := func(text string) func() []byte { return of(guest{manifest: text}) }
	changed := func(change func(m *wasmtest.Module)) func() []byte { return of(guest{change: change}) }
	body := func(code wasmtest.Code, locals ...wasmtest.Locals) func() []byte {
		return changed(func(m *wasmtest.Module) {
			m.Funcs = append(m.Funcs, wasmtest.Func{Code: wasmtest.Body(code, wasmtest.End), Locals: locals})
		})
	}
	refused := func(name, reason string, make func() []byte) fault {
		return fault{Name: name, Refused: true, Reason: reason, make: make}
	}
	fails := func(name string, cause Cause, reason string, code wasmtest.Code) fault {
		return fault{Name: name, Cause: cause, Reason: reason, make: of(guest{admit: later(code)})}
	}
	exceeds := func(name, budgets string, cause Cause, reason string, g guest) fault {
		g.admit = later(wasmtest.Body(repeat(g.admit), wasmtest.Unreachable))
		g.change = func(m *wasmtest.Module) { m.Customs = append(m.Customs, wasmtest.Custom{Name: name}) } // another module for each
		return fault{Name: name + "-beyond-its-budget-later", Sidecar: "[budgets]\n" + budgets + "\n", Cause: cause, Reason: reason, make: of(g)}
	}
	gets := guest{
		manifest: withCapabilities(abi.CapStoreGet), imports: imported(abi.ImportModule, abi.CapStoreGet, typeGet),
		admit: wasmtest.Body(n(0), n(scratchAddr), n(0), wasmtest.Call(0), wasmtest.Drop),
	}
	asks := guest{ // for all events of the store
		manifest: withCapabilities(abi.CapStoreQuery), imports: imported(abi.ImportModule, abi.CapStoreQuery, typeQuery),
		admit: wasmtest.Body(n(192<<10), n(0), n(192<<10), n(64<<10), wasmtest.Call(0), wasmtest.Drop),
	}
	writes := guest{
		message: bytes.Repeat([]byte("\x00\x00\x00\x00\x00\x00\x04\x00"), 64), imports: imported(wasiModule, "fd_write", typeQuery),
		admit: wasmtest.Body(n(2), n(messageAddr), n(64), n(scratchAddr), wasmtest.Call(0), wasmtest.Drop),
	}
	good := guest{}.assemble()
	const fuel = "ran out of fuel"
	return []fault{
		refused("empty", "not a WebAssembly module", raw(nil)),
		refused("text", "not a WebAssembly module", raw([]byte("#!/bin/sh\nexit 0\n"))),
		refused("component", "not a WebAssembly module", raw([]byte("\x00asm\x0d\x00\x01\x00"))),
		refused("truncated", "truncated", raw(good[:len(good)-20])),
		refused("section-of-4-gb", "truncated", raw([]byte("\x00asm\x01\x00\x00\x00\x0a\xff\xff\xff\xff\x0f"))),
		refused("custom-section-of-40-mb", "33554432", changed(func(m *wasmtest.Module) {
			m.Customs = []wasmtest.Custom{{Name: "name", Bytes: make([]byte, 40<<20)}}
		})),
		refused("name-section-of-garbage", "left over", changed(func(m *wasmtest.Module) {
			names := make([]byte, 4<<20)
			m.Customs = []wasmtest.Custom{{Name: "name", Bytes: append(append([]byte{1}, wasmtest.Uint(uint64(len(names)))...), names...)}}
		})),
		refused("million-functions", "functions", changed(func(m *wasmtest.Module) {
			for range 1_000_000 {
				m.Funcs = append(m.Funcs, wasmtest.Func{Code: wasmtest.End})
			}
		})),
		refused("million-types", "types", changed(func(m *wasmtest.Module) { m.Types = append(m.Types, make([]wasmtest.Type, 1_000_000)...) })),
		refused("million-exports", "exports", changed(func(m *wasmtest.Module) {
			m.Exports = append(m.Exports, make([]wasmtest.Export, 1_000_000)...)
		})),
		refused("million-globals", "globals", changed(func(m *wasmtest.Module) {
			for range 1_000_000 {
				m.Globals = append(m.Globals, wasmtest.Global{Type: wasmtest.I32, Init: wasmtest.Body(n(0), wasmtest.End)})
			}
		})),
		refused("nested-10000-blocks", "nested deeper", body(wasmtest.Body(
			bytes.Repeat(wasmtest.Block(wasmtest.Void), 10_000), bytes.Repeat(wasmtest.End, 10_000)))),
		refused("million-locals", "locals", body(nil, wasmtest.Locals{N: 1_000_000, Type: wasmtest.I64})),
		refused("many-loops-and-locals", "too complex", body(wasmtest.Body(
			bytes.Repeat(wasmtest.Body(wasmtest.Loop(wasmtest.Void), wasmtest.End), 8000)), wasmtest.Locals{N: 5000, Type: wasmtest.I64})),
		refused("br-table-of-100000", "branch targets", body(wasmtest.Body(n(0), wasmtest.BrTable(make([]uint32, 100_000)...)))),
		refused("body-of-1-mb", "body of", body(bytes.Repeat(wasmtest.Nop, 1<<20))),
		refused("memory-of-4-gb", "memory", changed(func(m *wasmtest.Module) { m.Memories[0].Min = 65536 })),
		refused("memory-above-its-budget", "memory", changed(func(m *wasmtest.Module) { m.Memories[0].Min = 257 })),
		refused("two-memories", "memor", changed(func(m *wasmtest.Module) { m.Memories = append(m.Memories, m.Memories[0]) })),
		refused("huge-table", "table", changed(func(m *wasmtest.Module) {
			m.Tables = []wasmtest.Table{{Type: wasmtest.FuncRef, Limits: wasmtest.Limits{Min: 1 << 27}}}
		})),
		refused("data-of-4-gb", "malformed", func() []byte {
			m := &wasmtest.Module{Memories: []wasmtest.Limits{{Min: 1}}}
			data := wasmtest.Section{ID: wasmtest.IDData, Body: []byte("\x01\x00\x41\x00\x0b\xff\xff\xff\xff\x0fx")}
			return wasmtest.Assemble(append(m.Sections(), data)...)
		}),
		refused("data-outside-of-memory", "did not start", changed(func(m *wasmtest.Module) {
			m.Datas = append(m.Datas, wasmtest.Data{Offset: at(-16), Bytes: make([]byte, 16)})
		})),
		refused("invalid-code", "compile", of(guest{admit: n(1)})),
		refused("reserved-export", "reserved", changed(rename(abi.ExportInitialize, "talon.fuel"))),

		refused("no-manifest", "has no manifest", manifest(" ")),
		refused("two-manifests", "has two manifests", manifest(plainManifest+plainManifest)),
		refused("manifest-cut-off", "parse the manifest", manifest(plainManifest[:30])),
		refused("manifest-nested", "parse the manifest", manifest(`{"talon_manifest": 1, "x": `+strings.Repeat("[", 50_000))),
		refused("manifest-too-long", "longer than", manifest(`{"talon_manifest": 1, "summary": "`+strings.Repeat("x", 300_000)+`"}`)),
		refused("thousand-manifests", "too many manifests", manifest(strings.Repeat(`{"talon_manifest":`, 1000))),
		refused("manifest-of-another-version", "talon_manifest is 9", manifest(`{"talon_manifest": 9, "name": "x", "worlds": ["policy"]}`)),
		refused("manifest-lies-about-functions", "does not export the function talon_push",
			manifest(`{"talon_manifest": 1, "name": "x", "worlds": ["policy"], "functions": ["admit", "push"]}`)),
		refused("manifest-lies-about-its-world", "does not export the function talon_step",
			manifest(`{"talon_manifest": 1, "name": "x", "worlds": ["strategy"]}`)),
		refused("manifest-lies-in-a-vector", `vector "greets": the answer is pass, want accept`,
			manifest(`{"talon_manifest": 1, "name": "x", "worlds": ["policy"], "vectors": [{"name": "greets", "function": "admit", "event": {"kind": 1}, "want": {"action": "accept"}}]}`)),
		refused("unknown-capability", "which this host does not have", manifest(withCapabilities("net.dial"))),
		refused("too-much-fuel", "fuel a call; the limit is", manifest(`{"talon_manifest": 1, "name": "x", "worlds": ["policy"], "budgets": {"fuel": 1000000000}}`)),
		refused("too-much-memory", "bytes of memory; the limit is", manifest(`{"talon_manifest": 1, "name": "x", "worlds": ["policy"], "budgets": {"memory_bytes": 4294967296}}`)),

		refused("import-unknown", "which this host does not have", of(guest{imports: imported("env", "system", typeI32)})),
		refused("import-of-a-file", "which this host does not have", of(guest{imports: imported(wasiModule, "path_open", typeI32)})),
		refused("import-not-declared", "its manifest does not ask for", of(guest{imports: imported(abi.ImportModule, abi.CapKVDelete, typeI32)})),
		{
			Name: "import-not-granted", Refused: true, Reason: "store.referenced, which the operator does not grant",
			Sidecar: "capabilities = [\"kv\"]\n", make: of(calling(abi.CapStoreReferenced, typeTwoI32)),
		},
		refused("import-of-another-type", `imports log as \(\) -> \(\)`, of(calling(abi.CapLog, typeVoid))),
		refused("import-of-a-memory", "imports a memory", changed(func(m *wasmtest.Module) {
			m.Memories = nil
			m.Imports = append(m.Imports, wasmtest.Import{Module: "env", Name: "memory", Kind: wasmtest.KindMemory, Memory: wasmtest.Limits{Min: 4}})
		})),
		refused("no-marker", "does not export the function talon_abi_1", changed(drop(abi.ExportMarker))),
		refused("no-memory", "does not export its memory", changed(drop(abi.ExportMemory))),
		refused("export-of-another-type", `exports talon_admit as \(i32\) -> \(i32\)`, changed(point(abi.ExportAdmit, 1))),

		refused("start-loops", "did not start", of(guest{initialize: forever}.with(func(g *guest) {
			g.change = func(m *wasmtest.Module) { m.Start = wasmtest.Index(4); drop(abi.ExportInitialize)(m) }
		}))),
		refused("initialize-loops", fuel, of(guest{initialize: forever})),
		refused("buffer-loops", fuel, of(guest{buffer: loops})),
		refused("configure-loops", fuel, of(guest{configure: loops})),
		refused("admit-loops", fuel, of(guest{admit: loops})),
		refused("query-loops", fuel, of(serving("policy", Query, loops))),
		refused("connect-loops", fuel, of(serving("policy", Connect, loops))),
		refused("push-loops", fuel, of(serving("policy", Push, loops))),
		refused("step-loops", fuel, of(serving("strategy", Step, loops))),
		refused("throttle-delay-loops", fuel, of(serving("throttle", ThrottleDelay, loops))),
		refused("throttle-admit-loops", fuel, of(serving("throttle", ThrottleAdmit, loops))),
		refused("throttle-after-loops", fuel, of(serving("throttle", ThrottleAfter, loops))),
		refused("throttle-pick-loops", fuel, of(serving("throttle", ThrottlePick, loops))),
		refused("throttle-tick-loops", fuel, of(serving("throttle", ThrottleTick, loops))),
		refused("traps", "unreachable", of(guest{admit: wasmtest.Unreachable})),
		refused("recurses", "fuel|stack overflow", of(guest{admit: recurses})),
		refused("grows-its-memory", fuel, of(guest{admit: grows})),
		refused("exits", "exit status 3", of(guest{
			imports: imported(wasiModule, "proc_exit", typeOne), admit: wasmtest.Body(n(3), wasmtest.Call(0), wasmtest.Unreachable),
		})),
		refused("waits", "cannot wait", of(guest{
			imports: imported(wasiModule, "poll_oneoff", typeQuery),
			admit:   wasmtest.Body(n(0), n(0), n(0), n(0), wasmtest.Call(0), wasmtest.Drop, wasmtest.I64Const(0)),
		})),
		refused("buffer-outside-of-memory", "buffer outside of its memory", of(guest{buffer: n(-16)})),
		refused("buffer-past-its-end", "buffer outside of its memory", of(guest{buffer: n(4<<16 - 10)})),
		refused("answers-outside-of-memory", "address outside of its memory", of(guest{admit: returns(0xfffffff0, 100)})),
		refused("answers-with-100-mb", "answered with 104857600 bytes", of(guest{admit: returns(0, 100<<20)})),
		refused("answers-with-garbage", "garbage", of(says([]byte{0x0a, 0x7f}))),
		refused("answers-with-an-unknown-action", "unknown action", of(says([]byte{0x08, 0x63}))),
		refused("step-with-garbage", "garbage", of(serving("strategy", Step, returns(messageAddr, 2)).with(func(g *guest) { g.message = []byte{0x0a, 0x7f} }))),
		refused("calls-the-host-for-ever", "more often than its budget allows", of(calling(abi.CapStoreReferenced, typeTwoI32,
			repeat(wasmtest.Body(n(0), n(10), wasmtest.Call(0), wasmtest.Drop))))),
		refused("floods-the-log", "out of fuel", of(calling(abi.CapLog, typeThree,
			repeat(wasmtest.Body(n(1), n(0), n(60000), wasmtest.Call(0)))))),
		refused("writes-without-end", "more bytes by host functions",
			of(writes.with(func(g *guest) { g.admit = wasmtest.Body(repeat(g.admit), wasmtest.Unreachable) }))),
		refused("searches-without-end", "more bytes by host functions", of(calling(abi.CapSetsContains, typeQuery,
			repeat(wasmtest.Body(n(0), n(10), n(0), n(4<<16), wasmtest.Call(0), wasmtest.Drop))))),
		refused("queries-without-end", "more often than its budget allows", of(calling(abi.CapStoreQuery, typeQuery,
			repeat(wasmtest.Body(n(192<<10), n(0), n(0), n(0), wasmtest.Call(0), wasmtest.Drop))))),
		refused("host-reads-outside-of-memory", "address outside of the memory", of(calling(abi.CapStoreGet, typeGet,
			n(-8), n(0), n(0), wasmtest.Call(0), wasmtest.Drop))),
		refused("key-outside-of-memory", "address outside of the memory", of(calling(abi.CapKVGet, typeQuery,
			n(-8), n(100), n(0), n(0), wasmtest.Call(0), wasmtest.Drop))),
		refused("queries-with-garbage", "filter of store.query is wrong", of(calling(abi.CapStoreQuery, typeQuery,
			n(128<<10), n(3), n(0), n(0), wasmtest.Call(0), wasmtest.Drop))),

		fails("traps-later", CauseTrap, "unreachable", wasmtest.Unreachable),
		fails("loops-later", CauseFuel, fuel, loops),
		fails("recurses-later", "", "fuel|stack overflow", recurses),
		fails("grows-its-memory-later", CauseFuel, fuel, grows),
		fails("answers-with-100-mb-later", CauseOutput, "answered with 104857600 bytes", wasmtest.Body(returns(0, 100<<20), wasmtest.Return)),
		fails("answers-outside-of-memory-later", CauseGarbage, "address outside of its memory", wasmtest.Body(returns(0xfffffff0, 100), wasmtest.Return)),

		exceeds("fuel", "fuel = 300_000", CauseFuel, fuel, guest{}),
		exceeds("memory", "memory = '1MiB'", CauseTrap, "unreachable", guest{admit: wasmtest.Body(
			n(1), wasmtest.MemoryGrow, n(-1), wasmtest.I32Eq, wasmtest.If(wasmtest.Void), wasmtest.Unreachable, wasmtest.End)}),
		exceeds("output", "output = 8", CauseOutput, "answered with 100 bytes", guest{admit: wasmtest.Body(returns(0, 100), wasmtest.Return)}),
		exceeds("time", "time = '1ms'\nreads = 1024\nfuel = 20_000_000", CauseTime, "took longer than its budget of time", asks),
		exceeds("reads", "reads = 5", CauseReads, "read store, purgatory and repositories more often", gets),
		exceeds("bytes", "bytes = 1000", CauseBytes, "moved more bytes by host functions", writes),
		exceeds("host-calls", "host-calls = 5", CauseCalls, "called host functions more often", gets),
	}
}

// TestCorpus drops every hostile module into a host, within bounds of time and
// memory.
func TestCorpus(t *testing.T) {
	testkit.SkipRace(t)
	list := faults()
	for i := range list {
		f := &list[i]
		wasm := f.make()
		f.File = f.Name + ".wasm"
		content := wasm
		if len(wasm) > 64<<10 {
			f.File += ".gz"
			content = compress(t, wasm)
		}
		if *update {
			write(t, f.File, content)
		}
		t.Run(f.Name, func(t *testing.T) {
			stored := unpack(t, f.File)
			if !bytes.Equal(stored, wasm) {
				t.Error("the file is not what this test makes: run it with -update")
			}
			f.check(t, stored)
		})
	}
	table, err := json.MarshalIndent(list, "", "\t")
	if err != nil {
		t.Fatal(err)
	}
	table = append(table, '\n')
	if *update {
		write(t, "hostile.json", table)
	}
	if stored, err := os.ReadFile(filepath.Join(corpusDir, "hostile.json")); err != nil || !bytes.Equal(stored, table) {
		t.Errorf("hostile.json is not what this test makes (%v): run it with -update", err)
	}
	entries, err := os.ReadDir(corpusDir)
	if err != nil || len(entries) != len(list)+1 {
		t.Errorf("%d files for %d faults, %v", len(entries), len(list), err)
	}
}

func (f *fault) check(t *testing.T, wasm []byte) {
	side, err := sidecar.Parse([]byte(f.Sidecar))
	if err != nil {
		t.Fatal(err)
	}
	o := Options{
		Name: "guest", Instances: 1, Grants: side.Grants, Budgets: BudgetsOf(&side.Budgets), State: newState(t), CacheDir: t.TempDir(),
	}
	peak := watchHeap(t)
	start := testkit.CPU()
	err = SelfTest(t.Context(), wasm, o)
	took, heap := testkit.CPU()-start, peak()
	t.Logf("%v, %d MB: %v", took.Round(time.Millisecond), heap>>20, err)
	if took > 5*time.Second || heap > 400<<20 {
		t.Errorf("it took %v and %d MB", took, heap>>20)
	}
	want := regexp.MustCompile(f.Reason)
	if f.Refused {
		if err == nil || !want.MatchString(err.Error()) {
			t.Fatalf("%v, want a refusal like %q", err, f.Reason)
		}
		if text := err.Error(); len(text) > 2000 || strings.Contains(text, "\n") {
			t.Errorf("the reason is not one line of readable length: %q", text)
		}
		return
	}
	if err != nil {
		t.Fatalf("it is refused: %v", err)
	}
	m, err := Load(t.Context(), wasm, o)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close(context.Background())
	if got := admit(t, m, item(1, "")); got != passes {
		t.Errorf("before: %+v", got)
	}
	facts := &parkedFacts{fakeFacts: &fakeFacts{}, took: time.Millisecond}
	_, err = ask(t, m, item(laterKind, ""), facts)
	if failure := AsFailure(err); failure == nil || !want.MatchString(err.Error()) || f.Cause != "" && failure.Cause != f.Cause {
		t.Errorf("%v, want a failure like %q by %s", err, f.Reason, f.Cause)
	}
	if got := admit(t, m, item(1, "")); got != passes {
		t.Errorf("after: %+v", got)
	}
}

// watchHeap samples how far the heap grows until the function that it returns is
// called.
func watchHeap(t *testing.T) func() uint64 {
	t.Helper()
	live := func() uint64 {
		sample := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
		metrics.Read(sample)
		return sample[0].Value.Uint64()
	}
	runtime.GC()
	before, limit := live(), uint64(0)
	done, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		tick := time.NewTicker(2 * time.Millisecond)
		defer tick.Stop()
		for {
			limit = max(limit, live())
			select {
			case <-done:
				return
			case <-tick.C:
			}
		}
	}()
	return func() uint64 {
		close(done)
		<-ended
		return limit - min(before, limit)
	}
}

func compress(t *testing.T, b []byte) []byte {
	t.Helper()
	var out bytes.Buffer
	w, err := gzip.NewWriterLevel(&out, gzip.BestCompression)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write(b); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func unpack(t *testing.T, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(corpusDir, name))
	if err != nil || !strings.HasSuffix(name, ".gz") {
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	r, err := gzip.NewReader(bytes.NewReader(b))
	if err != nil {
		t.Fatal(err)
	}
	if b, err = io.ReadAll(r); err != nil {
		t.Fatal(err)
	}
	return b
}

func write(t *testing.T, name string, b []byte) {
	t.Helper()
	if err := os.MkdirAll(corpusDir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(corpusDir, name), b, 0o644); err != nil {
		t.Fatal(err)
	}
}
