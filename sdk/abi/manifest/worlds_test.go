package manifest

import (
	"slices"
	"testing"
)

func TestEachFunctionHasOneWorldAndOneExport(t *testing.T) {
	seen := make(map[string]bool)
	for _, world := range []string{WorldPolicy, WorldStrategy, WorldThrottle} {
		functions := Functions(world)
		if len(functions) == 0 {
			t.Errorf("world %s has no functions", world)
		}
		for _, f := range functions {
			export, ok := Export(f)
			if !ok || export != "talon_"+f || !isName(f, 32) {
				t.Errorf("%s: %q is exported as %q, %v", world, f, export, ok)
			}
			if seen[f] {
				t.Errorf("two worlds have a function %q", f)
			}
			seen[f] = true
		}
	}
	if export, ok := Export("talon_admit"); ok {
		t.Errorf("an export's name is taken for a function's: %q", export)
	}
	if Functions("git") != nil {
		t.Error("a world that does not exist has functions")
	}
}

func TestFunctionsMayBeChangedByTheCaller(t *testing.T) {
	Functions(WorldPolicy)[0] = "changed"
	if !slices.Contains(Functions(WorldPolicy), "admit") {
		t.Error("a caller changed the table")
	}
}
