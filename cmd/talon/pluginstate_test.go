package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nbd-wtf/go-nostr"
)

// TestPluginSets limits authors, but for those whom alice follows: the set follows
// her list as she changes and deletes it.
func TestPluginSets(t *testing.T) {
	t.Parallel()
	data, dir := newData(t), pluginFolder(t, "open", "rate")
	drop(t, dir, "rate.toml", []byte(`
[config]
per_author_events_per_minute = 2
[sets.trusted]
list = "`+aliceNpub+`"
`))
	s := start(t, data, "--plugins", dir)
	c := connect(t, s)
	note := func(text string) answer {
		t.Helper()
		return c.publish(t, signAs(t, "bob", nostr.Event{Kind: 1, Content: text}))
	}
	// If the machine pauses for half a minute, the author gets room for another note.
	limited := func(when string) {
		t.Helper()
		n := 0
		until(t, "bob is limited "+when, func() bool {
			n++
			a := note(fmt.Sprint(when, n))
			return !a.ok && strings.HasPrefix(a.reason, "rate-limited: too many events of this author")
		})
	}
	list := func(at nostr.Timestamp, tags ...nostr.Tag) *nostr.Event {
		return signAs(t, "alice", nostr.Event{Kind: 3, CreatedAt: at, Tags: tags})
	}
	for _, text := range []string{"first", "second"} {
		if a := note(text); !a.ok {
			t.Fatalf("the %s note: %+v", text, a)
		}
	}
	limited("after two notes in a minute")
	now := nostr.Now()
	follows := list(now-2, nostr.Tag{"p", pubkey("bob")})
	if a := c.publish(t, follows); !a.ok {
		t.Fatalf("alice's list: %+v", a)
	}
	if a := note("one more"); !a.ok {
		t.Errorf("bob is followed: %+v", a)
	}
	if out, err := talon(t, nil, "plugin", "show", "rate", "--data", data); err != nil || !strings.Contains(out, "trusted") {
		t.Errorf("%v: %s", err, out)
	}
	deletion := signAs(t, "alice", nostr.Event{Kind: 5, CreatedAt: now, Tags: nostr.Tags{{"a", "3:" + pubkey("alice") + ":"}, {"e", follows.ID}}})
	if a := c.publish(t, deletion); !a.ok {
		t.Fatalf("the deletion: %+v", a)
	}
	limited("when alice's list is deleted")
}

// TestPluginState uses up a limit, and finds it used up after a swap
// and a restart.
func TestPluginState(t *testing.T) {
	t.Parallel()
	data, dir := newData(t), pluginFolder(t, "open", "rate")
	drop(t, dir, "rate.toml", []byte("[config]\nper_author_bytes_per_day = 1000\n"))
	note := func(s *process, text string) answer {
		t.Helper()
		return connect(t, s).publish(t, signAs(t, "bob", nostr.Event{Kind: 1, Content: text}))
	}
	used := func(s *process, when string) {
		t.Helper()
		if a := note(s, when); a.ok || !strings.HasPrefix(a.reason, "rate-limited: this author has stored enough for today") {
			t.Errorf("%s: %+v", when, a)
		}
	}
	first := startAs(t, exec.Command("talon", serveArgs(t, data, "--plugins", dir)...), data)
	if a := note(first, strings.Repeat("x", 500)); !a.ok {
		t.Fatalf("%+v", a)
	}
	used(first, "again "+strings.Repeat("x", 500))
	if _, err := talon(t, nil, "plugin", "mode", "rate", "off", "--data", data); err != nil {
		t.Fatal(err)
	}
	if a := note(first, "no limits "+strings.Repeat("x", 500)); !a.ok {
		t.Errorf("switched off: %+v", a)
	}
	if _, err := talon(t, nil, "plugin", "mode", "rate", "enforce", "--data", data); err != nil {
		t.Fatal(err)
	}
	used(first, "after a swap "+strings.Repeat("x", 500))
	if err := first.stop(); err != nil {
		t.Fatal(err)
	}
	used(start(t, data, "--plugins", dir), "after a restart "+strings.Repeat("x", 500))
}

// recording is talon plugin record in a process of its own, which has begun.
type recording struct {
	t    *testing.T
	cmd  *exec.Cmd
	out  bytes.Buffer
	said *bufio.Reader
}

// record starts a recording, when the server has noticed that the one before is over.
func record(t *testing.T, s *process, args ...string) (r *recording) {
	t.Helper()
	until(t, "the recording before is over", func() bool {
		var line string
		r, line = tryRecord(t, s, args...)
		if strings.Contains(line, "another recording is under way") {
			_ = r.cmd.Wait()
			return false
		}
		if line != "recording\n" {
			t.Fatalf("record: %q", line)
		}
		return true
	})
	return r
}

func tryRecord(t *testing.T, s *process, args ...string) (r *recording, line string) {
	t.Helper()
	r = &recording{t: t, cmd: exec.Command("talon", append([]string{"plugin", "record", "--data", s.data}, args...)...)}
	r.cmd.Env = environ()
	r.cmd.Stdout = &r.out
	said, err := r.cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := r.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.cmd.Process.Kill() })
	r.said = bufio.NewReader(said)
	line, _ = r.said.ReadString('\n')
	return r, line
}

// file waits for the end of the recording. It returns the name of a file with its lines, and the
// last message of the command.
func (r *recording) file() (file, said string) {
	r.t.Helper()
	text, err := r.said.ReadString(0)
	if waited := r.cmd.Wait(); waited != nil {
		r.t.Fatalf("%v, %v\n%s", waited, err, text)
	}
	file = filepath.Join(r.t.TempDir(), "live.jsonl")
	if err := os.WriteFile(file, r.out.Bytes(), 0o600); err != nil {
		r.t.Fatal(err)
	}
	return file, text
}

// TestRecordAndReplay records what a relay decides: the same modules with the same
// settings say the same about the file. One of them asks for events that are stored,
// and for how the relay is reached.
func TestRecordAndReplay(t *testing.T) {
	t.Parallel()
	data := graspData(t)
	dir := pluginFolder(t, "lists", "grasp")
	sidecar := filepath.Join(dir, "lists.toml")
	drop(t, dir, "lists.toml", []byte("[config]\ndeny_words = [\"casino\"]\n"))
	s := startGrasp(t, data, dir)
	st := newStory(t, s)
	owner := st.who("owner")
	// These decisions read what is stored by then, and their answers differ by it.
	list := st.event(owner, 10317, nostr.Tag{"g", "wss://" + serviceDomain})
	repo, other := st.announcement(owner, "demo"), st.event(owner, 30617, nostr.Tag{"d", "elsewhere"})
	about := func(id string) *nostr.Event {
		return st.event(st.who("reporter"), 1621, nostr.Tag{"a", repoAddress(owner, id)}, nostr.Tag{"p", owner.hex()})
	}
	says := func(text string) *nostr.Event {
		return signAs(t, string(owner), nostr.Event{Kind: 1, CreatedAt: nostr.Now(), Content: text})
	}
	reply := st.event(st.who("reporter"), 1111, nostr.Tag{"E", list.ID}, nostr.Tag{"K", "10317"})

	chain := record(t, s, "--most", "8")
	for _, e := range []*nostr.Event{
		list, repo, st.state(owner, "demo", "refs/heads/main", strings.Repeat("a", 40)), other, about("demo"), about("nowhere"), says("a casino"), reply,
	} {
		st.c.publish(t, e)
	}
	whole, said := chain.file()
	if !strings.HasPrefix(said, "8 lines recorded, ") || !strings.Contains(said, "(admit 8): there are as many as were asked for\n") {
		t.Errorf("it said %q", said)
	}
	if text, _ := os.ReadFile(whole); !bytes.Contains(text, []byte(`"stored":[{`)) || !bytes.Contains(text, []byte(`"held":[{`)) || !bytes.Contains(text, []byte(`"domain":"`+serviceDomain)) {
		t.Errorf("no facts:\n%s", text)
	}
	cache := t.TempDir()
	if err := linkModules(cache, compiled(t)); err != nil {
		t.Fatal(err)
	}
	replay := func(module, file, sidecar string) string {
		t.Helper()
		cmd := exec.Command("talon", "plugin", "replay", "--sidecar", sidecar, filepath.Join(dir, module+".wasm"), file)
		cmd.Env = append(environ(), "XDG_CACHE_HOME="+cache)
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		return string(out)
	}
	nothing, bingo := filepath.Join(t.TempDir(), "nothing.toml"), filepath.Join(t.TempDir(), "bingo.toml")
	for file, text := range map[string]string{nothing: "", bingo: "[config]\ndeny_words = [\"bingo\"]\n"} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for module, with := range map[string]string{"lists": sidecar, "grasp": nothing} {
		if out := replay(module, whole, with); !strings.Contains(out, "\nas recorded: the same answers to 8 lines\n") {
			t.Errorf("%s answers otherwise:\n%s\n%s", module, out, must(os.ReadFile(whole)))
		}
	}
	if out := replay("lists", whole, bingo); !strings.Contains(out, "reject deny-word") || !strings.Contains(out, "1 of 8 lines answered differently") {
		t.Errorf("with another word:\n%s", out)
	}

	// With --watch, the answers appear again when the settings or the recording change.
	mine := filepath.Join(t.TempDir(), "lists.wasm")
	beside := strings.TrimSuffix(mine, ".wasm") + ".toml"
	live := filepath.Join(t.TempDir(), "live.jsonl")
	first, _, _ := strings.Cut(must(os.ReadFile(whole)), "\n")
	for file, text := range map[string]string{mine: string(bundledModule(t, "lists")), beside: must(os.ReadFile(sidecar)), live: must(os.ReadFile(whole))} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, "talon", "plugin", "replay", "--watch", mine, live)
	cmd.Env = append(environ(), "XDG_CACHE_HOME="+cache)
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		cancel()
		_ = cmd.Wait() // it was killed
	}()
	lines := bufio.NewScanner(out)
	see := func(want string) {
		t.Helper()
		var seen []string
		for lines.Scan() {
			if seen = append(seen, lines.Text()); lines.Text() == want {
				return
			}
		}
		t.Fatalf("it never says %q, but\n%s", want, strings.Join(seen, "\n"))
	}
	see("as recorded: the same answers to 8 lines")
	drop(t, filepath.Dir(beside), "lists.toml", []byte("[config]\ndeny_words = [\"bingo\"]\n"))
	see("1 of 8 lines answered differently") // than it was recorded
	see("1 of 8 lines answered differently") // than before
	drop(t, filepath.Dir(live), "live.jsonl", []byte(first+"\n"))
	see("as recorded: the same answers to 1 line")

	// A signal ends it in order.
	ended := record(t, s, "--for", "10m")
	if err := ended.cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	if _, said := ended.file(); said != "0 lines recorded, until the signal\n" {
		t.Errorf("it said %q", said)
	}

	// One plugin, and nothing that its clients wrote.
	one := record(t, s, "--plugin", "lists", "--redact", "content,address", "--most", "1")
	st.c.publish(t, says("another casino"))
	file, _ := one.file()
	var line struct {
		Event nostr.Event
		Want  struct{ Action, Rule string }
		By    string
	}
	text := must(os.ReadFile(file))
	if err := json.Unmarshal([]byte(text), &line); err != nil || line.By != "lists" || line.Want.Rule != "deny-word" || len(line.Event.Content) != 16 || strings.Contains(text, "casino") {
		t.Errorf("%v: %s", err, text)
	}
}

func must(text []byte, err error) string {
	if err != nil {
		return err.Error()
	}
	return string(text)
}
