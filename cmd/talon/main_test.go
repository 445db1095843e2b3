package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

// TestMain makes this test binary the program "talon" in the PATH of every test:
// what is tested is main, in a process of its own.
func TestMain(m *testing.M) {
	testscript.Main(tests{m}, map[string]func(){"talon": main})
}

type tests struct{ *testing.M }

// Run runs the tests and removes what they shared.
func (t tests) Run() int {
	defer func() { _ = os.RemoveAll(shared.dir) }()
	return t.M.Run()
}

// shared is made once for all tests: compiling modules takes seconds.
var shared struct {
	sync.Once
	dir string
	err error
}

// modules returns the folder of the bundled modules, compiled to wasm.
func modules(t testing.TB) string { return filepath.Join(sharedDir(t), "plugins") }

// compiled returns a folder with the machine code of the bundled modules, which
// data folders share so that not every start takes a second.
func compiled(t testing.TB) string { return filepath.Join(sharedDir(t), "wasm-cache") }

func sharedDir(t testing.TB) string {
	t.Helper()
	shared.Do(func() { shared.err = buildShared() })
	if shared.err != nil {
		t.Fatal(shared.err)
	}
	return shared.dir
}

func buildShared() (err error) {
	if shared.dir, err = os.MkdirTemp("", "talon-test-"); err != nil {
		return err
	}
	for _, name := range []string{"lists", "open"} {
		build := exec.Command("go", "build", "-buildmode=c-shared", "-trimpath", "-ldflags=-s -w",
			"-o", filepath.Join(shared.dir, "plugins", name+".wasm"), "talon/plugins/"+name)
		build.Env = append(os.Environ(), "GOOS=wasip1", "GOARCH=wasm", "CGO_ENABLED=0", "GOFLAGS=-buildvcs=false")
		build.Stderr = os.Stderr
		if err := build.Run(); err != nil {
			return err
		}
	}
	// An import of nothing loads the modules, which fills the cache.
	warm := exec.Command("talon", "import", "--data", shared.dir, "--plugins", filepath.Join(shared.dir, "plugins"), "--log-level", "error")
	warm.Dir = shared.dir
	warm.Stderr = os.Stderr
	return warm.Run()
}

// newData returns a new data folder.
func newData(t testing.TB) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "data")
	if err := linkCompiled(dir, compiled(t)); err != nil {
		t.Fatal(err)
	}
	return dir
}

// linkCompiled makes a data folder that has the machine code.
func linkCompiled(data, machineCode string) error {
	if err := os.Mkdir(data, 0o755); err != nil {
		return err
	}
	return os.Symlink(machineCode, filepath.Join(data, "wasm-cache"))
}
