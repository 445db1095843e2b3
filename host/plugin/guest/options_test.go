package guest

import (
	"strings"
	"testing"

	"talon/host/plugin/wasmtest"
)

// TestBudgets chooses between operator, manifest and default.
func TestBudgets(t *testing.T) {
	const asks = `{"talon_manifest": 1, "name": "guest", "worlds": ["policy"], "budgets": {"fuel": 3000, "memory_bytes": 1048576, "output_bytes": 100}}`
	const asksTooMuch = `{"talon_manifest": 1, "name": "guest", "worlds": ["policy"], "budgets": {"fuel": 90000000}}`
	type budgets struct{ fuel, memory, output int64 }
	for _, test := range []struct {
		name     string
		manifest string
		operator Budgets
		limits   Limits
		want     budgets
		refusal  string
	}{
		{name: "defaults", manifest: plainManifest, want: budgets{defaultFuel, defaultMemory, defaultOutput}},
		{name: "defaults above the limits", manifest: plainManifest, limits: Limits{Fuel: 1000, Memory: 1 << 20, Output: 50}, want: budgets{1000, 1 << 20, 50}},
		{name: "manifest", manifest: asks, want: budgets{3000, 1 << 20, 100}},
		{name: "manifest above a limit", manifest: asks, limits: Limits{Fuel: 2999}, refusal: "asks for 3000 fuel a call; the limit is 2999"},
		{name: "operator", manifest: asks, operator: Budgets{Fuel: 5, Memory: 2 << 20, Output: 7}, want: budgets{5, 2 << 20, 7}},
		{name: "operator against a manifest above the limit", manifest: asksTooMuch, operator: Budgets{Fuel: 5}, want: budgets{5, defaultMemory, defaultOutput}},
		{name: "operator above a limit", manifest: asks, operator: Budgets{Memory: 1 << 40}, refusal: "budget memory = 1099511627776: want 1 to 67108864"},
		{name: "operator below zero", manifest: asks, operator: Budgets{LogRate: -1}, refusal: "budget log rate = -1"},
	} {
		t.Run(test.name, func(t *testing.T) {
			m, _, err := load(t, guest{manifest: test.manifest}.assemble(), func(o *Options) { o.Budgets, o.Limits = test.operator, test.limits })
			if err != nil || test.refusal != "" {
				if err == nil || test.refusal == "" || !strings.Contains(err.Error(), test.refusal) {
					t.Errorf("%v, want %q", err, test.refusal)
				}
				return
			}
			if got := (budgets{m.Fuel(), m.MemoryLimit(), int64(m.budgets.Output)}); got != test.want {
				t.Errorf("%+v, want %+v", got, test.want)
			}
		})
	}
}

func TestNamesOfPlugins(t *testing.T) {
	for name, ok := range map[string]bool{
		"lists": true, "A-1_b": true, "": false, "../x": false, "a.b": false, "a b": false, strings.Repeat("x", 65): false,
	} {
		if _, _, err := load(t, guest{}.assemble(), func(o *Options) { o.Name = name }); (err == nil) != ok {
			t.Errorf("%q: %v, want it allowed: %v", name, err, ok)
		}
	}
}

// TestWhatAModuleTells loads one that serves two worlds.
func TestWhatAModuleTells(t *testing.T) {
	g := getting(1)
	g.manifest = `{"talon_manifest": 1, "name": "guest", "worlds": ["policy", "strategy"], "functions": ["step", "push", "admit"], "capabilities": ["store.get", "kv.set"]}`
	g.change = func(m *wasmtest.Module) {
		for _, e := range m.Exports {
			if e.Name == Admit.export() {
				for _, f := range []Func{Push, Step} {
					e.Name = f.export()
					m.Exports = append(m.Exports, e)
				}
			}
		}
	}
	m := mustLoad(t, g.assemble(), nil)
	if got := strings.Join(m.Functions(), " "); got != "admit push step" {
		t.Errorf("functions %q", got)
	}
	if got := strings.Join(m.Imports(), " "); got != "store.get" {
		t.Errorf("imports %q, want only what is in the import section", got)
	}
	if !m.Calls(Push) || m.Calls(Query) || m.Manifest().Name != "guest" || m.Code() != "" {
		t.Errorf("calls push %v, query %v; name %q, code in %q", m.Calls(Push), m.Calls(Query), m.Manifest().Name, m.Code())
	}
	if m.Instances() != 1 || m.MemoryUsed() != 4<<16 {
		t.Errorf("%d instances with %d bytes, want one with 4 pages", m.Instances(), m.MemoryUsed())
	}
}
