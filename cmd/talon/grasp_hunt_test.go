package main

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"talon/host/gitfetch"
)

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
	tags := announcementTags(owner, "demo")
	for i := range tags {
		if tags[i][0] == "clone" {
			tags[i] = append(tags[i], server.URL+"/demo.git")
		}
	}
	st.held(st.event(owner, 30617, tags...))
	st.held(st.state(owner, "demo", "refs/heads/main", strings.Repeat("ab", 20)))

	hurry := func(rounds int) gitfetch.DomainStatus {
		t.Helper()
		if out, err := talon(t, nil, "hunt", "now", "demo", "--data", data); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		var found gitfetch.DomainStatus
		st.until("a search that has asked, or will not", func() bool {
			out, err := talon(t, nil, "hunt", "status", "--json", "--data", data)
			var status gitfetch.Status
			if err == nil {
				err = json.Unmarshal([]byte(out), &status)
			}
			if err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			if len(status.Repositories) != 1 || status.Repositories[0].Rounds < rounds || len(status.Domains) != 1 {
				return false
			}
			found = status.Domains[0]
			return true
		})
		return found
	}
	rests := func(d gitfetch.DomainStatus) bool {
		return d.Domain == domain && d.Failures == 1 && time.Until(d.NotBefore) > 50*time.Minute
	}
	if d := hurry(1); !rests(d) {
		t.Errorf("after the first request: %+v", d)
	}
	st.s.mustStop(t)
	st = newStory(t, run())
	if d := hurry(1); !rests(d) || d.Health != "degraded" {
		t.Errorf("after a restart: %+v", d)
	}
	if n := asked.Load(); n != 1 {
		t.Errorf("the server was asked %d times, want once", n)
	}
}

// TestHuntOfRefusedContent has a git server serve what attacks whoever clones, signed by
// its maintainer. It is not taken, the operator sees why, and the server is not blamed.
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
	tags := announcementTags(owner, "demo")
	for i := range tags {
		if tags[i][0] == "clone" {
			tags[i] = append(tags[i], server+"demo.git")
		}
	}
	st.held(st.event(owner, 30617, tags...))
	st.held(st.state(owner, "demo", "refs/heads/main", mustGit(t, work, "rev-parse", "main")))
	if out, err := talon(t, nil, "hunt", "now", "demo", "--data", data); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	var d gitfetch.DomainStatus
	st.until("a request has ended", func() bool {
		out, err := talon(t, nil, "hunt", "status", "--json", "--data", data)
		var status gitfetch.Status
		if err == nil {
			err = json.Unmarshal([]byte(out), &status)
		}
		if err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		if len(status.Domains) == 1 {
			d = status.Domains[0]
		}
		return d.Last != nil
	})
	if d.Failures != 0 || d.Health != "healthy" || d.Last.Outcome != "not-found" ||
		!strings.Contains(d.Last.Reason, "gitmodulesUrl: disallowed submodule url: -u./payload") {
		t.Errorf("%+v, %+v", d, d.Last)
	}
}
