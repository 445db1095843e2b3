package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"talon/cmd/internal/devnet"
	"talon/host"
	"talon/host/plugin/plugintest"
	"talon/internal/race"
	"talon/internal/testkit"
)

// devnetModules returns a folder with the policies and other modules, each with its
// settings.
func devnetModules(t testing.TB, settings map[string]string) string {
	t.Helper()
	return modulesAnd(t, bundled, settings)
}

// judges are the policies that have an opinion about what a network says. Each module
// takes its time at the start of a server.
var judges = []string{"grasp", "open"}

func modulesAnd(t testing.TB, policies []string, settings map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	var folders []string
	for _, name := range slices.Concat(policies, slices.Sorted(maps.Keys(settings))) {
		if data, err := os.ReadFile(filepath.Join(modules(t), name+".wasm")); err == nil {
			drop(t, dir, name+".wasm", data)
			continue
		}
		folders = append(folders, "plugins/"+name)
	}
	if err := os.CopyFS(dir, os.DirFS(plugintest.Build(t, folders...))); err != nil {
		t.Fatal(err)
	}
	for name, config := range settings {
		if err := os.WriteFile(filepath.Join(dir, name+".toml"), []byte("[config]\n"+config), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// devnetCode returns the machine code of modules, with that of the policies. Compiling
// takes its time, which no server is given. Tests that run at the same time add to the
// code of the policies, and must not have begun.
func devnetCode(t testing.TB, names ...string) string {
	t.Helper()
	code := &devnetCompiled
	code.Lock()
	defer code.Unlock()
	if code.dir == "" {
		code.dir = filepath.Join(sharedDir(t), "devnet-cache")
		code.has = map[string]bool{}
		if err := os.CopyFS(code.dir, os.DirFS(compiled(t))); err != nil {
			t.Fatal(err)
		}
	}
	names = slices.DeleteFunc(names, func(name string) bool { return code.has[name] })
	if len(names) == 0 {
		return code.dir
	}
	settings := map[string]string{}
	for _, name := range names {
		settings[name], code.has[name] = "", true
	}
	dir, data := modulesAnd(t, judges, settings), filepath.Join(t.TempDir(), "data")
	made := make([]string, len(names))
	for i, name := range names {
		made[i] = "plugins/" + name
	}
	// Machine code that is there already has passed its tests.
	err := addCode(code.dir, plugintest.MachineCode(t, made...))
	if err == nil {
		err = linkCompiled(data, code.dir)
	}
	if err != nil {
		t.Fatal(err)
	}
	load := exec.Command(compiler(t), "import", "--data", data, "--plugins", dir, "--log-level", "error")
	load.Dir, load.Env = filepath.Dir(data), environ()
	if text, err := load.CombinedOutput(); err != nil {
		t.Fatalf("compile the modules: %v\n%s", err, text)
	}
	keepPassed(t, code.dir)
	return code.dir
}

// addCode copies the machine code of modules that a folder does not have.
func addCode(to, from string) error {
	modules, err := os.ReadDir(from)
	for _, m := range modules {
		dir := filepath.Join(to, m.Name())
		if _, missing := os.Stat(dir); missing != nil && err == nil {
			err = os.CopyFS(dir, os.DirFS(filepath.Join(from, m.Name())))
		}
	}
	return err
}

var devnetCompiled struct {
	sync.Mutex
	dir string
	has map[string]bool
}

// newMiddleData returns a new data folder with the machine code of what devnetCode has
// compiled.
func newMiddleData(t testing.TB) string {
	t.Helper()
	data := filepath.Join(t.TempDir(), "data")
	if err := linkCompiled(data, devnetCode(t)); err != nil {
		t.Fatal(err)
	}
	keepPassed(t, filepath.Join(data, machineCode))
	return data
}

// largeNets asks for the networks of make devnet, in place of those that are as small as
// they can be.
func largeNets() bool { return os.Getenv("TALON_TEST_DEVNET") != "" }

// notUnderRace skips tests that the race detector makes too slow on a busy machine: a
// server takes 13 seconds of a processor to start, ten times what it takes without. The
// packages of the server have their own tests under the race detector.
func notUnderRace(t *testing.T) {
	t.Helper()
	if race.Detector && !largeNets() {
		t.Skip("too slow under the race detector: TALON_TEST_DEVNET=1 runs it")
	}
}

// hasty makes the throttle polite wait for nothing that a test would have to wait for.
const hasty = "first_sync_ms = 100\nbackoff_s = 1\nbackoff_max_s = 1\nper_minute = 0\nrelay_backoff_s = 1\nrelay_backoff_max_s = 1\nrelay_stable_s = 0\n"

// startNet runs a network, for a Talon of the domain serviceDomain, until the end of
// the test.
func startNet(t testing.TB, change func(*devnet.Config)) *devnet.Net {
	t.Helper()
	cfg := devnet.DefaultConfig
	cfg.Talon, cfg.Dir, cfg.Log = serviceDomain, t.TempDir(), slog.New(slog.DiscardHandler)
	change(&cfg)
	n, err := devnet.Open(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	ran := make(chan error, 1)
	go func() { ran <- n.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-ran; err != nil {
			t.Errorf("the network: %v", err)
		}
	})
	return n
}

// startMiddle runs a Talon that begins with the first relay of a network. On a machine
// that has other things to do a decision may run out of its time, which is an error in
// the log and no loss: the event is asked for again.
func startMiddle(t *testing.T, n *devnet.Net, plugins string) *process {
	t.Helper()
	return startMiddleOn(t, n, newMiddleData(t), plugins)
}

func startMiddleOn(t *testing.T, n *devnet.Net, data, plugins string) *process {
	t.Helper()
	s := startAs(t, exec.Command("talon", middleArgs(t, n, data, plugins)...), data)
	t.Cleanup(func() {
		if t.Failed() {
			s.kill()
			t.Logf("log of the server:\n%s", s.text())
			return
		}
		s.mustStop(t)
		mustCheck(t, data)
	})
	return s
}

func middleArgs(t *testing.T, n *devnet.Net, data, plugins string) []string {
	return serveArgs(t, data, "--plugins", plugins, "--domain", serviceDomain, "--allow-private", "true", "--bootstrap", n.Relays[0].URL)
}

// inLine waits until Talon has exactly the events that it should have.
func inLine(t *testing.T, n *devnet.Net, s *process) {
	t.Helper()
	for began := time.Now(); ; testkit.Pause(time.Since(began)) {
		c, err := n.Compare(t.Context(), s.url)
		if err != nil {
			t.Fatal(err)
		}
		if len(c.Lacks)+len(c.Beside) == 0 {
			t.Logf("in line with %d events and %d repositories after %v", c.Expected, c.Repos, time.Since(began).Round(10*time.Millisecond))
			return
		}
		if time.Since(began) > patience {
			t.Fatalf("after %v of %d events %s\n%s", patience, c.Expected, difference(n, c), missed(n, c.Lacks))
		}
	}
}

// missed describes some events that Talon lacks, to see what they have in common.
func missed(n *devnet.Net, ids []host.ID) string {
	var b strings.Builder
	for _, id := range ids[:min(len(ids), 12)] {
		e, relays := n.Event(id)
		fmt.Fprintf(&b, "%s, kind %d at", e.ID, e.Kind)
		for _, k := range relays {
			fmt.Fprintf(&b, " %d (compares: %v, watched: %v)", k, n.Relays[k].Negentropy, n.Relays[k].Watched(e))
		}
		for _, tag := range e.Tags {
			if len(tag[0]) == 1 && len(tag) > 1 && strings.Contains("aeE", tag[0]) {
				fmt.Fprintf(&b, " %s=%s", tag[0], tag[1])
			}
		}
		b.WriteByte('\n')
	}
	return b.String()
}

// TestDevnetStrategies runs make devnet under a strategy, in large nets under all. Talon gets all
// that belongs to its repositories and nothing else: events from before its start, events while it
// listens, and events during outages. Each relay has a part. Relays are cut off one after the other,
// one of them before Talon begins, and now and then a connection breaks. The tests of
// cmd/internal/lab/engine show the same for each strategy in a world of the lab.
func TestDevnetStrategies(t *testing.T) {
	notUnderRace(t)
	strategies := map[string]string{"layered-v5": "batch_seconds = 1\n"} // the other tests of devnet have mirror
	if largeNets() {
		strategies["mirror"] = "batch_seconds = 1\n"
		strategies["layered-v1"] = "jitter_seconds = 0\nstartup_delay_seconds = 0\nreconnect_delay_seconds = 0\nbatch_delay_seconds = 0\ncheck_seconds = 1\n"
		strategies["layered-v2"] = "batch_seconds = 1\nconsolidate_wait_seconds = 1\n"
		strategies["layered-v4"] = strategies["layered-v2"]
	}
	devnetCode(t, append(slices.Sorted(maps.Keys(strategies)), "polite")...)
	t.Parallel()
	n := startNet(t, func(c *devnet.Config) {
		c.MaxLimit = 12 // so that there are pages
		c.Latency = 5 * time.Millisecond
		c.Drop = 0.005
		c.OutageEvery, c.OutageFor = time.Second, 250*time.Millisecond
		if !largeNets() {
			c.Relays, c.RelaysPer, c.GitServers, c.ClonesPer = 4, 2, 1, 1
			c.Repos, c.Roots = 5, 3
		}
	})
	late := n.Relays[1]
	late.Cut(true)
	talons := map[string]*process{}
	for name, config := range strategies {
		talons[name] = startMiddle(t, n, modulesAnd(t, judges, map[string]string{name: config, "polite": hasty}))
	}
	late.Cut(false)
	all := func(when string) {
		for name, s := range talons {
			if !t.Run(name+" "+when, func(t *testing.T) { inLine(t, n, s) }) {
				t.FailNow()
			}
		}
	}
	all("at first")
	say := func() {
		for range 10 {
			if err := n.Print(); err != nil {
				t.Fatal(err)
			}
		}
	}
	say()
	for _, r := range n.Relays[2:] {
		r.Cut(true)
		say()
		r.Cut(false)
	}
	all("after outages")
	for name, s := range talons {
		if tried := s.metric(t, "talon_sync_connection_attempts_total"); int(tried) <= len(n.Relays) {
			t.Errorf("%s has tried to connect %v times to %d relays: there was no outage", name, tried, len(n.Relays))
		}
	}
}

// TestDevnetCrash: a first sync that is killed again and again is completed by the next,
// which leaves everything in order.
func TestDevnetCrash(t *testing.T) {
	notUnderRace(t)
	devnetCode(t, "mirror", "polite")
	t.Parallel()
	n := startNet(t, func(c *devnet.Config) {
		c.Relays, c.RelaysPer, c.GitServers, c.ClonesPer = 3, 2, 1, 1
		c.Repos, c.Roots = 4, 10
		c.MaxLimit, c.Latency = 12, 5*time.Millisecond
	})
	plugins := modulesAnd(t, judges, map[string]string{"mirror": "batch_seconds = 1\n", "polite": hasty})
	data := newMiddleData(t)
	for part := range 3 {
		s := startAs(t, exec.Command("talon", middleArgs(t, n, data, plugins)...), data)
		until(t, fmt.Sprint("more than ", part, " quarters of the events come"), func() bool {
			c, err := n.Compare(t.Context(), s.url)
			if err != nil {
				t.Fatal(err)
			}
			return 4*(c.Expected-len(c.Lacks)) > part*c.Expected
		})
		s.kill()
	}
	inLine(t, n, startMiddleOn(t, n, data, plugins))
}

// TestDevnetClone: repositories whose events come by sync can be cloned here, though
// nobody ever pushed, from git servers of which one works at a time.
func TestDevnetClone(t *testing.T) {
	notUnderRace(t)
	devnetCode(t, "mirror", "polite")
	t.Parallel()
	n := startNet(t, func(c *devnet.Config) {
		c.Roots, c.Split = 1, 0.5
		if !largeNets() {
			c.Repos, c.Relays, c.RelaysPer = 4, 2, 1
		}
		c.GitFailing, c.GitTurn = c.GitServers-1, time.Second
	})
	s := startMiddle(t, n, modulesAnd(t, judges, map[string]string{"mirror": "batch_seconds = 1\n", "polite": hasty}))
	inLine(t, n, s)
	st := newStory(t, s)
	for _, r := range n.Repositories() {
		url := st.web + "/" + r.Path
		want := []string{"HEAD=refs/heads/main"}
		for ref, object := range r.Refs {
			want = append(want, ref+"="+object)
		}
		slices.Sort(want)
		st.wantRefs(url, want...)
		clone := filepath.Join(t.TempDir(), "clone")
		st.git(".", "clone", "-q", url, clone)
		if got := st.git(clone, "rev-parse", "HEAD"); got != r.Refs["refs/heads/main"] {
			t.Errorf("the clone of %s is at %s", r.Path, got)
		}
	}
	failed := int64(0)
	for _, g := range n.Git {
		failed += g.Status().Failed
	}
	if failed == 0 {
		t.Error("no request to a git server has failed: nothing was tested")
	}
}

// TestDevnetTable: on a terminal each table takes the place of the one before,
// however many servers there are and however narrow the terminal is.
func TestDevnetTable(t *testing.T) {
	t.Parallel()
	n := startNet(t, func(c *devnet.Config) { c.Repos, c.Relays, c.GitServers = 0, tableRows+2, tableRows+1 })
	var out bytes.Buffer
	table := netTable{w: &out, live: true, began: time.Now()}
	for range 2 {
		table.show(n, devnet.Comparison{LacksOf: make([]int, len(n.Relays))}, claimMoment{}, nil)
	}
	const cut, fold = "\x1b[?7l", "\x1b[?7h"
	parts := strings.Split(out.String(), fold)
	up := fmt.Sprintf("\x1b[%dA\x1b[J", strings.Count(parts[0], "\n"))
	if len(parts) != 3 || !strings.HasPrefix(parts[0], cut) || !strings.HasPrefix(parts[1], up+cut) || parts[2] != "" {
		t.Errorf("two tables are written as %q", parts)
	}
	for _, want := range []string{"and 2 more relays\n", "and 1 more git servers\n", "Talon has 0 of 0 events"} {
		if strings.Count(out.String(), want) != 2 {
			t.Errorf("%q is not in both of\n%s", want, out.String())
		}
	}
}

// TestDevnetCommand: the command says where its servers are and how to start Talon.
func TestDevnetCommand(t *testing.T) {
	t.Parallel()
	run := func(args ...string) (string, error) {
		var out bytes.Buffer
		cmd := devnetCommand()
		cmd.SetOut(&out)
		cmd.SetErr(&out)
		cmd.SilenceUsage = true
		args = append([]string{"--port", "0", "--talon", "127.0.0.1:1"}, args...)
		if !slices.Contains(args, "--scenario") {
			args = append([]string{"--repos", "2", "--relays", "3"}, args...)
		}
		cmd.SetArgs(args)
		err := cmd.ExecuteContext(t.Context())
		return out.String(), err
	}
	out, err := run("--for", "1ms")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"relay ws://127.0.0.1:", "git http://127.0.0.1:", "talon serve --listen 127.0.0.1:1 --allow-private true --bootstrap ws://127.0.0.1:", "Talon does not answer"} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is not said in\n%s", want, out)
		}
	}
	mine, wrong := filepath.Join(t.TempDir(), "mine.toml"), filepath.Join(t.TempDir(), "wrong.toml")
	for file, text := range map[string]string{mine: "[limits]\nsubscriptions = 3\n", wrong: "[limits]\nx = 3\n"} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if out, err = run("--for", "1ms", "--relays", "1,strfry:2,khatru:1,"+mine, "--json"); err != nil {
		t.Fatal(err)
	}
	var result struct {
		InLine   bool `json:"in_line"`
		Expected int
		Error    string
		Relays   []struct {
			Profile string
			Events  int
		}
	}
	if err := json.Unmarshal([]byte(out[strings.LastIndex(out, "\n{")+1:]), &result); err != nil {
		t.Fatalf("%v in\n%s", err, out)
	}
	names := []string{}
	for _, r := range result.Relays {
		names = append(names, r.Profile)
	}
	if want := []string{"khatru", "khatru", "strfry", "strfry", "mine"}; result.InLine || result.Error == "" || !slices.Equal(names, want) {
		t.Errorf("%+v, want relays %v and no Talon", result, want)
	}
	if _, err := run("--for", "1ms", "--until-quiet"); err == nil || !strings.Contains(err.Error(), "did not come in line with the network: compare with Talon: ") {
		t.Errorf("a Talon that is not there is in line, or lacks what nobody knows: %v", err)
	}
	for want, args := range map[string][]string{
		"want 1 to 1000":            {"--relays", "0"},
		"negentropy":                {"--negentropy", "2"},
		"relays-per":                {"--relays-per", "4"},
		"without --serve":           {"--", "--x"},
		"--data cannot follow --":   {"--serve", "--", "--data", "x"},
		"--listen cannot follow":    {"--serve", "--", "--log-level", "debug", "--listen=127.0.0.1:1"},
		"--plugins is there twice":  {"--serve", "--plugins", "x", "--", "--plugins", "y"},
		`"x" is no option: flags`:   {"--serve", "x"},
		`there is no profile "x"`:   {"--relays", "x:2"},
		"want a number, or":         {"--relays", "strfry:x"},
		"want 1 to 1000 of":         {"--relays", "1,strfry:0"},
		"needs --outage-every":      {"--outage-for", "1s"},
		"needs --git-failing":       {"--git-turn", "1s"},
		"needs --roots above 0":     {"--roots", "0", "--comments", "1"},
		"needs --clones-per above":  {"--clones-per", "1", "--split", "1"},
		"needs a relay of khatru's": {"--relays", "strfry:3", "--max-limit", "5"},
		"hold every repository":     {"--serve", "--git-servers", "0", "--clones-per", "0"},
		"[git.NAME] of a scenario":  {"--serve", "--scenario", "small"},
		"cannot be a bootstrap":     {"--relays", "dead:3"},
		"line 2: limits.x":          {"--relays", wrong + ":3"},
	} {
		if _, err := run(args...); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %v, want %s", args, err, want)
		}
	}
}
