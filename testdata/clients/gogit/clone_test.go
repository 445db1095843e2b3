// The tests of this module are talon git serve --push as go-git sees it. The
// environment variable TALON_GIT_URL says where it is and TALON_GIT_DIR which folder
// it serves.
package gogit

import (
	"crypto/rand"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-git/go-git/v5"
	"github.com/go-git/go-git/v5/config"
	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/object"
	"github.com/go-git/go-git/v5/storage/memory"
)

// newRemote makes an empty repository and returns its address.
func newRemote(t *testing.T, name string) string {
	t.Helper()
	dir, url := os.Getenv("TALON_GIT_DIR"), os.Getenv("TALON_GIT_URL")
	if dir == "" || url == "" {
		t.Fatal("TALON_GIT_DIR or TALON_GIT_URL is not set")
	}
	if out, err := exec.Command("git", "init", "-q", "--bare", "-b", "main", filepath.Join(dir, name)).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return url + name
}

// newWork makes a repository on branch main with a remote and no commit.
func newWork(t *testing.T, url string) *git.Repository {
	t.Helper()
	r, err := git.PlainInitWithOptions(t.TempDir(), &git.PlainInitOptions{InitOptions: git.InitOptions{DefaultBranch: "refs/heads/main"}})
	if err == nil {
		_, err = r.CreateRemote(&config.RemoteConfig{Name: "origin", URLs: []string{url}})
	}
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func commit(t *testing.T, r *git.Repository, content []byte) plumbing.Hash {
	t.Helper()
	w, err := r.Worktree()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(w.Filesystem.Root(), "file"), content, 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Add("file"); err != nil {
		t.Fatal(err)
	}
	id, err := w.Commit("change", &git.CommitOptions{Author: &object.Signature{Name: "a", Email: "a@example.com", When: time.Unix(1_700_000_000, 0)}})
	if err != nil {
		t.Fatal(err)
	}
	return id
}

func push(t *testing.T, r *git.Repository, specs ...config.RefSpec) {
	t.Helper()
	if err := r.Push(&git.PushOptions{RefSpecs: specs}); err != nil {
		t.Fatalf("push %v: %v", specs, err)
	}
}

// refs returns what the server says it has.
func refs(t *testing.T, url string) map[string]string {
	t.Helper()
	remote := git.NewRemote(memory.NewStorage(), &config.RemoteConfig{Name: "x", URLs: []string{url}})
	list, err := remote.List(&git.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]string{}
	for _, ref := range list {
		if ref.Type() == plumbing.HashReference {
			all[ref.Name().String()] = ref.Hash().String()
		}
	}
	return all
}

func TestPushCloneFetch(t *testing.T) {
	url := newRemote(t, "go git.git")
	url = strings.ReplaceAll(url, " ", "%20")
	r := newWork(t, url)
	first := commit(t, r, []byte("one"))
	second := commit(t, r, []byte("two"))
	if _, err := r.CreateTag("v1", first, &git.CreateTagOptions{
		Message: "v1", Tagger: &object.Signature{Name: "a", Email: "a@example.com", When: time.Unix(1_700_000_000, 0)},
	}); err != nil {
		t.Fatal(err)
	}
	push(t, r, "refs/heads/main:refs/heads/main", "refs/tags/*:refs/tags/*")
	if got := refs(t, url); got["refs/heads/main"] != second.String() || got["refs/tags/v1"] == "" || len(got) != 2 {
		t.Errorf("after the push the refs are %v", got)
	}

	clone, err := git.PlainClone(t.TempDir(), false, &git.CloneOptions{URL: url})
	if err != nil {
		t.Fatal(err)
	}
	head, err := clone.Head()
	if err != nil || head.Hash() != second || head.Name() != "refs/heads/main" {
		t.Errorf("the clone is at %v, %v", head, err)
	}
	shallow, err := git.PlainClone(t.TempDir(), false, &git.CloneOptions{URL: url, Depth: 1, SingleBranch: true, Tags: git.NoTags})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := shallow.CommitObject(second); err != nil {
		t.Errorf("the shallow clone lacks its tip: %v", err)
	}
	if _, err := shallow.CommitObject(first); !errors.Is(err, plumbing.ErrObjectNotFound) {
		t.Errorf("the shallow clone has the first commit: %v", err)
	}

	// More than a buffer of noise.
	noise := make([]byte, 5<<20)
	_, _ = rand.Read(noise)
	third := commit(t, r, noise)
	push(t, r, "refs/heads/main:refs/heads/main")
	if err := clone.Fetch(&git.FetchOptions{}); err != nil {
		t.Fatal(err)
	}
	if ref, err := clone.Reference("refs/remotes/origin/main", true); err != nil || ref.Hash() != third {
		t.Errorf("after the fetch main is %v, %v", ref, err)
	}
	if err := clone.Fetch(&git.FetchOptions{}); !errors.Is(err, git.NoErrAlreadyUpToDate) {
		t.Errorf("a second fetch: %v", err)
	}

	// Rewrite and delete.
	other := newWork(t, url)
	unrelated := commit(t, other, []byte("unrelated"))
	push(t, other, "+refs/heads/main:refs/heads/main")
	push(t, other, ":refs/tags/v1")
	if got := refs(t, url); got["refs/heads/main"] != unrelated.String() || len(got) != 1 {
		t.Errorf("after the rewrite the refs are %v", got)
	}
}

// A refusal is readable.
func TestRefusedPush(t *testing.T) {
	url := newRemote(t, "go-git-refused.git")
	r := newWork(t, url)
	commit(t, r, []byte("one"))
	err := r.Push(&git.PushOptions{RefSpecs: []config.RefSpec{"refs/heads/main:refs/pull/1/head"}})
	if err == nil || !strings.Contains(err.Error(), "only branches, tags") {
		t.Errorf("a push to refs/pull: %v", err)
	}
	if _, err := git.PlainClone(t.TempDir(), false, &git.CloneOptions{URL: url[:len(url)-4] + "-absent.git"}); err == nil {
		t.Error("a clone of nothing succeeds")
	}
	if out, err := exec.Command("git", "ls-remote", url).CombinedOutput(); err != nil || len(out) > 0 {
		t.Errorf("after the refusal the repository has %s, %v", out, err)
	}
}
