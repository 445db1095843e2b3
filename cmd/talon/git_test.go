package main

import (
	"bufio"
	"bytes"
	"compress/zlib"
	"encoding/hex"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"talon/internal/testkit"
)

// gitAs runs git as somebody without a configuration.
func gitAs(dir string, args ...string) (string, error) {
	cmd := patient("git", args...)
	cmd.Dir = dir
	cmd.Env = append(environ(), "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL="+os.DevNull, "GIT_TERMINAL_PROMPT=0", "LC_ALL=C",
		"GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@example.com", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@example.com")
	out, err := cmd.CombinedOutput()
	return strings.TrimSpace(string(out)), err
}

func mustGit(t *testing.T, dir string, args ...string) string {
	t.Helper()
	out, err := gitAs(dir, args...)
	if err != nil {
		t.Fatalf("git %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return out
}

// gitWork makes a repository with a work tree and one commit.
func gitWork(t *testing.T, dir string) string {
	t.Helper()
	mustGit(t, ".", "init", "-q", "-b", "main", dir)
	mustGit(t, dir, "commit", "-q", "--allow-empty", "-m", "one")
	return dir
}

// serveGit runs talon git serve until the end of the test, and returns its address.
func serveGit(t *testing.T, dir string, args ...string) string {
	t.Helper()
	cmd, address, read := startGit(t, dir, args...)
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		<-read
		if err := cmd.Wait(); err != nil {
			t.Errorf("talon git serve did not stop in order: %v", err)
		}
	})
	return address
}

// startGit starts talon git serve. The channel is closed when its log has ended.
func startGit(t *testing.T, dir string, args ...string) (cmd *exec.Cmd, url string, read <-chan struct{}) {
	t.Helper()
	cmd = exec.Command("talon", append([]string{"git", "serve", dir, "--listen", "127.0.0.1:0"}, args...)...)
	cmd.Env = environ()
	stderr, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(stderr)
	address := regexp.MustCompile(`addr=(http://\S+/)`)
	for lines.Scan() {
		found := address.FindStringSubmatch(lines.Text())
		if found == nil {
			continue
		}
		read := make(chan struct{})
		go func() {
			defer close(read)
			for lines.Scan() {
				continue
			}
		}()
		return cmd, found[1], read
	}
	t.Fatalf("talon git serve does not serve: %v", cmd.Wait())
	return nil, "", nil
}

// halfPack is the beginning of a pack, and more of it than is looked at before git is
// started.
func halfPack() string {
	noise := make([]byte, 128<<10)
	_, _ = rand.NewChaCha8([32]byte{}).Read(noise)
	var b bytes.Buffer
	b.WriteString("PACK\x00\x00\x00\x02\x00\x00\x00\x09\xb0\x80\x40") // of nine objects; a blob of 128 KiB
	z := zlib.NewWriter(&b)
	_, _ = z.Write(noise)
	_ = z.Close()
	return b.String()
}

// The server is killed in the middle of a push. Git sees half a push, and ends; no ref
// has changed, the next server takes the push, and what is left of the first one goes.
func TestGitServeKilled(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	repo := filepath.Join(dir, "x.git")
	mustGit(t, ".", "init", "-q", "--bare", "-b", "main", repo)
	work := gitWork(t, filepath.Join(t.TempDir(), "work"))
	id := mustGit(t, work, "rev-parse", "main")

	cmd, address, read := startGit(t, dir, "--push")
	mustGit(t, work, "push", "-q", address+"x", "main")
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	c, err := net.Dial("tcp", u.Host)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	command := strings.Repeat("0", 40) + " " + id + " refs/heads/half\x00report-status"
	fmt.Fprintf(c, "POST /x.git/git-receive-pack HTTP/1.1\r\nHost: x\r\nContent-Type: application/x-git-receive-pack-request\r\n"+
		"Content-Length: 1000000\r\n\r\n%04x%s0000%s", len(command)+4, command, halfPack())
	incoming := func(pattern string) int {
		t.Helper()
		found, err := filepath.Glob(filepath.Join(repo, pattern))
		if err != nil {
			t.Fatal(err)
		}
		return len(found)
	}
	until(t, "the push is half there", func() bool { return incoming("objects/tmp_objdir-*/objects/pack/tmp_pack_*") == 1 })
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	<-read
	until(t, "git ends", func() bool {
		links, _ := filepath.Glob("/proc/[0-9]*/cwd")
		return !slices.ContainsFunc(links, func(link string) bool {
			at, err := os.Readlink(link)
			return err == nil && strings.HasPrefix(at, repo)
		})
	})

	again := serveGit(t, dir, "--push")
	if refs := mustGit(t, work, "ls-remote", "--heads", again+"x"); refs != id+"\trefs/heads/main" {
		t.Errorf("after the kill the refs are\n%s", refs)
	}
	mustGit(t, work, "commit", "-q", "--allow-empty", "-m", "two")
	mustGit(t, work, "push", "-q", again+"x", "main", "main:half")
	// Another program may still work on what is there, but not on what is old.
	left, err := filepath.Glob(filepath.Join(repo, "objects/tmp_objdir-*"))
	if err != nil {
		t.Fatal(err)
	}
	old := time.Now().Add(-48 * time.Hour)
	for _, dir := range left {
		if err := os.Chtimes(dir, old, old); err != nil {
			t.Fatal(err)
		}
	}
	mustGit(t, work, "commit", "-q", "--allow-empty", "-m", "three")
	mustGit(t, work, "push", "-q", again+"x", "main:more")
	// A push's own goes when the client has its answer.
	until(t, "the quarantines go", func() bool { return incoming("objects/tmp_objdir-*") == 0 })
	mustGit(t, repo, "fsck", "--strict")
}

// A folder of repositories, with folders in it, with and without .git at the end.
func TestGitServe(t *testing.T) {
	t.Parallel()
	dir, outside := t.TempDir(), t.TempDir()
	for _, name := range []string{"top.git", "a/b c/deep.git", "plain", "top.git/inner.git"} {
		mustGit(t, ".", "init", "-q", "--bare", "-b", "main", filepath.Join(dir, name))
	}
	mustGit(t, ".", "init", "-q", "--bare", filepath.Join(outside, "secret.git"))
	if err := os.Symlink(filepath.Join(outside, "secret.git"), filepath.Join(dir, "link.git")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(filepath.Join(dir, "a"), filepath.Join(dir, "within")); err != nil {
		t.Fatal(err)
	}
	work := gitWork(t, filepath.Join(t.TempDir(), "work"))

	reading, writing := serveGit(t, dir, "--prefix", "some/where"), serveGit(t, dir, "--push")
	if !strings.HasSuffix(reading, "/some/where/") {
		t.Errorf("it serves at %s", reading)
	}
	for _, name := range []string{"top.git", "top", "a/b%20c/deep.git", "a/b%20c/deep", "plain", "within/b%20c/deep"} {
		mustGit(t, work, "push", "-q", "--force", writing+name, "main", "main:refs/tags/v")
		if refs := mustGit(t, work, "ls-remote", reading+name); strings.Count(refs, mustGit(t, work, "rev-parse", "main")) != 3 {
			t.Errorf("%s has the refs\n%s", name, refs)
		}
	}
	for _, name := range []string{"link.git", "link", "absent", "plain.git", "top.git/inner.git", "a", "", "top.git/objects", "%2e%2e/x.git"} {
		if out, err := gitAs(work, "ls-remote", reading+name); err == nil {
			t.Errorf("%q is served: %s", name, out)
		}
	}
	if out, err := gitAs(work, "ls-remote", strings.TrimSuffix(reading, "some/where/")+"top.git"); err == nil {
		t.Errorf("it serves beside its prefix: %s", out)
	}
	if out, err := gitAs(work, "push", reading+"top.git", "main:more"); err == nil || !strings.Contains(out, "read-only") {
		t.Errorf("a push without --push: %v\n%s", err, out)
	}
	if out, err := gitAs(work, "push", writing+"top.git", "main:refs/pull/1/head"); err == nil || !strings.Contains(out, "only branches, tags") {
		t.Errorf("a push to refs/pull: %v\n%s", err, out)
	}
}

// The server refuses objects that would attack those who clone them, in git's words. It
// takes old histories.
func TestGitServeRefusesAttacks(t *testing.T) {
	t.Parallel()
	dir, work := t.TempDir(), filepath.Join(t.TempDir(), "work")
	mustGit(t, ".", "init", "-q", "--bare", "-b", "main", filepath.Join(dir, "x.git"))
	mustGit(t, ".", "init", "-q", "-b", "main", work)
	forge := func(kind, text string) string {
		file := filepath.Join(t.TempDir(), "object")
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		return mustGit(t, work, "hash-object", "-w", "--literally", "-t", kind, file)
	}
	tree := func(mode, name, object string) string {
		id, err := hex.DecodeString(object)
		if err != nil {
			t.Fatal(err)
		}
		return forge("tree", mode+" "+name+"\x00"+string(id))
	}
	blob := forge("blob", "[submodule \"a\"]\n\tpath = a\n\turl = -u./payload\n")
	folder := tree("100644", "config", blob)
	address := serveGit(t, dir, "--push")
	for branch, c := range map[string]struct{ tree, refused string }{
		"folder":    {tree("40000", ".git", folder), "hasDotgit: contains '.git'"},
		"parent":    {tree("40000", "..", folder), "hasDotdot: contains '..'"},
		"submodule": {tree("100644", ".gitmodules", blob), "gitmodulesUrl: disallowed submodule url: -u./payload"},
		"old":       {tree("040000", "x", folder), ""},
	} {
		id := mustGit(t, work, "commit-tree", "-m", branch, c.tree)
		out, err := gitAs(work, "push", address+"x", id+":refs/heads/"+branch)
		if (err != nil) != (c.refused != "") || !strings.Contains(out, c.refused) {
			t.Errorf("%s: %v\n%s", branch, err, out)
		}
	}
	if refs := mustGit(t, work, "ls-remote", "--heads", address+"x"); strings.Count(refs, "refs/") != 1 || !strings.HasSuffix(refs, "refs/heads/old") {
		t.Errorf("the refs are\n%s", refs)
	}
}

// With --plain git does what is asked, by the configuration of each repository. Hooks do
// not run, and no path leads anywhere else than before.
func TestGitServePlain(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	bare, inner := filepath.Join(dir, "bare.git"), filepath.Join(dir, "work", "inner.git")
	mustGit(t, ".", "init", "-q", "--bare", "-b", "main", bare)
	gitWork(t, filepath.Join(dir, "work"))
	mustGit(t, ".", "init", "-q", "--bare", inner)
	outside := filepath.Join(t.TempDir(), "secret")
	mustGit(t, ".", "init", "-q", outside)
	if err := os.Symlink(outside, filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	trace := filepath.Join(t.TempDir(), "trace")
	for _, hook := range []string{"pre-receive", "update", "post-receive", "post-update", "reference-transaction"} {
		testkit.WriteProgram(t, filepath.Join(bare, "hooks", hook), "#!/bin/sh\necho ran >>"+trace+"\nexit 1\n")
	}
	mustGit(t, bare, "config", "core.logAllRefUpdates", "always")
	mustGit(t, bare, "config", "receive.certNonceSeed", "x")
	mustGit(t, bare, "config", "transfer.hideRefs", "refs/heads/hidden")
	reading, writing := serveGit(t, dir, "--plain"), serveGit(t, dir, "--plain", "--push")
	work := filepath.Join(t.TempDir(), "clone")
	mustGit(t, ".", "clone", "-q", reading+"work", work)

	if out, err := gitAs(work, "push", reading+"bare", "main"); err == nil || !strings.Contains(out, "read-only") {
		t.Errorf("a push without --push: %v\n%s", err, out)
	}
	mustGit(t, work, "push", "-q", writing+"bare", "main", "main:refs/pull/1/head", "main:refs/notes/x")
	if log := mustGit(t, bare, "log", "-g", "-1", "--format=%gn <%ge>", "refs/pull/1/head"); log != "anonymous <anonymous@http.127.0.0.1>" {
		t.Errorf("the reflog has %s", log)
	}
	if _, err := os.Stat(trace); err == nil {
		t.Error("a hook has run")
	}
	if out, err := gitAs(work, "push", writing+"bare", "main:refs/heads/hidden"); err == nil || !strings.Contains(out, "deny updating a hidden ref") {
		t.Errorf("a push to a hidden ref: %v\n%s", err, out)
	}
	if err := os.Mkdir(filepath.Join(bare, "refs/heads/locked.lock"), 0o755); err != nil {
		t.Fatal(err)
	}
	if out, err := gitAs(work, "push", "--atomic", writing+"bare", "main:other", "main:locked"); err == nil || strings.Count(out, "atomic transaction failed") != 2 {
		t.Errorf("a push that is atomic: %v\n%s", err, out)
	}
	if refs := mustGit(t, bare, "for-each-ref", "--format=%(refname)"); refs != "refs/heads/main\nrefs/notes/x\nrefs/pull/1/head" {
		t.Errorf("the refs are\n%s", refs)
	}
	can := receivePackCan(t, writing+"bare")
	if !strings.Contains(can, " push-cert=") || !strings.Contains(can, " agent=git/") {
		t.Errorf("git can %q", can)
	}
	mustGit(t, work, "commit", "-q", "--allow-empty", "-m", "two")
	if out, err := gitAs(work, "push", writing+"work", "main"); err == nil || !strings.Contains(out, "refusing to update checked out branch") {
		t.Errorf("a push to what is checked out: %v\n%s", err, out)
	}
	mustGit(t, work, "push", "-q", writing+"work", "main:topic")
	for _, name := range []string{"link", "work/inner.git", "work/.git", "work/.git/refs", "bare.git/objects", "%2e%2e/x", "absent"} {
		if out, err := gitAs(work, "ls-remote", reading+name); err == nil {
			t.Errorf("%q is served: %s", name, out)
		}
	}
}

// receivePackCan returns what receive-pack says of itself.
func receivePackCan(t *testing.T, url string) string {
	t.Helper()
	resp, err := http.Get(url + "/info/refs?service=git-receive-pack")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
