package main

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nbd-wtf/go-nostr"
)

// TestGitworkshop uses a GRASP service through gitworkshop, a client of NIP-34 for browsers, in
// Chromium: open, browse, comment, create, merge. TALON_GITWORKSHOP names a built checkout of it.
func TestGitworkshop(t *testing.T) {
	dist := filepath.Join(os.Getenv("TALON_GITWORKSHOP"), "dist")
	if dist == "dist" {
		t.Skip("needs a built checkout of gitworkshop: make test-gitworkshop DIR=...")
	}
	if _, err := os.Stat(filepath.Join(dist, "index.html")); err != nil {
		t.Fatalf("gitworkshop is not built: run npm ci and npm run build in %s: %v", filepath.Dir(dist), err)
	}
	s := startGrasp(t, graspData(t), modules(t))
	st := newStory(t, s)
	owner, contributor := st.who("owner"), st.who("contributor")
	repo, address := st.repo(owner, "nest"), repoAddress(owner, "nest")

	work := st.folder()
	work.write("README.md", "# The nest\n\nIt is made of twigs.\n")
	work.write("src/main.c", "int main(void) { return 0; }\n")
	one := work.commit("one")
	st.held(st.announcement(owner, "nest"))
	st.held(st.state(owner, "nest", "HEAD", "ref: refs/heads/main", "refs/heads/main", one))
	work.push(repo, "main")
	work.write("src/moss.c", "int moss = 1;\n")
	two := work.commit("two")
	pull := st.event(contributor, 1618, nostr.Tag{"a", address}, nostr.Tag{"p", owner.hex()}, nostr.Tag{"c", two}, nostr.Tag{"merge-base", one},
		nostr.Tag{"subject", "Add moss"}, nostr.Tag{"clone", "https://" + serviceDomain + repoPath(owner, "nest")}, nostr.Tag{"branch-name", "moss"})
	pull.Content = "Moss is soft."
	pull = signAs(t, string(contributor), *pull)
	work.push(repo, two+":"+nostrRef+pull.ID)
	st.stored(pull)
	// People who come from elsewhere have told their relays and their name.
	st.stored(st.event(owner, 10002, nostr.Tag{"r", "wss://" + serviceDomain}))

	fixture, err := json.Marshal(map[string]string{
		"app": serveApp(t, dist), "domain": serviceDomain, "tls": behindTLS(t, s.web()),
		"key": key(string(owner)), "pubkey": owner.hex(), "npub": owner.npub(), "pull": pull.ID, "tip": two,
	})
	if err != nil {
		t.Fatal(err)
	}
	node := exec.CommandContext(t.Context(), "node", "--test", "--test-reporter=spec", "gitworkshop.mjs")
	node.Dir = filepath.Join("..", "..", "testdata", "chromium")
	node.Env = append(environ(), "GITWORKSHOP="+string(fixture), "GITWORKSHOP_SHOTS="+os.Getenv("TALON_TEST_SHOTS"))
	out, err := node.CombinedOutput()
	t.Logf("%s", out)
	if err != nil {
		t.Fatal(err)
	}

	// All that the browser did has reached the server.
	merged := strings.Fields(work.git("ls-remote", repo, "refs/heads/main"))[0]
	work.git("fetch", "-q", repo, merged)
	if parents := work.git("show", "-s", "--format=%P", merged); parents != one+" "+two {
		t.Errorf("main is at %s with the parents %s, want a merge of %s and %s", merged, parents, one, two)
	}
	for filter, want := range map[string]int{
		`{"kinds":[1621],"#a":["` + address + `"]}`:                                        1,
		`{"kinds":[1111],"authors":["` + owner.hex() + `"]}`:                               1,
		`{"kinds":[1631],"authors":["` + owner.hex() + `"],"#e":["` + pull.ID + `"]}`:      1,
		`{"kinds":[30617],"authors":["` + owner.hex() + `"],"#d":["fresh-eggs"]}`:          1,
		`{"kinds":[30618],"authors":["` + owner.hex() + `"],"#d":["fresh-eggs"]}`:          1,
		`{"kinds":[30618],"authors":["` + owner.hex() + `"],"#d":["nest"],"since":` + "1}": 1,
	} {
		if got := st.count(filter); got != want {
			t.Errorf("%d events match %s, want %d", got, filter, want)
		}
	}
	if got := work.git("ls-remote", st.repo(owner, "fresh-eggs"), "refs/heads/main"); got == "" {
		t.Error("the repository that the browser has created has no branch main")
	}
}

func (f *folder) write(name, text string) {
	f.st.Helper()
	name = filepath.Join(f.dir, name)
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		f.st.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
		f.st.Fatal(err)
	}
	f.git("add", ".")
}

// serveApp serves the files of an application whose paths are all those of its first page, and returns its URL.
func serveApp(t *testing.T, dir string) string {
	files := http.FileServer(http.Dir(dir))
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if info, err := os.Stat(filepath.Join(dir, filepath.FromSlash(r.URL.Path))); err != nil || info.IsDir() {
			r.URL.Path = "/"
		}
		files.ServeHTTP(w, r)
	}))
	t.Cleanup(s.Close)
	return s.URL
}

// behindTLS serves a server by TLS, with a certificate that nobody trusts, and returns the address.
func behindTLS(t *testing.T, server string) (address string) {
	to, err := url.Parse(server)
	if err != nil {
		t.Fatal(err)
	}
	s := httptest.NewTLSServer(&httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(to)
		r.Out.Host = r.In.Host
	}})
	t.Cleanup(s.Close)
	return s.Listener.Addr().String()
}
