package guest

import (
	"strings"
	"testing"
	"time"

	"talon/host"
	"talon/host/plugin/wasmtest"
	"talon/internal/testkit"
	"talon/sdk/abi"
)

// TestPrices compares what host functions cost in fuel with what they take: about as
// long as a loop that spends as much. What counts is the order of magnitude, and the
// best of many runs.
func TestPrices(t *testing.T) {
	if testkit.RaceDetector {
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
			o.State, o.Sets, o.Log = newState(t), vectorSets{"authors": {strings.Repeat("ab", 32)}}, nil
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
	take := hostCall{abi.CapBucketTake, funcType(wasmtest.I64, 4, wasmtest.I64), wasmtest.Body(consts(0, 32, 1, 1<<30), wasmtest.I64Const(1))}
	for calls, fails := range map[int]bool{4900: false, 5100: true} {
		m := mustLoad(t, take.guest(calls).assemble(), func(o *Options) { o.State = newState(t) })
		_, fuel, err := m.Rule(t.Context(), Admit, nil, nil, now, "client")
		if f := AsFailure(err); (f != nil && f.Cause == CauseFuel) != fails {
			t.Errorf("%d calls: %v after %d fuel, want that there is not enough: %v", calls, err, fuel, fails)
		}
	}
}
