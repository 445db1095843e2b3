package guest

import (
	"bytes"
	"context"
	"errors"
	"os"
	"strconv"
	"strings"
	"testing"

	"talon/host"
	"talon/host/plugin/plugintest"
	"talon/host/plugin/wasmtest"
	"talon/internal/race"
	"talon/internal/testkit"
)

// boundCompile sets what any module may use.
func boundCompile(memory, seconds uint64) {
	compileBounds.memory, compileBounds.memoryPerByte, compileBounds.seconds, compileBounds.secondsPerMiB = memory, 0, seconds, 0
}

// TestMain is also the command: compile, bytes of memory and seconds.
func TestMain(m *testing.M) {
	if len(os.Args) == 4 && os.Args[1] == "compile" {
		memory, _ := strconv.ParseUint(os.Args[2], 10, 64)
		seconds, _ := strconv.ParseUint(os.Args[3], 10, 64)
		boundCompile(memory, seconds)
		if err := ServeCompile(context.Background(), os.Stdin, os.Stdout); err != nil {
			os.Stderr.WriteString(err.Error())
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(plugintest.Main(m))
}

// compileCommand has a process of this test do what a server's command does.
func compileCommand(t *testing.T, memory, seconds uint64) []string {
	t.Helper()
	path, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	before := compileBounds
	t.Cleanup(func() { compileBounds = before })
	boundCompile(memory, seconds)
	return []string{path, "compile", strconv.FormatUint(memory, 10), strconv.FormatUint(seconds, 10)}
}

// TestCompiled loads a module elsewhere, with a side-car and sets: here it is only
// read then.
func TestCompiled(t *testing.T) {
	testkit.SkipRace(t)
	folder := plugintest.Build(t, "plugins/lists")
	wasm, err := os.ReadFile(folder + "/lists.wasm")
	if err != nil {
		t.Fatal(err)
	}
	j := &CompileJob{
		Name: "lists", Wasm: wasm, Sidecar: []byte("[config]\ndeny_kinds = ['4']\n[budgets]\nreads = 5\n"),
		CacheDir: t.TempDir(), Service: host.Service{Domain: "relay.example.com"}, Background: true,
	}
	if err := j.Run(t.Context(), compileCommand(t, 1<<30, 600)); err != nil {
		t.Fatal(err)
	}
	o := Options{
		Name: j.Name, Config: map[string]any{"deny_kinds": []any{"4"}}, Budgets: Budgets{Reads: 5}, CacheDir: j.CacheDir, Service: j.Service,
		Elsewhere: func(context.Context, []byte) error { return errAsked },
	}
	m, err := Load(t.Context(), wasm, o)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close(context.Background())
	if err := SelfTest(t.Context(), wasm, o); err != nil {
		t.Error(err)
	}
	o.Budgets.Reads = 6
	if err := SelfTest(t.Context(), wasm, o); err == nil || !errors.Is(err, errAsked) {
		t.Errorf("%v; want that other budgets are tested again", err)
	}
}

// bomb is a module that takes long to compile for its size.
func bomb(functions int) []byte {
	loads := bytes.Repeat(wasmtest.Body(wasmtest.I32Const(1), wasmtest.I32Load8U, wasmtest.Drop), 40_000)
	return guest{change: func(m *wasmtest.Module) {
		for range functions {
			m.Funcs = append(m.Funcs, wasmtest.Func{Code: wasmtest.Body(loads, wasmtest.End)})
		}
	}}.assemble()
}

// TestCompileBounds has modules that take more than the process may: the error says which, and
// the server goes on.
func TestCompileBounds(t *testing.T) {
	if race.Detector {
		t.Skip("the race detector takes memory and time of its own")
	}
	for _, test := range []struct {
		name            string
		wasm            []byte
		memory, seconds uint64
		want            string
	}{
		{"wrong", []byte("no module"), 1 << 30, 600, "not a WebAssembly module"},
		{"good", bomb(0), 1 << 30, 600, ""},
		{"time", bomb(30), 8 << 30, 1, "longer than 1 s"},
		{"memory", bomb(8), 256 << 20, 600, "more than 256 MiB"},
		{"memory of the process alone", bomb(0), 24 << 20, 600, "more than 24 MiB"},
	} {
		t.Run(test.name, func(t *testing.T) {
			err := (&CompileJob{Name: "bomb", Wasm: test.wasm, CacheDir: t.TempDir()}).Run(t.Context(), compileCommand(t, test.memory, test.seconds))
			if (err != nil) != (test.want != "") || err != nil && !strings.Contains(err.Error(), test.want) {
				t.Errorf("%v; want %q", err, test.want)
			}
		})
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := (&CompileJob{Name: "bomb", Wasm: bomb(4), CacheDir: t.TempDir()}).Run(ctx, compileCommand(t, 1<<30, 600)); !errors.Is(err, context.Canceled) {
		t.Errorf("%v, want that it was cancelled", err)
	}
}
