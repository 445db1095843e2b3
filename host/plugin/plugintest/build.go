// Package plugintest compiles policies for tests, with the go tool and the
// options of the Makefile, so that a test needs nothing built before it.
//
// No production code imports it.
package plugintest

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"sync"
	"testing"
)

// Build compiles folders of Go policies, given relative to the root of the
// repository ("plugins/open"), and returns a folder with <name>.wasm for each.
func Build(t testing.TB, folders ...string) string {
	t.Helper()
	dir := t.TempDir()
	for _, folder := range folders {
		data, err := compile(folder)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, filepath.Base(folder)+".wasm"), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// built keeps what this test process has compiled: linking takes a second.
var built = struct {
	sync.Mutex
	wasm map[string][]byte
}{wasm: make(map[string][]byte)}

func compile(folder string) ([]byte, error) {
	built.Lock()
	defer built.Unlock()
	if data, ok := built.wasm[folder]; ok {
		return data, nil
	}
	root, err := root()
	if err != nil {
		return nil, err
	}
	out, err := os.CreateTemp("", "talon-*.wasm")
	if err != nil {
		return nil, err
	}
	defer os.Remove(out.Name())
	out.Close()
	cmd := exec.Command("go", "build", "-buildmode=c-shared", "-buildvcs=false", "-trimpath", "-ldflags=-s -w", "-o", out.Name(), "./"+path.Base(folder))
	cmd.Dir = filepath.Join(root, path.Dir(folder)) // in the module that it is of
	cmd.Env = append(os.Environ(), "GOOS=wasip1", "GOARCH=wasm", "CGO_ENABLED=0")
	if text, err := cmd.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("build %s: %w\n%s", folder, err, text)
	}
	data, err := os.ReadFile(out.Name())
	if err == nil {
		built.wasm[folder] = data
	}
	return data, err
}

// root is the nearest folder upward that holds go.mod.
func root() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir, nil
		}
		up := filepath.Dir(dir)
		if up == dir {
			return "", errors.New("no go.mod above the test's folder")
		}
		dir = up
	}
}
