package host

import (
	"go/build"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// allowed says which packages of Talon each package may import. The vocabulary
// is in the middle, adapters stand around it and do not know each other, and
// only the daemon knows them all. A package that is not here fails the test: its
// place is to be thought about first.
var allowed = map[string]string{
	"host":                   "",
	"host/wire":              "host",
	"host/schnorr":           "host",
	"host/ingest":            "host",
	"host/negentropy":        "host",
	"host/store":             "host host/wire",
	"host/relay":             "host host/wire host/negentropy",
	"host/plugin":            "host host/wire host/plugin/meter sdk/abi sdk/abi/manifest",
	"host/plugin/meter":      "",
	"host/plugin/wasmtest":   "",
	"host/plugin/plugintest": "",
	"host/config":            "sdk/nip19",
	"host/metrics":           "",
	"host/daemon":            "*",
	"sdk/abi":                "",
	"sdk/abi/manifest":       "sdk/abi",
	"sdk/nip19":              "",
	"sdk/policy":             "sdk/abi sdk/nip19",
	"sdk/policy/policytest":  "sdk/abi sdk/abi/manifest sdk/policy",
	"plugins/lists":          "sdk/nip19 sdk/policy",
	"plugins/open":           "sdk/policy",
	"examples/hello-policy":  "sdk/policy",
	"cmd/talon":              "host host/config host/daemon host/store host/wire host/schnorr",
}

// keepers says which packages may use a library, where its use would decide the
// shape of whatever touches it.
var keepers = map[string]string{
	"github.com/tetratelabs/wazero":       "host/plugin",
	"github.com/mattn/go-sqlite3":         "host/store",
	"github.com/gobwas/ws":                "host/relay",
	"github.com/BurntSushi/toml":          "host/config",
	"github.com/spf13/cobra":              "cmd/talon",
	"github.com/nbd-wtf/go-nostr":         "host host/wire host/schnorr host/plugin",
	"github.com/fiatjaf/khatru":           "",
	"github.com/prometheus/client_golang": "host/ingest host/store host/relay host/plugin host/metrics host/daemon",
	"google.golang.org/protobuf":          "",
	"github.com/fsnotify/fsnotify":        "",
	"github.com/klauspost/compress":       "host/relay",
	"database/sql":                        "",
	"database/sql/driver":                 "host/store",
	"golang.org/x/sync":                   "host/ingest host/daemon host/plugin",
	"C":                                   "",
	"github.com/spf13/pflag":              "host/config",
	"unsafe":                              "host/wire host/negentropy sdk/abi sdk/policy",
	"os/exec":                             "host/plugin/plugintest",
}

func TestImports(t *testing.T) {
	seen := map[string]bool{}
	for _, top := range []string{"host", "sdk", "plugins", "examples", "cmd"} {
		err := filepath.WalkDir(filepath.Join("..", top), func(file string, d fs.DirEntry, err error) error {
			if os.IsNotExist(err) {
				return nil
			}
			if err != nil {
				return err
			}
			if d.IsDir() && (d.Name() == "testdata" || d.Name() == "node_modules") {
				return filepath.SkipDir
			}
			if d.IsDir() || !strings.HasSuffix(file, ".go") || strings.HasSuffix(file, "_test.go") {
				return nil
			}
			pkg := path.Dir(strings.TrimPrefix(filepath.ToSlash(file), "../"))
			seen[pkg] = true
			parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ImportsOnly)
			if err != nil {
				return err
			}
			for _, spec := range parsed.Imports {
				imported, err := strconv.Unquote(spec.Path.Value)
				if err != nil {
					return err
				}
				checkImport(t, file, pkg, imported)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	for pkg := range seen {
		if _, ok := allowed[pkg]; !ok {
			t.Errorf("package %s has no place in the map of %s", pkg, "host/deps_test.go")
		}
	}
}

func checkImport(t *testing.T, file, pkg, imported string) {
	t.Helper()
	if inside, ok := strings.CutPrefix(imported, "talon/"); ok {
		list := allowed[pkg]
		if list != "*" && !slices.Contains(strings.Fields(list), inside) {
			t.Errorf("%s: %s must not import %s", file, pkg, inside)
		}
		if strings.HasPrefix(pkg, "sdk") && strings.HasPrefix(inside, "host") {
			t.Errorf("%s: what plugin authors import must not import the host", file)
		}
		return
	}
	for library, list := range keepers {
		if imported != library && !strings.HasPrefix(imported, library+"/") {
			continue
		}
		// A longer entry speaks for itself.
		if _, ok := keepers[imported]; ok && imported != library {
			continue
		}
		if !slices.Contains(strings.Fields(list), pkg) {
			t.Errorf("%s: only %q may import %s", file, list, library)
		}
	}
	if pkg == "host" && !strings.HasPrefix(imported, "github.com/nbd-wtf/go-nostr") {
		if p, err := build.Default.Import(imported, "", build.FindOnly); err != nil || !p.Goroot {
			t.Errorf("%s: the vocabulary imports only the standard library and go-nostr's types, not %s", file, imported)
		}
	}
}

// Pure packages take values and return values.
func TestPurePackages(t *testing.T) {
	pure := []string{"wire", "negentropy", "schnorr", "plugin/meter"}
	impure := []string{"context", "log", "log/slog", "net", "net/http", "os", "time", "sync"}
	for _, pkg := range pure {
		files, err := filepath.Glob(filepath.Join(pkg, "*.go"))
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			if strings.HasSuffix(file, "_test.go") {
				continue
			}
			parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ImportsOnly)
			if err != nil {
				t.Fatal(err)
			}
			for _, spec := range parsed.Imports {
				if imported, _ := strconv.Unquote(spec.Path.Value); slices.Contains(impure, imported) {
					t.Errorf("%s: a pure package must not import %s", file, imported)
				}
			}
		}
	}
}
