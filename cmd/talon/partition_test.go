package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"talon/host"
	"talon/host/relayclient"
	"talon/internal/testkit"
	"talon/sdk/nip19"
)

// TestDevnetPartition separates two Talons for some time. People write on both sides, and a commit is
// pushed to one of them. Each has the events of both within 10 seconds after the partition, and the
// commit. A relay is healthy after a minute here, and not after an hour.
func TestDevnetPartition(t *testing.T) {
	if !largeNets() {
		t.Skip("it takes minutes: set TALON_TEST_DEVNET=1")
	}
	devnetCode(t, "mirror", "layered-v5", "polite")
	for strategy, settings := range map[string]string{"mirror": "", "layered-v5": "second_level = 3\n"} {
		t.Run(strategy, func(t *testing.T) {
			t.Parallel()
			w := newPartition(t, map[string]string{strategy: settings, "polite": "relay_eager_after_s = 60\n"})
			w.announce()
			time.Sleep(65 * time.Second) // both are healthy for a minute
			w.separate("cut off", 20*time.Second, (*testkit.Gate).Shut)
			time.Sleep(65 * time.Second)
			w.separate("silent", 15*time.Second, (*testkit.Gate).Freeze)
		})
	}
}

// partition is two Talons, each behind the gate that is its domain.
type partition struct {
	*testing.T
	gates  [2]*testkit.Gate
	talons [2]*process
	owner  *testkit.Signer
	work   string
	path   string // of the repository
	root   *host.Event
	states int64
	sent   []host.ID
}

func newPartition(t *testing.T, modules map[string]string) *partition {
	w := &partition{T: t, owner: testkit.NewSigner(110), work: gitWork(t, filepath.Join(t.TempDir(), "work"))}
	w.path = "/" + nip19.EncodeNpub(w.owner.PubKey) + "/demo.git"
	var addresses [2]string
	for i := range w.gates {
		addresses[i] = testkit.FreeAddress(t)
		w.gates[i] = testkit.NewGate(t, addresses[i])
	}
	plugins := devnetModules(t, modules)
	for i := range w.talons {
		data := newMiddleData(t)
		w.talons[i] = startAs(t, exec.Command("talon", serveArgs(t, data, "--plugins", plugins, "--listen", addresses[i], "--domain", w.gates[i].Address(),
			"--allow-private", "true", "--bootstrap", w.gates[1-i].URL())...), data)
	}
	t.Cleanup(func() {
		if t.Failed() {
			for i, s := range w.talons {
				t.Logf("log of server %d:\n%s", i, s.text())
			}
		}
	})
	return w
}

// publish publishes an event at one Talon.
func (w *partition) publish(at int, e *host.Event) *host.Event {
	w.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	conn, err := relayclient.Dial(ctx, w.talons[at].url, relayclient.Options{})
	if err != nil {
		w.Fatal(err)
	}
	defer conn.Close()
	if res, err := conn.Publish(ctx, e); err != nil || !res.OK {
		w.Fatalf("publish kind %d: %+v, %v", e.Kind, res, err)
	}
	w.sent = append(w.sent, e.ID)
	return e
}

// push commits, signs the state, and pushes to one Talon.
func (w *partition) push(at int) (commit string) {
	w.Helper()
	mustGit(w.T, w.work, "commit", "-q", "--allow-empty", "-m", fmt.Sprint("commit ", len(w.sent)))
	commit = strings.TrimSpace(mustGit(w.T, w.work, "rev-parse", "HEAD"))
	w.states++
	w.publish(at, w.owner.Event(30618, time.Now().Unix()+w.states, "", host.Tag{"d", "demo"}, host.Tag{"refs/heads/main", commit}, host.Tag{"HEAD", "ref: refs/heads/main"}))
	mustGit(w.T, w.work, "push", "-q", w.talons[at].web()+w.path, "main")
	return commit
}

// announce creates a repository at the second Talon, and waits until the first has it.
func (w *partition) announce() {
	w.Helper()
	clone, relays := host.Tag{"clone"}, host.Tag{"relays"}
	for _, g := range w.gates {
		clone = append(clone, "http://"+g.Address()+w.path)
		relays = append(relays, g.URL())
	}
	repo := w.publish(1, w.owner.Event(30617, time.Now().Unix()-10, "", host.Tag{"d", "demo"}, clone, relays))
	commit := w.push(1)
	a, _ := repo.Address()
	w.root = w.publish(1, w.owner.Event(1621, time.Now().Unix(), "an issue", host.Tag{"a", a.String()}))
	w.Logf("the repository is at both after %v", w.converge(commit))
}

// separate cuts the Talons off from each other, and checks that they converge after.
func (w *partition) separate(how string, length time.Duration, fail func(*testkit.Gate)) {
	w.Helper()
	for _, g := range w.gates {
		fail(g)
	}
	end := time.Now().Add(length)
	for n := range 20 {
		w.publish(n%2, w.owner.Event(1111, time.Now().Unix(), fmt.Sprint(how, " ", n),
			host.Tag{"E", w.root.ID.String()}, host.Tag{"K", "1621"}, host.Tag{"e", w.root.ID.String()}, host.Tag{"k", "1621"}))
	}
	commit := w.push(1)
	time.Sleep(time.Until(end))
	for _, g := range w.gates {
		g.Open()
	}
	took := w.converge(commit)
	w.Logf("after a partition (%s) of %v: converged within %v", how, length, took)
	if took > peersBack {
		w.Errorf("after a partition (%s) of %v the Talons converge in %v, want %v", how, length, took, peersBack)
	}
}

// converge waits until both Talons have all events and the commit.
func (w *partition) converge(commit string) time.Duration {
	w.Helper()
	began := time.Now()
	ref := commit + "\trefs/heads/main"
	for i, s := range w.talons {
		until(w, "both Talons have all events", func() bool { return w.has(s) })
		until(w, "both Talons have the commit", func() bool {
			out, err := gitAs(".", "ls-remote", s.web()+w.path, "refs/heads/main")
			return err == nil && strings.Contains(out, ref)
		})
		w.Logf("server %d has everything after %v", i, time.Since(began).Round(10*time.Millisecond))
	}
	return time.Since(began).Round(10 * time.Millisecond)
}

// has reports whether a Talon serves all events but replaced ones.
func (w *partition) has(s *process) bool {
	w.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	conn, err := relayclient.Dial(ctx, s.url, relayclient.Options{})
	if err != nil {
		w.Fatal(err)
	}
	defer conn.Close()
	var ids []string
	for _, id := range w.sent {
		ids = append(ids, id.String())
	}
	filter, err := json.Marshal(map[string]any{"ids": ids})
	if err != nil {
		w.Fatal(err)
	}
	served := 0
	if err := conn.Query(ctx, filter, func(*host.Event) bool {
		served++
		return true
	}); err != nil {
		w.Fatal(err)
	}
	replaced := int(w.states) - 1
	return served == len(w.sent)-replaced
}
