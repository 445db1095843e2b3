package plugin

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"

	"talon/sdk/abi"
	"talon/sdk/abi/manifest"
)

// exports are the functions that a policy must export.
var exports = []struct {
	name            string
	params, results []api.ValueType
}{
	{abi.ExportMarker, nil, nil},
	{abi.ExportBuffer, []api.ValueType{i32}, []api.ValueType{i32}},
	{abi.ExportConfigure, []api.ValueType{i32}, []api.ValueType{i64}},
	{abi.ExportAdmit, []api.ValueType{i32}, []api.ValueType{i64}},
}

// auditManifest checks what the module says against what this host offers.
func auditManifest(m *manifest.Manifest, limits *Limits) error {
	if !slices.Contains(m.Worlds, manifest.WorldPolicy) {
		return fmt.Errorf("the module is for %s, not for policy", strings.Join(m.Worlds, ", "))
	}
	for _, name := range m.Capabilities {
		if _, ok := capabilities[name]; !ok {
			return fmt.Errorf("the manifest asks for the capability %.64q, which this host does not have", name)
		}
	}
	switch b := m.Budgets; {
	case b.Fuel > limits.Fuel:
		return fmt.Errorf("the manifest asks for %d fuel a decision; the limit is %d", b.Fuel, limits.Fuel)
	case b.MemoryBytes > limits.Memory:
		return fmt.Errorf("the manifest asks for %d bytes of memory; the limit is %d", b.MemoryBytes, limits.Memory)
	case b.OutputBytes > int64(limits.Output):
		return fmt.Errorf("the manifest asks for %d bytes of output; the limit is %d", b.OutputBytes, limits.Output)
	}
	return nil
}

// auditModule checks imports and exports: a module imports only functions that
// exist and that its manifest asks for, and exports what it will be called by.
func auditModule(compiled wazero.CompiledModule, m *manifest.Manifest) error {
	for _, f := range compiled.ImportedFunctions() {
		from, name, _ := f.Import()
		want, ok := hostFunc{}, false
		switch from {
		case abi.ImportModule:
			want, ok = capabilities[name]
			if ok && !slices.Contains(m.Capabilities, name) {
				return fmt.Errorf("the module imports %s, but its manifest does not ask for this capability", name)
			}
		case wasiModule:
			want, ok = wasi[name]
		}
		if !ok {
			return fmt.Errorf("the module imports the function %.64q of %.64q, which this host does not have", name, from)
		}
		if !slices.Equal(f.ParamTypes(), want.params) || !slices.Equal(f.ResultTypes(), want.results) {
			return fmt.Errorf("the module imports %s as %s; it is %s", name,
				signature(f.ParamTypes(), f.ResultTypes()), signature(want.params, want.results))
		}
	}
	if len(compiled.ImportedMemories()) > 0 {
		return errors.New("the module imports a memory; it must export its own")
	}
	if _, ok := compiled.ExportedMemories()[abi.ExportMemory]; !ok {
		return fmt.Errorf("the module does not export its memory as %q", abi.ExportMemory)
	}
	defined := compiled.ExportedFunctions()
	for _, want := range exports {
		f, ok := defined[want.name]
		if !ok {
			return fmt.Errorf("the module does not export the function %s", want.name)
		}
		if err := checkSignature(want.name, f, want.params, want.results); err != nil {
			return err
		}
	}
	if f, ok := defined[abi.ExportInitialize]; ok {
		return checkSignature(abi.ExportInitialize, f, nil, nil)
	}
	return nil
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
