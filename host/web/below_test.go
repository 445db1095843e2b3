package web

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"talon/host/bound"
	"talon/host/gitrepo"
	"talon/internal/testkit"
)

// repository makes a repository on disk from a work tree with commits.
func (w *world) repository(t testing.TB, identifier, workTree string) *gitrepo.Repo {
	t.Helper()
	git, err := gitrepo.Find(t.Context(), "git", gitrepo.DefaultOptions)
	if err != nil {
		t.Fatal(err)
	}
	root, err := gitrepo.Open(git, filepath.Join(t.TempDir(), "git"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(root.Close)
	name, err := gitrepo.ParseName(npub("owl"), identifier)
	if err != nil {
		t.Fatal(err)
	}
	repo := root.Repo(name)
	unlock, err := repo.Lock(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer unlock()
	if err := repo.Init(t.Context(), gitrepo.SHA1); err != nil {
		t.Fatal(err)
	}
	testkit.Git(t, workTree, "push", "--quiet", repo.Dir(), "refs/*:refs/*")
	testkit.Git(t, repo.Dir(), "symbolic-ref", "HEAD", "refs/heads/main")
	return repo
}

// serveCodeOf makes the pages of a repository with a work tree.
func (w *world) serveCodeOf(identifier, workTree string) {
	w.serveCodeIn(w.t, identifier, workTree)
}

func (w *world) serveCodeIn(t testing.TB, identifier, workTree string) {
	e := announce("owl", identifier)
	w.host(w.publish(e))
	address, _ := e.Address()
	on := w.repos[address]
	on.git = w.repository(t, identifier, workTree)
	w.repos[address] = on
}

// workTree makes a work tree with files and a commit.
func workTree(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	testkit.Git(t, dir, "init", "-q", "-b", "main")
	for name, content := range files {
		write(t, filepath.Join(dir, name), content)
	}
	testkit.Git(t, dir, "add", "-A")
	testkit.Git(t, dir, "commit", "-q", "-m", "The files")
	return dir
}

func write(t *testing.T, path, content string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
}

// TestTreeAndBlob opens folders and files by branch, by tag and by commit, with and without .git.
func TestTreeAndBlob(t *testing.T) {
	w := newWorld(t)
	dir := workTree(t, map[string]string{
		"README": "hello\n", "src/main.c": "int main(void) { return 0; } /* end */\n", "info/refs": "not git's\n", "empty": "", "binary": "\x00\x01", "page.html": "<script>alert(1)</script>\n",
		"doc.md": "# A title\n\n[the file](README) <script>alert(1)</script> [bad](javascript:alert(1))\n",
	})
	testkit.Git(t, dir, "branch", "topic/one")
	testkit.Git(t, dir, "tag", "-a", "-m", "v1", "v1")
	if err := os.Symlink("src/main.c", filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	testkit.Git(t, dir, "add", "-A")
	testkit.Git(t, dir, "commit", "-q", "-m", "A link")
	w.serveCodeOf("nest", dir)
	base := "/" + npub("owl") + "/nest"
	id := strings.TrimSpace(testkit.Git(t, dir, "rev-parse", "main"))

	if got := w.get(base+"/tree").status(t, http.StatusFound); got.Header().Get("Location") != base+"/tree/main" {
		t.Errorf("the tree without a ref leads to %q", got.Header().Get("Location"))
	}
	for _, ref := range []string{"main", "topic/one", "v1", id, "HEAD", "refs/heads/main", "refs/tags/v1"} {
		for _, base := range []string{base, base + ".git"} {
			d := w.get(base+"/tree/"+ref).status(t, 200)
			d.has(t, "README", "src", "empty")
			d.tame(t)
			w.get(base+"/tree/"+ref+"/src").status(t, 200).has(t, "main.c")
			d = w.get(base+"/blob/"+ref+"/src/main.c").status(t, 200)
			d.has(t, "1 int main ( void ) { return 0 ; } /* end */", "1 line, C")
			d.tame(t)
			w.get(base+"/blob/"+ref+"/info/refs").status(t, 200).has(t, "not git's")
		}
	}
	w.get(base+"/blob/main/link").status(t, 200).has(t, "A symbolic link to src/main.c")
	w.get(base+"/blob/main/empty").status(t, 200).has(t, "The file is empty")
	w.get(base+"/blob/main/binary").status(t, 200).has(t, "binary file")
	page := w.get(base+"/blob/main/page.html").status(t, 200)
	page.has(t, "script", "alert( 1 )")
	page.tame(t)
	marked := w.get(base+"/blob/main/src/main.c?l=1").status(t, 200)
	if !strings.Contains(marked.Body.String(), `class="l m" id="L1"`) {
		t.Error("the line is not marked")
	}
	for _, href := range []string{base + "/blame/main/src/main.c#L1", base + "/blob/" + id + "/src/main.c?l=1#L1"} {
		if !strings.Contains(marked.Body.String(), `href="`+href+`"`) {
			t.Errorf("the page of a line does not lead to %s", href)
		}
	}
	for _, path := range []string{
		"/tree/nothing", "/tree/main/nothing", "/blob/main/README/x", "/blob/main/%2e%2e/README", "/blob/main/../README", "/tree/" + strings.Repeat("0", 40), "/raw/main/src",
		"/tree/main//src", "/blob/main/a%00b", "/tree/refs/heads", "/nothing/main", "/blob/main%2FREADME", "/tree/" + id[:5],
	} {
		w.get(base+path).status(t, 404)
	}
	d := w.get(base + "/tree/main/src")
	again := w.get(base+"/tree/main/src", func(r *http.Request) { r.Header.Set("If-None-Match", d.Header().Get("ETag")) })
	again.status(t, 304)
}

// TestHistory opens the pages of commits, from the log to the text of a patch.
func TestHistory(t *testing.T) {
	w := newWorld(t)
	dir := workTree(t, map[string]string{"README": "one\ntwo\nthree\n", "src/main.c": "int a;\n", "gone": "x\n"})
	write(t, filepath.Join(dir, "README"), "one\nTWO\nthree\n")
	testkit.Git(t, dir, "rm", "-q", "gone")
	testkit.Git(t, dir, "commit", "-qam", "Change <b>README</b>\n\nThe body & more.")
	testkit.Git(t, dir, "checkout", "-q", "-b", "topic/a", "HEAD~1")
	write(t, filepath.Join(dir, "new file"), "new\n")
	testkit.Git(t, dir, "add", "-A")
	testkit.Git(t, dir, "commit", "-qm", "A new file")
	testkit.Git(t, dir, "tag", "-a", "-m", "The <i>first</i> version", "v1")
	w.serveCodeOf("nest", dir)
	base := "/" + npub("owl") + "/nest"
	id, first := testkit.Git(t, dir, "rev-parse", "main"), testkit.Git(t, dir, "rev-parse", "main~1")

	log := w.get(base+"/log/main").status(t, 200)
	log.has(t, "Change <b>README</b>", "The files", "2 commits in all")
	w.get(base+"/log/main/README").status(t, 200).has(t, "History of README", "Change", "The files")
	w.get(base+"/log/main/src").status(t, 200).hasNot(t, "Change")
	commit := w.get(base+"/commit/"+id).status(t, 200)
	commit.has(t, "Change <b>README</b>", "The body & more.", "2 files changed", "TWO", id, "deleted")
	w.get(base+"/commit/"+first).status(t, 200).has(t, "3 files changed", "added")
	compare := w.get(base+"/compare/main...topic/a").status(t, 200)
	compare.has(t, "1 commit", "A new file", "1 file changed")
	w.get(base+"/compare/topic/a...main").status(t, 200).has(t, "Change <b>README</b>")
	refs := w.get(base+"/refs").status(t, 200)
	refs.has(t, "main default", "topic/a 1 ahead, 1 behind", "v1", "Tagged by a", "The <i>first</i> version")
	blame := w.get(base+"/blame/main/README").status(t, 200)
	blame.has(t, first[:8], id[:8], "TWO")
	search := w.get(base+"/grep/main?q=two").status(t, 200)
	search.has(t, "README", "2TWO", "1 line")
	w.get(base+"/grep/main?q=%3Cscript%3Ealert").status(t, 200).has(t, "Nothing was found")
	tree := w.get(base+"/tree/main").status(t, 200)
	tree.has(t, "README", "Change <b>README</b>", "The files")
	for _, d := range []*doc{log, commit, compare, refs, blame, search, tree} {
		d.tame(t)
		for _, href := range d.hrefs() {
			if path, ok := strings.CutPrefix(href, base+"/"); ok && !strings.HasPrefix(path, "archive/") {
				if got := w.raw(href); got.Code != 200 && got.Code != 302 {
					t.Errorf("a link to %s: %d", href, got.Code)
				}
			}
		}
	}
	for from, to := range map[string]string{"/commit/" + id[:8]: "/commit/" + id, "/commit/main": "/commit/" + id, "/tree/" + id[:9] + "/src": "/tree/" + id + "/src", "/blob/" + id[:7] + "/README": "/blob/" + id + "/README", "/log": "/log/main"} {
		if got := w.raw(base + from); got.Code != 302 || got.Header().Get("Location") != base+to {
			t.Errorf("%s leads to %d %s", from, got.Code, got.Header().Get("Location"))
		}
	}
	patch := w.raw(base + "/commit/" + id + ".patch")
	if !strings.HasPrefix(patch.Body.String(), "From "+id) || !strings.Contains(patch.Body.String(), "+TWO") || patch.Header().Get("Content-Type") != "text/plain; charset=utf-8" {
		t.Errorf("the patch: %v %s", patch.Header(), patch.Body)
	}
	if diff := w.raw(base + "/commit/" + id + ".diff").Body.String(); !strings.HasPrefix(diff, "diff --git") {
		t.Errorf("the diff: %s", diff)
	}
	for _, path := range []string{"/commit/" + strings.Repeat("0", 40), "/commit/main/README", "/log/main?from=99", "/log/main/nothing", "/compare/main", "/compare/main...nothing", "/blame/main/nothing", "/archive/main.tar", "/commit/" + id[:6], "/refs/x", "/commit/" + strings.Repeat("0", 40) + ".patch"} {
		if got := w.raw(base + path); got.Code != 404 {
			t.Errorf("%s: %d", path, got.Code)
		}
	}
}

// TestRaw checks that a file never runs in the origin of the service.
func TestRaw(t *testing.T) {
	w := newWorld(t)
	large := strings.Repeat("0123456789abcdef", 100_000)
	dir := workTree(t, map[string]string{
		"page.html": "<script>alert(1)</script>", "image.svg": "<svg xmlns='http://www.w3.org/2000/svg'><script>x</script></svg>", "doc.pdf": "%PDF-\x00", "a.js": "alert(1)", "large.txt": large,
		"x.png": "\x89PNG", `a"b;c.bin`: "\x00",
	})
	w.serveCodeOf("nest", dir)
	base := "/" + npub("owl") + "/nest/raw/main/"
	for name, want := range map[string][2]string{
		"page.html": {"text/plain; charset=utf-8", ""}, "image.svg": {"image/svg+xml", ""}, "doc.pdf": {"application/octet-stream", "doc.pdf"},
		"a.js": {"text/plain; charset=utf-8", ""}, "large.txt": {"application/octet-stream", "large.txt"}, "x.png": {"image/png", ""},
		"a%22b%3Bc.bin": {"application/octet-stream", `filename="a_b_c.bin"`},
	} {
		got := w.raw(base + name)
		h := got.Header()
		if got.Code != 200 || h.Get("Content-Type") != want[0] || !strings.Contains(h.Get("Content-Disposition"), want[1]) || (want[1] == "") != (h.Get("Content-Disposition") == "") {
			t.Errorf("%s: %d %v", name, got.Code, h)
		}
		if csp := h.Get("Content-Security-Policy"); !strings.Contains(csp, "sandbox") || !strings.HasPrefix(csp, "default-src 'none'") || h.Get("X-Content-Type-Options") != "nosniff" {
			t.Errorf("%s: %v", name, h)
		}
	}
	if got := w.raw(base + "large.txt"); got.Body.String() != large || got.Header().Get("Content-Length") != itoa(len(large)) {
		t.Errorf("a large file has %d bytes of %d", got.Body.Len(), len(large))
	}
	if n := testScheduler.Load(gitrepo.ClassPage).Working; n != 0 {
		t.Errorf("%d slots are not given back", n)
	}
}

// TestRanges asks for parts of raw files: of one that is sent from memory, and of one that git sends.
func TestRanges(t *testing.T) {
	w := newWorld(t)
	files := map[string]string{"small.txt": "0123456789", "large.txt": strings.Repeat("0123456789", 200_000), "empty": ""}
	w.serveCodeOf("nest", workTree(t, files))
	base := "/" + npub("owl") + "/nest/raw/main/"
	etag := w.raw(base + "small.txt").Header().Get("ETag")
	for _, tt := range []struct {
		name, asked, version string
		status               int
		from, to             int // of what is sent
	}{
		{"small.txt", "bytes=2-4", "", 206, 2, 5},
		{"small.txt", "bytes=2-4", etag, 206, 2, 5},
		{"small.txt", "bytes=2-4", `"another"`, 200, 0, 10},
		{"small.txt", "Bytes=7-", "", 206, 7, 10},
		{"small.txt", "bytes=-3", "", 206, 7, 10},
		{"small.txt", "bytes=-30", "", 206, 0, 10},
		{"small.txt", "bytes=0-99999999999999999", "", 206, 0, 10},
		{"small.txt", "bytes=10-", "", 416, 0, 0},
		{"small.txt", "bytes=-0", "", 416, 0, 0},
		{"small.txt", "bytes=4-2", "", 200, 0, 10},
		{"small.txt", "bytes=1-2,4-5", "", 200, 0, 10},
		{"small.txt", "bytes=0x1-2", "", 200, 0, 10},
		{"small.txt", "bytes=-99999999999999999999", "", 200, 0, 10},
		{"small.txt", "lines=1-2", "", 200, 0, 10},
		{"small.txt", "bytes", "", 200, 0, 10},
		{"empty", "bytes=0-", "", 416, 0, 0},
		{"empty", "bytes=-1", "", 416, 0, 0},
		{"large.txt", "bytes=1500003-1500006", "", 206, 1_500_003, 1_500_007},
		{"large.txt", "bytes=-5", "", 206, 1_999_995, 2_000_000},
		{"large.txt", "bytes=0-", "", 206, 0, 2_000_000},
		{"large.txt", "bytes=2000000-", "", 416, 0, 0},
	} {
		got := w.raw(base+tt.name, func(r *http.Request) {
			r.Header.Set("Range", tt.asked)
			if tt.version != "" {
				r.Header.Set("If-Range", tt.version)
			}
		})
		size, h := len(files[tt.name]), got.Header()
		want := map[int]string{206: fmt.Sprintf("bytes %d-%d/%d", tt.from, tt.to-1, size), 416: fmt.Sprintf("bytes */%d", size)}[tt.status]
		if got.Code != tt.status || got.Body.String() != files[tt.name][tt.from:tt.to] || h.Get("Content-Range") != want || h.Get("Accept-Ranges") != "bytes" {
			t.Errorf("%s, %s, %s: status %d, %d bytes, %v", tt.name, tt.asked, tt.version, got.Code, got.Body.Len(), h)
		}
		if length := h.Get("Content-Length"); tt.status != 416 && length != itoa(tt.to-tt.from) {
			t.Errorf("%s, %s: the length is %s", tt.name, tt.asked, length)
		}
	}
	head := w.raw(base+"small.txt", func(r *http.Request) { r.Method = http.MethodHead; r.Header.Set("Range", "bytes=2-4") })
	if h := head.Header(); head.Code != 200 || h.Get("Content-Length") != "10" || h.Get("Accept-Ranges") != "bytes" {
		t.Errorf("HEAD: %d %v", head.Code, h)
	}
	known := w.raw(base+"small.txt", func(r *http.Request) { r.Header.Set("If-None-Match", etag); r.Header.Set("Range", "bytes=2-4") })
	if known.Code != 304 {
		t.Errorf("a client that has the file gets status %d", known.Code)
	}
	if n := testScheduler.Load(gitrepo.ClassPage).Working; n != 0 {
		t.Errorf("%d slots are not given back", n)
	}
}

// TestHostileTree shows names that try to be more than names.
func TestHostileTree(t *testing.T) {
	w := newWorld(t)
	names := []string{
		`<script>alert(1)<`, `"><img src=x onerror=alert(1)>`, "a\u202egnp.exe", "new\nline", "\xff\xfe", "javascript:alert(1)", "a?b=c#d", "%2e%2e", "100%", " blank ", "a\\b", "{{.}}", "-rf", strings.Repeat("W", 240),
	}
	files := map[string]string{}
	for _, name := range names {
		files[name] = "text of " + name + "\n" + strings.Join(hostile, "\n")
	}
	dir := workTree(t, files)
	w.serveCodeOf("nest", dir)
	base := "/" + npub("owl") + "/nest"
	d := w.get(base+"/tree/main").status(t, 200)
	d.tame(t)
	found := 0
	for _, href := range d.hrefs() {
		if strings.HasPrefix(href, base+"/blob/main/") {
			found++
			blob := w.get(href).status(t, 200)
			blob.tame(t)
			if raw := w.raw(strings.Replace(href, "/blob/", "/raw/", 1)); raw.Code != 200 || !strings.HasPrefix(raw.Body.String(), "text of ") {
				t.Errorf("%s: %d", href, raw.Code)
			}
		}
	}
	if found != len(names) {
		t.Errorf("%d of %d files have a page: %q", found, len(names), d.hrefs())
	}
	slices.Sort(names)
}

// TestHiddenRepository shows nothing of a repository that is not served, whatever the caches have.
func TestHiddenRepository(t *testing.T) {
	w := newWorld(t)
	dir := workTree(t, map[string]string{"secret": "a secret\n"})
	w.serveCodeOf("nest", dir)
	base := "/" + npub("owl") + "/nest"
	id := testkit.Git(t, dir, "rev-parse", "main")
	paths := []string{
		"/tree/main", "/blob/main/secret", "/raw/main/secret", "/log/main", "/commit/" + id, "/commit/" + id + ".patch", "/blame/main/secret", "/grep/main?q=secret", "/refs", "/compare/main...main",
	}
	for _, path := range paths {
		if got := w.raw(base + path); got.Code != 200 {
			t.Errorf("%s: %d", path, got.Code)
		}
	}
	address, _ := announce("owl", "nest").Address()
	on := w.repos[address]
	delete(w.repos, address)
	for _, path := range paths {
		if got := w.raw(base + path); got.Code != 404 || strings.Contains(got.Body.String(), "secret\n") {
			t.Errorf("%s of a hidden repository: %d", path, got.Code)
		}
	}
	w.repos[address] = on
	w.stored = nil
	for _, path := range paths {
		if got := w.raw(base + path); got.Code != 404 {
			t.Errorf("%s without an announcement: %d", path, got.Code)
		}
	}
}

// TestBusyCode answers pages that need git with 503 while git is busy, and others as ever.
func TestBusyCode(t *testing.T) {
	w := newWorld(t)
	dir := workTree(t, map[string]string{"README": "text\n"})
	w.serveCodeOf("nest", dir)
	base := "/" + npub("owl") + "/nest"
	id := testkit.Git(t, dir, "rev-parse", "main")
	for {
		task, err := testScheduler.Reserve(t.Context(), gitrepo.ClassPage, bound.Holder{})
		if err != nil {
			break
		}
		defer task.End()
	}
	for _, path := range []string{"/commit/" + id, "/commit/" + id + ".patch", "/blame/main/README", "/grep/main?q=text", "/compare/" + id + "...main", "/log/main/README"} {
		if got := w.raw(base + path); got.Code != 503 || got.Header().Get("Retry-After") == "" || got.Header().Get("Cache-Control") != "no-store" {
			t.Errorf("%s: %d %v", path, got.Code, got.Header())
		}
	}
	for _, path := range []string{"/", base, base + "/tree/main", base + "/blob/main/README", base + "/log/main", base + "/refs"} {
		w.get(path).status(t, 200)
	}
}
