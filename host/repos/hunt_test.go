package repos

import (
	"fmt"
	"maps"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"talon/host"
	"talon/host/gitfetch"
	"talon/host/githttp"
	"talon/host/gitrepo"
	"talon/sdk/grasp"
)

// TestHunted: events wait for data that other servers have. The reconciler says what is
// missing and where it may be, and what came is served.
func TestHunted(t *testing.T) {
	w, work, one := newWork(t)
	two := work.commit("two")
	tag := host.Tag{"maintainers", bob.PubKey.String()}
	announcement := w.announce(alice, "demo")
	w.sent(w.event(alice, grasp.KindAnnouncement, append(slices.Clone(announcement.Tags), tag, host.Tag{"clone", "http://a.test/x.git"})...), host.Held)
	w.sent(w.event(bob, grasp.KindAnnouncement, host.Tag{"d", "demo"}, host.Tag{"clone", "http://b.test/x.git"}), host.Stored)
	w.sent(w.event(eve, grasp.KindAnnouncement, host.Tag{"d", "demo"}, host.Tag{"clone", "http://evil.test/x.git"}), host.Stored)
	state := w.sent(w.state(bob, "demo", "refs/heads/main", one), host.Held)
	pr := w.event(eve, grasp.KindPullRequest, host.Tag{"c", two}, host.Tag{"a", repoOf(alice, "demo").Address()},
		host.Tag{"clone", "http://pr.test/x.git"})
	if v := w.sendFrom(host.FromSync, pr); v.Code != host.Held {
		t.Fatalf("the pull request is %v %q", v.Code, v.Reason)
	}
	w.waitIdle()

	var waiting []gitfetch.Event
	w.must(w.reconciler.Waiting(t.Context(), func(e gitfetch.Event) error { waiting = append(waiting, e); return nil }))
	if len(waiting) != 2 || waiting[0].Repository.D != "demo" || waiting[0].Kind != grasp.KindState || waiting[1].Kind != grasp.KindPullRequest ||
		waiting[0].Origin != gitfetch.FromUser || waiting[1].Origin != gitfetch.FromSync || waiting[0].Since == 0 {
		t.Errorf("waiting is %+v", waiting)
	}
	wants, err := w.reconciler.Wanted(t.Context(), "demo")
	w.must(err)
	if len(wants) != 2 {
		t.Fatalf("wanted is %+v", wants)
	}
	ours := "https://" + domain + repoOf(alice, "demo").Path()
	for i, want := range []struct {
		objects []string
		urls    []string
	}{
		{[]string{one}, []string{"http://a.test/x.git", "http://b.test/x.git", ours}},
		{[]string{two}, []string{"http://a.test/x.git", "http://b.test/x.git", "http://pr.test/x.git", ours}},
	} {
		urls := slices.Sorted(slices.Values(wants[i].URLs))
		if !slices.Equal(wants[i].Objects, want.objects) || !slices.Equal(urls, want.urls) {
			t.Errorf("%d wants %v of %v", i, wants[i].Objects, urls)
		}
	}

	// Only held events name some of them: the announcement of alice, and the pull request.
	for i, want := range [][]string{{"http://a.test/x.git", ours}, {"http://a.test/x.git", "http://pr.test/x.git", ours}} {
		if got := slices.Sorted(maps.Keys(wants[i].Strangers)); !slices.Equal(got, want) {
			t.Errorf("%d: only held events name %v, want %v", i, got, want)
		}
	}
	if by := wants[1].Strangers["http://pr.test/x.git"]; len(by) != 1 || by[0].Event != pr.ID || by[0].Author != pr.PubKey {
		t.Errorf("%v names the server of the pull request, want the pull request", by)
	}
	var servers []string
	w.must(w.reconciler.Servers(t.Context(), func(u string) { servers = append(servers, u) }))
	if slices.Sort(servers); !slices.Equal(servers, []string{"http://b.test/x.git", "http://evil.test/x.git"}) {
		t.Errorf("stored announcements name %v", servers)
	}

	// Only servers that its own announcement names learn of a private repository.
	w.reconciler.cfg.Private = func(a host.Address) bool { return a.PubKey == alice.PubKey && a.D == "demo" }
	private, err := w.reconciler.Wanted(t.Context(), "demo")
	w.must(err)
	for i := range private {
		urls := slices.Compact(slices.Sorted(slices.Values(private[i].URLs)))
		if !slices.Equal(urls, []string{"http://a.test/x.git", ours}) {
			t.Errorf("the private repository is looked for at %v", urls)
		}
	}
	if len(private) != 2 {
		t.Errorf("a private repository wants %+v", private)
	}
	w.reconciler.cfg.Private = nil

	// A server that has it all.
	bare := filepath.Join(t.TempDir(), "remote")
	work.git("clone", "-q", "--bare", work.dir, filepath.Join(bare, "x.git"))
	git, err := gitrepo.Find(t.Context(), "git", gitrepo.DefaultOptions)
	w.must(err)
	folder, err := gitrepo.OpenFolder(git, bare)
	w.must(err)
	defer folder.Close()
	handler, err := githttp.New(githttp.Config{Prefix: "/", Limits: githttp.DefaultLimits, Log: w.reconciler.log}, remote{folder}, nil)
	w.must(err)
	server := httptest.NewServer(handler)
	defer server.Close()
	for i, done := range []*host.Event{state, pr} {
		found, err := wants[i].Into.Fetch(t.Context(), gitrepo.Source{URL: server.URL + "/x.git"}, wants[i].Objects...)
		if err != nil || !slices.Equal(found, wants[i].Objects) {
			t.Fatalf("fetched %v, %v", found, err)
		}
		w.wantServed(done, false)
		w.must(w.reconciler.Arrived(t.Context(), "demo", wants[i].Into))
		w.wantServed(done, true)
	}
	if wants, err = w.reconciler.Wanted(t.Context(), "demo"); err != nil || len(wants) != 0 {
		t.Errorf("still wanted: %v, %v", wants, err)
	}
	w.wantRefs(demo(alice), "HEAD=refs/heads/main", "refs/heads/main="+one, "refs/nostr/"+pr.ID.String()+"="+two)

	lost, err := w.reconciler.disk.repo(demo(alice))
	w.must(err)
	// The folder is lost. A search finds its data again.
	w.must(os.RemoveAll(lost.Dir()))
	if wants, err = w.reconciler.Wanted(t.Context(), "demo"); err != nil || len(wants) != 1 || !slices.Equal(wants[0].Objects, []string{one}) {
		t.Fatalf("wanted of a lost repository: %+v, %v", wants, err)
	}
	_, err = wants[0].Into.Fetch(t.Context(), gitrepo.Source{URL: server.URL + "/x.git"}, one)
	w.must(err)
	w.must(w.reconciler.Arrived(t.Context(), "demo", wants[0].Into))
	w.wantRefs(demo(alice), "HEAD=refs/heads/main", "refs/heads/main="+one, "refs/nostr/"+pr.ID.String()+"="+two)
}

// told is a hunter that records its inputs.
type told struct{ lines []string }

func (h *told) Held(e gitfetch.Event) {
	h.lines = append(h.lines, fmt.Sprint("held ", e.Repository.D, " ", e.Origin == gitfetch.FromSync))
}

func (h *told) NoLongerHeld(e gitfetch.Event, released bool) {
	h.lines = append(h.lines, fmt.Sprint("left ", e.Repository.D, " ", released))
}

// TestHuntIsTold has all that can become of an event in purgatory: the hunt gets the
// events that wait for git data, and those that wait no more.
func TestHuntIsTold(t *testing.T) {
	w := newWorld(t)
	state := w.state(alice, "state")
	pull := w.pullRequest(bob, strings.Repeat("1", 40), repoOf(alice, "pull"))
	h := new(told)
	for _, c := range []host.HeldChange{
		{Event: state, Status: host.StatusHeld},
		{Event: pull, Status: host.StatusHeld, Synced: true},
		{Event: w.announce(alice, "announcement"), Status: host.StatusHeld},
		{Event: w.announce(alice, "announcement"), Status: host.StatusReleased},
		{Event: state, Status: host.StatusRevived}, {Event: state, Status: host.StatusDormant},
		{Event: state, Status: host.StatusExpired}, {Event: state, Status: host.StatusDeleted}, {Event: state, Status: host.StatusReplaced},
		{Event: pull, Status: host.StatusReleased},
	} {
		Hunt{h}.Follow(nil, []host.HeldChange{c})
	}
	want := []string{"held state false", "held pull true", "left state false", "left state false", "left state false", "left pull true"}
	if !slices.Equal(h.lines, want) {
		t.Errorf("it is told %q, want %q", h.lines, want)
	}
}
