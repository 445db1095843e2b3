package gitread

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"talon/internal/testkit"
)

// TestPathLog compares the log of each path with that of git, by the filters of the commit-graph and
// without them.
func TestPathLog(t *testing.T) {
	testkit.SkipRace(t)
	for seed := range uint64(2) {
		s := newSite(t)
		repo, dir := s.generated(120, seed, true)
		r := s.open(repo)
		walked := 0
		for _, rev := range []string{"main", "main~20"} {
			commit := testkit.Git(t, dir, "rev-parse", rev)
			for _, name := range []string{"a", "b", "c", "dir", "dir/a", "dir/sub", "dir/sub/b", "x", "x/y/z", "x/y", "ü", "none", "a/none"} {
				want := strings.Fields(testkit.Git(t, dir, "log", "--format=%H", commit, "--", name))
				path := strings.Split(name, "/")
				got, more, err := r.PathLog(commit, path, 0, 1000)
				if err != nil || more || strings.Join(got, " ") != strings.Join(want, " ") {
					t.Errorf("%s of %s has %d commits, git has %d: %v", rev, name, len(got), len(want), err)
				}
				if last, err := r.LastCommit(commit, path); err != nil || len(want) > 0 && last != want[0] || len(want) == 0 && last != "" {
					t.Errorf("%s of %s was changed last by %q: %v", rev, name, last, err)
				}
				if len(want) > 3 {
					got, more, err = r.PathLog(commit, path, 1, 2)
					if err != nil || !more || strings.Join(got, " ") != strings.Join(want[1:3], " ") {
						t.Errorf("%s of %s: a page differs: %v", rev, name, err)
					}
				}
				_, err = r.walkPath(commit, name, 0, 1000, pathWork)
				if err == nil {
					walked++
				} else if !errors.Is(err, errAskGit) {
					t.Error(err)
				}
			}
		}
		if walked != 24 { // not "ü", which git may have hashed in two ways
			t.Errorf("%d of 24 logs were made without git", walked)
		}
	}
}

// TestPathLogOfModes shows a change of the mode alone, and a submodule.
func TestPathLogOfModes(t *testing.T) {
	s := newSite(t)
	dir := t.TempDir()
	testkit.Git(t, dir, "init", "-q", "-b", "main")
	writeFile(t, dir, "run", "x")
	writeFile(t, dir, "other", "x")
	testkit.Git(t, dir, "add", "-A")
	testkit.Git(t, dir, "commit", "-q", "-m", "one")
	first := testkit.Git(t, dir, "rev-parse", "HEAD")
	check(t, os.Chmod(filepath.Join(dir, "run"), 0o755))
	testkit.Git(t, dir, "commit", "-qam", "a mode")
	testkit.Git(t, dir, "update-index", "--add", "--cacheinfo", "160000,"+first+",mod")
	testkit.Git(t, dir, "commit", "-q", "-m", "a submodule")
	testkit.Git(t, dir, "rm", "-q", "other")
	testkit.Git(t, dir, "commit", "-q", "-m", "one file less")
	repo := s.repo(alice, "x")
	testkit.Git(t, dir, "push", "-q", repo.Dir(), "main")
	s.share(repo)
	check(t, repo.WriteCommitGraph(t.Context(), true))
	r := s.open(repo)
	at, _ := r.HEAD()
	for _, name := range []string{"run", "other", "mod"} {
		want := strings.Fields(testkit.Git(t, dir, "log", "--format=%H", "main", "--", name))
		got, _, err := r.PathLog(at.Commit, []string{name}, 0, 10)
		if err != nil || strings.Join(got, " ") != strings.Join(want, " ") || len(want) == 0 {
			t.Errorf("%s: %q, git says %q: %v", name, got, want, err)
		}
	}
}
