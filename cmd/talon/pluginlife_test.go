package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nbd-wtf/go-nostr"

	"talon/host/admin"
	"talon/host/plugin"
)

// pluginFolder returns a folder of plugins of the test's own, with the bundled
// ones of these names. With open and without grasp, its relay accepts every event.
func pluginFolder(t testing.TB, names ...string) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "plugins")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		drop(t, dir, name+".wasm", bundledModule(t, name))
	}
	if slices.Contains(names, "open") && !slices.Contains(names, "grasp") {
		drop(t, dir, "open.toml", []byte(openRelay))
	}
	return dir
}

func bundledModule(t testing.TB, name string) []byte {
	t.Helper()
	wasm, err := os.ReadFile(filepath.Join(modules(t), name+".wasm"))
	if err != nil {
		t.Fatal(err)
	}
	return wasm
}

// drop puts a file into a folder as mv does.
func drop(t testing.TB, dir, name string, data []byte) {
	t.Helper()
	hidden := filepath.Join(dir, "."+name)
	if err := os.WriteFile(hidden, data, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(hidden, filepath.Join(dir, name)); err != nil {
		t.Fatal(err)
	}
}

// plugins asks the server for its plugins.
func plugins(t testing.TB, data string) map[string]plugin.Status {
	t.Helper()
	list, err := admin.Dial(filepath.Join(data, "admin", "talon.sock")).List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	by := make(map[string]plugin.Status)
	for _, p := range list {
		by[p.Name] = p
	}
	return by
}

// eventually waits until the plugin is as it should be.
func eventually(t testing.TB, data, name, what string, is func(plugin.Status) bool) (p plugin.Status) {
	t.Helper()
	until(t, fmt.Sprint("plugin ", name, " is ", what), func() bool {
		var there bool
		p, there = plugins(t, data)[name]
		return is(p) && (there || what == "gone")
	})
	return p
}

// traffic publishes without end on several connections, and counts the answers
// to each event.
type traffic struct {
	t         testing.TB
	stop      atomic.Bool
	group     sync.WaitGroup
	published atomic.Int64
	asked     atomic.Int64 // how often for what was decided

	mu       sync.Mutex // guards the fields below
	accepted []string   // ids
	refused  map[string]int
	recent   [2]int          // accepted and refused events with the word, of those sent since it was asked
	waits    []time.Duration // for answers, since it was asked
}

// sent is an event whose answer is awaited.
type sent struct {
	at    time.Time
	asked int64
	word  bool
}

// word is in every third event: what the policy of the test is about.
const word = "casino"

func startTraffic(t testing.TB, s *process, connections int) *traffic {
	f := &traffic{t: t, refused: make(map[string]int)}
	for i := range connections {
		c := connect(t, s)
		f.group.Go(func() { f.publish(c, fmt.Sprintf("publisher %d", i)) })
	}
	return f
}

// publish sends some events at a time, and sees to it that each gets exactly one
// answer. It leaves time between them: what else the test waits for needs processors too.
func (f *traffic) publish(c *client, name string) {
	const window, pause = 16, 40 * time.Millisecond
	flying := make(map[string]sent)
	n := 0
	for {
		if len(flying) == 0 {
			time.Sleep(pause)
		}
		for len(flying) == 0 || len(flying) < window && n%window != 0 {
			if f.stop.Load() {
				break
			}
			content := "hello"
			if n%3 == 0 {
				content = word
			}
			e := signAs(f.t, name, nostr.Event{Kind: 1, Content: fmt.Sprintf("%s %d", content, n)})
			flying[e.ID] = sent{time.Now(), f.asked.Load(), n%3 == 0}
			n++
			f.published.Add(1)
			if err := c.write(message(e)); err != nil {
				f.t.Errorf("publish: %v", err)
				return
			}
		}
		if len(flying) == 0 {
			break
		}
		text, err := c.next("OK")
		if err != nil {
			f.t.Errorf("wait for an answer: %v", err)
			return
		}
		a, err := parseOK(text)
		e, ours := flying[a.id]
		if err != nil || !ours {
			f.t.Errorf("a second answer, or one to nothing: %s (%v)", text, err)
			return
		}
		f.count(a, e)
		delete(flying, a.id)
	}
	// A second answer to an event would have come by now.
	e := signAs(f.t, name, nostr.Event{Kind: 1, Content: "last"})
	if a := c.publish(f.t, e); !a.ok {
		f.t.Errorf("the last event: %+v", a)
	}
}

func (f *traffic) count(a answer, e sent) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.waits = append(f.waits, time.Since(e.at))
	recent := e.word && e.asked == f.asked.Load()
	if a.ok {
		f.accepted = append(f.accepted, a.id)
	} else {
		f.refused[a.reason]++
	}
	switch {
	case recent && a.ok:
		f.recent[0]++
	case recent:
		f.recent[1]++
	}
}

// slow returns the wait for an answer that a tenth of them exceeds, since it was asked last: a
// machine that pauses makes a few of them long.
func (f *traffic) slow() time.Duration {
	f.mu.Lock()
	defer f.mu.Unlock()
	slices.Sort(f.waits)
	slow := f.waits[len(f.waits)*9/10]
	f.waits = nil
	return slow.Round(time.Millisecond)
}

// decided waits until the given number of events with the word, sent from now on, have
// been answered, and returns how many were accepted and refused.
func (f *traffic) decided(n int) (accepted, refused int) {
	f.t.Helper()
	f.mu.Lock()
	f.asked.Add(1)
	f.recent = [2]int{}
	f.mu.Unlock()
	until(f.t, fmt.Sprint(n, " events are answered"), func() bool {
		f.mu.Lock()
		defer f.mu.Unlock()
		accepted, refused = f.recent[0], f.recent[1]
		return accepted+refused >= n || f.t.Failed()
	})
	return accepted, refused
}

// end stops the traffic and waits for the last answers.
func (f *traffic) end() {
	f.stop.Store(true)
	f.group.Wait()
}

// TestPluginLife drops a policy into a relay under load, shadows it, enforces it,
// replaces it, rolls it back and removes it. Each event gets exactly one answer,
// and each change begins to count.
func TestPluginLife(t *testing.T) {
	t.Parallel()
	data, dir := newData(t), pluginFolder(t, "lists", "open")
	s := start(t, data, "--plugins", dir)
	f := startTraffic(t, s, 4)
	command := func(args ...string) string {
		t.Helper()
		out, err := talon(t, nil, slices.Concat([]string{"plugin"}, args, []string{"--data", data})...)
		if err != nil {
			t.Fatalf("talon plugin %v: %v", args, err)
		}
		return out
	}
	// settled looks at the answers to what is sent after the change.
	settled := func(what string, wantAccepted bool) {
		t.Helper()
		if accepted, refused := f.decided(50); wantAccepted && refused > 0 || !wantAccepted && accepted > 0 {
			t.Errorf("%s: %d events with the word were accepted, %d refused", what, accepted, refused)
		}
	}
	generation := func(n int64) func(plugin.Status) bool {
		return func(p plugin.Status) bool { return p.Running != nil && p.Running.Generation == n }
	}

	settled("nothing is dropped", true)

	drop(t, dir, "words.toml", []byte("[config]\ndeny_words = [\""+word+"\"]\n"))
	drop(t, dir, "words.wasm", bundledModule(t, "lists"))
	eventually(t, data, "words", "running", generation(1))
	settled("dropped", false)

	command("mode", "words", "shadow")
	settled("shadowed", true)
	p := eventually(t, data, "words", "disagreeing", func(p plugin.Status) bool { return len(p.Disagreements) > 0 })
	if p.Mode != "shadow" || p.Disagreements[0].Count == 0 {
		t.Errorf("%+v", p)
	}
	if out := command("disagreements", "words", "--limit", "3"); !strings.Contains(out, "deny-word") {
		t.Errorf("disagreements: %s", out)
	}

	command("mode", "words", "enforce")
	settled("enforced", false)

	drop(t, dir, "words.wasm", bundledModule(t, "open")) // accepts everything, and knows no deny_words
	eventually(t, data, "words", "quarantined", func(p plugin.Status) bool {
		return p.Quarantine != nil && strings.Contains(p.Quarantine.Reason, "deny_words")
	})
	settled("a replacement that does not fit its side-car", false)

	drop(t, dir, "words.toml", nil)
	eventually(t, data, "words", "replaced", generation(4))
	settled("replaced", true)

	command("rollback", "words")
	settled("rolled back", false)
	side, err := os.ReadFile(filepath.Join(dir, "words.toml"))
	if err != nil || !strings.Contains(string(side), word) {
		t.Errorf("the side-car after the rollback: %q, %v", side, err)
	}

	f.mu.Lock()
	why := f.accepted[len(f.accepted)-1]
	f.mu.Unlock()
	if out := command("why", why); !strings.Contains(out, "open") || !strings.Contains(out, "accept") {
		t.Errorf("why %s: %s", why, out)
	}

	for _, name := range []string{"words.wasm", "words.toml"} {
		if err := os.Remove(filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, data, "words", "gone", func(p plugin.Status) bool { return p.Name == "" })
	settled("removed", true)
	f.end()

	for reason, n := range f.refused {
		if reason != "blocked: the content has a word that is not accepted here" {
			t.Errorf("%d events were refused with %q", n, reason)
		}
	}
	stored := 0
	c := connect(t, s)
	for ids := range slices.Chunk(f.accepted, 400) {
		text, err := json.Marshal(ids)
		if err != nil {
			t.Fatal(err)
		}
		stored += len(c.query(t, `{"ids":`+string(text)+`}`))
	}
	if stored != len(f.accepted) {
		t.Errorf("%d of %d accepted events are stored", stored, len(f.accepted))
	}
	t.Logf("%d events, %d accepted", f.published.Load(), len(f.accepted))
}
