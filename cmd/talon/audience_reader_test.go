package main

import (
	"bytes"
	"encoding/base64"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/nbd-wtf/go-nostr"
)

// TestReaderOfPrivateRepository clones and pushes a private repository with git and the credential
// helper, and reads its pages with a browser that has signed in.
func TestReaderOfPrivateRepository(t *testing.T) {
	data := graspData(t, "readers")
	t.Parallel()
	plugins := modulesAnd(t, []string{"readers", "grasp"}, nil)
	st := newStory(t, startGrasp(t, data, plugins))
	owner, member, stranger := st.who("owner"), st.who("member"), st.who("stranger")
	members := filepath.Join(t.TempDir(), "members.txt")
	if err := os.WriteFile(members, []byte(owner.npub()+"\n"+member.npub()+"\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	work := st.folder()
	one := work.commit("one")
	st.held(st.announcement(owner, "own"))
	state := st.held(st.state(owner, "own", "refs/heads/main", one))
	work.push(st.repo(owner, "own"), one+":refs/heads/main")
	st.becomesServed(state)
	issue := st.stored(st.event(member, 1621, nostr.Tag{"a", repoAddress(owner, "own")}, nostr.Tag{"subject", "unspeakable"}))
	configure(t, st.s, plugins, "readers", `readers_repositories = ["`+owner.npub()+`/own"]`+"\n[sets.readers]\nfile = \""+members+"\"")
	st.until("the repository becomes private", func() bool { return !st.served(state) })

	// Git reaches the server under its own name, by a proxy that is the server.
	site := "http://" + serviceDomain
	url := site + "/auth" + repoPath(owner, "own")
	as := func(who person, args ...string) (string, error) {
		return gitAs(work.dir, append([]string{
			"-c", "http.proxy=" + st.web,
			"-c", "credential." + site + ".helper=!talon git-credential --key " + keyFileOf(t, string(who)),
			"-c", "credential." + site + ".useHttpPath=true",
		}, args...)...)
	}
	clone := filepath.Join(t.TempDir(), "clone")
	if out, err := as(member, "clone", "-q", url, clone); err != nil {
		t.Fatalf("a reader's clone: %v\n%s", err, out)
	}
	if got := mustGit(t, clone, "rev-parse", "HEAD"); got != one {
		t.Errorf("a reader has cloned %s, want %s", got, one)
	}
	for _, there := range []string{url, strings.Replace(url, "/own.git", "/none.git", 1)} {
		if out, err := as(stranger, "ls-remote", there); err == nil || strings.Contains(out, one) || !strings.Contains(out, "not found") {
			t.Errorf("a stranger asks for %s: %v\n%s", there, err, out)
		}
	}
	two := work.commit("two")
	if a := st.c.publish(t, st.state(owner, "own", "refs/heads/main", two)); !a.ok {
		t.Fatalf("the next state: %+v", a)
	}
	if out, err := as(owner, "push", url, two+":refs/heads/main"); err != nil {
		t.Fatalf("the owner's push: %v\n%s", err, out)
	}
	if out, err := as(member, "ls-remote", url); err != nil || !strings.Contains(out, two+"\trefs/heads/main") {
		t.Errorf("a reader sees, after the push: %v\n%s", err, out)
	}

	// A browser.
	page := "/auth" + strings.TrimSuffix(repoPath(owner, "own"), ".git")
	r := st.ask("GET", page, nil, "Accept", "text/html")
	if r.status != http.StatusUnauthorized || !strings.Contains(r.body, "window.nostr") || strings.Contains(r.header.Get("WWW-Authenticate"), "Basic") {
		t.Errorf("a browser without a cookie gets status %d, %v and\n%.300s", r.status, r.header, r.body)
	}
	signedIn := func(who person) (cookie string, event []byte) {
		var out bytes.Buffer
		cmd := root()
		cmd.SetArgs([]string{"git-credential", "link", "--key", keyFileOf(t, string(who)), site + page})
		cmd.SetOut(&out)
		if err := cmd.ExecuteContext(t.Context()); err != nil {
			t.Fatal(err)
		}
		link, fragment, _ := strings.Cut(strings.TrimSpace(out.String()), "#signin=")
		event, err := base64.RawURLEncoding.DecodeString(fragment)
		if err != nil || link != site+page {
			t.Fatalf("the link is %s: %v", out.String(), err)
		}
		r := st.ask("POST", "/auth/", event, "Content-Type", "application/json")
		cookie, rest, _ := strings.Cut(r.header.Get("Set-Cookie"), ";")
		if r.status != http.StatusNoContent || !strings.Contains(rest, "HttpOnly") || !strings.Contains(rest, "Path=/auth/") {
			t.Fatalf("signing in has status %d, %v: %s", r.status, r.header, r.body)
		}
		return cookie, event
	}
	cookie, used := signedIn(member)
	if r := st.ask("POST", "/auth/", used); r.status != http.StatusUnauthorized || r.header.Get("Set-Cookie") != "" {
		t.Errorf("a link that was used has status %d: %s", r.status, r.body)
	}
	toOthers := regexp.MustCompile(` (href|src|action)="/[^"]*"`)
	for path, want := range map[string]string{
		"": "own", "/issues": "unspeakable", "/issues/" + issue.ID: "unspeakable", "/tree/main": "file", "/log/main": two[:7],
	} {
		r := st.ask("GET", page+path, nil, "Accept", "text/html", "Cookie", cookie)
		if r.status != http.StatusOK || !strings.Contains(r.body, want) || r.header.Get("Cache-Control") != "private, no-store" {
			t.Errorf("a reader gets %q with status %d, %v:\n%.300s", path, r.status, r.header, r.body)
		}
		for _, link := range toOthers.FindAllString(r.body, -1) {
			if !strings.Contains(link, `="/auth/`) {
				t.Errorf("%q links to %s, outside /auth/", path, link)
			}
		}
	}
	if r := st.ask("GET", "/auth/", nil, "Accept", "text/html", "Cookie", cookie); r.status != http.StatusOK || !strings.Contains(r.body, owner.npub()+"/own") {
		t.Errorf("a reader's list has status %d:\n%.300s", r.status, r.body)
	}
	other, _ := signedIn(stranger)
	forged := cookie[:len(cookie)-1] + "A"
	if forged == cookie {
		forged = cookie[:len(cookie)-1] + "Q"
	}
	for _, tt := range []struct {
		name, method, path, cookie string
		want                       int
	}{
		{"a stranger who has signed in", "GET", page, other, http.StatusNotFound},
		{"a stranger who has signed in, a page of code", "GET", page + "/tree/main", other, http.StatusNotFound},
		{"a forged cookie", "GET", page, forged, http.StatusUnauthorized},
		{"a cookie for a push", "POST", "/auth" + repoPath(owner, "own") + "/git-receive-pack", cookie, http.StatusUnauthorized},
		{"the public path", "GET", strings.TrimPrefix(page, "/auth"), cookie, http.StatusNotFound},
	} {
		if r := st.ask(tt.method, tt.path, nil, "Accept", "text/html", "Cookie", tt.cookie); r.status != tt.want {
			t.Errorf("%s: status %d, want %d", tt.name, r.status, tt.want)
		}
	}
}
