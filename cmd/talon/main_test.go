package main

import (
	"errors"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"talon/cmd/internal/gitremote"
	"talon/host/plugin/plugintest"
	"talon/internal/testkit"
)

// TestMain makes this test binary the program "talon" in the PATH of every test:
// what is tested is main, in a process of its own.
func TestMain(m *testing.M) {
	testscript.Main(tests{m}, map[string]func(){"talon": main, gitremote.Name: main})
}

type tests struct{ *testing.M }

// Run runs the tests and removes what they shared.
func (t tests) Run() int {
	defer func() { _ = os.RemoveAll(shared.dir) }()
	defer database.Stop()
	if flag.Parse(); testkit.RaceDetector && os.Getenv("TALON_TEST_RACE") != "all" && flag.Lookup("test.run").Value.String() == "" {
		_ = flag.Set("test.run", raced)
	}
	return plugintest.Main(t.M)
}

// database is the PostgreSQL of all tests, with a schema for each.
var database testkit.Postgres

// raced are the tests in which a server does many things concurrently: those that run
// under the race detector, unless others are asked for. A server takes four seconds of a
// processor to start under it; what the others do in a server, one client after the
// other, packages test under it.
const raced = "^(TestTenThousandSubscriptions|TestFlood|TestNoGap|TestOrder|TestPluginLife|TestGrasp|TestGraspCrash)$"

// bundled are the modules that come with Talon.
var bundled = []string{"grasp", "limits", "lists", "open", "rate"}

// openRelay is the side-car of the module open in tests of a relay that accepts
// every event.
const openRelay = "[config]\nevery = true\n"

// shared is made once for all tests: compiling modules takes seconds.
var shared struct {
	sync.Once
	dir string
	err error
}

// modules returns the folder of the bundled modules, compiled to wasm, of a relay
// that accepts every event.
func modules(t testing.TB) string { return filepath.Join(sharedDir(t), "plugins") }

// compiled returns a folder with the machine code of the bundled modules, which
// data folders share so that not every start takes a second.
func compiled(t testing.TB) string { return filepath.Join(sharedDir(t), machineCode) }

// machineCode is the folder of a data folder that has it.
const machineCode = "wasm-cache"

func sharedDir(t testing.TB) string {
	t.Helper()
	shared.Do(func() { shared.err = buildShared(t) })
	if shared.err != nil {
		t.Fatal(shared.err)
	}
	return shared.dir
}

func buildShared(t testing.TB) (err error) {
	if shared.dir, err = os.MkdirTemp("", "talon-test-"); err != nil {
		return err
	}
	folders := make([]string, len(bundled))
	for i, name := range bundled {
		folders[i] = "plugins/" + name
	}
	plugins := filepath.Join(shared.dir, "plugins")
	err = errors.Join(
		os.CopyFS(plugins, os.DirFS(plugintest.Build(t, folders...))),
		os.WriteFile(filepath.Join(plugins, "open.toml"), []byte(openRelay), 0o644),
		os.CopyFS(filepath.Join(shared.dir, machineCode), os.DirFS(plugintest.MachineCode(t, folders...))))
	if err != nil {
		return err
	}
	// An import of nothing has the modules pass their tests, which is then known; for the
	// service that a server on 127.0.0.1:0 takes itself for, as nearly all of them do.
	warm := exec.Command(compiler(t), "import", "--data", shared.dir, "--plugins", plugins, "--domain", "127.0.0.1", "--log-level", "error")
	warm.Dir = shared.dir
	warm.Stderr = os.Stderr
	return warm.Run()
}

// compiler returns a Talon to load modules with. Under the race detector that takes
// minutes, and what is kept is the same without.
func compiler(t testing.TB) string {
	if !testkit.RaceDetector {
		return "talon"
	}
	return plugintest.Talon(t)
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

// ownData returns a new data folder whose machine code is its own: what its server adds to
// it, or forgets, others do not notice.
func ownData(t testing.TB) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "data")
	if err := os.CopyFS(filepath.Join(dir, machineCode), os.DirFS(compiled(t))); err != nil {
		t.Fatal(err)
	}
	return dir
}

// linkCompiled makes a data folder that has the machine code of a folder.
func linkCompiled(data, code string) error {
	if err := os.MkdirAll(data, 0o755); err != nil {
		return err
	}
	return os.Symlink(code, filepath.Join(data, machineCode))
}
