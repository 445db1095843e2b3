package guest

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"

	"talon/sdk/abi"
	"talon/sdk/abi/manifest"
)

// exports are the functions that every module must export.
var exports = []struct {
	name            string
	params, results []api.ValueType
}{
	{abi.ExportMarker, nil, nil},
	{abi.ExportBuffer, []api.ValueType{i32}, []api.ValueType{i32}},
	{abi.ExportConfigure, []api.ValueType{i32}, []api.ValueType{i64}},
}

// called returns the functions that the manifest says the host should call.
func called(man *manifest.Manifest) []Func {
	var list []Func
	for f := range functions {
		if slices.Contains(man.Functions, Func(f).String()) {
			list = append(list, Func(f))
		}
	}
	return list
}

// auditManifest checks what the module says against what this host offers, and
// what the operator allows.
func auditManifest(man *manifest.Manifest, o *Options) error {
	if len(called(man)) == 0 {
		return fmt.Errorf("the module is for %s, which this host does not know", strings.Join(man.Worlds, ", "))
	}
	for _, name := range man.Capabilities {
		if _, ok := capabilities[name]; !ok {
			return fmt.Errorf("the manifest asks for the capability %.64q, which this host does not have", name)
		}
	}
	for _, b := range []struct {
		what                string
		chosen, wanted, max int64
	}{
		{"fuel a call", o.Budgets.Fuel, man.Budgets.Fuel, o.Limits.Fuel},
		{"bytes of memory", o.Budgets.Memory, man.Budgets.MemoryBytes, o.Limits.Memory},
		{"bytes of output", o.Budgets.Output, man.Budgets.OutputBytes, int64(o.Limits.Output)},
	} {
		if cmp.Or(b.chosen, b.wanted) > b.max {
			return fmt.Errorf("the manifest asks for %d %s; the limit is %d", b.wanted, b.what, b.max)
		}
	}
	return nil
}

// audit checks imports and exports: a module imports only functions that exist,
// that its manifest asks for and that the operator grants, and exports what it
// will be called by. It returns the capabilities that the module imports.
func (m *Module) audit(compiled wazero.CompiledModule, grants func(string) bool) (imports []string, err error) {
	for _, f := range compiled.ImportedFunctions() {
		from, name, _ := f.Import()
		want, ok := hostFunc{}, false
		switch from {
		case abi.ImportModule:
			want, ok = capabilities[name]
			switch {
			case ok && !slices.Contains(m.manifest.Capabilities, name):
				return nil, fmt.Errorf("the module imports %s, but its manifest does not ask for this capability", name)
			case ok && !grants(name):
				return nil, fmt.Errorf("the module imports %s, which the operator does not grant it: see capabilities in its side-car", name)
			}
			imports = append(imports, name)
		case wasiModule:
			want, ok = wasi[name]
		}
		if !ok {
			return nil, fmt.Errorf("the module imports the function %.64q of %.64q, which this host does not have", name, from)
		}
		if !slices.Equal(f.ParamTypes(), want.params) || !slices.Equal(f.ResultTypes(), want.results) {
			return nil, fmt.Errorf("the module imports %s as %s; it is %s", name,
				signature(f.ParamTypes(), f.ResultTypes()), signature(want.params, want.results))
		}
	}
	slices.Sort(imports)
	imports = slices.Compact(imports)
	if len(compiled.ImportedMemories()) > 0 {
		return nil, errors.New("the module imports a memory; it must export its own")
	}
	if _, ok := compiled.ExportedMemories()[abi.ExportMemory]; !ok {
		return nil, fmt.Errorf("the module does not export its memory as %q", abi.ExportMemory)
	}
	defined := compiled.ExportedFunctions()
	check := func(name string, params, results []api.ValueType) error {
		f, ok := defined[name]
		if !ok {
			return fmt.Errorf("the module does not export the function %s", name)
		}
		return checkSignature(name, f, params, results)
	}
	for _, want := range exports {
		if err := check(want.name, want.params, want.results); err != nil {
			return nil, err
		}
	}
	for _, f := range m.functions {
		if err := check(f.export(), []api.ValueType{i32}, []api.ValueType{i64}); err != nil {
			return nil, err
		}
	}
	if f, ok := defined[abi.ExportInitialize]; ok {
		return imports, checkSignature(abi.ExportInitialize, f, nil, nil)
	}
	return imports, nil
}

func checkSignature(name string, f api.FunctionDefinition, params, results []api.ValueType) error {
	if slices.Equal(f.ParamTypes(), params) && slices.Equal(f.ResultTypes(), results) {
		return nil
	}
	return fmt.Errorf("the module exports %s as %s; want %s", name, signature(f.ParamTypes(), f.ResultTypes()), signature(params, results))
}

// signature prints a function type: (i32, i32) -> i64.
func signature(params, results []api.ValueType) string {
	list := func(types []api.ValueType) string {
		names := make([]string, min(len(types), 10))
		for i := range names {
			names[i] = api.ValueTypeName(types[i])
		}
		if len(types) > len(names) {
			names = append(names, "…")
		}
		return "(" + strings.Join(names, ", ") + ")"
	}
	return list(params) + " -> " + list(results)
}
