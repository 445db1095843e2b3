package main

import (
	"encoding/json"
	"maps"
	"net/http"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/nbd-wtf/go-nostr"

	"talon/host/relaysync"
)

// archiveWorld is an archive of everything, and two services that list each other's
// repositories and know nothing of the archive.
type archiveWorld struct {
	first, second, archive *story
	owner, friend          person
	work                   *folder
	address                string
	data                   string
	run                    func() *process
}

const archiveReason = "this repository is a read-only archive: push to a service that its announcement lists"

func newArchiveWorld(t *testing.T) *archiveWorld {
	t.Helper()
	var data [3]string
	for i := range data {
		data[i] = graspData(t)
	}
	names := map[string]string{"mirror": "batch_seconds = 0\n", "polite": ""}
	data[2] = filepath.Join(t.TempDir(), "data")
	if err := linkCompiled(data[2], devnetCode(t, slices.Sorted(maps.Keys(names))...)); err != nil {
		t.Fatal(err)
	}
	t.Parallel()
	names["grasp"] = "archive_all = true\n"
	dir := modulesAnd(t, nil, names)
	service := func(data, domain string) *story {
		s := start(t, data, "--plugins", pluginFolder(t, "grasp"), "--domain", domain, "--sync", "false", "--hunt", "false")
		return newStory(t, s)
	}
	w := &archiveWorld{first: service(data[0], "first.test"), second: service(data[1], "second.test"), data: data[2]}
	w.run = func() *process {
		s := startAs(t, exec.Command("talon", serveArgs(t, w.data, "--plugins", dir, "--domain", serviceDomain, "--allow-private", "true")...), w.data)
		w.archive = newStory(t, s)
		return s
	}
	w.run()
	// A relay that was away for a moment is compared from a quarter of an hour before.
	w.first.now = nostr.Now() - 100
	w.owner, w.friend = w.first.who("owner"), w.first.who("friend")
	w.work, w.address = w.first.folder(), repoAddress(w.owner, "demo")
	return w
}

func (w *archiveWorld) stop(t *testing.T) {
	t.Helper()
	w.archive.s.mustStop(t)
	if log := w.archive.s.text(); strings.Contains(log, `"level":"ERROR"`) {
		t.Errorf("the archive logged an error:\n%s", log)
	}
}

// announce announces the repository at the two services.
func (w *archiveWorld) announce() *nostr.Event {
	e := w.first.event(w.owner, 30617, nostr.Tag{"d", "demo"},
		nostr.Tag{"clone", "https://first.test" + repoPath(w.owner, "demo"), "https://second.test" + repoPath(w.owner, "demo"), w.first.repo(w.owner, "demo")},
		nostr.Tag{"relays", "wss://first.test", "wss://second.test", w.first.s.url, w.second.s.url})
	w.first.held(e)
	w.second.held(e)
	return e
}

// push has the owner sign a state and push it to the first service.
func (w *archiveWorld) push(text string) (commit string, state *nostr.Event) {
	commit = w.work.commit(text)
	state = w.first.held(w.first.state(w.owner, "demo", "refs/heads/main", commit))
	w.work.push(w.first.repo(w.owner, "demo"), commit+":refs/heads/main")
	w.first.wantServed(state, true)
	return commit, state
}

// pull has a friend make a pull request at the first service.
func (w *archiveWorld) pull(text string) (ref string, e *nostr.Event) {
	commit := w.work.commit(text)
	e = w.first.held(w.first.pull(w.friend, commit, w.address))
	ref = "refs/nostr/" + e.ID
	w.work.push(w.first.repo(w.owner, "demo"), commit+":"+ref)
	w.first.wantServed(e, true)
	return ref + "=" + commit, e
}

// getRefs waits until the archive has just these refs.
func (w *archiveWorld) getRefs(refs ...string) {
	w.archive.Helper()
	w.archive.getRefs(w.archive.repo(w.owner, "demo"), append([]string{"HEAD=refs/heads/main"}, slices.Sorted(slices.Values(refs))...)...)
}

// said is what is written about the repository: some of it only on one service, some
// of it about a root event only.
func (w *archiveWorld) said() []*nostr.Event {
	issue := w.first.event(w.friend, 1621, nostr.Tag{"a", w.address})
	patch := w.second.stored(w.first.event(w.friend, 1617, nostr.Tag{"a", w.address}))
	w.first.stored(issue)
	w.second.stored(issue)
	comment := w.second.stored(w.first.event(w.owner, 1111, nostr.Tag{"E", issue.ID}, nostr.Tag{"e", issue.ID}))
	status := w.first.stored(w.first.event(w.owner, 1632, nostr.Tag{"e", issue.ID}))
	return []*nostr.Event{issue, patch, comment, status}
}

// TestArchiveFollows: an archive (GRASP-05) is given nothing but an announcement that
// does not list it. It follows the relays that this one names, as it does for a
// repository of its own, and fetches git data from its clone URLs: what was there before,
// what comes while it runs, and what comes while it does not. No relay is known to it
// beside these.
func TestArchiveFollows(t *testing.T) {
	w := newArchiveWorld(t)
	announcement := w.announce()
	commit, state := w.push("one")
	pullRef, pull := w.pull("a pull request")
	events := append(w.said(), state, pull, announcement)

	st := w.archive
	st.held(announcement)
	arrives := func(list ...*nostr.Event) {
		t.Helper()
		for _, e := range list {
			w.archive.becomesServed(e)
		}
	}
	arrives(events...)
	w.getRefs("refs/heads/main="+commit, pullRef)

	// Live: events, git data, a pull request.
	commit, state = w.push("two")
	liveRef, live := w.pull("another")
	arrives(append(w.said(), state, live)...)
	w.getRefs("refs/heads/main="+commit, pullRef, liveRef)

	w.operator(t)

	// While it is away.
	w.stop(t)
	commit, state = w.push("three")
	awayRef, away := w.pull("a third")
	events = append(w.said(), state, away)
	w.run()
	arrives(events...)
	w.getRefs("refs/heads/main="+commit, pullRef, liveRef, awayRef)
	w.stop(t)
	mustCheck(t, w.data)
}

// operator looks at sync, has everything compared, and unbars a relay.
func (w *archiveWorld) operator(t *testing.T) {
	t.Helper()
	sync := func(args ...string) string {
		t.Helper()
		out, err := talon(t, nil, append(append([]string{"sync"}, args...), "--data", w.data)...)
		if err != nil {
			t.Fatalf("talon sync %v: %v\n%s", args, err, out)
		}
		return out
	}
	status := func(args ...string) (s relaysync.Snapshot) {
		t.Helper()
		if err := json.Unmarshal([]byte(sync(append([]string{"status", "--json"}, args...)...)), &s); err != nil {
			t.Fatal(err)
		}
		return s
	}
	until(t, "two relays are complete", func() bool { return status().Complete == 2 })
	if s := status(w.owner.npub() + "/demo"); s.Tracked != 4 || len(s.Relays) != 4 || len(s.Coverage) != 1 || s.Coverage[0].Complete != 2 {
		t.Errorf("%+v", s)
	}
	s := status("wss://first.test")
	if len(s.Relays) != 1 || s.Relays[0].State != relaysync.StateResting || s.Relays[0].Reason == "" || s.Relays[0].Failures == 0 {
		t.Fatalf("%+v", s)
	}
	failures := s.Relays[0].Failures
	sync("unbar", "wss://first.test")
	until(t, "the relay that cannot be reached is tried again", func() bool {
		r := status("wss://first.test").Relays[0]
		return r.Failures > 0 && r.Failures <= failures
	})
	before := status(w.first.s.url).Relays[0].Connected
	if out := sync("now", w.first.s.url); out != "1 relay compared anew\n" {
		t.Errorf("%q", out)
	}
	until(t, "it is compared anew", func() bool {
		r := status(w.first.s.url).Relays[0]
		return r.Connected.After(before) && !r.Complete.IsZero()
	})
	if out := sync("status"); !strings.Contains(out, w.second.s.url) || !strings.Contains(out, "first.test") || !strings.Contains(out, "negentropy yes") {
		t.Errorf("%s", out)
	}
	if out, err := talon(t, nil, "sync", "status", "wss://nobody.test", "--data", w.data); err == nil {
		t.Errorf("a relay that there is not: %s", out)
	}
}

// TestPushToArchive: whoever pushes to an archive without a state learns what it is, and
// is not asked to publish a state; and no page asks for pushes.
func TestPushToArchive(t *testing.T) {
	w := newArchiveWorld(t)
	st := w.archive
	one := w.work.commit("one")
	page := func(want string) {
		t.Helper()
		var text string
		st.until("the page says that it is a "+want, func() bool {
			text = st.wantStatus(http.StatusOK, "GET", repoPath(w.owner, "demo")).body
			return strings.Contains(text, want)
		})
		if strings.Contains(text, "event push") || strings.Contains(text, "git push") {
			t.Errorf("the page invites to push:\n%s", text)
		}
	}
	st.held(w.announce())
	page("read-only archive")
	w.work.cannotPush(archiveReason, st.repo(w.owner, "demo"), one+":refs/heads/main")
	_, state := w.push("two")
	st.becomesServed(state)
	page("read-only archive")
	w.work.cannotPush(archiveReason, st.repo(w.owner, "demo"), w.work.commit("three")+":refs/heads/main")
	w.work.cannotPush(archiveReason, st.repo(w.owner, "demo"), ":refs/heads/main")
	w.stop(t)
}
