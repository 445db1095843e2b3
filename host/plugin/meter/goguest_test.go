package meter

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/imports/wasi_snapshot_preview1"

	"talon/internal/testkit"
)

// goGuest is testdata/guest, compiled once.
var goGuest = sync.OnceValues(func() ([]byte, error) {
	if err := testkit.OpenInputs("testdata/guest"); err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "meter")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	out := filepath.Join(dir, "guest.wasm")
	cmd := exec.Command("go", "build", "-buildmode=c-shared", "-trimpath", "-o", out, "./testdata/guest")
	cmd.Env = slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "GOFLAGS=") })
	cmd.Env = append(cmd.Env, "GOOS=wasip1", "GOARCH=wasm", "CGO_ENABLED=0")
	cmd.Stderr = os.Stderr
	if err := cmd.Run(); err != nil {
		return nil, err
	}
	return os.ReadFile(out)
})

// goFunctions are the exports of testdata/guest, all from a number of rounds to
// an i64.
var goFunctions = []string{"digest", "scan", "count", "sum", "mix", "recovered"}

func goModule(t testing.TB) []byte {
	t.Helper()
	testkit.SkipRace(t)
	wasm, err := goGuest()
	if err != nil {
		t.Fatalf("build testdata/guest: %v", err)
	}
	return wasm
}

// startGo instantiates a Go guest. Its clock stands still and its randomness is
// fixed, as wazero has them by default, so that runs are alike.
func startGo(t testing.TB, rt wazero.Runtime, wasm []byte) *guest {
	t.Helper()
	if rt.Module(wasi_snapshot_preview1.ModuleName) == nil {
		wasi_snapshot_preview1.MustInstantiate(t.Context(), rt)
	}
	mod, err := rt.InstantiateWithConfig(t.Context(), wasm, wazero.NewModuleConfig().WithName("").WithStartFunctions("_initialize"))
	if err != nil {
		t.Fatal(err)
	}
	g := &guest{Module: mod}
	g.fuel, _ = mod.ExportedGlobal(FuelExport).(api.MutableGlobal)
	return g
}

func TestGoGuest(t *testing.T) {
	wasm := goModule(t)
	out, err := Rewrite(wasm, Options{StartFuel: enough})
	if err != nil {
		t.Fatal(err)
	}
	type run struct {
		value uint64
		spent int64
	}
	rounds := []uint64{1}
	if os.Getenv("TALON_TEST_SCALE") != "" {
		rounds = append(rounds, 3) // the interpreter takes seconds for each
	}
	runs := map[string][]run{}
	var start []int64
	for engine, config := range engines {
		rt := newRuntime(t, config())
		plain, g := startGo(t, rt, wasm), startGo(t, rt, out)
		start = append(start, enough-g.left())
		for _, name := range goFunctions {
			for _, n := range rounds {
				want, err := plain.ExportedFunction(name).Call(t.Context(), n)
				if err != nil {
					t.Fatal(err)
				}
				got, spent, err := g.run(t.Context(), enough, name, n)
				if err != nil || got[0] != want[0] {
					t.Errorf("%s: %s(%d) = %d, error %v; want %d", engine, name, n, got, err, want)
				}
				runs[engine] = append(runs[engine], run{got[0], spent})
			}
		}
	}
	if !slices.Equal(runs["compiler"], runs["interpreter"]) || start[0] != start[1] {
		t.Errorf("the engines differ: start %d\ncompiler    %v\ninterpreter %v", start, runs["compiler"], runs["interpreter"])
	}
}

// TestGoGuestRunsOut interrupts a Go guest wherever it happens to be.
func TestGoGuestRunsOut(t *testing.T) {
	out, err := Rewrite(goModule(t), Options{StartFuel: enough})
	if err != nil {
		t.Fatal(err)
	}
	rt := newRuntime(t, wazero.NewRuntimeConfigCompiler())
	for _, fuel := range []int64{0, 1, 100, 10_000, 1_000_000} {
		g := startGo(t, rt, out)
		if _, _, err := g.run(t.Context(), fuel, "mix", 1_000_000); err == nil || g.left() >= 0 {
			t.Errorf("with %d fuel: error %v, %d left", fuel, err, g.left())
		}
		// It stays open, and so does its machine code, for the others.
	}
}
