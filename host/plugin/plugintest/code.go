package plugintest

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
)

// code is the machine code that the tests of this process share.
var code struct {
	dir string // empty: Main does not run
	sync.Mutex
	talon string          // compiles under the race detector
	has   map[string]bool // compiled by it
}

// Main is for TestMain: it runs the tests with a folder for machine code and removes
// that afterwards.
func Main(m *testing.M) int {
	dir, err := os.MkdirTemp("", "talon-code-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	code.dir, code.has = dir, make(map[string]bool)
	return m.Run()
}

// MachineCode returns a folder for [guest.Options.CacheDir] that all tests of a process
// share: to compile a Go policy takes a second, and most of a minute under the race
// detector. There, it has the code of these folders already, as [Build] takes them: a
// Talon that runs without the detector compiled them.
func MachineCode(t testing.TB, folders ...string) string {
	t.Helper()
	code.Lock()
	defer code.Unlock()
	if code.dir == "" {
		t.Fatal("plugintest.Main does not run the tests")
	}
	for _, folder := range folders {
		if raceDetector && !code.has[folder] {
			if err := precompile(t, folder); err != nil {
				t.Fatal(err)
			}
			code.has[folder] = true
		}
	}
	return filepath.Join(code.dir, "wasm-cache")
}

// precompile has a Talon load a policy: an import of nothing does. Whether the policy
// passes its tests is for others to say.
func precompile(t testing.TB, folder string) error {
	if code.talon == "" {
		program := filepath.Join(code.dir, "talon")
		if text, err := exec.Command("go", "build", "-o", program, "talon/cmd/talon").CombinedOutput(); err != nil {
			return fmt.Errorf("build talon: %w\n%s", err, text)
		}
		code.talon = program
	}
	load := exec.Command(code.talon, "import", "--data", code.dir, "--plugins", Build(t, folder), "--log-level", "error")
	load.Dir = code.dir
	if text, err := load.CombinedOutput(); load.ProcessState == nil {
		return fmt.Errorf("compile %s: %w\n%s", folder, err, text)
	}
	return nil
}
