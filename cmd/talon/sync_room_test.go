package main

import (
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/nbd-wtf/go-nostr"

	"talon/internal/testkit"
)

// twoTalons are two services that the same repositories list, with default settings.
type twoTalons struct {
	*testing.T
	first, second *process
	key           string // file
}

// startTwo runs two services with a strategy until the end of the test. Each knows itself by
// the address at which it listens.
func startTwo(t *testing.T, strategy string, quick bool, args ...string) *twoTalons {
	t.Helper()
	settings := map[string]string{strategy: "", "polite": ""}
	if quick {
		settings = map[string]string{strategy: "batch_seconds = 1\n", "polite": hasty}
	}
	code := devnetCode(t, strategy, "polite")
	plugins := devnetModules(t, settings)
	w := &twoTalons{T: t, key: filepath.Join(t.TempDir(), "key")}
	if err := os.WriteFile(w.key, []byte(key("maintainer")), 0o600); err != nil {
		t.Fatal(err)
	}
	port := testkit.FreePorts(t, 2)
	for i, s := range []**process{&w.first, &w.second} {
		address := fmt.Sprint("127.0.0.1:", port+i)
		data := filepath.Join(t.TempDir(), "data")
		if err := linkCompiled(data, code); err != nil {
			t.Fatal(err)
		}
		keepPassed(t, code)
		list := append(serveArgs(t, data, args...), "--plugins", plugins, "--listen", address, "--domain", address, "--allow-private", "true")
		*s = startAs(t, exec.Command("talon", list...), data)
	}
	t.Cleanup(func() {
		for _, s := range []*process{w.first, w.second} {
			if t.Failed() {
				t.Logf("log of a server:\n%s", s.text())
			}
		}
	})
	return w
}

// announce announces a repository that lists both services, at some of them, and pushes it to
// the first one.
func (w *twoTalons) announce(name string, at ...*process) (address string) {
	w.Helper()
	dir := filepath.Join(w.TempDir(), "work")
	npub := person("maintainer").npub()
	run := func(command *exec.Cmd) {
		w.Helper()
		command.Dir, command.Env = dir, append(environ(), "GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a", "TALON_KEY_FILE="+w.key)
		if out, err := command.CombinedOutput(); err != nil {
			w.Fatalf("%v: %v\n%s", command.Args, err, out)
		}
	}
	if err := os.Mkdir(dir, 0o700); err != nil {
		w.Fatal(err)
	}
	run(exec.Command("git", "init", "-q", "-b", "main"))
	run(exec.Command("git", "commit", "-q", "--allow-empty", "-m", name))
	announce := exec.Command("talon", "event", "announce", "--name", name)
	for _, s := range at {
		announce.Args = append(announce.Args, s.url)
	}
	for _, s := range []*process{w.first, w.second} {
		announce.Args = append(announce.Args, "--relay", s.url, "--clone", s.web()+"/"+npub+"/"+name+".git")
	}
	run(announce)
	run(exec.Command("talon", "event", "push", "--head", "main", w.first.web()+"/"+npub+"/"+name+".git", "main"))
	return repoAddress("maintainer", name)
}

// publish sends events to a service, many at a time.
func (w *twoTalons) publish(s *process, events []*nostr.Event) {
	w.Helper()
	c := connect(w, s)
	failed := make(chan error, 1)
	go func() {
		for range events {
			a, err := parseOK(textOf(c.next("OK")))
			if err != nil || !a.ok {
				failed <- fmt.Errorf("publish: %+v %w", a, err)
				return
			}
		}
		failed <- nil
	}()
	for _, e := range events {
		if err := c.write(message(e)); err != nil {
			break // the answers say why
		}
	}
	if err := <-failed; err != nil {
		w.Fatal(err)
	}
}

// textOf returns a text, empty after an error.
func textOf(text string, _ error) string { return text }

// issues signs issues about a repository.
func (w *twoTalons) issues(address string, from, n int) (list []*nostr.Event) {
	w.Helper()
	for i := range n {
		list = append(list, signAs(w, "reporter", nostr.Event{Kind: 1621, Content: strconv.Itoa(from + i), Tags: nostr.Tags{{"a", address}, {"subject", "an issue"}}}))
	}
	return list
}

// count asks a service how many events match.
func count(t testing.TB, c *client, filter string) (n int) {
	t.Helper()
	c.send(t, `["COUNT","count",`+filter+`]`)
	var answer struct{ Count int }
	if err := json.Unmarshal([]byte(c.mustNext(t, "COUNT")), &[]any{new(string), new(string), &answer}); err != nil {
		t.Fatal(err)
	}
	return answer.Count
}

// arrives waits until the second service has a number of events that match. It returns how many
// there are, and after what time.
func (w *twoTalons) arrives(filter string, n int, within time.Duration) (have int, took time.Duration) {
	w.Helper()
	c := connect(w, w.second)
	defer c.close()
	for began := time.Now(); ; testkit.Pause(time.Since(began)) {
		if have, took = count(w, c, filter), time.Since(began); have >= n || took > within {
			return have, took
		}
	}
}

// live publishes events at the first service, one at a time, and returns how long the second
// one took to have each, sorted. An event that does not come counts as patience.
func (w *twoTalons) live(events []*nostr.Event, pause time.Duration) (times []time.Duration) {
	w.Helper()
	to, from := connect(w, w.first), connect(w, w.second)
	from.send(w, `["REQ","live",{"limit":0}]`)
	from.untilEOSE(w, "live")
	came := make(chan string, 10*len(events))
	go func() {
		for {
			var e nostr.Event
			text, err := from.next("EVENT")
			if err != nil {
				close(came)
				return
			}
			if json.Unmarshal([]byte(text), &[]any{new(string), new(string), &e}) == nil {
				came <- e.ID
			}
		}
	}()
	said := make(map[string]time.Time)
	take := func(id string) {
		if at, ok := said[id]; ok {
			times = append(times, time.Since(at))
			delete(said, id)
		}
	}
	limit := time.After(90 * time.Second)
	for _, e := range events {
		said[e.ID] = time.Now()
		if a := to.publish(w, e); !a.ok {
			w.Fatalf("publish: %+v", a)
		}
		for next := time.After(pause); next != nil; {
			select {
			case id := <-came:
				take(id)
			case <-next:
				next = nil
			}
		}
	}
	for len(said) > 0 {
		select {
		case id := <-came:
			take(id)
			continue
		case <-limit:
		}
		for range said {
			times = append(times, patience)
		}
		break
	}
	_ = from.net.(*net.TCPConn).CloseRead()
	slices.Sort(times)
	return times
}

// TestSyncManyRoots: a repository with more root events than a relay has room for keeps
// nothing else from coming. TALON_TEST_SCALE=1 has up to 20,000 of them, and default settings but
// for the values, of which an older Talon takes 20,000.
func TestSyncManyRoots(t *testing.T) {
	notUnderRace(t)
	type scale struct{ issues, values int }
	scales, quick := []scale{{300, 520}}, true
	if os.Getenv("TALON_TEST_SCALE") != "" {
		scales, quick = []scale{{7_500, 20_000}, {20_000, 0}}, false
	} else {
		devnetCode(t, "mirror", "layered-v5", "polite")
		t.Parallel()
	}
	for _, strategy := range []string{"mirror", "layered-v5"} {
		for _, s := range scales {
			t.Run(fmt.Sprint(strategy, " ", s.issues), func(t *testing.T) {
				pause := 100 * time.Millisecond
				if quick {
					t.Parallel() // the large form measures times
					pause /= 10
				}
				w := startTwo(t, strategy, quick, "--max-subscription-values", strconv.Itoa(s.values))
				w.manyRoots(s.issues, pause)
			})
		}
	}
}

// manyRoots publishes live events with a pause between them.
func (w *twoTalons) manyRoots(issues int, pause time.Duration) {
	w.Helper()
	big := w.announce("big", w.first, w.second)
	if n, took := w.arrives(`{"kinds":[30617]}`, 1, patience); n != 1 {
		w.Fatalf("the repository is not there after %v", took)
	}
	w.publish(w.first, w.issues(big, 0, issues))
	n, took := w.arrives(`{"kinds":[1621],"#a":["`+big+`"]}`, issues, patience)
	w.Logf("%d of %d issues after %v", n, issues, took)
	if n != issues {
		w.Errorf("%d of %d issues came", n, issues)
	}
	began := time.Now()
	second := w.announce("second", w.first)
	w.publish(w.first, w.issues(second, issues, 20))
	n, _ = w.arrives(`{"kinds":[1621],"#a":["`+second+`"]}`, 20, 90*time.Second)
	w.Logf("%d of 20 issues about the second repository after %v", n, time.Since(began))
	if n != 20 {
		w.Errorf("%d of 20 issues about the second repository came", n)
	}
	times := w.live(w.issues(second, issues+20, 40), pause)
	w.Logf("live: median %v, p99 %v, most %v", times[len(times)/2], times[len(times)*99/100], times[len(times)-1])
	if times[len(times)-1] >= patience {
		w.Error("a live event did not come")
	}
}
