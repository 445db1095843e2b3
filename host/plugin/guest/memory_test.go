package guest

import (
	"os"
	"strings"
	"testing"

	"talon/host/plugin/wasmtest"
)

// growing is a guest that grows its memory by a page at a time, as long as it can, and
// writes to each.
func growing() guest {
	return guest{admit: wasmtest.Body(
		wasmtest.Block(wasmtest.Void),
		wasmtest.Loop(wasmtest.Void),
		wasmtest.I32Const(1), wasmtest.MemoryGrow, wasmtest.I32Const(-1), wasmtest.I32Eq, wasmtest.BrIf(1),
		wasmtest.MemorySize, wasmtest.I32Const(1<<16), wasmtest.I32Mul, wasmtest.I32Const(4), wasmtest.I32Sub, wasmtest.I32Const(7), wasmtest.I32Store,
		wasmtest.Br(0), wasmtest.End, wasmtest.End,
		wasmtest.I64Const(0))}
}

// TestMemoryGrowsInPlace fills the memory of an instance page by page: the addresses
// stay, the host allocates nothing, and closing gives all of it back.
func TestMemoryGrowsInPlace(t *testing.T) {
	const maximum = 64 << 20
	m := mustLoad(t, growing().assemble(), func(o *Options) { o.Budgets.Memory, o.Budgets.Fuel = maximum, 20_000_000 })
	inst, err := m.pool.get(t.Context(), atOnce)
	if err != nil {
		t.Fatal(err)
	}
	before := &inst.own.space[0]
	inst.call.begin(t.Context(), nil, now, 0)
	if _, fuel, err := inst.ask(Admit, nil); err != nil || fuel < (maximum-4<<16)/8 {
		t.Errorf("%v after %d fuel; want that growing costs as much as filling", err, fuel)
	}
	inst.call.end()
	b, _ := inst.memory.Read(maximum-4, 4)
	if size := inst.memory.Size(); size != maximum || &inst.own.space[0] != before || b[0] != 7 {
		t.Errorf("%d bytes of memory, the last page has %v; want %d at the same address", size, b, maximum)
	}
	m.pool.put(inst)
	if got := admit(t, m, item(1, "")); got != passes {
		t.Errorf("a full memory: %+v, want %+v", got, passes)
	}
	fuelOf := mustLoad(t, growing().assemble(), func(o *Options) { o.Budgets.Memory, o.Limits.Memory = maximum, maximum })
	if _, err := ask(t, fuelOf, item(1, ""), nil); AsFailure(err) == nil || AsFailure(err).Cause != CauseFuel {
		t.Errorf("with the default budget: %v, want that fuel ends it", err)
	}
}

// TestMemoryIsGivenBack makes and closes instances: what is mapped does not add up.
func TestMemoryIsGivenBack(t *testing.T) {
	mapped := func() int {
		text, err := os.ReadFile("/proc/self/maps")
		if err != nil {
			t.Skip("this system does not say what is mapped")
		}
		return strings.Count(string(text), "\n")
	}
	m := mustLoad(t, trapsOn255().assemble(), func(o *Options) { o.Log = nil })
	bad := item(1, "")
	bad.Event.ID[0] = 255
	round := func() {
		for range 200 {
			if _, err := ask(t, m, bad, nil); AsFailure(err) == nil {
				t.Fatal(err)
			}
		}
	}
	round()
	first := mapped()
	round()
	if now := mapped(); now > first+100 {
		t.Errorf("%d mappings, and %d after 200 instances more", first, now)
	}
}
