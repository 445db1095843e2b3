package guest_test

import (
	"context"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"

	"talon/host/plugin/plugintest"
	"talon/internal/testkit"
	"talon/sdk/abi"
	"talon/sdk/abi/manifest"
)

// signatures are the host functions as package abi documents them.
var signatures = map[string]string{
	abi.CapStoreGet:        "i32 i32 i32 -> i32",
	abi.CapStoreQuery:      "i32 i32 i32 i32 -> i32",
	abi.CapStoreReferenced: "i32 i32 -> i32",
	abi.CapHeldGet:         "i32 i32 i32 -> i32",
	abi.CapHeldQuery:       "i32 i32 i32 i32 -> i32",
	abi.CapGitHas:          "i32 i32 i32 i32 -> i32",
	abi.CapGitRef:          "i32 i32 i32 i32 i32 i32 -> i32",
	abi.CapKVGet:           "i32 i32 i32 i32 -> i32",
	abi.CapKVSet:           "i32 i32 i32 i32 i64 -> i32",
	abi.CapKVDelete:        "i32 i32 -> ",
	abi.CapKVIncr:          "i32 i32 i64 i64 -> i64",
	abi.CapSetsContains:    "i32 i32 i32 i32 -> i32",
	abi.CapBucketTake:      "i32 i32 i32 i32 i64 -> i64",
	abi.CapLog:             "i32 i32 i32 -> ",
	abi.CapMetric:          "i32 i32 i32 f64 -> ",
}

// TestModulesImportWhatTheyUse: the import section of a module is what its code
// can reach, no more, and each import has the type that the host gives it.
func TestModulesImportWhatTheyUse(t *testing.T) {
	testkit.SkipRace(t)
	ctx := context.Background()
	runtime := wazero.NewRuntimeWithConfig(ctx, wazero.NewRuntimeConfigInterpreter())
	defer runtime.Close(ctx)
	for _, folder := range []string{"examples/hello-policy", "plugins/grasp", "plugins/limits", "plugins/lists", "plugins/open", "plugins/rate", "sdk/policy/testdata/guests/all"} {
		t.Run(path.Base(folder), func(t *testing.T) {
			wasm, err := os.ReadFile(filepath.Join(plugintest.Build(t, folder), path.Base(folder)+".wasm"))
			if err != nil {
				t.Fatal(err)
			}
			m, err := manifest.FromModule(wasm)
			if err != nil {
				t.Fatal(err)
			}
			compiled, err := runtime.CompileModule(ctx, wasm)
			if err != nil {
				t.Fatal(err)
			}
			defer compiled.Close(ctx)
			var imports []string
			for _, f := range compiled.ImportedFunctions() {
				from, name, _ := f.Import()
				if from != abi.ImportModule {
					continue
				}
				imports = append(imports, name)
				if got := types(f.ParamTypes()) + " -> " + types(f.ResultTypes()); got != signatures[name] {
					t.Errorf("%s is imported as %s, want %s", name, got, signatures[name])
				}
			}
			slices.Sort(imports)
			slices.Sort(m.Capabilities)
			if !slices.Equal(imports, m.Capabilities) {
				t.Errorf("imports %q, the manifest asks for %q", imports, m.Capabilities)
			}
			exports := compiled.ExportedFunctions()
			for _, function := range m.Functions {
				if name, _ := manifest.Export(function); exports[name] == nil {
					t.Errorf("the module does not export %s", name)
				}
			}
		})
	}
}

func types(list []api.ValueType) string {
	return strings.Trim(fmt.Sprint(names(list)), "[]")
}

func names(list []api.ValueType) (names []string) {
	for _, t := range list {
		names = append(names, api.ValueTypeName(t))
	}
	return names
}
