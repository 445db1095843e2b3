package main

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

	"talon/host/plugin/plugintest"
	"talon/internal/race"
	"talon/internal/testkit"
)

// TestTutorials does literally what the pages for authors in Go say, in an empty
// folder. Only the ports are others.
func TestTutorials(t *testing.T) {
	if race.Detector {
		t.Skip("to compile a Go module takes half a minute under the race detector")
	}
	if os.Getenv("TALON_TEST_GUIDES") == "" {
		t.Skip("each page builds modules, which takes several seconds: make guides")
	}
	for page, wanted := range map[string][]string{
		"tutorial-first-policy": {
			"calm is there; next: cd calm && talon plugin test\n",
			"and 3 vectors of the manifest\n",
			"ok    vectors.jsonl:4: ",
			"reject shouting ",
			"decision  mean ",
			"calm: mode enforce, generation 1",
			"accepted",
			"blocked: please do not shout",
		},
		"how-to-swap-safely": {
			"words: mode shadow, generation 1",
			"words: mode enforce, generation 2",
			"reject deny-word ",
			"was refused",
			"words: mode shadow, generation 4",
		},
		"how-to-write-a-strategy": {
			"mine is there; next: cd mine && talon plugin test\n",
			"mine: mode enforce, generation 1",
			`"content":"It crashes"`,
		},
		"tutorial-compare-strategies": {
			"layered-v5 + polite compared with layered-v2 + polite: ",
			"thrifty is there; next: cd thrifty && talon plugin test\n",
			" % fewer bytes (", // with what it does after an outage, too
			" times as many bytes (",
			"thrifty + polite in outages wire, 20 seeds",
			"layered-v2 + polite in outages wire, 20 seeds\nthe modules are the same\nthe same: ",
		},
		"how-to-lab-scenarios": {
			"mine wire\n",
			"mine relays.rated.rate=250 wire\n",
		},
		"how-to-write-a-throttle": {
			"gentle is there; next: cd gentle && talon plugin test\n",
			"gentle: mode enforce, generation 1",
			"rate-limited: ",
		},
		"how-to-move-a-strfry-plugin": {
			"ok    vectors.jsonl:4: ",
			"both say the same\n",
			"hashtags: mode enforce, generation 1",
			"blocked: more than 5 hashtags",
		},
	} {
		t.Run(page, func(t *testing.T) {
			if _, err := exec.LookPath("node"); err != nil && page == "how-to-move-a-strfry-plugin" {
				t.Skip("node is missing, for the plugin to be moved: on Debian, apt install nodejs")
			}
			t.Parallel()
			out, said := literally(t, page)
			for _, want := range append(wanted, quotedFigures(t, page)...) {
				if !strings.Contains(out, want) {
					t.Errorf("no %q in\n%s\n%s", want, out, said)
				}
			}
		})
	}
}

// quotedFigures returns the sentences of the lab that a page quotes.
func quotedFigures(t *testing.T, page string) (list []string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", page+".md"))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if figure, ok := strings.CutPrefix(line, "    "); ok && strings.Contains(figure, " compared with ") {
			list = append(list, strings.TrimSpace(figure))
		}
	}
	return list
}

// literally does what a page says, and returns what its commands wrote. The data
// folders of the page's relays have nothing but the machine code of modules.
func literally(t *testing.T, page string) (out, said string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", page+".md"))
	if err != nil {
		t.Fatal(err)
	}
	address := testkit.FreeAddress(t)
	script := strings.NewReplacer("127.0.0.1:7334", address, "127.0.0.1:7335", testkit.FreeAddress(t)).Replace(plugintest.Script(string(text)))
	if !strings.Contains(script, "talon serve") && !strings.Contains(script, "talon lab run") {
		t.Fatalf("the page starts no relay and no lab:\n%s", script)
	}

	dir, home := t.TempDir(), t.TempDir()
	if err := os.MkdirAll(filepath.Join(home, "talon", "bin"), 0o755); err != nil {
		t.Fatal(err)
	}
	cache := filepath.Join(home, "cache")
	inside := filepath.Dir(plugintest.Bundled(t, "plugins/open", "plugins/lists"))
	if err := errors.Join(linkModules(cache, compiled(t)),
		linkCompiled(filepath.Join(dir, "data"), compiled(t)), linkCompiled(filepath.Join(dir, "other"), compiled(t))); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(script, "talon lab run") {
		// The program of this test has few modules inside: files of the folder come first.
		for _, name := range []string{"layered-v2", "layered-v5", "polite", "adaptive", "eager"} {
			if !strings.Contains(script, name) {
				continue
			}
			if err := os.Symlink(filepath.Join(plugintest.Build(t, "plugins/"+name), name+".wasm"), filepath.Join(dir, name)); err != nil {
				t.Fatal(err)
			}
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, "sh", "-e", "-c", script)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "HOME="+home, "PATH="+inside+":"+os.Getenv("PATH"), "XDG_CACHE_HOME="+cache, "GOCACHE="+goCache(t),
		"GOPROXY=off", "GOFLAGS=", "TALON_LISTEN="+address, "TALON_LOG_LEVEL=warn")
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) } // the relays end, too
	cmd.WaitDelay = patience
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		t.Fatalf("%v\n%s\n%s", err, &stdout, &stderr)
	}
	return stdout.String(), stderr.String()
}

// linkModules makes a user's cache folder that has the machine code.
func linkModules(cache, machineCode string) error {
	if err := os.MkdirAll(filepath.Join(cache, "talon"), 0o755); err != nil {
		return err
	}
	return os.Symlink(machineCode, filepath.Join(cache, "talon", "modules"))
}

// goCache is where the go tool keeps what it has compiled, also for a test whose home
// is elsewhere.
func goCache(t testing.TB) string {
	t.Helper()
	dir, err := exec.Command("go", "env", "GOCACHE").Output()
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(dir))
}
