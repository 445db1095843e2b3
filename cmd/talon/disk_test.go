package main

import (
	"net/http"
	"os/exec"
	"strings"
	"testing"

	"github.com/nbd-wtf/go-nostr"
)

// TestFullDisk runs a service whose disk is full, by its own bound. It refuses what must be
// written, and serves the rest.
func TestFullDisk(t *testing.T) {
	data := graspData(t)
	t.Parallel()
	plugins := pluginFolder(t, graspChain...)
	s := startGrasp(t, data, plugins)
	st := newStory(t, s)
	owner := st.who("owner")
	work := st.folder()
	one := work.commit("one")
	st.held(st.announcement(owner, "x"))
	st.held(st.state(owner, "x", "refs/heads/main", one))
	work.push(st.repo(owner, "x"), "main")
	two := work.commit("two")
	st.held(st.state(owner, "x", "refs/heads/main", two))
	s.mustStop(t)

	args := serveArgs(t, data, "--plugins", plugins, "--domain", serviceDomain, "--min-free", "1048576GiB")
	s = startAs(t, exec.Command("talon", args...), data) // it logs an error
	st.s, st.web, st.c = s, s.web(), connect(t, s)
	if a := st.c.publish(t, st.state(owner, "x", "refs/heads/main", one)); a.ok || a.reason != "error: the server's disk is full, try again later" {
		t.Errorf("an event: %+v", a)
	}
	work.cannotPush("the server's disk is full: try again later", st.repo(owner, "x"), "main")
	if e := signAs(t, "a", nostr.Event{Kind: 20001, CreatedAt: nostr.Now(), Tags: nostr.Tags{{"a", "30617:" + owner.hex() + ":x"}}}); !st.c.publish(t, e).ok {
		t.Error("an ephemeral event is refused")
	}
	st.git(".", "clone", "-q", st.repo(owner, "x"), st.TempDir()+"/clone")
	if got := st.count(`{"kinds":[30617],"authors":["` + owner.hex() + `"]}`); got != 1 {
		t.Errorf("%d announcements are served", got)
	}
	for path, want := range map[string]int{"/healthz": http.StatusOK, "/healthz?write": http.StatusServiceUnavailable} {
		if status, body := s.get(t, path); status != want || body != "degraded: disk\n" {
			t.Errorf("%s: %d %q, want %d", path, status, body, want)
		}
	}
	if n := s.metric(t, "talon_disk_full"); n != 1 {
		t.Errorf("talon_disk_full is %v", n)
	}
	log := s.text()
	if n := strings.Count(log, "the disk is nearly full"); n != 1 {
		t.Errorf("%d lines about the disk, want 1", n)
	}
}
