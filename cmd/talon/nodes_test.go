package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/nbd-wtf/go-nostr"

	"talon/host/plugin"
	"talon/internal/testkit"
)

// reader is a subscription to everything that happens, until it is ended.
type reader struct {
	ids  []string
	last string
	done chan struct{}
}

// readAll subscribes to new events that match. It reads until it meets the event with this id.
func readAll(t *testing.T, s *process, filter, last string) *reader {
	t.Helper()
	c := connect(t, s)
	c.send(t, `["REQ","live",`+filter+`]`)
	c.untilEOSE(t, "live")
	r := &reader{last: last, done: make(chan struct{})}
	go func() {
		defer close(r.done)
		for {
			text, err := c.next("EVENT", "CLOSED")
			var e nostr.Event
			if err == nil {
				err = json.Unmarshal([]byte(text), &[]any{new(string), new(string), &e})
			}
			if err != nil {
				t.Errorf("a subscriber got %q: %v", text, err)
				return
			}
			if r.ids = append(r.ids, e.ID); e.ID == r.last {
				return
			}
		}
	}()
	return r
}

// same waits for the readers, and returns what they have read: all of them the same, each
// event once.
func same(t *testing.T, readers ...*reader) []string {
	t.Helper()
	for i, r := range readers {
		<-r.done
		if !slices.Equal(r.ids, readers[0].ids) {
			t.Fatalf("reader %d has read %d events, %q;\nreader 0 %d, %q", i, len(r.ids), r.ids, len(readers[0].ids), readers[0].ids)
		}
	}
	once := map[string]bool{}
	for _, id := range readers[0].ids {
		if once[id] {
			t.Errorf("event %s came twice", id)
		}
		once[id] = true
	}
	return readers[0].ids
}

// TestNodes runs three servers on one database of PostgreSQL: they are one relay, for who
// publishes and who listens, also while one of them is killed and while the database
// crashes.
func TestNodes(t *testing.T) {
	t.Parallel()
	var server testkit.Postgres // that crashes
	t.Cleanup(server.Stop)
	url := server.URL(t)
	var nodes [3]*process
	for i := range nodes {
		data := newData(t)
		nodes[i] = startAs(t, exec.Command(realTalon, serveArgs(t, data, "--store", url, "--sync", "false", "--hunt", "false")...), data)
	}
	a, b, c := nodes[0], nodes[1], nodes[2]
	end := func(n int) *nostr.Event {
		return signAs(t, "end", nostr.Event{Kind: 1, Content: fmt.Sprint("end ", n)})
	}
	const all, regular = `{"limit":0}`, `{"kinds":[1,5],"limit":0}`
	follow := func(last *nostr.Event, filter string, nodes ...*process) (list []*reader) {
		for _, s := range nodes {
			list = append(list, readAll(t, s, filter, last.ID))
		}
		return list
	}
	stored := func(e *nostr.Event, on *process) {
		t.Helper()
		if got := connect(t, on).publish(t, e); !got.ok {
			t.Errorf("%s: %+v", e, got)
		}
	}
	check := func() {
		t.Helper()
		if out, err := talon(t, nil, "check", "--store", url, "--data", a.data); err != nil {
			t.Errorf("%v\n%s", err, out)
		}
	}

	t.Run("publish, listen, delete", func(t *testing.T) {
		last := end(1)
		readers := follow(last, all, a, b, c)
		note := signAs(t, "alice", nostr.Event{Kind: 1, Content: "hello"})
		signal := signAs(t, "alice", nostr.Event{Kind: 20001, Content: "now"})
		deletion := signAs(t, "alice", nostr.Event{Kind: 5, Tags: nostr.Tags{{"e", note.ID}}})
		stored(note, a)
		stored(signal, a)
		stored(deletion, c)
		if got := connect(t, b).query(t, `{"ids":["`+note.ID+`"]}`); len(got) != 0 {
			t.Errorf("what was deleted elsewhere is there: %v", got)
		}
		if got := connect(t, a).publish(t, note); got.ok || !strings.HasPrefix(got.reason, "blocked: ") {
			t.Errorf("what was deleted elsewhere is taken again: %+v", got)
		}
		stored(last, b)
		if got := same(t, readers...); !slices.Equal(got, []string{note.ID, signal.ID, deletion.ID, last.ID}) {
			t.Errorf("they have read %q", got)
		}
	})

	t.Run("replaceables", func(t *testing.T) {
		last := end(2)
		readers := follow(last, all, a, b, c)
		var racing sync.WaitGroup
		var newest *nostr.Event
		for i := range 60 {
			e := signAs(t, "alice", nostr.Event{Kind: 0, Content: fmt.Sprint(i), CreatedAt: nostr.Timestamp(1_700_000_000 + i/3)})
			if newest == nil || e.CreatedAt > newest.CreatedAt || e.CreatedAt == newest.CreatedAt && e.ID < newest.ID {
				newest = e
			}
			racing.Go(func() { connect(t, nodes[i%3]).publish(t, e) })
			if i%6 == 5 {
				racing.Wait()
			}
		}
		racing.Wait()
		stored(last, a)
		got := same(t, readers...)
		if len(got) < 11 {
			t.Errorf("only %d were taken", len(got))
		}
		for i, s := range nodes {
			if got := connect(t, s).query(t, `{"kinds":[0]}`); len(got) != 1 || got[0].ID != newest.ID {
				t.Errorf("node %d has %v, want %v", i, got, newest)
			}
		}
		check()
	})

	known := &promises{stored: map[string]bool{}, doubtful: map[string]bool{}, deleted: map[string]bool{}}
	var addressable sync.Map // ids of events that a subscription to other kinds does not get
	// load publishes from two connections to each node until each has had its answers, and
	// reports each to answered. A node may end during that time, or say that it could not.
	load := func(t *testing.T, round int, answered func(int64), nodes ...*process) {
		var count atomic.Int64
		var publishers sync.WaitGroup
		for i, s := range nodes {
			for k := range 2 {
				name := fmt.Sprintf("load %d %d", i, k)
				events := crashLoad(t, name, round, 100)
				conn, err := open(s.url)
				if err != nil {
					t.Error(err)
					continue
				}
				publishers.Go(func() {
					defer conn.close()
					for _, e := range events {
						known.sent(e)
						if nostr.IsAddressableKind(e.Kind) {
							addressable.Store(e.ID, true)
						}
						for {
							if conn.write(message(e)) != nil {
								return
							}
							text, err := conn.next("OK")
							if err != nil {
								return
							}
							got, err := parseOK(text)
							if err != nil || !got.ok && !strings.HasPrefix(got.reason, "error: ") && !strings.HasPrefix(got.reason, "blocked: deleted") {
								t.Errorf("got %s (%v) for %s", text, err, e)
								return
							}
							if got.ok {
								known.answered(e)
							}
							if !strings.HasPrefix(got.reason, "error: ") {
								break
							}
						}
						answered(count.Add(1))
					}
				})
			}
		}
		publishers.Wait()
	}
	contains := func(t *testing.T, list []string, filter string) {
		t.Helper()
		there := map[string]bool{}
		for _, id := range list {
			there[id] = true
		}
		missing := 0
		for id := range known.stored {
			if _, other := addressable.Load(id); !there[id] && !(other && filter == regular) {
				missing++
			}
		}
		if missing > 0 {
			t.Errorf("subscribers have missed %d of %d events that were answered OK", missing, len(known.stored))
		}
	}

	t.Run("the database crashes", func(t *testing.T) {
		last := end(3)
		// Subscriptions to other kinds end if a node is behind, see the next test.
		readers := follow(last, regular, a, b, c)
		var restart sync.WaitGroup
		load(t, 1, func(n int64) {
			if n == 150 || n == 400 {
				restart.Wait()
				restart.Go(func() { server.Restart(t) })
			}
		}, a, b, c)
		restart.Wait()
		until(t, "it can be written again", func() bool { return connect(t, b).publish(t, last).ok })
		for _, r := range readers {
			// Other nodes miss an event that is deleted before they can read again.
			<-r.done
			r.ids = slices.DeleteFunc(r.ids, func(id string) bool { return known.doubtful[id] })
		}
		contains(t, same(t, readers...), regular)
		for _, s := range nodes {
			known.verify(t, s)
		}
		check()
	})

	t.Run("the database crashes while a node is behind", func(t *testing.T) {
		var subscribers []*client
		for _, s := range []*process{a, b} {
			c := connect(t, s)
			for id, filter := range map[string]string{"notes": `{"kinds":[1],"limit":0}`, "signals": `{"kinds":[20001],"limit":0}`} {
				c.send(t, `["REQ","`+id+`",`+filter+`]`)
				c.untilEOSE(t, id)
			}
			subscribers = append(subscribers, c)
		}
		b.pause(t)
		note := signAs(t, "bob", nostr.Event{Kind: 1, Content: "still here"})
		signal := signAs(t, "bob", nostr.Event{Kind: 20001, Content: "gone"})
		stored(signal, a)
		stored(note, a)
		server.Restart(t)
		if err := b.cmd.Process.Signal(syscall.SIGCONT); err != nil {
			t.Fatal(err)
		}
		// The node that was behind says that events may be missing, and brings the stored ones.
		closed, err := subscribers[1].next("CLOSED", "EVENT")
		if err != nil || !strings.HasPrefix(closed, `["CLOSED","signals","error: `) {
			t.Errorf("a subscriber of the node that was behind got %s (%v)", closed, err)
		}
		for i, want := range [][]string{{signal.ID, note.ID}, {note.ID}} {
			for _, id := range want {
				if text, err := subscribers[i].next("CLOSED", "EVENT"); err != nil || !strings.Contains(text, id) {
					t.Errorf("subscriber %d got %s (%v), want %s", i, text, err, id)
				}
			}
		}
		// The third node learns of the gap when it writes. Its subscribers of later tests must not.
		until(t, "all can be written again", func() bool {
			again := func(s *process) bool { return connect(t, s).publish(t, note).ok }
			return again(a) && again(b) && again(c)
		})
	})

	t.Run("a node is killed", func(t *testing.T) {
		last := end(4)
		clear(known.stored)
		readers := follow(last, all, b, c)
		load(t, 2, func(n int64) {
			if n == 200 {
				a.kill()
			}
		}, a, b, c)
		stored(last, c)
		contains(t, same(t, readers...), all)
		known.verify(t, b)
		known.verify(t, c)
		check()
	})
	b.mustStop(t)
	c.mustStop(t)
}

// TestSharedPlugins changes the plugins of three nodes of one relay while all are written to.
// Events with one word, then with another, are all that is accepted, in turn: in the order of
// all commits, none is where the other belongs.
func TestSharedPlugins(t *testing.T) {
	t.Parallel()
	url, folder := database.URL(t), pluginFolder(t, "open", "lists")
	only := func(word string) { drop(t, folder, "lists.toml", []byte("[config]\nonly_words = [\""+word+"\"]\n")) }
	// A server tests a module with new settings at the lowest priority, which takes long on a busy
	// machine. An import of nothing does it first.
	const perMinute = 60
	dropRate := func(folder string) {
		drop(t, folder, "rate.toml", fmt.Appendf(nil, "[config]\nper_author_events_per_minute = %d\n", perMinute))
		drop(t, folder, "rate.wasm", bundledModule(t, "rate"))
	}
	rate := t.TempDir()
	dropRate(rate)
	pass := func(folder string) {
		if out, err := talon(t, nil, "import", "--data", newData(t), "--plugins", folder, "--domain", "127.0.0.1"); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	pass(rate)
	for _, word := range []string{"right", "left"} {
		only(word)
		pass(folder)
	}
	begin := func(name string, args ...string) *process {
		data := newData(t)
		args = append([]string{"--plugins", folder, "--store", url, "--sync", "false", "--hunt", "false", "--node", name, "--plugins-node", "a"}, args...)
		return startAs(t, exec.Command("talon", serveArgs(t, data, args...)...), data)
	}
	a, b, c := begin("a"), begin("b"), begin("c")
	nodes := []*process{a, b, c}
	last := signAs(t, "end", nostr.Event{Kind: 1, Content: "left right"})
	var readers []*reader
	for _, s := range []*process{a, b, c} {
		readers = append(readers, readAll(t, s, `{"limit":0}`, last.ID))
	}

	var stop atomic.Bool
	var publishing sync.WaitGroup
	var mu sync.Mutex
	words := map[string]string{} // of each event
	var accepted [2]atomic.Int64
	for i, s := range nodes {
		conn := connect(t, s)
		pace := time.NewTicker(5 * time.Millisecond)
		defer pace.Stop()
		publishing.Go(func() {
			// A pace leaves the processors to the change itself: a module is compiled at the lowest
			// priority, so writers without one prolong what they wait for.
			for n := 0; !stop.Load(); n++ {
				<-pace.C
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
	switches := 2
	if os.Getenv("TALON_TEST_SCALE") != "" {
		switches = 4
	}
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

	// The rate of an author holds for all nodes together.
	dropRate(folder)
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
	if status, text := d.get(t, "/healthz"); status != http.StatusServiceUnavailable || !strings.Contains(text, "it is not signed") {
		t.Errorf("%d: %s", status, text)
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
