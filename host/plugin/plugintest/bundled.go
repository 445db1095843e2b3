package plugintest

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"runtime/debug"
	"strings"
	"testing"

	"talon/host/bundle"
)

// Bundled returns a Talon with these modules inside, all of which run by default. [Build] says what
// folders are.
func Bundled(t testing.TB, folders ...string) string {
	t.Helper()
	var list []bundle.Source
	for _, folder := range folders {
		wasm, err := compile(folder)
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, bundle.Source{Name: path.Base(folder), Wasm: wasm, Default: true})
	}
	var modules bytes.Buffer
	if err := bundle.Write(&modules, list); err != nil {
		t.Fatal(err)
	}
	top, err := root()
	if err == nil {
		_, err = sources(talonFolder)
	}
	if err != nil {
		t.Fatal(err)
	}
	name := "talon-" + strings.NewReplacer("/", "-").Replace(strings.Join(folders, "-"))
	kept, program := filepath.Join(store, name), filepath.Join(t.TempDir(), "talon")
	unlock, err := lock(kept)
	if err != nil {
		t.Fatal(err)
	}
	defer unlock()
	// The go tool reads these files in the place of those that internal/bundler makes.
	made := map[string][]byte{"modules.pack": modules.Bytes(), "code_amd64.pack": nil, "code_arm64.pack": nil}
	overlay := map[string]map[string]string{"Replace": {}}
	for file, data := range made {
		overlay["Replace"][filepath.Join(top, "host", "bundle", file)] = kept + "-" + file
		err = errors.Join(err, os.WriteFile(kept+"-"+file, data, 0o600))
	}
	text, jsonErr := json.Marshal(overlay)
	if err := errors.Join(err, jsonErr, os.WriteFile(kept+".json", text, 0o600)); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("go", "build", "-tags", tagsAnd("bundled"), "-overlay", kept+".json",
		"-ldflags", linked+wazeroVersion(), "-o", kept, "talon/cmd/talon")
	if text, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("build talon with modules: %v\n%s", err, text)
	}
	if err := linkFile(kept, program, 0o700); err != nil {
		t.Fatal(err)
	}
	return program
}

// tagsAnd returns the build tags of this test with one more.
func tagsAnd(tag string) string {
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, s := range info.Settings {
			if s.Key == "-tags" && s.Value != "" {
				return s.Value + "," + tag
			}
		}
	}
	return tag
}
