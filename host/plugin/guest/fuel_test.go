package guest

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"talon/host"
	"talon/host/plugin/plugintest"
	"talon/internal/testkit"
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
		}.withDefaults(wasm)
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
