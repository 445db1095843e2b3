package gitread

import (
	"context"
	"maps"
	"path"
	"strconv"
	"strings"
	"testing"

	"talon/host/gitrepo"
	"talon/internal/testkit"
)

// extension classifies files by their names.
func extension(name string) string { return strings.TrimPrefix(path.Ext(name), ".") }

// TestByteCounts counts files in the background, and compares with git.
func TestByteCounts(t *testing.T) {
	s := newSite(t)
	dir := t.TempDir()
	testkit.Git(t, dir, "init", "-q", "-b", "main")
	for name, content := range map[string]string{"a.go": "12345", "b/c.go": "123", "b/ü\n.h": "1", "none": "123456789"} {
		writeFile(t, dir, name, content)
	}
	testkit.Git(t, dir, "add", "-A")
	testkit.Git(t, dir, "commit", "-q", "-m", "files")
	want := make(map[string]int64)
	for row := range strings.SplitSeq(strings.Trim(testkit.Git(t, dir, "ls-tree", "-rlz", "HEAD"), "\x00"), "\x00") {
		head, name, _ := strings.Cut(row, "\t")
		n, err := strconv.ParseInt(strings.Fields(head)[3], 10, 64)
		check(t, err)
		if e := extension(name); e != "" {
			want[e] += n
		}
	}
	repo := s.repo(alice, "x")
	testkit.Git(t, dir, "push", "-q", repo.Dir(), "main")
	r := s.open(repo)
	at, _ := r.HEAD()
	got, err := r.ByteCounts(at, extension)
	if err != nil || got != nil {
		t.Errorf("a request itself counts %v: %v", got, err)
	}
	s.reader.background.all.Wait()
	if got, err = r.ByteCounts(at, extension); err != nil || !maps.Equal(got, want) || want["go"] != 8 {
		t.Errorf("%v, git says %v: %v", got, want, err)
	}
}

// TestFill has the last changes and the byte counts of a new commit before somebody looks at a page, if
// somebody looked at pages of the repository before.
func TestFill(t *testing.T) {
	s := newSite(t)
	repo, dir := s.generated(40, 5, false)
	find := func(context.Context) (*gitrepo.Repo, error) { return repo, nil }
	s.reader.Fill("x", find, extension)
	s.reader.background.all.Wait()
	r := s.open(repo)
	old, _ := r.HEAD()
	if _, ok := s.reader.changes.get(changeKey{old.Commit, ""}); ok {
		t.Error("a page is prepared that nobody looked at")
	}
	if changes, err := r.LastChanges(old.Commit, nil); err != nil || changes == nil {
		t.Fatal(changes, err)
	}
	if changes, err := r.LastChanges(old.Commit, []string{"dir"}); err != nil || changes == nil {
		t.Fatal(changes, err)
	}
	testkit.Git(t, dir, "reset", "-q", "--hard", "main")
	writeFile(t, dir, "dir/new", "new")
	testkit.Git(t, dir, "add", "-A")
	testkit.Git(t, dir, "commit", "-q", "-m", "new")
	testkit.Git(t, dir, "push", "-q", repo.Dir(), "main")
	s.reader.Fill("x", find, extension)
	s.reader.background.all.Wait()
	id := testkit.Git(t, dir, "rev-parse", "main")
	for folder, name := range map[string]string{"": "dir", "dir": "new"} {
		found, ok := s.reader.changes.get(changeKey{id, folder})
		if !ok || found[name].ID != id {
			t.Errorf("the folder %q: %v, %v", folder, found[name], ok)
		}
	}
	compareChanges(t, s.open(repo), dir, "main")
	if got, err := s.open(repo).ByteCounts(Target{Commit: id}, extension); err != nil || got == nil {
		t.Errorf("the byte counts: %v, %v", got, err)
	}
}
