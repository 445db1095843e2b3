package guest

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"testing"

	"talon/host/plugin/wasmtest"
	"talon/sdk/abi"
)

// idleGuest passes everything, and says something about the relay.
func idleGuest() guest {
	message := abi.AppendConfigured(nil, &abi.Configured{Idle: []string{"admit"}, About: abi.About{Criteria: "every event"}})
	return guest{message: message, configure: returns(messageAddr, uint32(len(message)))}
}

// startIdle loads a module and tests it, with a new cache.
func startIdle(t *testing.T, wasm []byte) (*Module, Options) {
	t.Helper()
	o := Options{Name: "guest", CacheDir: t.TempDir()}
	m, err := Load(t.Context(), wasm, o)
	if err == nil {
		err = errors.Join(m.Close(context.Background()), SelfTest(t.Context(), wasm, o))
	}
	if err != nil {
		t.Fatal(err)
	}
	return m, o
}

// withoutCode removes what is compiled of a module, so that nothing can run it.
func withoutCode(t *testing.T, wasm []byte, o Options) Options {
	t.Helper()
	dir := codeDir(o.CacheDir, o.withDefaults(wasm).SHA256)
	if err := os.RemoveAll(filepath.Join(dir, codeFolder)); err != nil {
		t.Fatal(err)
	}
	o.Elsewhere = func(context.Context) error { return errAsked }
	return o
}

// TestIdleIsKept starts again with a module that has nothing to decide: it is not run to
// say so again.
func TestIdleIsKept(t *testing.T) {
	g := idleGuest()
	g.manifest, g.imports = withCapabilities(abi.CapLog), imported(abi.ImportModule, abi.CapLog, typeExtra)
	g.change = func(m *wasmtest.Module) { m.Types = append(m.Types, wasmtest.Type{Params: params(3)}) }
	wasm := g.assemble()
	first, o := startIdle(t, wasm)
	m, err := Load(t.Context(), wasm, withoutCode(t, wasm, o))
	if err != nil {
		t.Fatal(err)
	}
	if m.Instances() != 0 || m.Calls(Admit) || !m.Tested() || m.Code() == "" {
		t.Errorf("%d instances, admit is called: %v, tested: %v, code in %q", m.Instances(), m.Calls(Admit), m.Tested(), m.Code())
	}
	if !reflect.DeepEqual(m.About(), first.About()) || !reflect.DeepEqual(m.Imports(), first.Imports()) || m.About().Criteria != "every event" {
		t.Errorf("it says %+v and imports %q, and before %+v, %q", m.About(), m.Imports(), first.About(), first.Imports())
	}
	if err := errors.Join(m.Close(context.Background()), m.Close(context.Background())); err != nil {
		t.Error(err)
	}
}

// TestIdleIsAskedAgain starts with modules that may say something else, or must not run.
func TestIdleIsAskedAgain(t *testing.T) {
	for name, test := range map[string]struct {
		guest  func(g *guest)
		change func(o *Options, dir string) error
	}{
		"another address": {change: func(o *Options, _ string) error { o.Service.Domain = "relay.example.com"; return nil }},
		"another budget":  {change: func(o *Options, _ string) error { o.Budgets.Fuel = 1000; return nil }},
		"not tested":      {change: func(_ *Options, dir string) error { return os.Remove(filepath.Join(dir, stampFile)) }},
		"a damaged file": {change: func(_ *Options, dir string) error {
			return os.WriteFile(filepath.Join(dir, idleFile), []byte(`[{"key":"`), 0o600)
		}},
		"nothing is kept": {change: func(_ *Options, dir string) error { return os.Remove(filepath.Join(dir, idleFile)) }},
		"an import denied": {func(g *guest) {
			g.manifest, g.imports = withCapabilities(abi.CapLog), imported(abi.ImportModule, abi.CapLog, typeExtra)
			g.change = func(m *wasmtest.Module) { m.Types = append(m.Types, wasmtest.Type{Params: params(3)}) }
		}, func(o *Options, _ string) error { o.Grants = func(string) bool { return false }; return nil }},
		"it asked the host": {func(g *guest) {
			h := hostCalls[2] // whether a set has a member
			g.manifest, g.imports = withCapabilities(h.name), imported(abi.ImportModule, h.name, typeExtra)
			g.change = func(m *wasmtest.Module) { m.Types = append(m.Types, h.typ) }
			g.configure = wasmtest.Body(h.args, wasmtest.Call(0), wasmtest.Drop, g.configure)
		}, func(*Options, string) error { return nil }},
	} {
		t.Run(name, func(t *testing.T) {
			g := idleGuest()
			if test.guest != nil {
				test.guest(&g)
			}
			wasm := g.assemble()
			_, o := startIdle(t, wasm)
			o = withoutCode(t, wasm, o)
			if err := test.change(&o, codeDir(o.CacheDir, o.withDefaults(wasm).SHA256)); err != nil {
				t.Fatal(err)
			}
			if _, err := Load(t.Context(), wasm, o); !errors.Is(err, errAsked) {
				t.Errorf("%v, want that it is loaded", err)
			}
		})
	}
}
