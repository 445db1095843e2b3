package main

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nbd-wtf/go-nostr"
)

// TestCrash kills the server under load, again and again. Afterwards each event that it
// answered OK true is there, no deleted event is, and the database is sound.
//
// TALON_CRASH_ROUNDS sets how often.
func TestCrash(t *testing.T) {
	t.Parallel()
	rounds := 5
	if text := os.Getenv("TALON_CRASH_ROUNDS"); text != "" {
		var err error
		if rounds, err = strconv.Atoi(text); err != nil {
			t.Fatalf("TALON_CRASH_ROUNDS: %v", err)
		}
	}
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	data := newData(t)
	known := &promises{stored: map[string]bool{}, doubtful: map[string]bool{}, deleted: map[string]bool{}}
	for round := range rounds {
		s := startAs(t, exec.Command(realTalon, serveArgs(t, data)...), data)
		known.verify(t, s)
		crash(t, s, known, round, 1+random.IntN(700))
		mustCheck(t, data)
		if t.Failed() {
			return
		}
	}
	s := start(t, data)
	known.verify(t, s)
	t.Logf("%d events stored, %d deleted", len(known.stored), len(known.deleted))
}

// promises are the events about which the server gave its word.
type promises struct {
	mu       sync.Mutex      // guards the fields below
	stored   map[string]bool // must be there
	doubtful map[string]bool // may be there: a deletion that names it was sent
	deleted  map[string]bool // must not be there
}

func (p *promises) answered(e *nostr.Event) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.doubtful[e.ID] {
		p.stored[e.ID] = true
	}
	if e.Kind == 5 {
		p.deleted[e.Tags[0][1]] = true
	}
}

// sent takes back the promise about what a deletion names, also one that is yet to
// come: the deletion may be carried out and not answered.
func (p *promises) sent(e *nostr.Event) {
	if e.Kind == 5 {
		p.mu.Lock()
		delete(p.stored, e.Tags[0][1])
		p.doubtful[e.Tags[0][1]] = true
		p.mu.Unlock()
	}
}

// verify asks the server for everything.
func (p *promises) verify(t *testing.T, s *process) {
	t.Helper()
	c := connect(t, s)
	there := func(set map[string]bool) (n int) {
		list := make([]string, 0, len(set))
		for id := range set {
			list = append(list, id)
		}
		for len(list) > 0 {
			part := list[:min(len(list), 400)]
			list = list[len(part):]
			text, err := json.Marshal(part)
			if err != nil {
				t.Fatal(err)
			}
			n += len(c.query(t, `{"ids":`+string(text)+`}`))
		}
		return n
	}
	if n := there(p.stored); n != len(p.stored) {
		t.Fatalf("%d of %d events that were answered OK true are there", n, len(p.stored))
	}
	if n := there(p.deleted); n != 0 {
		t.Fatalf("%d of %d deleted events are there", n, len(p.deleted))
	}
}

// crash publishes on 8 connections and kills the server when the given number of events
// has been answered.
func crash(t *testing.T, s *process, known *promises, round, after int) {
	const connections, each, window = 8, 200, 64
	loads := make([][]*nostr.Event, connections)
	for i := range loads {
		loads[i] = crashLoad(t, fmt.Sprintf("publisher %d", i), round, each)
	}
	var answered atomic.Int64
	enough := make(chan struct{})
	var wg sync.WaitGroup
	for _, events := range loads {
		c := connect(t, s)
		flying := make(chan struct{}, window)
		wg.Go(func() {
			for _, e := range events {
				flying <- struct{}{}
				known.sent(e)
				if c.write(message(e)) != nil {
					return
				}
			}
		})
		wg.Go(func() {
			// Lets the writer find out that the connection is gone. One that waits for
			// room writes once more, in vain.
			defer func() {
				c.close()
				for len(flying) > 0 {
					<-flying
				}
			}()
			for _, e := range events {
				text, err := c.next("OK")
				if err != nil {
					return
				}
				if a, err := parseOK(text); err != nil || a.id != e.ID || !a.ok {
					t.Errorf("got %s (%v) for %s", text, err, e)
					return
				}
				known.answered(e)
				<-flying
				if answered.Add(1) == int64(after) {
					close(enough)
				}
			}
		})
	}
	select {
	case <-enough:
	case <-time.After(patience):
		t.Errorf("%d events were answered after %v, want %d", answered.Load(), patience, after)
	}
	s.kill()
	wg.Wait()
	if strings.Contains(s.text(), `"level":"ERROR"`) {
		t.Errorf("the server logged an error:\n%s", s.text())
	}
}

// crashLoad signs events of several kinds, some of which delete others.
func crashLoad(t *testing.T, name string, round, n int) []*nostr.Event {
	var events []*nostr.Event
	for i := range n {
		e := nostr.Event{Kind: 1, Content: fmt.Sprintf("%d/%d %s", round, i, strings.Repeat("x", i)), Tags: nostr.Tags{{"t", "crash"}, {"r", strconv.Itoa(i)}}}
		switch {
		case i%10 == 5:
			e.Kind, e.Tags = 30023, nostr.Tags{{"d", fmt.Sprintf("%d/%d", round, i)}}
		case i%10 == 9:
			e.Kind, e.Tags = 5, nostr.Tags{{"e", events[i-3].ID}}
		case i%10 == 7:
			e.Tags = append(e.Tags, nostr.Tag{"expiration", "99999999999"})
		}
		events = append(events, signAs(t, name, e))
	}
	return events
}

// TestDiskFull serves where no file may grow beyond 8 MiB, which SQLite meets as a
// disk without room. Publishers hear of it, readers are served, nothing that was
// answered is lost; with room again the server goes on.
func TestDiskFull(t *testing.T) {
	t.Parallel()
	data := newData(t) // with the machine code of the modules, which is larger than the limit
	limited := exec.Command("bash", append([]string{"-c", `ulimit -f 8192 && exec ` + realTalon + ` "$@"`, "talon"}, serveArgs(t, data)...)...)
	s := startAs(t, limited, data)
	c := connect(t, s)

	stored := map[string]bool{}
	refused := 0
	big := strings.Repeat("0123456789abcdef", 6000)
	for i := 0; refused < 20; i++ {
		if i > 500 {
			t.Fatal("48 MB went into files of 8")
		}
		e := signAs(t, "hoarder", nostr.Event{Kind: 1, Content: strconv.Itoa(i) + big})
		switch a := c.publish(t, e); {
		case a.ok:
			stored[e.ID] = true
		case strings.HasPrefix(a.reason, "error: "):
			refused++
		default:
			t.Fatalf("refused with %q, want an error: the event is not to blame", a.reason)
		}
	}
	t.Logf("%d events stored before the disk was full", len(stored))
	if len(stored) == 0 {
		t.Fatal("nothing was stored")
	}

	// Reading goes on, on old and on new connections.
	for _, c := range []*client{c, connect(t, s)} {
		wantStored(t, c, stored)
	}
	if !strings.Contains(s.text(), `"level":"ERROR"`) {
		t.Error("the operator is not told")
	}
	s.mustStop(t)

	// With room it goes on.
	again := start(t, data)
	c = connect(t, again)
	wantStored(t, c, stored)
	for i := range 20 {
		e := signAs(t, "hoarder", nostr.Event{Kind: 1, Content: fmt.Sprint("more ", i, big)})
		if a := c.publish(t, e); !a.ok {
			t.Fatalf("refused although there is room: %s", a.reason)
		}
		stored[e.ID] = true
	}
	wantStored(t, c, stored)
	again.mustStop(t)
	mustCheck(t, data)
}

func wantStored(t *testing.T, c *client, want map[string]bool) {
	t.Helper()
	there := 0
	for _, e := range c.query(t, `{"limit":5000}`) {
		if want[e.ID] {
			there++
		}
	}
	if there != len(want) {
		t.Errorf("%d of %d events that were answered OK true are there", there, len(want))
	}
}
