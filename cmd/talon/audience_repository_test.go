package main

import (
	"net/http"
	"strings"
	"testing"

	"github.com/nbd-wtf/go-nostr"
)

// TestPrivateRepository makes a repository private that was public, and looks for it through every
// door that a stranger has: at once, and after a restart. Objects of it are in the pool that it
// shares with a public repository of the same identifier.
func TestPrivateRepository(t *testing.T) {
	data := graspData(t, "readers")
	t.Parallel()
	plugins := modulesAnd(t, []string{"readers", "grasp"}, nil)
	st := newStory(t, startGrasp(t, data, plugins))
	owner, bystander := st.who("owner"), st.who("bystander")
	work := st.folder()
	one := work.commit("one")
	two := work.commit("two")
	announcement := st.held(st.announcement(owner, "own"))
	state := st.held(st.state(owner, "own", "refs/heads/main", two))
	work.push(st.repo(owner, "own"), two+":refs/heads/main")
	st.becomesServed(state)
	st.held(st.announcement(bystander, "own"))
	st.held(st.state(bystander, "own", "refs/heads/main", one))
	work.push(st.repo(bystander, "own"), one+":refs/heads/main")
	about := nostr.Tag{"a", repoAddress(owner, "own")}
	issue := st.stored(st.event(bystander, 1621, about, nostr.Tag{"subject", "unspeakable"}))
	comment := st.stored(st.event(bystander, 1111, nostr.Tag{"E", issue.ID}, nostr.Tag{"K", "1621"}, nostr.Tag{"e", issue.ID}, nostr.Tag{"k", "1621"}))
	held := st.held(st.state(owner, "own", "refs/heads/main", two, "refs/heads/later", strings.Repeat("7", 40)))
	events := []*nostr.Event{announcement, state, issue, comment}

	base := strings.TrimSuffix(repoPath(owner, "own"), ".git")
	public := strings.TrimSuffix(repoPath(bystander, "own"), ".git")
	pages := []string{"", ".git", "/tree/main", "/tree/" + two, "/archive/main.tar.gz", "/archive/" + two + ".zip", "/log/main", "/commit/" + two,
		"/commit/" + two + ".patch", "/compare/" + one + "..." + two, "/refs", "/issues", "/issues/" + issue.ID, "/issues/" + issue.ID + ".json", "/pulls", "/patches",
		"/issues.atom", "/pulls.atom", "/log.atom/main", "/refs.atom", "/grep/main?q=one", "/blame/main/file"}
	etags := map[string]string{}
	for _, page := range pages {
		etags[page] = st.ask("GET", base+page, nil).header.Get("ETag")
	}
	for _, page := range []string{"", "/tree/main", "/archive/main.tar.gz", "/commit/" + two, "/issues", "/log.atom/main"} {
		if etags[page] == "" {
			t.Errorf("%q has no ETag while it is public", page)
		}
	}
	before := connect(t, st.s)
	before.send(t, `["REQ","live",{"#a":["`+about[1]+`"]},{"kinds":[1,30618,1621,1111],"limit":0}]`)
	before.untilEOSE(t, "live")
	configure(t, st.s, plugins, "readers", `readers_repositories = ["`+owner.npub()+`/own"]`)

	doors := func(what string) {
		t.Helper()
		for _, e := range events {
			st.until(what+": the event goes", func() bool { return !st.served(e) })
			filter := `{"kinds":[` + kindText(e) + `],"authors":["` + e.PubKey + `"],"since":` + timeText(e) + `,"until":` + timeText(e) + `}`
			if n := st.count(filter); n != 0 {
				t.Errorf("%s: COUNT of kind %d is %d", what, e.Kind, n)
			}
			if got := st.reconciled(filter); len(got) != 0 {
				t.Errorf("%s: NEG of kind %d has %v", what, e.Kind, got)
			}
		}
		for _, filter := range []string{`{"#a":["` + about[1] + `"]}`, `{"#e":["` + issue.ID + `"]}`, `{"search":"unspeakable"}`, `{"ids":["` + held.ID + `"]}`} {
			if got := st.c.query(t, filter); len(got) != 0 {
				t.Errorf("%s: %s gets %v", what, filter, ids(got))
			}
		}
		for _, page := range pages {
			if r := st.ask("GET", base+page, nil, "If-None-Match", etags[page]); r.status != http.StatusNotFound {
				t.Errorf("%s: GET %s has status %d", what, page, r.status)
			}
		}
		for _, page := range []string{"/tree/" + two, "/raw/" + two + "/file", "/archive/" + two + ".tar.gz", "/log/" + two, "/commit/" + two, "/commit/" + two[:12], "/commit/" + two + ".patch", "/compare/main..." + two, "/grep/" + two + "?q=two", "/blame/" + two + "/file", "/issues/" + issue.ID} {
			if r := st.ask("GET", public+page, nil); r.status != http.StatusNotFound {
				t.Errorf("%s: %s of the public repository has status %d", what, page, r.status)
			}
		}
		for _, page := range []string{"/", "/sitemap.xml", "/" + owner.npub(), "/" + bystander.npub(), "/search?q=unspeakable", "/search?q=own", public, public + "/issues"} {
			if r := st.ask("GET", page, nil); strings.Contains(r.body, base) || strings.Contains(strings.ReplaceAll(r.body, "q=unspeakable", ""), "<a href=\""+base) || strings.Contains(r.body, issue.ID) {
				t.Errorf("%s: %s shows the repository", what, page)
			}
		}
		want := []byte(pkt("want "+two+" no-progress\n") + "0000" + pkt("done\n"))
		const upload = "application/x-git-upload-pack-request"
		for name, r := range map[string]reply{
			"info/refs":        st.ask("GET", repoPath(owner, "own")+"/info/refs?service=git-upload-pack", nil),
			"a push":           st.ask("GET", repoPath(owner, "own")+"/info/refs?service=git-receive-pack", nil),
			"HEAD":             st.ask("GET", repoPath(owner, "own")+"/HEAD", nil),
			"upload-pack":      st.ask("POST", repoPath(owner, "own")+"/git-upload-pack", want, "Content-Type", upload),
			"prs":              st.ask("POST", "/prs"+repoPath(owner, "own")+"/git-upload-pack", want, "Content-Type", upload),
			"auth":             st.ask("GET", "/auth"+repoPath(owner, "own")+"/info/refs?service=git-upload-pack", nil),
			"the public one":   st.ask("POST", repoPath(bystander, "own")+"/git-upload-pack", want, "Content-Type", upload),
			"the public, lazy": st.ask("POST", repoPath(bystander, "own")+"/git-upload-pack", []byte(pkt("command=fetch")+"0001"+pkt("want "+two+"\n")+pkt("filter blob:none\n")+pkt("done\n")+"0000"), "Content-Type", upload, "Git-Protocol", "version=2"),
		} {
			if strings.Contains(r.body, two+" ") || strings.Contains(r.body, "PACK") {
				t.Errorf("%s: %s has status %d and %.200q", what, name, r.status, r.body)
			}
		}
	}
	doors("a private repository")
	// What comes later belongs to it too.
	later := st.event(bystander, 1621, about, nostr.Tag{"subject", "unspeakable too"})
	below := st.event(bystander, 1111, nostr.Tag{"E", later.ID}, nostr.Tag{"K", "1621"}, nostr.Tag{"e", later.ID}, nostr.Tag{"k", "1621"})
	last := st.event(bystander, 1621, nostr.Tag{"a", repoAddress(bystander, "own")})
	for _, e := range []*nostr.Event{later, below, last} {
		st.c.publish(t, e)
	}
	events = append(events, later, below)
	if got := before.live(t, last.ID); len(got) != 1 {
		t.Errorf("a subscription from before got %v, want the last alone", got)
	}
	if a := st.c.publish(t, issue); strings.Contains(a.reason, issue.ID) {
		t.Errorf("sent again: %+v", a)
	}
	doors("later")
	st.s.mustStop(t)
	st = newStory(t, startGrasp(t, data, plugins))
	doors("after a restart")
}
