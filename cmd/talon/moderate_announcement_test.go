package main

import (
	"net/http"
	"strings"
	"testing"
)

// TestRepositoryWithoutAnnouncement takes the announcement of a repository down by a row that does
// not name the repository. What is in the repository goes out of sight with it, through every door.
func TestRepositoryWithoutAnnouncement(t *testing.T) {
	t.Parallel()
	plugins, data := pluginFolder(t, "grasp"), graspData(t)
	st := newStory(t, startGrasp(t, data, plugins))
	mallory, bystander := st.who("mallory"), st.who("bystander")
	work := st.folder()
	commit := work.commit("one")
	announcement := st.held(st.announcement(mallory, "own"))
	state := st.held(st.state(mallory, "own", "refs/heads/main", commit))
	work.push(st.repo(mallory, "own"), commit+":refs/heads/main")
	st.becomesServed(announcement)
	// The same objects are in the pool of another repository of the identifier.
	st.held(st.announcement(bystander, "own"))
	st.held(st.state(bystander, "own", "refs/heads/main", commit))
	work.push(st.repo(bystander, "own"), commit+":refs/heads/main")

	base := strings.TrimSuffix(repoPath(mallory, "own"), ".git")
	pages := []string{base, base + "/tree/main", "/archive/main.tar.gz", base + "/log/main", base + "/commit/" + commit, base + "/refs", base + "/feed.atom", base + "/issues"}
	pages[2] = base + pages[2]
	etags := map[string]string{}
	for _, path := range pages {
		etags[path] = st.ask("GET", path, nil).header.Get("ETag")
	}
	gitDoors := func() map[string]reply {
		want := pkt("want "+commit+" no-progress\n") + "0000" + pkt("done\n")
		return map[string]reply{
			"info/refs":    st.ask("GET", repoPath(mallory, "own")+"/info/refs?service=git-upload-pack", nil),
			"receive-pack": st.ask("GET", repoPath(mallory, "own")+"/info/refs?service=git-receive-pack", nil),
			"upload-pack":  st.ask("POST", repoPath(mallory, "own")+"/git-upload-pack", []byte(want), "Content-Type", "application/x-git-upload-pack-request"),
			"v2":           st.ask("POST", repoPath(mallory, "own")+"/git-upload-pack", []byte(pkt("command=ls-refs\n")+"0000"), "Content-Type", "application/x-git-upload-pack-request", "Git-Protocol", "version=2"),
			"HEAD":         st.ask("GET", repoPath(mallory, "own")+"/HEAD", nil),
		}
	}
	moderate := func(args ...string) {
		t.Helper()
		if out, err := talon(t, nil, append(append([]string{"moderate"}, args...), "--data", data)...); err != nil {
			t.Fatalf("%v: %v\n%s", args, err, out)
		}
	}
	gone := func(what string) {
		t.Helper()
		for _, path := range pages {
			r := st.ask("GET", path, nil, "If-None-Match", etags[path])
			if r.status != http.StatusNotFound && r.status != http.StatusUnavailableForLegalReasons {
				t.Errorf("%s: GET %s has status %d", what, path, r.status)
			}
		}
		for name, r := range gitDoors() {
			if strings.Contains(r.body, commit) || strings.Contains(r.body, "PACK") || r.status == 200 && !strings.Contains(r.body, "ERR ") {
				t.Errorf("%s: %s has status %d and %.200q", what, name, r.status, r.body)
			}
		}
		for _, path := range []string{"/", "/sitemap.xml", "/" + mallory.npub(), "/search?q=own"} {
			if r := st.ask("GET", path, nil); strings.Contains(r.body, base) {
				t.Errorf("%s: %s links to the repository", what, path)
			}
		}
		if r := st.ask("GET", repoPath(bystander, "own")+"/info/refs?service=git-upload-pack", nil); !strings.Contains(r.body, commit) {
			t.Errorf("%s: the repository of a bystander answers %d %.200q", what, r.status, r.body)
		}
	}
	for _, row := range []struct{ action, target, undo string }{
		{"hide", "event:" + announcement.ID, "unhide"},
		{"ban", "event:" + announcement.ID, "unban"},
		{"hide", `{"authors":["` + mallory.hex() + `"]}`, "unhide"},
	} {
		what := row.action + " " + row.target
		moderate(row.action, row.target, "--reason", "scam")
		st.until(what+": the announcement goes", func() bool { return !st.served(announcement) })
		gone(what)
		if row.action == "ban" {
			st.s.mustStop(t)
			st = newStory(t, startGrasp(t, data, plugins))
			gone(what + ", after a restart")
		}
		moderate(row.undo, row.target)
		st.until(what+" ends", func() bool { return st.served(announcement) && st.served(state) })
		if r := gitDoors()["info/refs"]; !strings.Contains(r.body, commit+" refs/heads/main") {
			t.Errorf("after %s: info/refs has %d %.200q", what, r.status, r.body)
		}
	}
}
