package main

import (
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nbd-wtf/go-nostr"

	"talon/host/plugin"
)

// TestSharedPlugins changes the plugins of three nodes of one relay while all are written to.
// Events with one word, then with another, are all that is accepted, in turn: in the order of
// all commits, none is where the other belongs.
func TestSharedPlugins(t *testing.T) {
	t.Parallel()
	url, folder := database.URL(t), pluginFolder(t, "open", "lists")
	only := func(word string) { drop(t, folder, "lists.toml", []byte("[config]\nonly_words = [\""+word+"\"]\n")) }
	only("left")
	begin := func(name string, args ...string) *process {
		data := newData(t)
		args = append([]string{"--plugins", folder, "--store", url, "--sync", "false", "--hunt", "false", "--node", name, "--plugins-node", "a"}, args...)
		return startAs(t, exec.Command("talon", serveArgs(t, data, args...)...), data)
	}
	a, b, c := begin("a"), begin("b"), begin("c")
	nodes := []*process{a, b, c}
	last := signAs(t, "end", nostr.Event{Kind: 1, Content: "left right"})
	readers := []*reader{readAll(t, a, last.ID), readAll(t, b, last.ID), readAll(t, c, last.ID)}

	var stop atomic.Bool
	var publishing sync.WaitGroup
	var mu sync.Mutex
	words := map[string]string{} // of each event
	var accepted [2]atomic.Int64
	for i, s := range nodes {
		conn := connect(t, s)
		publishing.Go(func() {
			for n := 0; !stop.Load(); n++ {
				side := n % 2
				word := []string{"left", "right"}[side]
				e := signAs(t, fmt.Sprint("author ", i), nostr.Event{Kind: 1, Content: fmt.Sprint(word, " ", n)})
				mu.Lock()
				words[e.ID] = word
				mu.Unlock()
				if got := conn.publish(t, e); got.ok {
					accepted[side].Add(1)
				} else if !strings.HasPrefix(got.reason, "blocked: ") {
					t.Errorf("%s: %+v", e, got)
				}
			}
		})
	}
	const switches = 4
	side := 0
	for n := range switches {
		before := accepted[1-side].Load()
		began := time.Now()
		only([]string{"right", "left"}[side])
		side = 1 - side
		until(t, "the other word is accepted", func() bool { return accepted[side].Load() > before+20 })
		t.Logf("switched after %v", time.Since(began).Round(time.Millisecond))
		for i, s := range nodes {
			eventually(t, s.data, "lists", fmt.Sprint("generation ", n+2), func(p plugin.Status) bool {
				return p.Running != nil && p.Running.Generation == int64(n+2)
			})
			if i > 0 && plugins(t, s.data)["lists"].Quarantine != nil {
				t.Error("quarantine on a node whose folder is not followed")
			}
		}
	}
	// A command on another node does the same.
	before := accepted[1-side].Load()
	if out, err := talon(t, nil, "plugin", "rollback", "lists", "--data", b.data); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	until(t, "the other word is accepted", func() bool { return accepted[1-side].Load() > before+20 })
	stop.Store(true)
	publishing.Wait()
	if out, err := talon(t, nil, "plugin", "mode", "lists", "off", "--data", c.data); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if got := connect(t, a).publish(t, last); !got.ok {
		t.Fatalf("%+v", got)
	}
	turns, now := 0, "left"
	ids := same(t, readers...)
	for _, id := range ids[:len(ids)-1] {
		if words[id] != now {
			turns, now = turns+1, words[id]
		}
	}
	t.Logf("%d events in %d turns", len(ids), turns)
	if turns != switches+1 {
		t.Errorf("the words of %d accepted events have changed %d times, the plugins %d times", len(ids), turns, switches+1)
	}

	// What an author may send, he may send to all together.
	const perMinute = 60
	drop(t, folder, "rate.toml", fmt.Appendf(nil, "[config]\nper_author_events_per_minute = %d\n", perMinute))
	drop(t, folder, "rate.wasm", bundledModule(t, "rate"))
	for _, s := range nodes {
		eventually(t, s.data, "rate", "there", func(p plugin.Status) bool { return p.Running != nil })
	}
	var got atomic.Int64
	began := time.Now()
	for _, s := range nodes {
		conn := connect(t, s)
		publishing.Go(func() {
			for n := range 150 {
				a := conn.publish(t, signAs(t, "carol", nostr.Event{Kind: 1, Content: fmt.Sprint(s.url, n)}))
				if a.ok {
					got.Add(1)
				} else if !strings.HasPrefix(a.reason, "rate-limited: ") {
					t.Errorf("%+v", a)
				}
			}
		})
	}
	publishing.Wait()
	share := float64(got.Load()) / (perMinute + 1 + time.Since(began).Seconds())
	t.Logf("three nodes have accepted %d events of one author in %v", got.Load(), time.Since(began).Round(time.Second))
	if share > 1.10 || got.Load() < perMinute/2 {
		t.Errorf("three nodes have accepted %d events of one author in %v: %.0f %% of what one would", got.Load(), time.Since(began), 100*share)
	}

	// A node that cannot run what the others run says so, and does not keep them from more.
	d := begin("d", "--plugin-signers", aliceNpub)
	resp, err := http.Get("http" + strings.TrimPrefix(d.url, "ws") + "/healthz")
	if err != nil {
		t.Fatal(err)
	}
	text, _ := io.ReadAll(resp.Body)
	_ = resp.Body.Close()
	if resp.StatusCode != http.StatusServiceUnavailable || !strings.Contains(string(text), "it is not signed") {
		t.Errorf("%s: %s", resp.Status, text)
	}
	if c, err := open(d.url); err == nil {
		if got := c.publish(t, signAs(t, "alice", nostr.Event{Kind: 1, Content: "hello"})); got.ok || !strings.HasPrefix(got.reason, "error: ") {
			t.Errorf("%+v", got)
		}
		c.close()
	}
	if out, err := talon(t, nil, "plugin", "mode", "lists", "enforce", "--data", c.data); err != nil {
		t.Errorf("%v: %s", err, out)
	}
	for _, s := range append(nodes, d) {
		s.mustStop(t)
	}
}
