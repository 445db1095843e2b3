package main

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/nbd-wtf/go-nostr"
)

// TestTakedownInBackground takes an author or a repository down while the server follows another relay
// and looks for git data there. Nothing of it comes by a release, a hunt or a relay that is followed. A
// bystander's repository, which comes by the same ways, shows when these have had their turn.
func TestTakedownInBackground(t *testing.T) {
	if os.Getenv("TALON_TEST_SCALE") == "" {
		t.Skip("TALON_TEST_SCALE is not set: this test waits for other servers")
	}
	settings := map[string]string{"mirror": "batch_seconds = 0\n", "polite": "", "grasp": ""}
	data := func(t testing.TB) string {
		dir := filepath.Join(t.TempDir(), "data")
		if err := linkCompiled(dir, devnetCode(t, slices.Sorted(maps.Keys(settings))...)); err != nil {
			t.Fatal(err)
		}
		return dir
	}
	data(t)
	peers := graspData(t)
	t.Parallel()
	eachEngine(t, takedownSetup{
		plugins: modulesAnd(t, nil, settings), data: data, options: []string{"--allow-private", "true"},
	}, func(w *takedown) {
		b := &background{takedown: w}
		b.peer = newStory(w.T, start(w.T, peers, "--plugins", pluginFolder(w.T, "grasp"), "--domain", "peer.test", "--sync", "false", "--hunt", "false"))
		b.run()
	})
}

// background is a takedown of something that another server has too.
type background struct {
	*takedown
	peer *story
}

// announce announces a repository at both servers.
func (b *background) announce(owner person, id string) *nostr.Event {
	b.Helper()
	e := b.st.event(owner, 30617, nostr.Tag{"d", id},
		nostr.Tag{"clone", "https://" + serviceDomain + repoPath(owner, id), "https://peer.test" + repoPath(owner, id), b.peer.repo(owner, id)},
		nostr.Tag{"relays", "wss://" + serviceDomain, "wss://peer.test", b.peer.s.url})
	b.st.held(e)
	b.peer.held(e)
	return e
}

// push signs a state and pushes it to the other server.
func (b *background) push(owner person, id, text string) (commit string, state *nostr.Event) {
	b.Helper()
	commit = b.work.commit(text)
	state = b.peer.held(b.st.state(owner, id, "refs/heads/main", commit))
	b.work.push(b.peer.repo(owner, id), commit+":refs/heads/main")
	b.peer.wantServed(state, true)
	return commit, state
}

// comes waits until each node has a state and its git data.
func (b *background) comes(what string, owner person, id, commit string, state *nostr.Event) {
	b.Helper()
	for node, st := range b.nodes() {
		st.until(what+": the state comes"+node, func() bool { return st.served(state) })
		st.until(what+": the git data comes"+node, func() bool {
			return strings.Contains(st.ask("GET", repoPath(owner, id)+"/info/refs?service=git-upload-pack", nil).body, commit+" refs/heads/main")
		})
	}
}

func (b *background) run() {
	b.st.now = nostr.Now() - 100
	b.mallory, b.carol, b.work = b.st.who("mallory"), b.st.who("carol"), b.st.folder()
	b.announce(b.mallory, "own")
	b.announce(b.carol, "canary")
	before, first := b.push(b.mallory, "own", "one")
	b.comes("before", b.mallory, "own", before, first)
	commit, state := b.push(b.carol, "canary", "two")
	b.comes("before", b.carol, "canary", commit, state)

	for i, action := range []struct {
		what     string
		do, undo []string
	}{
		{"hide of an author", []string{"moderate", "hide", b.mallory.npub()}, []string{"moderate", "unhide", b.mallory.npub()}},
		{"ban of a repository", []string{"moderate", "ban", b.mallory.npub() + "/own"}, []string{"moderate", "unban", b.mallory.npub() + "/own"}},
		{"delete with a ban", []string{"moderate", "ban", "--purge", b.mallory.npub()}, nil},
	} {
		// A state waits for objects that only the other server will have, and a search looks for them.
		next := b.work.commit("wanted " + action.what)
		waits := b.st.held(b.st.state(b.mallory, "own", "refs/heads/main", next))
		b.moderate(action.do...)
		b.gone(action.what, next, first, waits)
		b.peer.held(waits)
		b.work.push(b.peer.repo(b.mallory, "own"), next+":refs/heads/main")
		later, last := b.push(b.mallory, "own", "later "+action.what)
		if i == 0 {
			b.again()
		}
		commit, state := b.push(b.carol, "canary", "after "+action.what)
		b.comes(action.what, b.carol, "canary", commit, state)
		b.gone(action.what+", after a round", next, first, waits, last)
		b.gone(action.what+", after a round", later, first, waits, last)
		if action.undo == nil {
			break
		}
		b.moderate(action.undo...)
		b.st.until("after "+action.what+" the stored state is back", func() bool { return b.st.served(first) })
		before, first = b.push(b.mallory, "own", "again after "+action.what)
		b.comes("after "+action.what, b.mallory, "own", before, first)
	}
}

// gone looks for events and a commit of what is down.
func (b *background) gone(what, commit string, events ...*nostr.Event) {
	b.Helper()
	for node, st := range b.nodes() {
		for _, e := range events {
			if node == "" {
				st.wantServed(e, false)
			}
			st.until(what+": the event goes"+node, func() bool { return !st.served(e) })
		}
		r := st.ask("GET", repoPath(b.mallory, "own")+"/info/refs?service=git-upload-pack", nil)
		if strings.Contains(r.body, commit) || !strings.Contains(r.body, "ERR this repository was ") {
			b.Errorf("%s%s: git gets %d %.200q", what, node, r.status, r.body)
		}
	}
	status, err := talon(b.T, nil, "hunt", "status", "--json", "--data", b.data)
	if err != nil || strings.Contains(status, `"own"`) {
		b.Errorf("%s: a search goes on: %v %s", what, err, status)
	}
	for _, dir := range []string{filepath.Join(b.data, "git"), filepath.Join(filepath.Dir(b.data), "repositories")} {
		path := filepath.Join(dir, b.mallory.npub(), "own.git")
		if _, err := os.Stat(path); err != nil {
			continue
		}
		if refs, err := gitAs(path, "for-each-ref"); err != nil || strings.Contains(refs, commit) {
			b.Errorf("%s: the folder has %s, %v", what, refs, err)
		}
	}
}
