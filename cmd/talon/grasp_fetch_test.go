package main

import (
	"encoding/json"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nbd-wtf/go-nostr"

	"talon/host/gitfetch"
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
	keepPassed(t, filepath.Join(data[2], machineCode))
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
	// The second service serves what is written about the repository only if it has that, too.
	w.second.held(state)
	w.work.push(w.second.repo(w.owner, "demo"), commit+":refs/heads/main")
	w.second.wantServed(state, true)
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

// TestArchiveFollows: an archive (GRASP-05) is given nothing but an announcement that does
// not list it. It follows the relays that the announcement names, as it does for a
// repository of its own, and fetches git data from its clone URLs. It gets the data from
// before, from the time while it runs, and from the time while it does not. It knows no
// other relay.
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
	w.refusesPushes(t)

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

// refusesPushes: an archive answers a push without a state by saying what it is. It does
// not ask for a state, and no page asks for pushes.
func (w archiveWorld) refusesPushes(t *testing.T) {
	t.Helper()
	st := w.archive
	w.owner, w.work = st.who("another owner"), st.folder()
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
}

// announcedAt announces the repository demo, which is at another server too.
func (st *story) announcedAt(owner person, clone string) {
	st.Helper()
	tags := announcementTags(owner, "demo")
	tags[2] = append(tags[2], clone)
	st.held(st.event(owner, 30617, tags...))
}

// hunt has the operator ask for data now, and waits for the status of the only server that is asked.
func (st *story) hunt(what string, is func(gitfetch.Status) bool) gitfetch.DomainStatus {
	st.Helper()
	if out, err := talon(st, nil, "hunt", "now", "demo", "--data", st.s.data); err != nil {
		st.Fatalf("%v\n%s", err, out)
	}
	var found gitfetch.Status
	st.until(what, func() bool {
		out, err := talon(st, nil, "hunt", "status", "--json", "--data", st.s.data)
		found = gitfetch.Status{}
		if err == nil {
			err = json.Unmarshal([]byte(out), &found)
		}
		if err != nil {
			st.Fatalf("%v\n%s", err, out)
		}
		return len(found.Domains) == 1 && is(found)
	})
	return found.Domains[0]
}

// TestHuntAfterRestart has a git server ask to be left alone for an hour, restarts
// the service, and has its operator hurry: the server is not asked again, and the
// operator sees why.
func TestHuntAfterRestart(t *testing.T) {
	data := graspData(t)
	t.Parallel()
	var asked atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		asked.Add(1)
		w.Header().Set("Retry-After", "3600")
		w.WriteHeader(http.StatusTooManyRequests)
	}))
	t.Cleanup(server.Close)
	domain := strings.TrimPrefix(server.URL, "http://")
	run := func() *process { return startGrasp(t, data, pluginFolder(t, "grasp"), "--allow-private", "true") }
	st := newStory(t, run())
	owner := st.who("owner")
	st.announcedAt(owner, server.URL+"/demo.git")
	st.held(st.state(owner, "demo", "refs/heads/main", strings.Repeat("ab", 20)))

	hurry := func() gitfetch.DomainStatus {
		t.Helper()
		return st.hunt("a search that has asked, or will not", func(s gitfetch.Status) bool {
			return len(s.Repositories) == 1 && s.Repositories[0].Rounds > 0
		})
	}
	rests := func(d gitfetch.DomainStatus) bool {
		return d.Domain == domain && d.Failures == 1 && time.Until(d.NotBefore) > 50*time.Minute
	}
	if d := hurry(); !rests(d) {
		t.Errorf("after the first request: %+v", d)
	}
	st.s.mustStop(t)
	st = newStory(t, run())
	if d := hurry(); !rests(d) || d.Health != "degraded" {
		t.Errorf("after a restart: %+v", d)
	}
	if n := asked.Load(); n != 1 {
		t.Errorf("the server was asked %d times, want once", n)
	}
}

// TestHuntOfRefusedContent has a git server serve objects that attack those who clone them,
// signed by its maintainer. Talon does not take them, the operator sees why, and the server
// is not blamed.
func TestHuntOfRefusedContent(t *testing.T) {
	data := graspData(t)
	t.Parallel()
	dir, work := t.TempDir(), t.TempDir()
	mustGit(t, work, "init", "-q", "-b", "main")
	if err := os.WriteFile(filepath.Join(work, ".gitmodules"), []byte("[submodule \"a\"]\n\tpath = a\n\turl = -u./payload\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	mustGit(t, work, "add", ".")
	mustGit(t, work, "commit", "-q", "-m", "one")
	mustGit(t, dir, "clone", "-q", "--bare", work, "demo.git")
	server := serveGit(t, dir)
	st := newStory(t, startGrasp(t, data, pluginFolder(t, "grasp"), "--allow-private", "true"))
	owner := st.who("owner")
	st.announcedAt(owner, server+"demo.git")
	st.held(st.state(owner, "demo", "refs/heads/main", mustGit(t, work, "rev-parse", "main")))
	d := st.hunt("a request has ended", func(s gitfetch.Status) bool { return s.Domains[0].Last != nil })
	if d.Failures != 0 || d.Health != "healthy" || d.Last.Outcome != "not-found" ||
		!strings.Contains(d.Last.Reason, "gitmodulesUrl: disallowed submodule url: -u./payload") {
		t.Errorf("%+v, %+v", d, d.Last)
	}
}
