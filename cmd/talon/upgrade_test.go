package main

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/nbd-wtf/go-nostr"

	"talon/internal/testkit"
)

// release090 is the last commit of the programs that docs/how-to-upgrade.md calls 0.9.0.
const release090 = "3d3c6d8a"

// oldRelease builds the program of an earlier commit with its bundled modules.
func oldRelease(t *testing.T, commit string) (program, plugins string) {
	t.Helper()
	dir := t.TempDir()
	tree := exec.Command("git", "-C", "../..", "archive", commit)
	unpack := exec.Command("tar", "-x", "-C", dir)
	var err error
	if unpack.Stdin, err = tree.StdoutPipe(); err == nil {
		err = tree.Start()
	}
	if err == nil {
		err = unpack.Run()
	}
	if failed := tree.Wait(); err != nil || failed != nil {
		t.Skipf("the history of this checkout has no commit %s: %v %v", commit, err, failed)
	}
	build := func(env []string, args ...string) {
		t.Helper()
		cmd := exec.Command("go", append([]string{"build", "-trimpath", "-buildvcs=false", "-ldflags=-s -w"}, args...)...)
		cmd.Dir, cmd.Env = dir, append(environ(), env...)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
	}
	program, plugins = filepath.Join(dir, "talon"), filepath.Join(dir, "plugins-built")
	build(nil, "-tags=libsecp256k1", "-o", program, "./cmd/talon")
	for _, name := range graspChain {
		build([]string{"GOOS=wasip1", "GOARCH=wasm", "GOFLAGS="}, "-buildmode=c-shared", "-o", filepath.Join(plugins, name+".wasm"), "./plugins/"+name)
	}
	return program, plugins
}

// TestUpgrade follows docs/how-to-upgrade.md, up and back.
func TestUpgrade(t *testing.T) {
	if os.Getenv("TALON_TEST_SCALE") == "" {
		t.Skip("it builds an old release: make scale")
	}
	program, plugins := oldRelease(t, release090)
	for _, engine := range []string{"sqlite", "postgres"} {
		t.Run(engine, func(t *testing.T) { upgrade(t, engine, program, plugins) })
	}
}

func upgrade(t *testing.T, engine, program, oldModules string) {
	dir := t.TempDir()
	data, plugins := filepath.Join(dir, "data"), filepath.Join(dir, "plugins")
	if err := os.CopyFS(plugins, os.DirFS(oldModules)); err != nil {
		t.Fatal(err)
	}
	settings := "mode = \"enforce\"\n[config]\nmax_content_bytes = 1000\n"
	drop(t, plugins, "limits.toml", []byte(settings))
	drop(t, plugins, "open.toml", []byte(openRelay))
	var database testkit.Postgres
	t.Cleanup(database.Stop)
	url := ""
	if engine == "postgres" {
		url = database.URL(t)
	}
	store := func(data string) []string {
		if url == "" {
			return []string{"--data", data}
		}
		return []string{"--data", data, "--store", url}
	}
	args := func(data, plugins string) []string {
		return append(store(data), "--plugins", plugins, "--domain", serviceDomain)
	}
	serve := func(program, data, plugins string) *story {
		t.Helper()
		list := append([]string{"serve", "--listen", "127.0.0.1:0", "--log-format", "json"}, args(data, plugins)...)
		return newStory(t, startAs(t, exec.Command(program, list...), data))
	}
	run := func(stdin string, program string, args ...string) string {
		t.Helper()
		cmd := patient(program, args...)
		var stderr bytes.Buffer
		cmd.Dir, cmd.Env, cmd.Stdin, cmd.Stderr = dir, environ(), strings.NewReader(stdin), &stderr
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("%s %q: %v\n%s%s", filepath.Base(program), args, err, out, &stderr)
		}
		return string(out)
	}
	exported := func(program, data string) (events []string) {
		t.Helper()
		for line := range strings.Lines(run("", program, append([]string{"export"}, store(data)...)...)) {
			events = append(events, strings.TrimSpace(line))
		}
		slices.Sort(events)
		return events
	}

	// A server of 0.9.0 that has something of each sort.
	old := serve(program, data, plugins)
	owner, work := old.who("owner"), old.folder()
	announcement := old.held(old.announcement(owner, "served"))
	one := work.commit("one")
	state := old.held(old.state(owner, "served", "HEAD", "ref: refs/heads/main", "refs/heads/main", one))
	work.push(old.repo(owner, "served"), "main")
	old.becomesServed(state)
	issue := old.stored(old.event(owner, 1621, nostr.Tag{"a", repoAddress(owner, "served")}, nostr.Tag{"subject", "an issue"}))
	var notes []*nostr.Event
	for i := range 300 {
		notes = append(notes, old.stored(old.event(old.who(fmt.Sprint("author ", i%7)), 1, nostr.Tag{"t", fmt.Sprint(i % 5)})))
	}
	old.stored(old.event(old.who("author 0"), 5, nostr.Tag{"e", notes[0].ID}))
	old.stored(old.event(owner, 0))
	waiting := old.held(old.announcement(owner, "waiting"))
	two := work.unrelated()
	waitingState := old.held(old.state(owner, "waiting", "HEAD", "ref: refs/heads/main", "refs/heads/main", two))
	work.push(old.repo(owner, "served"), one+":refs/heads/main") // nothing new
	refs := old.refsOf(old.repo(owner, "served"))
	old.s.mustStop(t)
	events := exported(program, data)
	if len(events) < 300 {
		t.Fatalf("the old server has %d events", len(events))
	}

	// The copy that leads back.
	before, pluginsBefore := filepath.Join(dir, "before"), filepath.Join(dir, "plugins-before")
	run("", "cp", "-a", data, before)
	run("", "cp", "-a", plugins, pluginsBefore)

	unchanged := func(st *story) {
		t.Helper()
		if got := st.refsOf(st.repo(owner, "served")); got != refs {
			t.Errorf("the repository has %s, want %s", got, refs)
		}
		clone := filepath.Join(t.TempDir(), "clone")
		st.git(".", "clone", "-q", st.repo(owner, "served"), clone)
		st.git(clone, "fsck", "--strict")
		st.wantServed(announcement, true)
		st.wantServed(issue, true)
		st.wantServed(waiting, false)
		st.wantServed(waitingState, false)
		if n := st.count(`{"#t":["1"]}`); n != 60 {
			t.Errorf("a filter by tag counts %d events, want 60", n)
		}
	}

	// Up: the new program first runs with the modules of the old one, then with its own.
	up := serve("talon", data, plugins)
	unchanged(up)
	up.s.mustStop(t)
	if got := exported("talon", data); !slices.Equal(got, events) {
		t.Errorf("after the migration there are %d events, before it %d", len(got), len(events))
	}
	for _, name := range graspChain {
		if err := os.Remove(filepath.Join(plugins, name+".wasm")); err != nil {
			t.Fatal(err)
		}
	}
	// The program of the test has no modules inside.
	own := os.DirFS(modules(t))
	for _, name := range graspChain {
		wasm, err := fs.ReadFile(own, name+".wasm")
		if err != nil {
			t.Fatal(err)
		}
		drop(t, plugins, name+".wasm", wasm)
	}
	up = serve("talon", data, plugins)
	unchanged(up)
	if got := up.c.publish(t, signAs(t, "author 0", nostr.Event{Kind: 1, Content: strings.Repeat("x", 1001)})); got.ok {
		t.Error("the settings of the operator do not count any more")
	}
	since := up.stored(up.event(owner, 1))
	work.push(up.repo(owner, "waiting"), two+":refs/heads/main")
	up.becomesServed(waitingState)
	up.becomesServed(waiting)
	up.s.mustStop(t)
	run("", "talon", append([]string{"check", "--domain", serviceDomain}, store(data)...)...)

	// Back: the old program leaves the new database alone, and serves the copy.
	refused, err := exec.Command(program, append([]string{"serve", "--listen", "127.0.0.1:0"}, args(data, pluginsBefore)...)...).CombinedOutput()
	if err == nil || !strings.Contains(string(refused), "newer version of Talon") {
		t.Errorf("the old program on the new database: %v\n%s", err, refused)
	}
	if engine == "postgres" {
		return // the way back is a database of pg_dump
	}
	accepted := strings.Join(exported("talon", data), "\n")
	back := serve(program, before, pluginsBefore)
	unchanged(back)
	back.s.mustStop(t)
	if got := exported(program, before); !slices.Equal(got, events) {
		t.Errorf("the copy has %d events, want %d", len(got), len(events))
	}
	run(accepted, program, append([]string{"import"}, args(before, pluginsBefore)...)...)
	back = serve(program, before, pluginsBefore)
	back.wantServed(since, true)
	work.push(back.repo(owner, "waiting"), two+":refs/heads/main")
	back.becomesServed(waitingState)
	back.s.mustStop(t)
}
