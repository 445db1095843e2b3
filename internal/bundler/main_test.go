package main

import (
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"talon/host/bundle"
	"talon/host/plugin/guest"
	"talon/host/plugin/plugintest"
)

// TestBundler makes the files for a module, once. A server with them has nothing to compile.
func TestBundler(t *testing.T) {
	folder, wasm := t.TempDir(), filepath.Join(plugintest.Build(t, "plugins/open"), "open.wasm")
	packs := []string{filepath.Join(folder, "modules.pack"), filepath.Join(folder, "code_"+runtime.GOARCH+".pack")}
	stat := func() (list [2]os.FileInfo) {
		for i, file := range packs {
			info, err := os.Stat(file)
			if err != nil {
				t.Fatal(err)
			}
			list[i] = info
		}
		return list
	}
	bundled := func() bool {
		t.Helper()
		if err := run(t.Context(), folder, []string{wasm}, []string{"open"}); err != nil {
			t.Fatal(err)
		}
		modules, err := os.ReadFile(packs[0])
		if err != nil {
			t.Fatal(err)
		}
		code, err := os.ReadFile(packs[1])
		if err != nil {
			t.Fatal(err)
		}
		b, err := bundle.Open(modules, code)
		if err != nil {
			t.Fatal(err)
		}
		open, err := b.Wasm("open")
		if err != nil {
			t.Fatal(err)
		}
		fits, err := guest.Fits(t.Context(), "open", open, b)
		if err != nil {
			t.Fatal(err)
		}
		return fits
	}
	if !bundled() {
		t.Error("the code does not fit")
	}
	before := stat()
	bundled()
	for i, info := range stat() {
		if !os.SameFile(info, before[i]) {
			t.Errorf("%s is written again", packs[i])
		}
	}
	if err := os.WriteFile(packs[1], []byte("damaged"), 0o600); err != nil {
		t.Fatal(err)
	}
	if !bundled() {
		t.Error("damaged code stays")
	}
	if err := run(t.Context(), folder, []string{filepath.Join(folder, "none.wasm")}, nil); err == nil {
		t.Error("no error for a file that is absent")
	}
}
