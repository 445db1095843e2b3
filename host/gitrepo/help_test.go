package gitrepo

import (
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"testing/fstest"

	"talon/internal/testkit"
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

// git runs git as a person who pushes does.
var git, tryGit = testkit.Git, testkit.TryGit

// work makes a repository with two commits and an annotated tag, and returns its
// folder and the ids of the commits.
func work(t testing.TB, format Format) (dir, first, second string) {
	t.Helper()
	works.Lock()
	defer works.Unlock()
	w, ok := works.made[format]
	if !ok {
		dir := t.TempDir()
		git(t, dir, "init", "-q", "-b", "main", "--object-format="+format.String())
		w.first, w.second = testkit.Commit(t, dir, "one"), testkit.Commit(t, dir, "two")
		git(t, dir, "tag", "-a", "-m", "v1", "v1", w.first)
		w.files = readAll(t, dir)
		works.made[format] = w
	}
	dir = t.TempDir()
	if err := os.CopyFS(dir, w.files); err != nil {
		t.Fatal(err)
	}
	return dir, w.first, w.second
}

// works are the repositories of [work]: a copy takes a tenth of what git takes in nine processes.
var works = struct {
	sync.Mutex
	made map[Format]madeWork
}{made: make(map[Format]madeWork)}

type madeWork struct {
	files         fstest.MapFS
	first, second string
}

// readAll returns what is in a folder, but for empty folders.
func readAll(t testing.TB, dir string) fstest.MapFS {
	t.Helper()
	files := make(fstest.MapFS)
	from := os.DirFS(dir)
	err := fs.WalkDir(from, ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := fs.ReadFile(from, path)
		files[path] = &fstest.MapFile{Data: data}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}
