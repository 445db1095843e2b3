package examples

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"talon/host/plugin/guest"
	"talon/host/plugin/plugintest"
	"talon/internal/race"
	"talon/internal/testkit"
	"talon/sdk/abi"
)

// TestGuides follows the guides to the letter, from an empty folder next to the repository to a
// relay in which the module decides. Then it sends the module many requests.
func TestGuides(t *testing.T) {
	if race.Detector {
		t.Skip("the race detector has nothing to watch in compilers")
	}
	for _, guide := range []struct{ language, file, module string }{
		{"C", "c", "few-links.wasm"},
		{"Rust", "rust", "target/wasm32-unknown-unknown/release/few_links.wasm"},
		{"AssemblyScript", "assemblyscript", "few-links.wasm"},
	} {
		t.Run(guide.language, func(t *testing.T) {
			if os.Getenv("TALON_TEST_GUIDES") == "" {
				t.Skip("its commands take several seconds: make guides; TestVectors runs modules in this language")
			}
			t.Parallel()
			var env []string
			for _, l := range languages {
				if l.name != guide.language {
					continue
				}
				var why string
				if why, env = l.missing(); why != "" {
					t.Skip(why)
				}
			}
			text, err := os.ReadFile("../docs/how-to-write-a-policy-in-" + guide.file + ".md")
			if err != nil {
				t.Fatal(err)
			}
			dir := beside(t, "few-links")
			out := follow(t, dir, string(text), env)
			for _, want := range []string{
				"accepted", "blocked: a note may have 3 links, this one has 4", "and 2 vectors of the manifest",
			} {
				if !strings.Contains(out, want) {
					t.Errorf("no %q in\n%s", want, out)
				}
			}
			wasm, err := os.ReadFile(filepath.Join(dir, guide.module))
			if err != nil {
				t.Fatal(err)
			}
			m := load(t, wasm, guest.Options{Name: "few-links", CacheDir: machineCode, Instances: 1})
			// Its decisions may make strings: what they leave must not add up.
			request := admitRequest(&abi.Event[[]string]{PubKey: author(1), Kind: 1, Content: strings.Repeat("https://example.com ", 40)})
			for range 20_000 {
				if r, _, err := m.Rule(t.Context(), guest.Admit, request, nil, 1_700_000_000, "client"); err != nil || r.Rule != "links" {
					t.Fatalf("%+v, %v", r, err)
				}
			}
			if n := m.MemoryUsed(); n > 2<<20 {
				t.Errorf("the instance has %d bytes", n)
			}
		})
	}
}

// beside makes an empty folder next to one named talon, which is this repository after make build.
func beside(t *testing.T, name string) string {
	t.Helper()
	root, err := filepath.Abs("..")
	if err != nil {
		t.Fatal(err)
	}
	tree := t.TempDir()
	dir, bin := filepath.Join(tree, name), filepath.Join(tree, "talon", "bin")
	err = errors.Join(os.Mkdir(dir, 0o700), os.MkdirAll(bin, 0o700), os.Symlink(filepath.Join(root, "sdk"), filepath.Join(tree, "talon", "sdk")),
		os.Symlink(plugintest.Bundled(t, "plugins/open", "plugins/lists"), filepath.Join(bin, "talon")))
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// follow does what a guide says, and returns what that wrote.
func follow(t *testing.T, dir, guide string, env []string) string {
	t.Helper()
	// A test has no network: what npm install does is done by hand.
	guide = strings.ReplaceAll(guide, "npm install\n", "\n")
	if strings.Contains(guide, "package.json") {
		if err := installed(dir, "../../talon/sdk/assemblyscript"); err != nil {
			t.Fatal(err)
		}
	}
	address := testkit.FreeAddress(t)

	// Compiled modules are shared with the other tests of this run.
	home, data := t.TempDir(), t.TempDir()
	if err := errors.Join(os.MkdirAll(machineCode, 0o700), os.Mkdir(filepath.Join(home, "talon"), 0o700), os.Symlink(machineCode, filepath.Join(home, "talon", "modules")),
		os.Symlink(machineCode, filepath.Join(data, "wasm-cache"))); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "sh", "-e", "-c", strings.ReplaceAll(plugintest.Script(guide), "127.0.0.1:7334", address))
	cmd.Dir = dir
	cmd.Env = append(append(os.Environ(), "CARGO_TARGET_DIR=target", "XDG_CACHE_HOME="+home, "TALON_DATA="+data, "TALON_LISTEN="+address,
		"TALON_LOG_LEVEL=warn"), env...)
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) } // the relay ends, too
	cmd.WaitDelay = 10 * time.Second
	var out, said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &said
	if err := cmd.Run(); err != nil {
		t.Fatalf("%v\n%s\n%s", err, &out, &said)
	}
	return out.String()
}
