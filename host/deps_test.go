package host

import (
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// modulePath is the path of the module that this package belongs to.
var modulePath = path.Dir(reflect.TypeFor[Item]().PkgPath())

// allowed names the packages of Talon that each package may import. The vocabulary is in the
// middle. Adapters around it do not know each other, and only the daemon knows them all. A package
// that is not here fails the test, so that its author thinks about its place first.
var allowed = map[string]string{
	"host":                      "sdk/caseless sdk/grasp",
	"sdk/caseless":              "",
	"internal/casegen":          "",
	"host/bound":                "host internal/heap",
	"host/wire":                 "host",
	"host/schnorr":              "host",
	"internal/race":             "",
	"internal/testkit":          "host internal/race",
	"internal/heap":             "",
	"internal/recent":           "",
	"internal/smallfile":        "",
	"internal/durable":          "",
	"internal/simclock":         "internal/heap",
	"internal/tomlschema":       "internal/tomltable",
	"internal/tomltable":        "",
	"internal/abigen":           "internal/abigen/schema",
	"internal/bundler":          "host/bundle host/plugin/guest internal/durable",
	"internal/modproxy":         "",
	"internal/mtimes":           "",
	"internal/launcher":         "",
	"internal/abigen/schema":    "",
	"host/bundle":               "",
	"host/contain":              "",
	"host/backup":               "internal/durable internal/smallfile",
	"host/diskspace":            "",
	"internal/wave":             "",
	"host/audience":             "host host/wire sdk/grasp",
	"host/management":           "host host/bound host/moderation host/moderation/reports host/wire internal/recent",
	"host/counter":              "host host/bound",
	"host/moderation":           "host host/wire internal/durable sdk/grasp sdk/nip19",
	"host/moderation/enforce":   "host host/moderation host/store/semantics host/wire sdk/grasp",
	"host/moderation/reports":   "host host/moderation host/wire",
	"host/ingest":               "host host/bound host/contain host/maintainers host/moderation host/purgatory host/wire internal/heap internal/recent internal/wave sdk/grasp",
	"host/ingest/retry":         "host host/bound",
	"host/negentropy":           "host",
	"host/store":                "host host/contain host/moderation host/purgatory host/store/metrics host/store/semantics host/store/textcache host/wire internal/heap",
	"host/store/postgres":       "host host/contain host/moderation host/purgatory host/store/metrics host/store/semantics host/store/textcache host/wire",
	"host/store/metrics":        "host host/store/semantics",
	"host/store/semantics":      "host host/memfacts host/wire",
	"host/store/textcache":      "",
	"host/store/storetest":      "host host/bound host/moderation host/purgatory host/store/semantics host/wire internal/testkit",
	"host/inflate":              "",
	"host/relay":                "host host/bound host/contain host/inflate host/negentropy host/wire",
	"host/plugin":               "host host/bundle host/contain host/plugin/folder host/plugin/guest host/plugin/sets host/plugin/sidecar host/plugin/state host/schnorr host/wire internal/smallfile internal/wave sdk/abi sdk/abi/manifest sdk/grasp sdk/nip19",
	"host/plugin/guest":         "host host/memfacts host/plugin/meter host/plugin/sidecar host/plugin/state host/wire internal/race internal/recent sdk/abi sdk/abi/manifest",
	"host/plugin/sidecar":       "internal/tomltable sdk/nip19",
	"host/plugin/folder":        "host/plugin/sidecar internal/durable internal/smallfile",
	"host/plugin/sets":          "host host/plugin/sidecar host/wire internal/smallfile sdk/nip19",
	"host/plugin/state":         "host internal/heap",
	"host/plugin/meter":         "",
	"host/plugin/wasmtest":      "",
	"host/plugin/plugintest":    "host/bundle internal/race internal/testkit",
	"host/purgatory":            "host host/bound host/store/semantics host/wire sdk/grasp",
	"host/maintainers":          "host host/wire sdk/grasp",
	"host/memfacts":             "host",
	"host/wake":                 "host host/contain host/wire",
	"host/orphans":              "host host/contain host/maintainers host/wire sdk/grasp",
	"host/users":                "host host/bound host/maintainers sdk/grasp",
	"host/gitrepo":              "host host/bound internal/durable internal/recent internal/smallfile sdk/nip19",
	"host/githttp":              "host host/bound host/contain host/gitrepo",
	"host/repos":                "host host/bound host/contain host/gitfetch host/githttp host/gitrepo host/maintainers host/moderation host/purgatory host/wire sdk/grasp sdk/nip19",
	"cmd/internal/gitremote":    "",
	"cmd/internal/remotesigner": "host host/relayclient host/schnorr host/wire internal/durable internal/smallfile",
	"cmd/internal/attack":       "host host/relayclient host/schnorr host/wire sdk/grasp",
	"cmd/attack":                "cmd/internal/attack",
	"cmd/internal/gitcheck":     "host host/gitrepo host/maintainers host/wire sdk/grasp sdk/nip19",
	"cmd/internal/lab/result":   "",
	"cmd/internal/lab/scenario": "host host/relaymodel host/relaysync internal/tomlschema sdk/grasp",
	"cmd/internal/lab/world":    "cmd/internal/lab/scenario host host/relaymodel sdk/grasp",
	"cmd/internal/lab/engine":   "cmd/internal/lab/result cmd/internal/lab/scenario cmd/internal/lab/world host host/gitfetch host/gitfetch/queue host/negentropy host/plugin/guest host/relayclient host/relaymodel host/relaysync host/relaysync/health host/relaysync/holdings host/relaysync/known host/relaysync/loop host/relaysync/match host/relaysync/session host/throttle host/wire internal/simclock sdk/abi sdk/grasp",
	"cmd/internal/lab/module":   "cmd/internal/author cmd/internal/lab/engine cmd/internal/lab/result host/plugin/guest sdk/abi/manifest sdk/strategy",
	"cmd/internal/lab/runner":   "cmd/internal/lab/engine cmd/internal/lab/result cmd/internal/lab/scenario cmd/internal/lab/world host/plugin/guest sdk/strategy/story",
	"cmd/internal/shell":        "",
	"cmd/internal/lab/hunt":     "cmd/internal/lab/result cmd/internal/lab/scenario cmd/internal/shell internal/durable",
	"cmd/internal/lab/report":   "cmd/internal/lab/result cmd/internal/lab/stats",
	"cmd/internal/lab/stats":    "cmd/internal/lab/result",
	"host/web":                  "host host/bound host/gitread host/gitrepo host/maintainers host/moderation host/web/code host/web/markdown host/web/text host/wire internal/recent sdk/grasp sdk/nip19",
	"host/web/code":             "host/bound host/gitread host/gitrepo host/web/markdown host/web/text internal/recent",
	"host/web/text":             "",
	"host/gitread":              "host/bound host/contain host/gitrepo internal/heap internal/recent",
	"host/web/markdown":         "host/web/text",
	"host/netguard":             "",
	"host/throttle":             "sdk/abi",
	"host/gitfetch":             "host host/bound host/contain host/gitfetch/queue host/gitrepo host/netguard host/throttle sdk/abi sdk/grasp",
	"host/gitfetch/queue":       "internal/heap sdk/abi",
	"cmd/internal/author":       "examples host host/bundle host/memfacts host/plugin host/plugin/guest host/plugin/sets host/plugin/sidecar host/plugin/state host/wire internal/smallfile sdk sdk/abi/manifest sdk/strategy/story",
	"sdk":                       "",
	"examples":                  "",
	"cmd/internal/devnet":       "cmd/internal/lab/scenario cmd/internal/lab/world host host/githttp host/gitrepo host/negentropy host/relayclient host/relaymodel host/relaymodel/server host/wire sdk/grasp sdk/nip19",
	"host/relaymodel":           "host host/negentropy host/wire internal/heap internal/simclock internal/tomlschema internal/tomltable",
	"host/relaymodel/server":    "host host/inflate host/relaymodel",
	"host/relaysync":            "host host/bound host/contain host/negentropy host/netguard host/relayclient host/relaysync/holdings host/relaysync/known host/relaysync/loop host/relaysync/match host/relaysync/retry host/relaysync/session host/schnorr host/throttle host/wire internal/durable sdk/abi sdk/grasp",
	"host/relaysync/loop":       "host host/netguard host/relayclient host/relaysync/known host/relaysync/retry host/relaysync/session host/wire internal/heap sdk/abi sdk/grasp",
	"host/relaysync/session":    "host host/negentropy host/relaysync/holdings host/relaysync/known host/relaysync/match host/wire sdk/abi sdk/grasp",
	"host/relaysync/known":      "host host/relaysync/match internal/recent",
	"host/relaysync/holdings":   "host",
	"host/relaysync/match":      "host sdk/grasp",
	"host/relaysync/health":     "host/relaysync/loop host/throttle sdk/abi",
	"host/relaysync/retry":      "host internal/heap sdk/grasp",
	"host/relayclient":          "host host/inflate host/negentropy host/wire",
	"host/admin":                "host host/backup host/config host/contain host/gitfetch host/moderation host/moderation/enforce host/moderation/reports host/plugin host/plugin/sidecar host/relaysync",
	"host/cluster":              "",
	"host/config":               "internal/tomltable sdk/grasp sdk/nip19",
	"host/daemon":               "*",
	"host/daemon/monitoring":    "",
	"sdk/abi":                   "",
	"sdk/abi/manifest":          "sdk/abi",
	"sdk/nip19":                 "",
	"sdk/grasp":                 "sdk/nip19",
	"sdk/internal/guest":        "sdk/abi",
	"sdk/module":                "sdk/abi",
	"sdk/policy":                "sdk/abi sdk/internal/guest sdk/module sdk/nip19",
	"sdk/policy/kinds":          "sdk/policy",
	"sdk/policy/policytest":     "sdk/abi sdk/abi/manifest sdk/policy",
	"sdk/strategy":              "sdk/abi sdk/internal/guest sdk/module",
	"sdk/strategy/story":        "sdk/abi sdk/strategy",
	"sdk/strategy/strategytest": "sdk/abi sdk/abi/manifest sdk/strategy sdk/strategy/story",
	"sdk/throttle":              "sdk/abi sdk/internal/guest sdk/module",
	"sdk/throttle/throttletest": "sdk/abi sdk/abi/manifest sdk/throttle",
	"examples/allow-rate":       "sdk/policy",
	"examples/members-only":     "sdk/abi sdk/policy",
	"examples/thread-parents":   "sdk/policy",
	"examples/hello-strategy":   "sdk/abi sdk/strategy",
	"examples/hello-throttle":   "sdk/throttle",
	"examples/three-relays":     "sdk/strategy sdk/strategy/layers",
	"examples/no-negentropy":    "sdk/strategy sdk/strategy/layers",
	"examples/slow-domain":      "sdk/throttle",
	"plugins/adaptive":          "sdk/throttle",
	"plugins/eager":             "sdk/throttle",
	"plugins/polite":            "sdk/throttle",
	"sdk/strategy/layers":       "sdk/abi sdk/strategy",
	"plugins/layered-v1":        "sdk/strategy sdk/strategy/layers",
	"plugins/layered-v2":        "sdk/strategy sdk/strategy/layers",
	"plugins/layered-v4":        "sdk/strategy sdk/strategy/layers",
	"plugins/layered-v5":        "sdk/strategy sdk/strategy/layers",
	"plugins/mirror":            "sdk/strategy sdk/strategy/layers",
	"plugins/lists":             "sdk/caseless sdk/nip19 sdk/policy sdk/policy/kinds",
	"plugins/first-contact":     "sdk/grasp sdk/policy sdk/policy/kinds",
	"plugins/grasp":             "sdk/abi sdk/grasp sdk/policy",
	"plugins/limits":            "sdk/policy",
	"plugins/open":              "sdk/policy",
	"plugins/pow":               "sdk/policy sdk/policy/kinds",
	"plugins/rate":              "sdk/policy sdk/policy/kinds",
	"plugins/readers":           "sdk/abi sdk/policy sdk/policy/kinds",
	"plugins/spam":              "sdk/policy sdk/policy/kinds",
	"plugins/trust":             "sdk/policy sdk/policy/kinds",
	"examples/hello-policy":     "sdk/policy",
	"cmd/labtest":               "cmd/internal/lab/engine cmd/internal/lab/module cmd/internal/lab/result cmd/internal/lab/scenario cmd/internal/lab/world sdk/abi/manifest sdk/strategy",
	"cmd/talon":                 "*",

	"host/relaysync/relaysynctest": "host host/relaymodel host/relaymodel/server host/throttle internal/testkit sdk/grasp",
}

// keepers says which packages may use a library, where its use would decide the
// shape of whatever touches it.
var keepers = map[string]string{
	"github.com/tetratelabs/wazero":       "host/plugin/guest",
	"github.com/mattn/go-sqlite3":         "host/store",
	"github.com/jackc/pgx":                "host/cluster host/store/postgres",
	"github.com/gobwas/ws":                "host/relay host/relayclient host/relaymodel/server",
	"github.com/BurntSushi/toml":          "internal/tomltable",
	"github.com/spf13/cobra":              "cmd/talon",
	"github.com/nbd-wtf/go-nostr":         "host/schnorr cmd/internal/devnet cmd/internal/remotesigner",
	"github.com/fiatjaf/khatru":           "cmd/internal/devnet",
	"github.com/fiatjaf/eventstore":       "cmd/internal/devnet",
	"github.com/prometheus/client_golang": "host/backup host/contain host/diskspace host/ingest host/ingest/retry host/store host/store/metrics host/store/postgres host/relay host/plugin host/plugin/guest host/githttp host/repos host/gitfetch host/relaysync host/wake host/daemon",
	"github.com/btcsuite/btcd":            "internal/testkit",
	"github.com/yuin/goldmark":            "host/web/markdown",
	"github.com/microcosm-cc/bluemonday":  "host/web/markdown",
	"gonum.org/v1/gonum":                  "cmd/internal/lab/stats",
	"google.golang.org/protobuf":          "",
	"github.com/fsnotify/fsnotify":        "host/plugin/folder",
	"github.com/klauspost/compress":       "host/bundle host/gitrepo host/inflate host/plugin/guest host/relay host/relaymodel/server",
	"database/sql":                        "",
	"database/sql/driver":                 "host/store",
	"golang.org/x/sync":                   "host/daemon host/plugin host/repos cmd/internal/devnet",
	"C":                                   "",
	"github.com/spf13/pflag":              "host/config cmd/talon",
	"unsafe":                              "host/wire host/schnorr host/negentropy sdk/abi sdk/internal/guest sdk/policy",
	"os/exec":                             "internal/testkit internal/modproxy cmd/internal/attack cmd/internal/author cmd/internal/devnet host/plugin/guest host/plugin host/plugin/plugintest host/gitrepo cmd/talon",
}

func TestImports(t *testing.T) {
	seen := map[string]bool{}
	for _, top := range []string{"host", "sdk", "plugins", "examples", "cmd", "internal"} {
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
	if inside, ok := strings.CutPrefix(imported, modulePath+"/"); ok {
		if strings.HasPrefix(inside, "internal/testkit") && !strings.HasPrefix(pkg, "internal/testkit") && !strings.HasSuffix(pkg, "test") {
			t.Errorf("%s: only tests, and packages for tests, import %s", file, inside)
		}
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
	if pkg == "host" {
		if first, _, _ := strings.Cut(imported, "/"); strings.Contains(first, ".") {
			t.Errorf("%s: the vocabulary imports only the standard library and the rules of the SDK, not %s", file, imported)
		}
	}
}

// linksC names the packages that link C, other than the standard library's, and the reason. All
// others and their tests build without a C compiler, in a fraction of the time, and without the 115
// packages that go-nostr brings.
var linksC = map[string]string{
	"host/schnorr":              "libsecp256k1 verifies three times as fast as Go",
	"host/plugin":               "verifies signatures of modules",
	"cmd/internal/author":       "host/plugin",
	"host/admin":                "host/plugin",
	"host/relaysync":            "proves itself to relays with a key",
	"host/store":                "SQLite",
	"cmd/internal/lab/module":   "host/plugin",
	"cmd/internal/lab/scenario": "host/relaysync",
	"cmd/internal/lab/hunt":     "cmd/internal/lab/scenario",
	"cmd/internal/lab/world":    "signs events",
	"cmd/internal/lab/engine":   "cmd/internal/lab/module",
	"cmd/internal/lab/runner":   "cmd/internal/lab/engine",
	"cmd/labtest":               "cmd/internal/lab/module",
	"cmd/internal/devnet":       "khatru",
	"cmd/internal/attack":       "signs events",
	"cmd/internal/remotesigner": "go-nostr's client of NIP-46",
	"cmd/attack":                "cmd/internal/attack",
	"host/daemon":               "everything",
	"cmd/talon":                 "everything",
}

// testsLinkC says of which further packages the tests do.
var testsLinkC = map[string]string{
	"host/audience":           "a sweep is tried with SQLite",
	"host/moderation/enforce": "host/store",
	"host/moderation/reports": "host/store",
	"host/ingest":             "host/store",
	"host/repos":              "host/store and host/schnorr",
	"host/orphans":            "host/store",
	"cmd/internal/gitcheck":   "host/store",
	"host/gitfetch":           "host/store",
	"host/plugin/state":       "host/store",
	"host/web":                "host/store",
}

func TestPackagesWithoutC(t *testing.T) {
	// The go command, which keeps outcomes of tests, sees what this process opens, and not what go list does.
	for _, top := range []string{"../go.mod", "../go.sum", "../cmd", "../examples", "../host", "../internal", "../plugins", "../sdk"} {
		if err := filepath.WalkDir(top, func(_ string, _ fs.DirEntry, err error) error { return err }); err != nil {
			t.Fatal(err)
		}
	}
	list := exec.Command("go", "list", "-test", "-deps", "-f", `{{if not .Standard}}{{.ImportPath}} {{len .CgoFiles}} {{join .Deps " "}}{{end}}`, modulePath+"/...")
	list.Dir, list.Env = "..", append(os.Environ(), "CGO_ENABLED=1")
	out, err := list.Output()
	if err != nil {
		t.Fatalf("%v: %v", list, err)
	}
	const nostr = "github.com/nbd-wtf/go-nostr"
	c := map[string]bool{nostr: true} // it is C with the tag of the release only
	deps := map[string][]string{}
	for line := range strings.Lines(string(out)) {
		fields := strings.Fields(line)
		if strings.HasPrefix(fields[1], "[") {
			continue // a package as it is compiled for a test: the test has its dependencies
		}
		if fields[1] != "0" {
			c[fields[0]] = true
		}
		deps[fields[0]] = fields[2:]
	}
	linked := map[string]bool{}
	for path, list := range deps {
		pkg, ok := strings.CutPrefix(path, modulePath+"/")
		if !ok {
			continue
		}
		pkg, test := strings.CutSuffix(pkg, ".test")
		for _, dep := range list {
			if !c[dep] {
				continue
			}
			linked[path] = true
			if linksC[pkg] == "" && !(test && testsLinkC[pkg] != "") {
				t.Errorf("%s links %s, and is not in the map of host/deps_test.go", path, dep)
			}
		}
	}
	for pkg := range linksC {
		if !linked[modulePath+"/"+pkg] {
			t.Errorf("%s links no C any more: take it out of the map", pkg)
		}
	}
	for pkg := range testsLinkC {
		if !linked[modulePath+"/"+pkg+".test"] {
			t.Errorf("the tests of %s link no C any more: take it out of the map", pkg)
		}
	}
}

// Pure packages take values and return values.
func TestPurePackages(t *testing.T) {
	pure := []string{
		"wire", "negentropy", "schnorr", "plugin/meter", "plugin/sidecar", "purgatory", "relaymodel", "../sdk/grasp",
		"relaysync/loop", "relaysync/session", "relaysync/match", "relaysync/retry", "relaysync/holdings",
	}
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
