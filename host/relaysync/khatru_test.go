package relaysync_test

import (
	"bufio"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"talon/host"
	"talon/host/relayclient"
	"talon/host/relaysync"
	"talon/internal/testkit"
)

// TestKhatru runs the real khatru with three of its stores, over the loopback interface. Each event
// is on exactly one relay. There are a first sync, new events, events with old dates, a deletion,
// an outage of each relay and a restart of Talon. No event may be missing after one check, and no
// relay may be barred. Live events must come within 5 seconds (p99). It takes about a minute for
// each strategy, and needs the module proxy.
func TestKhatru(t *testing.T) {
	if os.Getenv("TALON_TEST_DEVNET") == "" {
		t.Skip("it takes minutes, and builds khatru: set TALON_TEST_DEVNET=1")
	}
	program := filepath.Join(t.TempDir(), "khatru")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", program, ".")
	build.Dir = "../../testdata/relays/khatru"
	build.Env = append(os.Environ(), "GOFLAGS=-trimpath", "GOWORK=off")
	if text, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build khatru: %v\n%s", err, text)
	}
	for _, strategy := range []string{"mirror", "layered-v5"} {
		t.Run(strategy, func(t *testing.T) {
			modules, code := matrixModules(t, "plugins/"+strategy, "check_minutes_pages = 1")
			w := newKhatruWorld(t, program, modules, code)
			defer w.close()
			w.run()
		})
	}
}

// khatruRelay is a relay in a process of its own. Talon reaches it through a gate.
type khatruRelay struct {
	store   string
	gate    *testkit.Gate
	address string // behind the gate: people publish there
}

type khatruWorld struct {
	*matrixWorld
	relays []*khatruRelay
	people *testkit.Signer
	issues []*host.Event
	at     map[host.ID]string // where each event is
	texts  int
	random *rand.Rand
}

func newKhatruWorld(t *testing.T, program, modules, code string) *khatruWorld {
	w := &khatruWorld{matrixWorld: newMatrixWorld(t, modules, code, nil), people: testkit.NewSigner(31), at: map[host.ID]string{}, random: rand.New(rand.NewPCG(1, 2))}
	w.network = nil
	for _, r := range []struct {
		store string
		args  []string
	}{{"badger", nil}, {"lmdb", []string{"--negentropy"}}, {"slicestore", []string{"--negentropy"}}} {
		cmd := exec.CommandContext(t.Context(), program, append([]string{"--store", r.store, "--dir", t.TempDir()}, r.args...)...)
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
		})
		address, err := bufio.NewReader(out).ReadString('\n')
		if err != nil {
			t.Fatal(r.store, err)
		}
		address = strings.TrimSpace(address)
		w.relays = append(w.relays, &khatruRelay{r.store, testkit.NewGate(t, address), "ws://" + address})
	}
	w.first = w.relays[0].gate.URL()
	return w
}

// publish publishes an event at one relay.
func (w *khatruWorld) publish(relay int, e *host.Event) {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	conn, err := relayclient.Dial(ctx, w.relays[relay].address, relayclient.Options{MessageBytes: 1 << 20})
	if err != nil {
		w.t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	if res, err := conn.Publish(ctx, e); err != nil || !res.OK {
		w.t.Fatalf("%s: %+v, %v", w.relays[relay].store, res, err)
	}
	w.expected[e.ID] = true
	w.at[e.ID] = fmt.Sprintf("kind %d of %s, %d s old", e.Kind, w.relays[relay].store, time.Now().Unix()-e.CreatedAt)
}

// comment returns a comment on an issue, dated that number of seconds back.
func (w *khatruWorld) comment(ago int64) *host.Event {
	w.texts++
	id := w.issues[w.random.IntN(len(w.issues))].ID.String()
	return w.people.Event(1111, time.Now().Unix()-ago, fmt.Sprint("comment ", w.texts), host.Tag{"E", id}, host.Tag{"e", id})
}

const old = 40 * 24 * 3600 // seconds

// live publishes comments, each at one relay, and returns how late they come.
func (w *khatruWorld) live(count int, ago int64) (late []time.Duration) {
	w.t.Helper()
	for range count {
		e := w.comment(ago)
		began := time.Now()
		w.publish(w.random.IntN(len(w.relays)), e)
		for time.Since(began) < 30*time.Second && !w.here.Has(e.ID) {
			time.Sleep(10 * time.Millisecond)
		}
		late = append(late, time.Since(began).Round(time.Millisecond))
	}
	slices.Sort(late)
	return late
}

// run plays the story.
func (w *khatruWorld) run() {
	t := w.t
	var urls []string
	for _, r := range w.relays {
		urls = append(urls, r.gate.URL())
	}
	now := time.Now().Unix()
	for i := range 6 {
		d := fmt.Sprintf("repo-%d", i)
		list := append(host.Tag{"relays", "wss://" + ownDomain}, urls...)
		repo := w.people.Event(30617, now-old-1000, "", host.Tag{"d", d}, host.Tag{"clone", "https://" + ownDomain + "/x/" + d + ".git"}, list)
		w.publish(0, repo)
		address, _ := repo.Address()
		for k := range 30 {
			issue := w.people.Event(1621, now-old+int64(100*i+k), fmt.Sprint("issue ", i, k), host.Tag{"a", address.String()})
			w.publish(k%3, issue)
			w.issues = append(w.issues, issue)
			w.publish((k+1)%3, w.comment(old-1000))
		}
	}
	w.begin()
	w.wantAll("first sync", 60*time.Second)
	w.wantComplete(60 * time.Second)

	late := w.live(60, 0)
	t.Logf("live events: p50 %v, p99 %v", late[len(late)/2], late[len(late)-1])
	if p99 := late[len(late)-1]; p99 > 5*time.Second {
		t.Errorf("live events come after %v", p99)
	}
	late = w.live(15, old)
	t.Logf("live events with old dates: p99 %v", late[len(late)-1])
	if p99 := late[len(late)-1]; p99 > 5*time.Second {
		t.Errorf("live events with old dates come after %v", p99)
	}
	gone := w.issues[0]
	deletion := w.people.Event(5, time.Now().Unix(), "", host.Tag{"e", gone.ID.String()}, host.Tag{"k", "1621"})
	w.publish(1, deletion)
	w.wantAll("a deletion", 5*time.Second)

	for _, r := range w.relays {
		r.gate.Shut()
	}
	for k := range w.relays {
		for range 5 {
			w.publish(k, w.comment(0))
			w.publish(k, w.comment(old))
		}
	}
	time.Sleep(8 * time.Second)
	for _, r := range w.relays {
		r.gate.Open()
	}
	back := time.Now()
	w.wantAll("an outage", 90*time.Second)
	t.Logf("everything of the outage is here %v after its end", time.Since(back).Round(time.Millisecond))

	w.stop()
	for k := range w.relays {
		w.publish(k, w.comment(0))
		w.publish(k, w.comment(old))
	}
	w.begin()
	back = time.Now()
	w.wantAll("a restart", 90*time.Second)
	t.Logf("everything of the restart is here after %v", time.Since(back).Round(time.Millisecond))
	w.wantComplete(90 * time.Second)
}

// wantAll fails the test unless everything is here in time, and nobody is barred.
func (w *khatruWorld) wantAll(what string, limit time.Duration) {
	w.t.Helper()
	if wrong := w.until(limit, 50*time.Millisecond, 0); wrong != "" {
		w.t.Errorf("%s: %s%s", what, wrong, w.warnings)
		for id, where := range w.at {
			if !w.here.Has(id) {
				w.t.Logf("missing: %s", where)
			}
		}
		for _, r := range w.status().Relays {
			w.t.Logf("%s: %s, negentropy %s, next check in %v, open %+v", r.Relay, r.State, r.Limits.Negentropy, time.Until(r.NextCheck).Round(time.Second), r.Open)
		}
	}
	for _, r := range w.status().Relays {
		if r.Health != "healthy" && r.State == relaysync.StateConnected {
			w.t.Errorf("%s: %s is %s: %s", what, r.Relay, r.Health, r.Reason)
		}
	}
}

// wantComplete fails the test unless all relays are complete in time. None is before everything is
// here.
func (w *khatruWorld) wantComplete(limit time.Duration) {
	w.t.Helper()
	began := time.Now()
	for st := w.status(); st.Complete < len(w.relays); st = w.status() {
		if time.Since(began) > limit {
			for _, r := range st.Relays {
				w.t.Errorf("after %v: %s is %s, open %+v", limit, r.Relay, r.State, r.Open)
			}
			return
		}
		time.Sleep(100 * time.Millisecond)
	}
	if n := w.missing(); n > 0 {
		w.t.Errorf("all relays are complete, and %d events are missing", n)
	}
}

func (w *khatruWorld) status() relaysync.Snapshot {
	st, err := w.strategy.sync.Status(context.Background(), relaysync.Query{})
	if err != nil {
		w.t.Fatal(err)
	}
	return st
}
