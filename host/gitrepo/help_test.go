package gitrepo

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

func newGit(t testing.TB) *Git {
	t.Helper()
	options := DefaultOptions
	options.DefaultBranch = "main" // as in the work trees of the tests
	g, err := Find(t.Context(), "git", options)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func newRoot(t testing.TB) *Root {
	t.Helper()
	root, err := Open(newGit(t), filepath.Join(t.TempDir(), "git"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(root.Close)
	return root
}

func newRepo(t testing.TB, root *Root, npub, identifier string, format Format) *Repo {
	t.Helper()
	r := root.Repo(mustName(t, npub, identifier))
	locked(t, r, func() {
		if err := r.Init(t.Context(), format); err != nil {
			t.Fatal(err)
		}
	})
	return r
}

func locked(t testing.TB, r *Repo, f func()) {
	t.Helper()
	unlock, err := r.Lock(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer unlock()
	f()
}

// git runs git as whoever pushes would.
func git(t testing.TB, dir string, args ...string) string {
	t.Helper()
	out, err := tryGit(t.Context(), dir, args...)
	if err != nil {
		t.Fatalf("git %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return strings.TrimSpace(out)
}

func tryGit(ctx context.Context, dir string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "git", args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL="+os.DevNull, "GIT_TERMINAL_PROMPT=0",
		"GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@example.com", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@example.com",
		"GIT_AUTHOR_DATE=1700000000 +0000", "GIT_COMMITTER_DATE=1700000000 +0000")
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// work makes a repository with two commits and an annotated tag, and returns its
// folder and the ids of the commits.
func work(t testing.TB, format Format) (dir, first, second string) {
	t.Helper()
	dir = t.TempDir()
	git(t, dir, "init", "-q", "-b", "main", "--object-format="+format.String())
	for _, text := range []string{"one", "two"} {
		if err := os.WriteFile(filepath.Join(dir, "file"), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		git(t, dir, "add", ".")
		git(t, dir, "commit", "-q", "-m", text)
	}
	git(t, dir, "tag", "-a", "-m", "v1", "v1", "HEAD~")
	return dir, git(t, dir, "rev-parse", "HEAD~"), git(t, dir, "rev-parse", "HEAD")
}
