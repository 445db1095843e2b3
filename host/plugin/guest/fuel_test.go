package guest

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"talon/host"
	"talon/host/plugin/plugintest"
	"talon/host/plugin/wasmtest"
	"talon/internal/race"
	"talon/internal/testkit"
	"talon/sdk/abi"
)

// TestFuelOfBundledModules holds what the bundled modules spend on each of their vectors,
// and on the probes of the host, against testdata/fuel.golden, to the unit. Fuel is the
// same on every machine, so that a difference is one of the module, of its SDK or of
// metering; but another compiler makes another module.
func TestFuelOfBundledModules(t *testing.T) {
	testkit.SkipRace(t)
	folders, err := filepath.Glob("../../../plugins/*")
	if err != nil || len(folders) == 0 {
		t.Fatalf("no bundled modules: %v", err)
	}
	file := filepath.Join("testdata", "fuel.golden")
	golden, err := os.ReadFile(file)
	if err != nil && !*update {
		t.Fatal(err)
	}
	builtBy, want, _ := strings.Cut(string(golden), "\n")
	if builtBy != runtime.Version() && !*update {
		t.Skipf("%s has the fuel of modules that %s built, and this is %s. If Talon moves to it: see with %[2]s that the test passes, "+
			"then write the file again with %[3]s, go test ./host/plugin/guest -run FuelOfBundledModules -update, and commit it alone", file, builtBy, runtime.Version())
	}
	var got strings.Builder
	for _, folder := range folders {
		name := filepath.Base(folder)
		folder = "plugins/" + name
		wasm := goModule(t, folder)
		o := Options{
			Name: name, CacheDir: plugintest.MachineCode(t, folder), Service: host.Service{Domain: "localhost:7334"},
		}
		o.setDefaults(wasm)
		o.Instances, o.Metrics, o.Sets = 1, NewMetrics(), new(recording)
		m, err := prepare(wasm, &o)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		tests, err := m.selfTests(o.Sets)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		outcomes, err := m.trial(t.Context(), wasm, compiler, o, tests)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		for i, test := range tests {
			fmt.Fprintf(&got, "%s %s: %d\n", name, test.name, outcomes[i].fuel)
		}
	}
	if *update {
		if err := os.WriteFile(file, []byte(runtime.Version()+"\n"+got.String()), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if got.String() == want {
		return
	}
	was, is := strings.Split(want, "\n"), strings.Split(got.String(), "\n")
	for _, line := range was {
		if !slices.Contains(is, line) {
			t.Errorf("was: %s", line)
		}
	}
	for _, line := range is {
		if !slices.Contains(was, line) {
			t.Errorf("is:  %s", line)
		}
	}
	t.Errorf("modules spend other fuel than %s says. If that is meant to be, say in the commit why: "+
		"go test ./host/plugin/guest -run FuelOfBundledModules -update", file)
}

// TestPrices compares what host functions cost in fuel with what they take: about as
// long as a loop that spends as much. What counts is the order of magnitude, and the
// best of many runs.
func TestPrices(t *testing.T) {
	if race.Detector {
		t.Skip("it takes the race detector longer")
	}
	const calls, rounds, within = 50, 300, 8
	loop := mustLoad(t, guest{admit: wasmtest.Body(forever, wasmtest.Unreachable)}.assemble(), func(o *Options) { o.Log = nil })
	spin, _ := loop.pool.get(t.Context(), atOnce)
	defer loop.pool.put(spin)
	for _, h := range append(hostCalls,
		hostCall{abi.CapKVSet, funcType(wasmtest.I32, 4, wasmtest.I64), wasmtest.Body(consts(0, 32, 0, 64), wasmtest.I64Const(60))},
		hostCall{abi.CapKVDelete, funcType(0, 2), consts(0, 32)},
		hostCall{abi.CapLog, funcType(0, 3), consts(1, 0, 64)},
	) {
		m := mustLoad(t, h.guest(calls).assemble(), func(o *Options) {
			o.State, o.Sets, o.Log = newState(t), VectorSets{"authors": {strings.Repeat("ab", 32)}}, nil
		})
		inst, _ := m.pool.get(t.Context(), atOnce)
		facts := &fakeFacts{stored: map[host.ID][]byte{{}: storedJSON(t)}}
		best, unit := time.Hour, time.Hour // of all calls, of as much fuel
		var ratio float64
		var fuel int64
		for range rounds {
			inst.call.begin(t.Context(), facts, now, 0)
			begun := time.Now()
			_, spent, err := inst.ask(Admit, nil)
			best, fuel = min(best, time.Since(begun)), spent
			inst.call.end()
			if err != nil {
				t.Fatalf("%s: %v", h.name, err)
			}
			begun = time.Now()
			if spin.run(spin.functions[Admit], fuel, 0) == nil {
				t.Fatal("an endless loop has an end")
			}
			unit = min(unit, time.Since(begun))
			if ratio = float64(best) / float64(unit); ratio < within {
				break
			}
		}
		t.Logf("%s: %d fuel a call; it takes %v, as much fuel of a loop %v", h.name, fuel/calls, best/calls, unit/calls)
		if ratio >= within {
			t.Errorf("%s costs %d fuel, and takes %.1f times as long as what else costs as much", h.name, priceOf(h.name), ratio)
		}
		m.pool.put(inst)
	}
}

// TestHostCallsSpendFuel calls a host function as often as the host allows: the fuel
// of the default budget is spent before.
func TestHostCallsSpendFuel(t *testing.T) {
	testkit.SkipRace(t)
	take := hostCall{abi.CapBucketTake, funcType(wasmtest.I64, 4, wasmtest.I64), wasmtest.Body(consts(0, 32, 1, 1<<30), wasmtest.I64Const(1))}
	for calls, fails := range map[int]bool{4900: false, 5100: true} {
		m := mustLoad(t, take.guest(calls).assemble(), func(o *Options) { o.State = newState(t) })
		_, fuel, err := m.Rule(t.Context(), Admit, nil, nil, now, "client")
		if f := AsFailure(err); (f != nil && f.Cause == CauseFuel) != fails {
			t.Errorf("%d calls: %v after %d fuel, want that there is not enough: %v", calls, err, fuel, fails)
		}
	}
}
