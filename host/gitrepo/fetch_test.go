package gitrepo

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/cgi"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"talon/internal/testkit"
)

// served serves the repository in a folder by git http-backend, with some settings.
func served(t *testing.T, dir string, settings ...string) string {
	t.Helper()
	for _, setting := range settings {
		key, value, _ := strings.Cut(setting, "=")
		git(t, dir, "config", key, value)
	}
	return backend(t, dir, func(r *http.Request) string { return r.Header.Get("Git-Protocol") }) + "/.git"
}

// backend runs git http-backend, in the version of the protocol that is chosen for a
// request.
func backend(t *testing.T, dir string, version func(*http.Request) string) (url string) {
	t.Helper()
	path, err := exec.LookPath("git")
	if err != nil {
		t.Fatal(err)
	}
	return server(t, func(w http.ResponseWriter, r *http.Request) {
		h := cgi.Handler{Path: path, Args: []string{"http-backend"}, Dir: dir, Env: []string{
			"GIT_PROJECT_ROOT=" + dir, "GIT_HTTP_EXPORT_ALL=1", "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=" + os.DevNull,
			"GIT_CONFIG_COUNT=1", "GIT_CONFIG_KEY_0=safe.directory", "GIT_CONFIG_VALUE_0=*", "GIT_PROTOCOL=" + version(r),
		}, Stderr: io.Discard}
		h.ServeHTTP(w, r)
	})
}

// server serves until the end of the test.
func server(t *testing.T, f http.HandlerFunc) (url string) {
	s := httptest.NewServer(f)
	t.Cleanup(s.Close)
	return s.URL
}

func fetch(t *testing.T, r *Repo, url string, ids ...string) ([]string, error) {
	t.Helper()
	return r.Fetch(t.Context(), Source{URL: url}, ids...)
}

// clean expects that nothing is left in the quarantine.
func clean(t *testing.T, root *Root) {
	t.Helper()
	entries, err := os.ReadDir(filepath.Join(root.dir, trashDir))
	if err != nil || len(entries) != 0 {
		t.Errorf("%d things are left in quarantine, %v", len(entries), err)
	}
}

func TestFetch(t *testing.T) {
	for _, format := range []Format{SHA1, SHA256} {
		t.Run(format.String(), func(t *testing.T) {
			root := newRoot(t)
			r := newRepo(t, root, alice, "project", format)
			other := newRepo(t, root, bob, "project", format)
			dir, first, second := work(t, format)
			found, err := fetch(t, r, served(t, dir), second)
			if err != nil || !slices.Equal(found, []string{second}) {
				t.Fatalf("%v, %v", found, err)
			}
			for _, repo := range []*Repo{r, other} {
				if whole, err := repo.Connected(t.Context(), first, second); !whole || err != nil {
					t.Errorf("the objects are not whole: %v, %v", whole, err)
				}
				if refs, err := repo.Refs(t.Context()); err != nil || len(refs.List) != 0 {
					t.Errorf("a fetch made refs: %v, %v", refs, err)
				}
			}
			clean(t, root)
		})
	}
}

// TestFetchBringsOnlyWhatIsNew fetches a commit whose parents are here, in another
// repository of the identifier.
func TestFetchBringsOnlyWhatIsNew(t *testing.T) {
	root := newRoot(t)
	r, other := newRepo(t, root, alice, "project", SHA1), newRepo(t, root, bob, "project", SHA1)
	dir, _, second := work(t, SHA1)
	noise := make([]byte, 1<<20)
	for i := range noise {
		noise[i] = byte(i * i >> 3)
	}
	_ = os.WriteFile(filepath.Join(dir, "large"), noise, 0o644)
	third := testkit.Commit(t, dir, "large")
	url := served(t, dir)
	if _, err := fetch(t, r, url, third); err != nil {
		t.Fatal(err)
	}
	locked(t, r, func() {
		git(t, r.dir, "update-ref", "refs/heads/main", third)
	})
	git(t, dir, "commit", "-q", "--allow-empty", "-m", "small")
	fourth := git(t, dir, "rev-parse", "HEAD")
	sizes := func() (n int64) {
		_, shared, err := r.Size()
		if err != nil {
			t.Fatal(err)
		}
		return shared
	}
	before := sizes()
	if found, err := fetch(t, other, url, fourth); err != nil || len(found) != 1 {
		t.Fatalf("%v, %v", found, err)
	}
	if grown := sizes() - before; grown > 20_000 {
		t.Errorf("one small commit brought %d bytes", grown)
	}
	if whole, err := other.Connected(t.Context(), second, fourth); !whole || err != nil {
		t.Errorf("%v, %v", whole, err)
	}
}

// TestFetchOfPart asks for objects of which the server has some.
func TestFetchOfPart(t *testing.T) {
	absent := func(i int) string { return fmt.Sprintf("%040x", 0xabc0+i) }
	for name, settings := range map[string][]string{
		"version 2":            nil,
		"without refs by id":   {"uploadpack.advertiseRefs=false"},
		"tips only, version 0": {"uploadpack.allowTipSHA1InWant=false", "protocol.version=0"},
	} {
		t.Run(name, func(t *testing.T) {
			root := newRoot(t)
			r := newRepo(t, root, alice, "project", SHA1)
			dir, first, second := work(t, SHA1)
			git(t, dir, "branch", "old", first)
			url := served(t, dir, settings...)
			for _, absentees := range []int{1, 2, 5} {
				ids := []string{first, second}
				for i := range absentees {
					ids = append(ids, absent(i))
				}
				found, err := fetch(t, r, url, ids...)
				slices.Sort(found)
				want := []string{first, second}
				slices.Sort(want)
				if err != nil || !slices.Equal(found, want) {
					t.Errorf("with %d that are absent: %v, %v", absentees, found, err)
				}
			}
			if found, err := fetch(t, r, url, absent(1)); err != nil || len(found) != 0 {
				t.Errorf("of nothing: %v, %v", found, err)
			}
			clean(t, root)
		})
	}
}

// TestFetchByRefs asks a server that gives nothing by its id but what its refs name:
// an older commit comes with the branch that it is in.
func TestFetchByRefs(t *testing.T) {
	root := newRoot(t)
	r := newRepo(t, root, alice, "project", SHA1)
	dir, first, _ := work(t, SHA1)
	// Version 0 refuses other ids.
	url := backend(t, dir, func(*http.Request) string { return "" })
	git(t, dir, "tag", "-d", "v1")
	found, err := fetch(t, r, url+"/.git", first)
	if err != nil || !slices.Equal(found, []string{first}) {
		t.Errorf("%v, %v", found, err)
	}
	clean(t, root)
}

// TestFetchIntoRuins fetches into a repository whose refs cannot be read, as one that is
// being removed: it is an error, and nothing is left.
func TestFetchIntoRuins(t *testing.T) {
	root := newRoot(t)
	r := newRepo(t, root, alice, "project", SHA1)
	refs := filepath.Join(r.dir, "packed-refs")
	if err := os.RemoveAll(refs); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(refs, 0o700); err != nil {
		t.Fatal(err)
	}
	if found, err := fetch(t, r, "http://127.0.0.1:1/", strings.Repeat("1", 40)); err == nil || len(found) != 0 {
		t.Errorf("%v, %v", found, err)
	}
	clean(t, root)
}

// TestFetchRefusesOptions hands ids and URLs to Fetch that git would take for
// something else: nothing is started.
func TestFetchRefusesOptions(t *testing.T) {
	root := newRoot(t)
	r := newRepo(t, root, alice, "project", SHA1)
	const id = "1234567890123456789012345678901234567890"
	for _, bad := range []string{"", "--upload-pack=touch x", "refs/heads/main", "+" + id, id + ":refs/heads/x", "HEAD", strings.ToUpper("ab" + id[2:]),
		id + "\n--all", id[:39], strings.Repeat("0", 40)} {
		if _, err := fetch(t, r, "http://127.0.0.1:1/", bad); err == nil || !strings.Contains(err.Error(), "is not the id") {
			t.Errorf("id %q: %v", bad, err)
		}
	}
	if found, err := fetch(t, r, "http://127.0.0.1:1/", strings.Repeat("1", 64)); err != nil || len(found) != 0 {
		t.Errorf("an id of another format: %v, %v", found, err)
	}
	for _, bad := range []string{"", "--upload-pack=x", "file:///etc", "https://example.com/", "ext::sh -c true", "ssh://x/y", "http://x/ y", "http://x/\n[core]"} {
		if _, err := fetch(t, r, bad, id); err == nil || !strings.Contains(err.Error(), "not an http URL") {
			t.Errorf("URL %q: %v", bad, err)
		}
	}
	clean(t, root)
}

// TestFetchOfHarm fetches from servers that answer wrongly: nothing lands, nothing is
// left, and it is an error.
func TestFetchOfHarm(t *testing.T) {
	dir, _, second := work(t, SHA1)
	good := served(t, dir)
	// A commit whose tree has an entry that attacks a checkout.
	_ = os.WriteFile(filepath.Join(dir, "evil"), []byte("[submodule \"x\"]\n\tpath = x\n\turl = --upload-pack=./run\n"), 0o644)
	tree := bytes.TrimSpace([]byte(gitIn(t, dir, "100644 blob "+git(t, dir, "hash-object", "-w", "evil")+"\t.gitmodules\n", "mktree")))
	evil := git(t, dir, "commit-tree", "-m", "x", string(tree))
	git(t, dir, "update-ref", "refs/heads/evil", evil)

	answer := func(change func(body []byte) []byte) string {
		return server(t, func(w http.ResponseWriter, r *http.Request) {
			testkit.Forward(w, r, strings.TrimSuffix(good, "/.git"), change)
		}) + "/.git"
	}
	flip := func(body []byte) []byte {
		if i := bytes.Index(body, []byte("PACK")); i > 0 {
			body[i+30] ^= 0xff
		}
		return body
	}
	for name, test := range map[string]struct {
		url, id, want string
	}{
		"a corrupt pack": {answer(flip), second, ""},
		"half a pack":    {answer(func(b []byte) []byte { return b[:len(b)/2] }), second, ""},
		"nothing":        {answer(func([]byte) []byte { return nil }), second, ""},
		"a page":         {answer(func([]byte) []byte { return []byte("<html>hello") }), second, ""},
		"harm":           {good, evil, "gitmodules"},
		"nobody":         {"http://127.0.0.1:1/x", second, ""},
	} {
		t.Run(name, func(t *testing.T) {
			root := newRoot(t)
			r := newRepo(t, root, alice, "project", SHA1)
			found, err := fetch(t, r, test.url, test.id)
			if err == nil || len(found) != 0 || !strings.Contains(err.Error(), test.want) {
				t.Errorf("%v, %v", found, err)
			}
			if there, err := r.Has(t.Context(), second, evil); err != nil || slices.Contains(there, true) {
				t.Errorf("something landed: %v, %v", there, err)
			}
			clean(t, root)
		})
	}
}

// gitIn runs git with an input.
func gitIn(t *testing.T, dir, in string, args ...string) string {
	t.Helper()
	cmd := testkit.GitCommand(t.Context(), dir, args...)
	cmd.Stdin = strings.NewReader(in)
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("git %v: %v", args, err)
	}
	return string(out)
}

// TestFetchEnds has a server that never answers: the end of the context ends git, and
// nothing is left.
func TestFetchEnds(t *testing.T) {
	root := newRoot(t)
	r := newRepo(t, root, alice, "project", SHA1)
	asked, end := make(chan struct{}, 10), make(chan struct{})
	s := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		asked <- struct{}{}
		<-end
	}))
	defer s.Close()
	defer close(end)
	ctx, cancel := context.WithCancelCause(t.Context())
	cause := errors.New("the time is over")
	go func() {
		<-asked
		cancel(cause)
	}()
	if _, err := r.Fetch(ctx, Source{URL: s.URL + "/x"}, strings.Repeat("1", 40)); !errors.Is(err, cause) {
		t.Errorf("%v, want the cause", err)
	}
	clean(t, root)
}

// TestFetchFollowsNothing has a server that redirects: git must not follow.
func TestFetchFollowsNothing(t *testing.T) {
	root := newRoot(t)
	r := newRepo(t, root, alice, "project", SHA1)
	dir, _, second := work(t, SHA1)
	good := served(t, dir)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, strings.TrimSuffix(good, "/.git")+r.URL.RequestURI(), http.StatusFound)
	}))
	defer s.Close()
	if found, err := fetch(t, r, s.URL+"/.git", second); err == nil || len(found) != 0 {
		t.Errorf("%v, %v; want an error", found, err)
	}
}

// TestFetchIntoWhatGoes removes the repository while a fetch is under way: nothing of
// it comes back.
func TestFetchIntoWhatGoes(t *testing.T) {
	root := newRoot(t)
	r := newRepo(t, root, alice, "project", SHA1)
	dir, _, second := work(t, SHA1)
	good := served(t, dir)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if req.Method == http.MethodPost {
			locked(t, r, func() {
				if err := r.Remove(context.Background()); err != nil {
					t.Error(err)
				}
			})
		}
		body, _ := io.ReadAll(req.Body)
		request, _ := http.NewRequest(req.Method, strings.TrimSuffix(good, "/.git")+req.URL.RequestURI(), bytes.NewReader(body))
		request.Header = req.Header.Clone()
		resp, err := http.DefaultTransport.RoundTrip(request)
		if err != nil {
			t.Error(err)
			return
		}
		defer resp.Body.Close()
		w.Header().Set("Content-Type", resp.Header.Get("Content-Type"))
		_, _ = io.Copy(w, resp.Body)
	}))
	defer s.Close()
	if found, err := fetch(t, r, s.URL+"/.git", second); err == nil || len(found) != 0 {
		t.Errorf("%v, %v; want an error", found, err)
	}
	if there, err := r.Exists(); there || err != nil {
		t.Errorf("the repository is back: %v, %v", there, err)
	}
	clean(t, root)
}

// TestFetchKilled kills the server in the middle of a fetch, kill -9: a restart finds
// the repository as it was, and can fetch again.
func TestFetchKilled(t *testing.T) {
	if dir := os.Getenv("TALON_TEST_FETCH_INTO"); dir != "" {
		root, err := Open(newGit(t), dir)
		if err != nil {
			t.Fatal(err)
		}
		_, err = root.Repo(mustName(t, alice, "project")).Fetch(t.Context(), Source{URL: os.Getenv("TALON_TEST_FETCH_FROM")}, os.Getenv("TALON_TEST_FETCH_ID"))
		t.Fatalf("the fetch ended: %v", err)
	}
	root := newRoot(t)
	r := newRepo(t, root, alice, "project", SHA1)
	dir, _, second := work(t, SHA1)
	good := served(t, dir)
	half, end := make(chan struct{}), make(chan struct{})
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		request, _ := http.NewRequest(req.Method, strings.TrimSuffix(good, "/.git")+req.URL.RequestURI(), req.Body)
		request.Header = req.Header.Clone()
		resp, err := http.DefaultTransport.RoundTrip(request)
		if err != nil {
			return
		}
		defer resp.Body.Close()
		w.Header().Set("Content-Type", resp.Header.Get("Content-Type"))
		body, _ := io.ReadAll(resp.Body)
		if req.Method == http.MethodGet {
			_, _ = w.Write(body)
			return
		}
		_, _ = w.Write(body[:len(body)*2/3])
		_ = http.NewResponseController(w).Flush()
		close(half)
		<-end
	}))
	defer s.Close()
	defer close(end)
	cmd := exec.Command(os.Args[0], "-test.run=^TestFetchKilled$")
	cmd.Env = append(os.Environ(), "TALON_TEST_FETCH_INTO="+root.dir, "TALON_TEST_FETCH_FROM="+s.URL+"/.git", "TALON_TEST_FETCH_ID="+second)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	<-half
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	again, err := Open(newGit(t), root.dir)
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	r = again.Repo(r.Name())
	if there, err := r.Has(t.Context(), second); err != nil || there[0] {
		t.Errorf("half a pack counts: %v, %v", there, err)
	}
	if found, err := fetch(t, r, good, second); err != nil || len(found) != 1 {
		t.Errorf("after the restart: %v, %v", found, err)
	}
	clean(t, again)
}

// TestFetchOfABomb fetches a small pack with an object that takes more memory than
// git may have: it ends, and nothing lands.
func TestFetchOfABomb(t *testing.T) {
	testkit.SkipRace(t)
	git, err := Find(t.Context(), "git", Options{MaxInput: 1 << 30, AllocBytes: 4 << 20})
	if err != nil {
		t.Fatal(err)
	}
	root, err := Open(git, filepath.Join(t.TempDir(), "git"))
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	r := newRepo(t, root, alice, "project", SHA1)
	dir, _, _ := work(t, SHA1)
	// A tree cannot be streamed: it has to be in memory to be checked.
	var entries strings.Builder
	blob := gitIn(t, dir, "x", "hash-object", "-w", "--stdin")
	for i := range 150_000 {
		fmt.Fprintf(&entries, "100644 blob %s\t%07d\n", strings.TrimSpace(blob), i)
	}
	tree := strings.TrimSpace(gitIn(t, dir, entries.String(), "mktree"))
	bomb := strings.TrimSpace(gitIn(t, dir, "", "commit-tree", "-m", "x", tree))
	gitIn(t, dir, "", "update-ref", "refs/heads/bomb", bomb)
	found, err := fetch(t, r, served(t, dir), bomb)
	if err == nil || len(found) != 0 || !strings.Contains(err.Error(), "over limit") {
		t.Errorf("%v, %v", found, err)
	}
	clean(t, root)
}
