package guest

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"

	"talon/host"
	"talon/host/plugin/plugintest"
	"talon/host/plugin/wasmtest"
	"talon/internal/testkit"
	"talon/sdk/abi"
)

// TestGoModulesPass runs the self-tests of two. Those of the others are run where they are loaded as a relay
// does (cmd/talon, before its tests), and those of the examples in cmd/internal/author and examples.
func TestGoModulesPass(t *testing.T) {
	testkit.SkipRace(t)
	for _, folder := range []string{"plugins/grasp", "host/plugin/guest/testdata/guests/facts"} {
		o := Options{Name: "x", CacheDir: plugintest.MachineCode(t, folder), Service: host.Service{Domain: "localhost:7334"}}
		if err := SelfTest(t.Context(), goModule(t, folder), o); err != nil {
			t.Errorf("%s: %v", folder, err)
		}
	}
}

// TestVectorsOfAPolicyCount asks a policy that rejects everything.
func TestVectorsOfAPolicyCount(t *testing.T) {
	g := says(abi.AppendVerdict(nil, abi.ActionReject, "many", "rate-limited", "three events are enough"))
	const answers = `self-test: vector "a": the answer is reject by "many" with "rate-limited: three events are enough", want `
	for _, test := range []struct{ want, err string }{
		{`{"action": "reject", "rule": "many", "reason": "rate-limited: three events are enough"}`, ""},
		{`{"action": "accept", "rule": "many"}`, answers + `accept by "many"`},
		{`{"action": "reject", "rule": "mxny"}`, answers + `reject by "mxny"`},
		{`{"action": "reject", "reason": "rate-limited: seven events are enough"}`, answers + `reject with "rate-limited: seven events are enough"`},
	} {
		g.manifest = `{"talon_manifest": 1, "name": "guest", "worlds": ["policy"], "vectors": [
			{"name": "a", "function": "admit", "event": {"kind": 1}, "want": ` + test.want + `}]}`
		err := SelfTest(t.Context(), g.assemble(), Options{Name: "guest"})
		if (err == nil) != (test.err == "") || err != nil && err.Error() != test.err {
			t.Errorf("%v, want %q", err, test.err)
		}
	}
}

// TestVectorsGoOn asks a throttle that lets the first request start, and no other.
func TestVectorsGoOn(t *testing.T) {
	g := serving("throttle", ThrottleAdmit, wasmtest.Body(
		consts(scratchAddr), wasmtest.I32Load, wasmtest.If(wasmtest.Void), wasmtest.I64Const(0), wasmtest.Return, wasmtest.End,
		consts(scratchAddr, 1), wasmtest.I32Store, returns(messageAddr, 2)))
	g.message = abi.AppendThrottleAdmitAnswer(nil, &abi.ThrottleAdmitAnswer{Start: true})
	manifest := strings.TrimSuffix(g.manifest, "}")
	vector := func(name, then, start string) string {
		return `{"name": "` + name + `", "function": "throttle_admit", "then": ` + then + `, "request": {}, "want": {"start": ` + start + `}}`
	}
	for _, test := range []struct{ vectors, want string }{
		{vector("a", "false", "true") + "," + vector("b", "true", "false") + "," + vector("c", "true", "false") + "," + vector("d", "false", "true"), ""},
		{vector("a", "false", "true") + "," + vector("b", "true", "true"), `self-test: vector "b": the answer is {"start":false,`},
		{vector("a", "false", "true") + "," + vector("b", "false", "false"), `self-test: vector "b": the answer is {"start":true,`},
	} {
		g.manifest = manifest + `, "vectors": [` + test.vectors + `]}`
		err := SelfTest(t.Context(), g.assemble(), Options{Name: "guest"})
		if (err == nil) != (test.want == "") || err != nil && !strings.HasPrefix(err.Error(), test.want) {
			t.Errorf("%v, want %q", err, test.want)
		}
	}
}

// TestVectorsOfAThrottleCount asks a throttle that lets everything start.
func TestVectorsOfAThrottleCount(t *testing.T) {
	starts := func(vectors string) []byte {
		g := serving("throttle", ThrottleAdmit, returns(messageAddr, 2))
		g.message = abi.AppendThrottleAdmitAnswer(nil, &abi.ThrottleAdmitAnswer{Start: true})
		g.manifest = strings.TrimSuffix(g.manifest, "}") + `, "vectors": [` + vectors + `]}`
		return g.assemble()
	}
	for want, answer := range map[string]string{
		"": `{"start": true}`,
		`self-test: vector "a": the answer is {"start":true,"wait":0}, want {"start":false}`:          `{"start": false}`,
		`self-test: vector "a": the answer is {"start":true,"wait":0}, want {"wait":7,"start":false}`: `{"wait": 7, "start": false}`,
	} {
		vector := `{"name": "a", "function": "throttle_admit", "request": {"subject": {"kind": "domain"}}, "want": ` + answer + `}`
		err := SelfTest(t.Context(), starts(vector), Options{Name: "guest"})
		if (err == nil) != (want == "") || err != nil && err.Error() != want {
			t.Errorf("%v, want %q", err, want)
		}
	}
	refused := `{"name": "a", "function": "throttle_pick", "request": {"waiting": [{}]}, "want": {"index": 0}}`
	if err := SelfTest(t.Context(), starts(refused), Options{Name: "guest"}); err == nil || !strings.Contains(err.Error(), "it tests throttle_pick") {
		t.Errorf("a vector of a function that the module does not have: %v", err)
	}
}

func TestEnginesMustAgree(t *testing.T) {
	one := outcome{[]byte{1}, 10}
	for want, other := range map[string]outcome{
		"":                                    {[]byte{1}, 10},
		"code answers 01, the interpreter 02": {[]byte{2}, 10},
		"code spends 10 fuel, the interpreter 11": {[]byte{1}, 11},
	} {
		if err := one.differs(other); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

// TestSelfTestIsRemembered passes with a module whose self-test takes notice of
// being run: its set is asked for.
func TestSelfTestIsRemembered(t *testing.T) {
	lookUp := hostCall{abi.CapSetsContains, funcType(wasmtest.I32, 4), consts(messageAddr, 7, 0, 32)}
	g := lookUp.guest(1)
	g.manifest = `{"talon_manifest": 1, "name": "guest", "worlds": ["policy"], "capabilities": ["sets.contains"], "config": [{"key": "a", "type": "int"}]}`
	wasm, cache := g.assemble(), t.TempDir()
	test := func(o Options, runs bool) {
		t.Helper()
		asked := new(countingSets)
		o.Name, o.CacheDir, o.Sets = "guest", cache, asked
		if err := SelfTest(t.Context(), wasm, o); err != nil {
			t.Fatal(err)
		}
		if runs != (asked.n > 0) {
			t.Errorf("the set was asked %d times, want a self-test: %v", asked.n, runs)
		}
	}
	one, two := Options{}, Options{Config: map[string]any{"a": int64(2)}}
	test(one, true)
	test(one, false)
	test(two, true)
	test(two, false)
	test(one, false)
	test(Options{Budgets: Budgets{Fuel: 1000}}, true)
	if err := os.RemoveAll(codeDirOf(t, cache)); err != nil {
		t.Fatal(err)
	}
	test(one, true)
}

func codeDirOf(t *testing.T, cache string) string {
	t.Helper()
	entries, err := os.ReadDir(cache)
	if err != nil || len(entries) != 1 {
		t.Fatalf("%d folders of compiled code, %v; want one", len(entries), err)
	}
	return cache + "/" + entries[0].Name()
}

type countingSets struct{ n int }

func (s *countingSets) Contains(name, member []byte) (yes, known bool) {
	s.n++
	return s.n%2 == 0, true // differs from call to call: recorded answers must not
}

// TestSelfTestEnds runs a module that asks for a set, which ends the time of the self-test,
// counts for long, and would ask again.
func TestSelfTestEnds(t *testing.T) {
	lookUp := hostCall{abi.CapSetsContains, funcType(wasmtest.I32, 4), consts(messageAddr, 7, 0, 32)}
	g, ask := lookUp.guest(0), wasmtest.Body(lookUp.args, wasmtest.Call(0), wasmtest.Drop)
	g.admit = wasmtest.Body(ask,
		wasmtest.Loop(wasmtest.Void),
		wasmtest.I32Const(scratchAddr), wasmtest.I32Const(scratchAddr), wasmtest.I32Load, wasmtest.I32Const(1), wasmtest.I32Add, wasmtest.I32Store,
		wasmtest.I32Const(scratchAddr), wasmtest.I32Load, wasmtest.I32Const(50_000_000), wasmtest.I32LtU, wasmtest.BrIf(0),
		wasmtest.End, ask, wasmtest.I64Const(0))
	ctx, cancel := context.WithCancel(t.Context())
	asked := &endingSets{end: cancel}
	o := Options{Name: "guest", Sets: asked, Budgets: Budgets{Fuel: 1 << 40}, Limits: Limits{Fuel: 1 << 40}}
	wasm := g.assemble()
	o.setDefaults(wasm)
	m, err := prepare(wasm, &o)
	if err != nil {
		t.Fatal(err)
	}
	tests, err := m.selfTests(asked)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := m.interpret(ctx, wasm, o, tests); !errors.Is(err, context.Canceled) || asked.n != 1 {
		t.Errorf("%v, asked %d times, want that its time is over", err, asked.n)
	}
}

// endingSets ends something when it is asked.
type endingSets struct {
	countingSets
	end func()
}

func (s *endingSets) Contains(name, member []byte) (yes, known bool) {
	s.end()
	return s.countingSets.Contains(name, member)
}

// TestSelfTestLeavesNothing runs it in a module that keeps things.
func TestSelfTestLeavesNothing(t *testing.T) {
	counts := hostCall{abi.CapKVIncr, funcType(wasmtest.I64, 2, wasmtest.I64, wasmtest.I64), wasmtest.Body(consts(0, 32), wasmtest.I64Const(1), wasmtest.I64Const(0))}
	remembered, metrics := newState(t), NewMetrics()
	o := Options{Name: "guest", State: remembered, Metrics: metrics}
	if err := SelfTest(t.Context(), counts.guest(1).assemble(), o); err != nil {
		t.Fatal(err)
	}
	if value, ok := remembered.Get(make([]byte, 32), now); ok {
		t.Errorf("the plugin remembers %x of its self-test", value)
	}
	if len(metrics.words) != 0 {
		t.Error("the self-test shows in metrics")
	}
}
