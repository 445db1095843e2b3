package main

import (
	"bufio"
	"database/sql"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	_ "github.com/mattn/go-sqlite3"
	"github.com/nbd-wtf/go-nostr"
	"github.com/rogpeppe/go-internal/testscript"

	"talon/host/plugin/plugintest"
	"talon/internal/race"
	"talon/internal/testkit"
)

// TestScripts runs testdata/script: one behaviour or attack a file. In addition to the
// standard commands and talon they have
//
//	sign TEMPLATE FILE    signs events: each line is a name and the fields of its event;
//	                      $1 stands for the id of the first line, and so on;
//	                      "raw" instead of a name copies the rest of the line
//	serve [ARG...]        starts talon serve and waits until it serves; sets $URL, and $HTTP
//	                      to the same address for browsers and git
//	halt                  sends it SIGTERM; it must exit with 0 (stop would end the script)
//	publish FILE          sends its events; stdout has the answers
//	sql FILE STATEMENT    changes a database behind Talon's back
//	info                  fetches the relay information document (NIP-11)
//	postgres              sets $STORE to a new database of PostgreSQL; see the condition of that name
//	occupy                listens on an address, and sets $OCCUPIED to it
//	free                  sets $FREE to an address that nobody listens on
//	data FOLDER...        makes data folders that have the machine code of the modules,
//	                      as "data", which is the default of --data, and "other"
//	plugins FOLDER [NAME...]  copies bundled modules, all of them if none is named,
//	                      to a folder, and sets $TALON_PLUGINS to it; open accepts every
//	                      event, unless the folder has an open.toml
//
// and the variables $TALON_PLUGINS, $ALICE, $ALICE_NPUB, $BOB and $STRATEGIES, a folder
// with layered-v5 and polite.
func TestScripts(t *testing.T) {
	checkScripts(t)
	plugins, goCache := modules(t), goCache(t)
	userCache := t.TempDir()
	if err := linkModules(userCache, compiled(t)); err != nil {
		t.Fatal(err)
	}
	strategies := plugintest.Build(t, "plugins/layered-v5", "plugins/polite")
	if err := addCode(compiled(t), plugintest.MachineCode(t, "plugins/layered-v5", "plugins/polite")); err != nil {
		t.Fatal(err)
	}
	keepPassed(t, compiled(t))
	testscript.Run(t, testscript.Params{
		Dir:                 filepath.Join("testdata", "script"),
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Deadline:            testkit.Deadline(t), // a command that should have failed may serve instead
		Setup: func(env *testscript.Env) error {
			env.Values[running{}] = new(running)
			env.Setenv("TALON_PLUGINS", plugins)
			env.Setenv("STRATEGIES", strategies)
			env.Setenv("TALON_LISTEN", "127.0.0.1:0")
			env.Setenv("ALICE", pubkey("alice"))
			env.Setenv("ALICE_NPUB", aliceNpub)
			env.Setenv("BOB", pubkey("bob"))
			env.Setenv("GOCACHE", goCache)
			env.Setenv("GOFLAGS", "-trimpath") // as modules are built: the standard library is compiled once
			env.Setenv("XDG_CACHE_HOME", userCache)
			return linkFolders(env.WorkDir, "data", "other")
		},
		Condition: func(cond string) (bool, error) {
			switch cond {
			case "postgres":
				_, err := database.New()
				return err == nil, nil
			case "root":
				return os.Geteuid() == 0, nil
			case "race":
				return race.Detector, nil
			}
			return false, fmt.Errorf("unknown condition %q", cond)
		},
		Cmds: map[string]func(ts *testscript.TestScript, neg bool, args []string){
			"sign": scriptSign, "serve": scriptServe, "halt": scriptHalt, "publish": scriptPublish,
			"sql": scriptSQL, "info": scriptInfo, "occupy": scriptOccupy, "free": scriptFree,
			"data": scriptData, "plugins": scriptPlugins, "postgres": scriptPostgres,
		},
	})
}

// checkScripts looks for a command that ends a script as passed: what follows would
// never be run.
func checkScripts(t *testing.T) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("testdata", "script", "*.txtar"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		script, _, _ := strings.Cut(string(text), "\n-- ")
		if slices.Contains(strings.Split(script, "\n"), "stop") {
			t.Errorf("%s: stop ends the script, halt the server", file)
		}
	}
}

// aliceNpub is pubkey("alice") as NIP-19 writes it.
const aliceNpub = "npub1xnyq0w834zswvmqld7y803ntdjqlqzw473xjtkuzu2gqndyd8ghqsadjyq"

func scriptArgs(ts *testscript.TestScript, neg bool, args []string, n int, usage string) {
	if neg || n >= 0 && len(args) != n {
		ts.Fatalf("usage: %s", usage)
	}
}

func linkFolders(in string, names ...string) error {
	for _, name := range names {
		if err := linkCompiled(filepath.Join(in, name), filepath.Join(shared.dir, machineCode)); err != nil {
			return err
		}
	}
	return nil
}

func scriptData(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) == 0 {
		ts.Fatalf("usage: data FOLDER...")
	}
	ts.Check(linkFolders(ts.Getenv("WORK"), args...))
}

func scriptPlugins(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) == 0 {
		ts.Fatalf("usage: plugins FOLDER [NAME...]")
	}
	names := args[1:]
	if len(names) == 0 {
		names = bundled
	}
	folder := ts.MkAbs(args[0])
	ts.Check(os.MkdirAll(folder, 0o755))
	for _, name := range names {
		wasm, err := os.ReadFile(filepath.Join(shared.dir, "plugins", name+".wasm"))
		ts.Check(err)
		ts.Check(os.WriteFile(filepath.Join(folder, name+".wasm"), wasm, 0o644))
	}
	sidecar := filepath.Join(folder, "open.toml")
	if _, err := os.Stat(sidecar); os.IsNotExist(err) && slices.Contains(names, "open") {
		ts.Check(os.WriteFile(sidecar, []byte(openRelay), 0o644))
	}
	ts.Setenv("TALON_PLUGINS", folder)
}

func scriptSign(ts *testscript.TestScript, neg bool, args []string) {
	scriptArgs(ts, neg, args, 2, "sign TEMPLATE FILE")
	var out strings.Builder
	var replace []string
	for i, line := range strings.Split(strings.TrimSuffix(ts.ReadFile(args[0]), "\n"), "\n") {
		name, rest, _ := strings.Cut(line, " ")
		if name == "raw" {
			fmt.Fprintln(&out, rest)
			replace = append(replace, fmt.Sprintf("$%d", i+1), "")
			continue
		}
		rest = strings.NewReplacer(append(replace, "$ALICE", pubkey("alice"), "$BOB", pubkey("bob"))...).Replace(rest)
		e := nostr.Event{Kind: 1, CreatedAt: 1700000000}
		ts.Check(json.Unmarshal([]byte(rest), &e))
		ts.Check(e.Sign(key(name)))
		fmt.Fprintln(&out, e.String())
		replace = append(replace, fmt.Sprintf("$%d", i+1), e.ID)
	}
	ts.Check(os.WriteFile(ts.MkAbs(args[1]), []byte(out.String()), 0o644))
}

func scriptServe(ts *testscript.TestScript, neg bool, args []string) {
	scriptArgs(ts, neg, args, -1, "serve [ARG...]")
	cmd := exec.Command("talon", append([]string{"serve", "--listen", "127.0.0.1:0", "--log-format", "json"}, args...)...)
	cmd.Dir = ts.MkAbs(".")
	cmd.Env = environ()
	for _, name := range []string{"TALON_PLUGINS", "TALON_CONFIG", "TALON_DESCRIPTION"} {
		if v := ts.Getenv(name); v != "" {
			cmd.Env = append(cmd.Env, name+"="+v)
		}
	}
	s, err := launch(cmd)
	ts.Check(err)
	ts.Defer(s.kill)
	ts.Setenv("URL", s.url)
	ts.Setenv("HTTP", "http"+strings.TrimPrefix(s.url, "ws"))
	ts.Value(running{}).(*running).server = s
}

// running is the server of a script, kept under its own type.
type running struct{ server *process }

func scriptHalt(ts *testscript.TestScript, neg bool, args []string) {
	scriptArgs(ts, neg, args, 0, "halt")
	s := ts.Value(running{}).(*running).server
	if s == nil {
		ts.Fatalf("no server was started")
	}
	if err := s.stop(); err != nil {
		ts.Fatalf("the server did not stop in order: %v\n%s", err, s.text())
	}
}

func scriptPublish(ts *testscript.TestScript, neg bool, args []string) {
	scriptArgs(ts, neg, args, 1, "publish FILE")
	c, err := open(ts.Getenv("URL"))
	ts.Check(err)
	defer c.close()
	lines := bufio.NewScanner(strings.NewReader(ts.ReadFile(args[0])))
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		ts.Check(c.write([]byte(`["EVENT",` + lines.Text() + `]`)))
		answer, err := c.next("OK", "NOTICE")
		ts.Check(err)
		fmt.Fprintln(ts.Stdout(), answer)
	}
}

func scriptSQL(ts *testscript.TestScript, neg bool, args []string) {
	scriptArgs(ts, neg, args, 2, "sql FILE STATEMENT")
	db, err := sql.Open("sqlite3", ts.MkAbs(args[0]))
	ts.Check(err)
	defer db.Close()
	_, err = db.Exec(args[1])
	ts.Check(err)
}

func scriptInfo(ts *testscript.TestScript, neg bool, args []string) {
	scriptArgs(ts, neg, args, 0, "info")
	resp, err := fetchInfo(ts.Getenv("URL"))
	ts.Check(err)
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	ts.Check(err)
	fmt.Fprintln(ts.Stdout(), string(text))
}

// fetchInfo asks for the relay information document (NIP-11).
func fetchInfo(url string) (*http.Response, error) {
	req, err := http.NewRequest(http.MethodGet, "http"+strings.TrimPrefix(url, "ws"), nil)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Accept", "application/json, application/nostr+json;q=0.9")
	return http.DefaultClient.Do(req)
}

func scriptOccupy(ts *testscript.TestScript, neg bool, args []string) {
	scriptArgs(ts, neg, args, 0, "occupy")
	l, err := net.Listen("tcp", "127.0.0.1:0")
	ts.Check(err)
	ts.Defer(func() { _ = l.Close() })
	ts.Setenv("OCCUPIED", l.Addr().String())
}

func scriptFree(ts *testscript.TestScript, neg bool, args []string) {
	scriptArgs(ts, neg, args, 0, "free")
	port, release, err := testkit.ReservePorts(1)
	ts.Check(err)
	ts.Defer(release)
	ts.Setenv("FREE", fmt.Sprint("127.0.0.1:", port))
}

func scriptPostgres(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) > 0 {
		ts.Fatalf("usage: postgres")
	}
	url, err := database.New()
	ts.Check(err)
	ts.Setenv("STORE", url)
}
