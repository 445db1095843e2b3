package githttp

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"talon/host"
	"talon/host/gitrepo"
	"talon/internal/testkit"
)

// Everything that a git user does, in all versions of the protocol, with both kinds
// of object names, below an identifier that has to be escaped. make test has version 2 alone
// for SHA-256.
func TestGitClient(t *testing.T) {
	testkit.SkipRace(t)
	for _, format := range []gitrepo.Format{gitrepo.SHA1, gitrepo.SHA256} {
		for version := range 3 {
			t.Run(fmt.Sprintf("%s/v%d", format, version), func(t *testing.T) {
				if format == gitrepo.SHA256 && version < 2 {
					testkit.Nightly(t, "SHA-1 is tried in all versions")
				}
				t.Parallel()
				testGitClient(t, format, version)
			})
		}
	}
}

func testGitClient(t *testing.T, format gitrepo.Format, version int) {
	s := newSite(t, nil)
	_, url := s.repo("a b:c 🚀", format)
	dir := work(t, format)
	g := func(dir string, args ...string) string {
		t.Helper()
		return git(t, dir, append([]string{"-c", fmt.Sprintf("protocol.version=%d", version)}, args...)...)
	}
	for i, args := range [][]string{nil, {"--depth=1"}, {"--filter=blob:none"}, {"--bare"}} {
		out := g(t.TempDir(), append(append([]string{"clone"}, args...), url, fmt.Sprint("empty", i))...)
		if !strings.Contains(out, "empty repository") {
			t.Errorf("clone %v of an empty repository: %s", args, out)
		}
	}
	g(dir, "push", "-q", url, "main", "v1")
	if got := s.landed[0].Updates; len(got) != 2 || got[0].Ref != "refs/heads/main" || got[0].New != g(dir, "rev-parse", "main") {
		t.Errorf("what landed is %+v", got)
	}

	clone := filepath.Join(t.TempDir(), "clone")
	g(".", "clone", "-q", url, clone)
	if g(clone, "rev-parse", "HEAD", "v1") != g(dir, "rev-parse", "main", "v1") {
		t.Error("the clone has other commits")
	}
	shallow := filepath.Join(t.TempDir(), "shallow")
	g(".", "clone", "-q", "--depth=1", url, shallow)
	if n := g(shallow, "rev-list", "--count", "HEAD"); n != "1" {
		t.Errorf("the shallow clone has %s commits", n)
	}
	g(shallow, "fetch", "-q", "--unshallow")
	if n := g(shallow, "rev-list", "--count", "HEAD"); n != "3" {
		t.Errorf("after --unshallow it has %s commits", n)
	}
	partial := filepath.Join(t.TempDir(), "partial")
	g(".", "clone", "-q", "--filter=blob:none", "--no-checkout", url, partial)
	if n := strings.Count(g(partial, "rev-list", "--objects", "--missing=print", "HEAD"), "?"); n != 3 {
		t.Errorf("%d blobs are missing in the partial clone, want 3", n)
	}
	g(partial, "checkout", "-q", "main")

	// A commit that no ref names, but reaches.
	bare := t.TempDir()
	g(bare, "init", "-q", "--bare", "--object-format="+format.String())
	g(bare, "fetch", "-q", url, g(dir, "rev-parse", "main~"))
	if out, err := tryGit(t.Context(), bare, "fetch", url, strings.Repeat("ab", len(g(dir, "rev-parse", "main"))/2)); err == nil ||
		!strings.Contains(out, "not our ref") {
		t.Errorf("fetch of an absent commit: %v\n%s", err, out)
	}

	// Grow, rewrite, delete.
	g(dir, "commit", "-q", "--allow-empty", "-m", "four")
	g(dir, "push", "-q", url, "main")
	g(clone, "pull", "-q", "--ff-only")
	if g(clone, "rev-parse", "HEAD") != g(dir, "rev-parse", "main") {
		t.Error("the pull brought something else")
	}
	g(dir, "checkout", "-q", "--orphan", "other")
	g(dir, "commit", "-q", "-m", "unrelated")
	g(dir, "push", "-q", "--atomic", url, "+other:main", ":v1", "HEAD:refs/nostr/"+strings.Repeat("ab", 32))
	refs := g(dir, "ls-remote", url)
	if want := g(dir, "rev-parse", "other"); strings.Count(refs, want) != 3 || strings.Contains(refs, "tags") {
		t.Errorf("the refs are\n%s", refs)
	}
	if out, err := tryGit(t.Context(), dir, "push", url, "HEAD:refs/notes/x"); err == nil ||
		!strings.Contains(out, "this ref is of no kind that can be pushed") {
		t.Errorf("a push to refs/notes: %v\n%s", err, out)
	}
	// HEAD's own branch.
	g(dir, "push", "-q", url, ":main")
	g(".", "clone", "-q", url, filepath.Join(t.TempDir(), "headless"))
}

// Options of the git client that change what it sends.
func TestClientOptions(t *testing.T) {
	testkit.SkipRace(t)
	for version := range 3 {
		t.Run(fmt.Sprint("v", version), func(t *testing.T) {
			if version == 1 {
				testkit.Nightly(t, "version 1 is version 0 with a line before it")
			}
			t.Parallel()
			testClientOptions(t, version)
		})
	}
}

func testClientOptions(t *testing.T, version int) {
	s := newSite(t, nil)
	r, url := s.repo("x", gitrepo.SHA1)
	dir := work(t, gitrepo.SHA1)
	try := func(dir string, args ...string) (string, error) {
		return tryGit(t.Context(), dir, append([]string{"-c", fmt.Sprintf("protocol.version=%d", version)}, args...)...)
	}
	g := func(dir string, args ...string) string {
		t.Helper()
		out, err := try(dir, args...)
		if err != nil {
			t.Fatalf("git %v: %v\n%s", args, err, out)
		}
		return strings.TrimSpace(out)
	}
	// The smallest buffer there is: everything is chunked, after a probe.
	g(dir, "-c", "http.postBuffer=1", "push", "-q", url, "main", "v1", "main~:refs/heads/old")
	g(dir, "-c", "http.postBuffer=66000", "fetch", "-q", url, "main")

	// All or nothing.
	if out, err := try(dir, "push", "--atomic", url, "main:refs/heads/new", "main~2:refs/heads/main"); err == nil {
		t.Errorf("an atomic push of a rewrite: %s", out)
	}
	if refs := g(dir, "ls-remote", url, "refs/heads/new"); refs != "" {
		t.Errorf("half of an atomic push: %s", refs)
	}
	g(dir, "push", "-q", "--atomic", "--force", url, "main:refs/heads/new", "main~2:refs/heads/main")
	if out, err := try(dir, "push", "--force-with-lease=main:"+g(dir, "rev-parse", "main"), url, "main"); err == nil {
		t.Errorf("a push with a lease of something else: %s", out)
	}
	g(dir, "push", "-q", "--force-with-lease=main:"+g(dir, "rev-parse", "main~2"), url, "main")

	if out, err := try(dir, "push", "-o", "ci.skip", "-o", "title=\x1b[2Jone two", url, "main:refs/heads/o"); err != nil ||
		!strings.Contains(out, "remote: push options have no effect here: ci.skip title= [2Jone two") {
		t.Errorf("a push with options: %v\n%s", err, out)
	}
	if out, err := try(dir, "-c", "push.pushOption=x", "push", url, ":refs/heads/o"); err != nil || !strings.Contains(out, "push options have no effect here: x") {
		t.Errorf("a deletion with options: %v\n%s", err, out)
	}
	if out, err := try(dir, "push", "--signed=yes", url, "main:refs/heads/s"); err == nil {
		t.Errorf("a signed push: %s", out)
	}
	g(dir, "push", "-q", "--signed=if-asked", url, "main:refs/heads/s")
	g(dir, "push", "-q", "--mirror", url)
	if refs := g(dir, "ls-remote", "--symref", url); !strings.Contains(refs, "ref: refs/heads/main\tHEAD") || strings.Contains(refs, "refs/heads/s") {
		t.Errorf("after --mirror the refs are\n%s", refs)
	}
	if refs := g(dir, "ls-remote", "--tags", url, "v*"); strings.Count(refs, "\n") != 1 || !strings.Contains(refs, "v1^{}") {
		t.Errorf("the tags are\n%s", refs)
	}

	into := t.TempDir()
	for name, args := range map[string][]string{
		"single":   {"--single-branch", "--branch=main", "--no-tags"},
		"treeless": {"--filter=tree:0", "--no-checkout"},
		"limited":  {"--filter=blob:limit=2"},
		"both":     {"--filter=combine:blob:none+tree:1", "--no-checkout"},
		"shallow":  {"--depth=2", "--filter=blob:none"},
		"since":    {"--shallow-since=2020-01-01"},
		"exclude":  {"--shallow-exclude=v1"},
		"mirror":   {"--mirror"},
		"bundle":   {"--no-tags", "-c", "transfer.bundleURI=true"},
	} {
		clone := filepath.Join(into, name)
		g(into, append(append([]string{"clone", "-q"}, args...), url, name)...)
		if got := g(clone, "rev-parse", "HEAD"); got != g(dir, "rev-parse", "main") {
			t.Errorf("the clone %s is at %s", name, got)
		}
		if name != "mirror" {
			g(clone, "checkout", "-q", "main")
			g(clone, "fsck", "--connectivity-only")
		}
	}
	g(filepath.Join(into, "shallow"), "commit", "-q", "--allow-empty", "-m", "of a shallow clone")
	g(filepath.Join(into, "shallow"), "push", "-q", "origin", "main")
	g(filepath.Join(into, "treeless"), "pull", "-q", "--ff-only")
	git(t, r.Dir(), "fsck", "--strict")
}

// A push of more than one buffer: git sends a probe first, and then chunks.
func TestLargePush(t *testing.T) {
	s := newSite(t, nil)
	_, url := s.repo("x", gitrepo.SHA1)
	dir := work(t, gitrepo.SHA1)
	noise := noise(5 << 20)
	git(t, dir, "config", "core.compression", "0")
	if err := os.WriteFile(filepath.Join(dir, "noise"), noise, 0o644); err != nil {
		t.Fatal(err)
	}
	git(t, dir, "add", ".")
	git(t, dir, "commit", "-q", "-m", "noise")
	git(t, dir, "push", "-q", url, "main")
	if len(s.landed) != 1 {
		t.Errorf("%d pushes landed", len(s.landed))
	}
	// A refusal of it is read as well.
	s.authorize.set(func(*Push) error { return &Refusal{Reason: "blocked: only on Sundays"} })
	if out, err := tryGit(t.Context(), dir, "push", url, "main:again", "main~:refs/heads/more"); err == nil || !strings.Contains(out, "only on Sundays") {
		t.Errorf("a push that is refused: %v\n%s", err, out)
	}
	noise[0]++
	if err := os.WriteFile(filepath.Join(dir, "noise"), noise, 0o644); err != nil {
		t.Fatal(err)
	}
	git(t, dir, "commit", "-q", "-a", "-m", "more noise")
	if out, err := tryGit(t.Context(), dir, "push", url, "main"); err == nil || !strings.Contains(out, "only on Sundays") {
		t.Errorf("a large push that is refused: %v\n%s", err, out)
	}
	if len(s.landed) != 1 {
		t.Errorf("%d pushes landed", len(s.landed))
	}
}

// Git prints the reason of every refusal, be it before, while or after its pack is read.
func TestGitPrintsReasons(t *testing.T) {
	dir := work(t, gitrepo.SHA1)
	addNoise(t, dir, 3<<20)
	many := []string{"push", "URL"}
	for i := range 60 {
		many = append(many, fmt.Sprintf("main~:refs/heads/b%d", i))
	}
	small := []string{"push", "URL", "main~:refs/heads/small"}
	large := []string{"push", "URL", "main"}
	for name, c := range map[string]struct {
		args   []string
		limits func(*Limits)
		says   string
	}{
		"many refs":          {many, func(l *Limits) { l.Commands = 50 }, "a push may have 50 commands"},
		"long commands":      {many, func(l *Limits) { l.CommandBytes = 1 << 10 }, "the commands of a push may have 1024 bytes"},
		"too large, at once": {append([]string{"-c", "http.postBuffer=8m"}, large...), func(l *Limits) { l.PushBytes = 1 << 20 }, "larger than this server takes"},
		"too large, chunked": {large, func(l *Limits) { l.PushBytes = 1 << 20 }, "larger than this server takes"},
		"busy":               {small, nil, "the server is busy"},
		"busy, chunked":      {large, nil, "the server is busy"},
		"out of time":        {small, func(*Limits) {}, "the push took longer than"},
		"waits in vain":      {small, func(l *Limits) { l.LockTime = time.Nanosecond }, "the server is busy"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newScheduledSite(t, func(o *gitrepo.ScheduleOptions) {
				o.Classes[gitrepo.ClassPush] = gitrepo.ClassLimits{Slots: 1}
			}, nil)
			r, url := s.repo("x", gitrepo.SHA1)
			switch {
			case c.limits != nil:
				s.limit(c.limits)
			default:
				s.fillPlaces(gitrepo.ClassPush)
			}
			if strings.Contains(name, "time") {
				s.authorize.set(func(*Push) error { return fmt.Errorf("ask: %w", errSlow) })
			}
			if strings.Contains(name, "vain") {
				unlock, err := r.Lock(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				defer unlock()
			}
			args := slices.Clone(c.args)
			args[slices.Index(args, "URL")] = url
			out, err := tryGit(t.Context(), dir, args...)
			if err == nil || !strings.Contains(out, c.says) || !strings.Contains(out, "remote rejected") || strings.Contains(out, "HTTP ") || strings.Contains(out, "protocol error") {
				t.Errorf("git says %v\n%s", err, out)
			}
			if refs := git(t, dir, "ls-remote", url); refs != "" {
				t.Errorf("the refs are\n%s", refs)
			}
		})
	}
}

func TestReadOnly(t *testing.T) {
	s := newSite(t, nil)
	_, url := s.repo("x", gitrepo.SHA1)
	s.change(func(h *Handler) { h.pushes = nil })
	dir := work(t, gitrepo.SHA1)
	if out, err := tryGit(t.Context(), dir, "push", url, "main"); err == nil || !strings.Contains(out, "this server is read-only") {
		t.Errorf("a push to a server without pushes: %v\n%s", err, out)
	}
	git(t, dir, "ls-remote", url)
}

// Two pushes of the same ref: one is first, the other gets an error.
func TestRacingPushes(t *testing.T) {
	s := newSite(t, nil)
	_, url := s.repo("x", gitrepo.SHA1)
	dir := work(t, gitrepo.SHA1)
	git(t, dir, "push", "-q", url, "main")
	const n = 6
	var coming sync.WaitGroup
	coming.Add(n)
	s.authorize.set(func(*Push) error {
		coming.Done()
		coming.Wait()
		return nil
	})
	inside := make(chan struct{}, n)
	s.confirm.set(func(*Push) error {
		inside <- struct{}{}
		if len(inside) > 1 {
			t.Error("two pushes are confirmed at once")
		}
		<-inside
		return nil
	})
	errs, said := make([]error, n), make([]string, n)
	dirs := make([]string, n)
	for i := range n {
		dirs[i] = filepath.Join(t.TempDir(), "c")
		git(t, ".", "clone", "-q", url, dirs[i])
		git(t, dirs[i], "commit", "-q", "--allow-empty", "-m", fmt.Sprint("racer ", i))
	}
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() { said[i], errs[i] = tryGit(t.Context(), dirs[i], "push", "-q", url, "main") })
	}
	wg.Wait()
	won := 0
	for i, err := range errs {
		if err == nil {
			won++
			if head := strings.Fields(git(t, dir, "ls-remote", url, "main"))[0]; head != git(t, dirs[i], "rev-parse", "HEAD") {
				t.Errorf("racer %d won, and main is %s", i, head)
			}
		} else if !strings.Contains(said[i], "it has moved meanwhile") {
			t.Errorf("racer %d lost, and hears\n%s", i, said[i])
		}
	}
	if won != 1 {
		t.Errorf("%d pushes won", won)
	}
}

// Many concurrent clones: none fails. make scale has 100.
func TestManyClones(t *testing.T) {
	s := newSite(t, nil)
	_, url := s.repo("x", gitrepo.SHA1)
	dir := work(t, gitrepo.SHA1)
	git(t, dir, "push", "-q", url, "main")
	into := t.TempDir()
	var wg sync.WaitGroup
	for i := range testkit.Sized(20, 100) {
		wg.Go(func() {
			if out, err := tryGit(t.Context(), into, "clone", "-q", url, fmt.Sprint(i)); err != nil {
				t.Errorf("clone %d: %v\n%s", i, err, out)
			}
		})
	}
	wg.Wait()
}

// 10,000 refs in version 0, which lists them all.
func TestManyRefs(t *testing.T) {
	s := newSite(t, nil)
	r, url := s.repo("x", gitrepo.SHA1)
	dir := work(t, gitrepo.SHA1)
	id := git(t, dir, "rev-parse", "main")
	git(t, dir, "push", "-q", url, "main")
	var updates []host.RefUpdate
	for i := range 10_000 {
		updates = append(updates, host.RefUpdate{Ref: fmt.Sprintf("refs/tags/v%d", i), New: id})
	}
	unlock, err := r.Lock(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	err = r.UpdateRefs(t.Context(), updates)
	unlock()
	if err != nil {
		t.Fatal(err)
	}
	resp := s.request("GET", "/"+alice+"/x.git/info/refs?service=git-upload-pack", nil, nil)
	if n := strings.Count(text(t, resp), "refs/tags/"); n != 10_000 {
		t.Fatalf("%d tags", n)
	}
	clone := filepath.Join(t.TempDir(), "c")
	git(t, ".", "clone", "-q", "--bare", url, clone)
	if n := strings.Count(git(t, clone, "for-each-ref"), "refs/tags/"); n != 10_000 {
		t.Errorf("%d tags in the clone", n)
	}
	// One push deletes them all. The git client takes a minute for as many, so this
	// is what it would send.
	var push []byte
	for i, u := range updates {
		capabilities := ""
		if i == 0 {
			capabilities = "\x00report-status atomic"
		}
		push = gitrepo.AppendPkt(push, id, " ", strings.Repeat("0", 40), " ", u.Ref, capabilities)
	}
	if answer := s.post(string(push) + flushPkt); strings.Count(answer, "ok refs/tags/") != 10_000 {
		t.Errorf("the answer to a push of 10,000 commands is %.200q", answer)
	}
}

// A push from a shallow clone of elsewhere lacks its history: the client hears that, in git's words
// and with what to do. With the history here, a shallow clone can push.
func TestPushOfShallowClone(t *testing.T) {
	t.Parallel()
	s := newSite(t, nil)
	_, url := s.repo("x", gitrepo.SHA1)
	dir := work(t, gitrepo.SHA1)
	shallow := filepath.Join(t.TempDir(), "shallow")
	git(t, ".", "clone", "-q", "--depth=1", "file://"+dir, shallow)
	out, err := tryGit(t.Context(), shallow, "push", url, "main")
	if err == nil || !strings.Contains(out, "shallow update not allowed") || !strings.Contains(out, "git fetch --unshallow") {
		t.Errorf("a first push from a shallow clone: %v\n%s", err, out)
	}
	git(t, shallow, "fetch", "-q", "--unshallow")
	git(t, shallow, "push", "-q", url, "main")
}

// The list of refs for a push is in version 0 for a client that asks for version 2, as git has it:
// there is no push in version 2. For one that asks for version 1 it begins with the version.
func TestPushDiscoveryVersion(t *testing.T) {
	t.Parallel()
	s := newSite(t, nil)
	_, url := s.repo("x", gitrepo.SHA1)
	none := strings.Repeat("0", 40)
	for version, want := range map[string]string{"": none + " capabilities^{}", "version=1": "version 1\n", "version=2": none + " capabilities^{}"} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url+"/info/refs?service=git-receive-pack", nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Git-Protocol", version)
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		const title = "001f# service=git-receive-pack\n0000"
		if rest, ok := strings.CutPrefix(string(text), title); err != nil || !ok || !strings.HasPrefix(rest[min(4, len(rest)):], want) {
			t.Errorf("%q: %v %.120q, want %q", version, err, text, want)
		}
	}
}

// TestLFS: git-lfs shows its user why objects are not taken, and asks for no locks. Another URL in
// the repository's own file goes before.
func TestLFS(t *testing.T) {
	t.Parallel()
	s := newSite(t, nil)
	_, url := s.repo("x", gitrepo.SHA1)
	for _, path := range []string{"/info/lfs/objects/batch", "/info/lfs/locks/verify", "/info/lfs/objects/" + strings.Repeat("a", 64)} {
		resp, err := http.Post(url+path, "application/vnd.git-lfs+json", strings.NewReader("{}"))
		if err != nil {
			t.Fatal(err)
		}
		var answer struct{ Message string }
		err = json.NewDecoder(resp.Body).Decode(&answer)
		_ = resp.Body.Close()
		if err != nil || resp.StatusCode != http.StatusNotImplemented || !strings.Contains(answer.Message, "keeps no LFS objects") || !strings.Contains(answer.Message, "lfs.url") {
			t.Errorf("%s: %s, %v %q", path, resp.Status, err, answer.Message)
		}
	}
	if _, err := exec.LookPath("git-lfs"); err != nil {
		t.Skip("skipped: git-lfs is not installed (Debian: apt install git-lfs)")
	}
	dir := work(t, gitrepo.SHA1)
	git(t, dir, "lfs", "install", "--local")
	git(t, dir, "lfs", "track", "*.bin")
	if err := os.WriteFile(filepath.Join(dir, "a.bin"), []byte("large"), 0o644); err != nil {
		t.Fatal(err)
	}
	git(t, dir, "add", "-A")
	git(t, dir, "commit", "-q", "-m", "a file of LFS")
	out, err := tryGit(t.Context(), dir, "push", url, "main")
	if err == nil || !strings.Contains(out, "This server keeps no LFS objects. Set lfs.url") || strings.Contains(out, "<html") || strings.Contains(out, "locking") {
		t.Errorf("a push with LFS: %v\n%s", err, out)
	}
	git(t, dir, "-c", "lfs.url=file://"+t.TempDir(), "push", "-q", "--no-verify", url, "main")
}

// lostRepositories finds a repository only after its client has gone.
type lostRepositories struct{ asked chan struct{} }

func (l lostRepositories) Find(ctx context.Context, _ []string, _ Use) (*gitrepo.Repo, error) {
	l.asked <- struct{}{}
	<-ctx.Done()
	return nil, ctx.Err()
}

// A client that gives up is not an error in the log.
func TestClientGivesUp(t *testing.T) {
	var log bytes.Buffer
	repos := lostRepositories{make(chan struct{})}
	handler, err := New(Config{Prefix: "/", Limits: DefaultLimits, Log: slog.New(slog.NewTextHandler(&log, nil))}, repos, nil)
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(handler)
	for _, request := range []struct{ method, path, media string }{
		{http.MethodGet, "/x/demo.git/info/refs?service=git-upload-pack", ""},
		{http.MethodPost, "/x/demo.git/git-upload-pack", "application/x-git-upload-pack-request"},
	} {
		ctx, giveUp := context.WithCancel(t.Context())
		req, err := http.NewRequestWithContext(ctx, request.method, server.URL+request.path, nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Content-Type", request.media)
		ended := make(chan error)
		go func() {
			resp, err := http.DefaultClient.Do(req)
			if err == nil {
				_ = resp.Body.Close()
			}
			ended <- err
		}()
		<-repos.asked
		giveUp()
		if err := <-ended; err == nil {
			t.Errorf("%s: an answer to nobody", request.path)
		}
	}
	server.Close() // it waits for the requests
	if strings.Contains(log.String(), "ERROR") {
		t.Errorf("the log has\n%s", log.String())
	}
}
