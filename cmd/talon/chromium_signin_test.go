package main

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nbd-wtf/go-nostr"

	"talon/internal/testkit"
)

// TestChromiumSignIn signs in to the pages of a private repository in Chromium, by a signer in the
// browser (NIP-07) and by a link.
func TestChromiumSignIn(t *testing.T) {
	dir := filepath.Join("..", "..", "testdata", "chromium")
	if _, err := os.Stat(filepath.Join(dir, "node_modules", "playwright-core")); err != nil {
		t.Skip("needs npm ci in testdata/chromium")
	}
	browser, err := exec.LookPath("chromium")
	if err != nil {
		t.Skip("needs chromium (Debian: apt install chromium)")
	}
	if os.Getenv("TALON_TEST_SCALE") == "" {
		t.Skip("TALON_TEST_SCALE is not set: TestReaderOfPrivateRepository does the same without a browser")
	}
	testkit.Inputs(t, dir)
	plugins, data := modulesAnd(t, []string{"readers", "grasp"}, nil), graspData(t)
	st := newStory(t, startGrasp(t, data, plugins))
	owner, stranger := st.who("owner"), st.who("stranger")
	members := filepath.Join(t.TempDir(), "members.txt")
	if err := os.WriteFile(members, []byte(owner.npub()+"\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	work := st.folder()
	one := work.commit("one")
	st.held(st.announcement(owner, "own"))
	state := st.held(st.state(owner, "own", "refs/heads/main", one))
	work.push(st.repo(owner, "own"), one+":refs/heads/main")
	st.becomesServed(state)
	configure(t, st.s, plugins, "readers", `readers_repositories = ["`+owner.npub()+`/own"]`+"\n[sets.readers]\nfile = \""+members+"\"")
	st.until("the repository becomes private", func() bool { return !st.served(state) })

	page := "http://" + serviceDomain + "/auth" + strings.TrimSuffix(repoPath(owner, "own"), ".git")
	link := func(who person) string {
		var out bytes.Buffer
		cmd := root()
		cmd.SetArgs([]string{"git-credential", "link", "--key", keyFileOf(t, string(who)), page})
		cmd.SetOut(&out)
		if err := cmd.ExecuteContext(t.Context()); err != nil {
			t.Fatal(err)
		}
		return strings.TrimSpace(out.String())
	}
	signer := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var e nostr.Event
		if err := json.NewDecoder(r.Body).Decode(&e); err != nil {
			t.Errorf("the page asks the signer for something that is no event: %v", err)
		}
		if err := e.Sign(key(string(owner))); err != nil {
			t.Error(err)
		}
		_ = json.NewEncoder(w).Encode(e)
	}))
	defer signer.Close()
	links, err := json.Marshal(map[string]string{"reader": link(owner), "stranger": link(stranger)})
	if err != nil {
		t.Fatal(err)
	}
	node := exec.CommandContext(t.Context(), "node", "--test", "--test-reporter=spec", "signin.mjs")
	node.Dir = dir
	node.Env = append(os.Environ(), "CHROMIUM="+browser, "SIGNIN_PROXY="+st.web, "SIGNIN_PAGE="+page, "SIGNIN_LINKS="+string(links),
		"SIGNIN_SIGNER="+signer.URL, "SIGNIN_TEXT=The repository own")
	out, err := node.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	t.Logf("%s", out)
}
