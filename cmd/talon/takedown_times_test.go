package main

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nbd-wtf/go-nostr"
)

// TestTakedownTimes takes down an author with 10,000 events and 50 repositories. It reports when each door
// of each node shows nothing of the author any more, and how long a bystander waits during that time.
func TestTakedownTimes(t *testing.T) {
	if os.Getenv("TALON_TEST_SCALE") == "" {
		t.Skip("TALON_TEST_SCALE is not set: TestTakedown and TestTakedownDoors look at the doors")
	}
	eachEngine(t, takedownSetup{scale: true, options: []string{"--max-message-rate", "1000000"}}, (*takedown).times)
}

const (
	takenEvents       = 10_000
	takenRepositories = 50
)

func (w *takedown) times() {
	w.fillForTimes()
	target := w.mallory.npub()
	for _, action := range []struct {
		name string
		args []string
	}{
		{"hide", []string{"moderate", "hide", target, "--reason", "scam"}},
		{"unhide", []string{"moderate", "unhide", target}},
		{"purge", []string{"moderate", "ban", "--purge", target, "--reason", "scam"}},
	} {
		w.timeOf(action.name, action.args)
	}
}

// fillForTimes publishes what is taken down, and what is a bystander's.
func (w *takedown) fillForTimes() {
	st := w.st
	w.alice, w.mallory = st.who("alice"), st.who("mallory")
	w.work = st.folder()
	w.one = w.work.commit("one")
	publish := func(who person, id string) {
		st.held(st.announcement(who, id))
		st.held(st.state(who, id, "refs/heads/main", w.one))
		w.work.push(st.repo(who, id), w.one+":refs/heads/main")
	}
	publish(w.alice, "tool")
	for n := range takenRepositories {
		publish(w.mallory, fmt.Sprintf("r%d", n))
	}
	c, from := connect(w.T, st.s), nostr.Now()-takenEvents
	for first := 0; first < takenEvents; first += 500 {
		for n := range 500 {
			e := st.eventAt(w.mallory, from+nostr.Timestamp(first+n), 1621, nostr.Tag{"a", repoAddress(w.alice, "tool")}, nostr.Tag{"subject", fmt.Sprint(first + n)})
			c.send(w.T, string(message(e)))
		}
		for range 500 {
			if a, err := parseOK(c.mustNext(w.T, "OK")); err != nil || !a.ok {
				w.Fatalf("%+v, %v", a, err)
			}
		}
	}
}

// door is a way to see something of the author at a node.
type door struct {
	name  string
	shows func() bool
}

// doors returns the ways to see something of the author. Two of them are opened by the call.
func (w *takedown) doors() (list []door) {
	of := `{"authors":["` + w.mallory.hex() + `"]`
	for node, st := range w.nodes() {
		st.c = connect(w.T, st.s) // the earlier one was idle, and answered no pings
		add := func(name string, shows func() bool) { list = append(list, door{name + node, shows}) }
		add("REQ", func() bool { return len(st.c.query(w.T, of+`,"limit":1}`)) > 0 })
		add("COUNT", func() bool { return st.count(of+`}`) > 0 })
		add("NEG", func() bool {
			ids, ok := st.reconcile(of + `,"kinds":[30617]}`)
			return !ok || len(ids) > 0
		})
		add("page", func() bool {
			return st.ask("GET", "/"+w.mallory.npub()+"/r7", nil).status != http.StatusUnavailableForLegalReasons
		})
		add("git", func() bool {
			return !strings.Contains(st.ask("GET", repoPath(w.mallory, "r49")+"/info/refs?service=git-upload-pack", nil).body, "ERR this repository was ")
		})
		// A session that is open ends. A live subscription gets nothing that comes now.
		c := connect(w.T, st.s)
		c.send(w.T, `["REQ","live",`+of+`,"limit":0}]`)
		c.mustNext(w.T, "EOSE")
		c.send(w.T, `["NEG-OPEN","open",`+of+`},"6100000200"]`)
		c.mustNext(w.T, "NEG-MSG", "NEG-ERR")
		var mu sync.Mutex // guards the fields below
		open, live := true, 0
		go func() {
			for {
				text, err := c.next("NEG-ERR", "EVENT")
				if err != nil {
					return
				}
				mu.Lock()
				open = open && strings.HasPrefix(text, `["EVENT"`)
				if strings.HasPrefix(text, `["EVENT"`) {
					live++
				}
				mu.Unlock()
			}
		}()
		add("an open NEG", func() bool { mu.Lock(); defer mu.Unlock(); return open })
		publisher, seen := connect(w.T, st.s), 0
		add("live", func() bool {
			a := publisher.publish(w.T, st.event(w.mallory, 1621, nostr.Tag{"a", repoAddress(w.alice, "tool")}))
			mu.Lock()
			defer mu.Unlock()
			shows := a.ok || live > seen
			seen = live
			return shows
		})
	}
	return list
}

// timeOf has the operator do something, and reports when it is done at each door.
func (w *takedown) timeOf(name string, args []string) {
	w.Helper()
	doors, shown := w.doors(), name == "unhide"
	ctx, stop := context.WithCancel(w.T.Context())
	waits := w.bystander(ctx)
	time.Sleep(time.Second)
	before := waits()
	done := make(chan error, 1)
	began := time.Now()
	go func() {
		out, err := talon(w.T, nil, append(append(args, "--data", w.data), w.store...)...)
		if err != nil {
			err = fmt.Errorf("%w: %s", err, out)
		}
		done <- err
	}()
	for len(doors) > 0 {
		doors = slices.DeleteFunc(doors, func(d door) bool {
			if shown && (strings.HasPrefix(d.name, "an open NEG") || strings.HasPrefix(d.name, "live")) {
				return true // they end, or show what is back
			}
			if d.shows() != shown {
				return false
			}
			w.Logf("%s: %s after %.2f s", name, d.name, time.Since(began).Seconds())
			return true
		})
		if time.Since(began) > 5*time.Minute {
			w.Fatalf("%s: after 5 minutes %d doors are as before", name, len(doors))
		}
	}
	if err := <-done; err != nil {
		w.Errorf("%s: %v", name, err)
	}
	w.Logf("%s: the command ended after %.2f s", name, time.Since(began).Seconds())
	during := waits()
	stop()
	w.Logf("%s: a bystander waited %s; before %s", name, during, before)
}

// bystander reads and writes until ctx ends. The function that it returns tells the times since it was
// called last.
func (w *takedown) bystander(ctx context.Context) func() string {
	c, st := connect(w.T, w.st.s), w.st
	var mu sync.Mutex // guards times
	times := map[string][]time.Duration{}
	took := func(what string, began time.Time) {
		mu.Lock()
		defer mu.Unlock()
		times[what] = append(times[what], time.Since(began))
	}
	var events []*nostr.Event
	for n := range 20_000 {
		events = append(events, &nostr.Event{Kind: 1621, CreatedAt: st.now, Tags: nostr.Tags{{"a", repoAddress(w.alice, "tool")}, {"subject", fmt.Sprint("b", n)}}})
	}
	page := "http://" + strings.TrimPrefix(st.web, "http://") + strings.TrimSuffix(repoPath(w.alice, "tool"), ".git")
	go func() {
		for _, e := range events {
			if ctx.Err() != nil {
				return
			}
			began := time.Now()
			if c.write(message(signAs(w.T, string(w.alice), *e))) != nil {
				return
			}
			if _, err := c.next("OK"); err != nil {
				return
			}
			took("EVENT", began)
			began = time.Now()
			if c.write([]byte(`["REQ","b",{"authors":["`+w.alice.hex()+`"],"limit":5}]`)) != nil {
				return
			}
			if _, err := c.next("EOSE"); err != nil {
				return
			}
			took("REQ", began)
			began = time.Now()
			if answer, err := http.Get(page); err == nil {
				_ = answer.Body.Close()
				took("page", began)
			}
			time.Sleep(10 * time.Millisecond)
		}
	}()
	return func() string {
		mu.Lock()
		defer mu.Unlock()
		var texts []string
		for _, what := range []string{"EVENT", "REQ", "page"} {
			list := times[what]
			if slices.Sort(list); len(list) > 0 {
				ms := func(d time.Duration) int64 { return d.Milliseconds() }
				texts = append(texts, fmt.Sprintf("%s p50 %d, p99 %d, most %d ms of %d", what, ms(list[len(list)/2]), ms(list[len(list)*99/100]), ms(list[len(list)-1]), len(list)))
			}
		}
		clear(times)
		return strings.Join(texts, "; ")
	}
}
