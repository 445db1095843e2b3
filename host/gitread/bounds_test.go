package gitread

import (
	"archive/zip"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"talon/host/bound"
	"talon/internal/testkit"
)

// TestManyParents reads the history of commits that name thousands of parents. A page does not keep
// them in memory one by one: git indexes them.
func TestManyParents(t *testing.T) {
	s := newSite(t)
	dir := t.TempDir()
	testkit.Git(t, dir, "init", "-q", "-b", "main")
	first := testkit.Commit(t, dir, "one")
	tree := testkit.Git(t, dir, "rev-parse", first+"^{tree}")
	text := "tree " + tree + "\n" + strings.Repeat("parent "+first+"\n", maxLooseParents+1) + "author A <a@x> 1700000000 +0000\ncommitter A <a@x> 1700000000 +0000\n\nmany\n"
	hash := exec.Command("git", "hash-object", "-t", "commit", "-w", "--stdin", "--literally")
	hash.Dir, hash.Stdin = dir, strings.NewReader(text)
	id, err := hash.Output()
	check(t, err)
	repo := s.repo(alice, "x")
	testkit.Git(t, dir, "push", "-q", repo.Dir(), strings.TrimSpace(string(id))+":refs/heads/main")
	s.share(repo)
	s.reader.indexer.done[repo.Dir()] = time.Now().Add(time.Hour) // the test indexes it
	at, _ := s.open(repo).HEAD()
	if _, _, err := s.open(repo).Log(at.Commit, 0, 10); !errors.Is(err, ErrIndexing) {
		t.Errorf("the log without an index: %v", err)
	}
	check(t, repo.WriteCommitGraph(t.Context(), true))
	ids, count, err := s.open(repo).Log(at.Commit, 0, 10)
	if err != nil || count != 2 || len(ids) != 2 {
		t.Errorf("the log has %d commits of 2: %v", count, err)
	}
}

// TestHistoryCost counts the commit-graph that a history keeps in memory. Lists keep no history.
func TestHistoryCost(t *testing.T) {
	s := newSite(t)
	repo, _ := s.generated(150, 1, true)
	r := s.open(repo)
	h, err := r.history()
	check(t, err)
	if h.graph == nil || h.cost() < h.graph.bytes {
		t.Errorf("a history costs %d, and its graph has %d bytes", h.cost(), h.graph.bytes)
	}
	at, _ := r.HEAD()
	want, _, err := r.Log(at.Commit, 0, 1000)
	check(t, err)
	s.reader.histories.kept.Clear()
	got, _, err := s.open(repo).Log(at.Commit, 0, 1000)
	if err != nil || strings.Join(got, " ") != strings.Join(want, " ") {
		t.Errorf("a history that was made again gives other numbers to commits: %v", err)
	}
}

// TestApart bounds the work of a page that counts for many branches.
func TestApart(t *testing.T) {
	s := newSite(t)
	repo, dir := s.generated(150, 4, false)
	r := s.open(repo)
	a, b := testkit.Git(t, dir, "rev-parse", "topic/7"), testkit.Git(t, dir, "rev-parse", "main")
	counts := strings.Fields(testkit.Git(t, dir, "rev-list", "--left-right", "--count", a+"..."+b))
	for n := 0; ; n++ {
		ahead, behind, ok := r.AheadBehind(a, b)
		if !ok {
			break
		}
		if fmt.Sprint(ahead) != counts[0] || fmt.Sprint(behind) != counts[1] {
			t.Fatalf("%d ahead, %d behind, git says %s", ahead, behind, counts)
		}
		if n > maxApartTotal {
			t.Fatal("the work of one page has no bound")
		}
	}
	if _, _, ok := s.open(repo).AheadBehind(a, b); !ok {
		t.Error("the next page counts nothing")
	}
}

// TestQuickWork leaves a walk over many commits and entries to the background, also if no commit has
// to be compared with another.
func TestQuickWork(t *testing.T) {
	s := newSite(t)
	dir := t.TempDir()
	const entries, commits = 5000, 600
	var b strings.Builder
	for i := range commits {
		fmt.Fprintf(&b, "commit refs/heads/main\ncommitter C <c@x> %d +0000\ndata 1\nx\n", 1_700_000_000+i)
		for j := 0; i == 0 && j < entries; j++ {
			fmt.Fprintf(&b, "M 100644 inline file-%d\ndata 1\nx\n", j)
		}
		b.WriteByte('\n')
	}
	fastImport(t, dir, b.String())
	repo := s.repo(alice, "x")
	testkit.Git(t, dir, "push", "-q", repo.Dir(), "main")
	s.share(repo)
	check(t, repo.WriteCommitGraph(t.Context(), true))
	r := s.open(repo)
	at, _ := r.HEAD()
	w, err := r.newWalker(changeKey{at.Commit, ""}, nil)
	check(t, err)
	if done, err := w.walk(quickWork); done || err != nil {
		t.Errorf("a request looked at %d entries in %d commits: %v", entries, commits, err)
	}
	quick := w.work
	check(t, s.reader.costly.Acquire(t.Context(), bound.Holder{}))
	if w, err = r.newWalker(changeKey{at.Commit, ""}, nil); err != nil {
		t.Fatal(err)
	}
	if done, err := r.walkQuickly(w); done || err != nil || w.work > quick/4 {
		t.Errorf("a request that has no turn did %d of the work %d of one that has it: %v", w.work, quick, err)
	}
	s.reader.costly.Release()
	if done, err := w.walk(laterWork); !done || err != nil {
		t.Errorf("the background: %v, %v", done, err)
	}
	found, err := w.changes()
	if err != nil || len(found) != entries {
		t.Errorf("%d entries of %d have a last change: %v", len(found), entries, err)
	}

	// A machine too slow for the walk in the background keeps what was found, and finds single files.
	if w, err = r.newWalker(changeKey{at.Commit, ""}, nil); err != nil {
		t.Fatal(err)
	}
	if err := w.walkFor(0); err != nil || w.work > 2*quickWork {
		t.Errorf("a walk without time did work %d: %v", w.work, err)
	}
	if found, err := r.finish(w); err != nil || len(found) != 0 {
		t.Errorf("a walk without time found %d changes: %v", len(found), err)
	}
	first := testkit.Git(t, dir, "rev-list", "--max-parents=0", "main")
	if last, err := r.LastCommit(at.Commit, []string{"file-1"}); err != nil || last != first {
		t.Errorf("a file was changed last by %q, not by %s: %v", last, first, err)
	}
}

// TestChangesBehindManyParents finds the last changes behind a merge of many parents, in several turns.
func TestChangesBehindManyParents(t *testing.T) {
	s := newSite(t)
	dir := t.TempDir()
	const parents = 200
	var b strings.Builder
	for i := range parents {
		fmt.Fprintf(&b, "commit refs/heads/p%d\nmark :%d\ncommitter C <c@x> %d +0000\ndata 1\nx\n", i, i+1, 1_700_000_000+i)
		fmt.Fprintf(&b, "M 100644 inline merged\ndata %d\n%[2]d\nM 100644 inline side\ndata %[1]d\n%[2]d\n\n", len(fmt.Sprint(i)), i)
	}
	fmt.Fprintf(&b, "commit refs/heads/main\ncommitter C <c@x> 1800000000 +0000\ndata 1\nx\nfrom :1\n")
	for i := 1; i < parents; i++ {
		fmt.Fprintf(&b, "merge :%d\n", i+1)
	}
	fmt.Fprintf(&b, "M 100644 inline merged\ndata 1\nx\nM 100644 inline side\ndata 3\n%d\n\n", parents-1)
	fastImport(t, dir, b.String())
	repo := s.repo(alice, "x")
	testkit.Git(t, dir, "push", "-q", repo.Dir(), "main")
	s.share(repo)
	check(t, repo.WriteCommitGraph(t.Context(), true))
	r := s.open(repo)
	at, _ := r.HEAD()
	w, err := r.newWalker(changeKey{at.Commit, ""}, nil)
	check(t, err)
	check(t, s.reader.costly.Acquire(t.Context(), bound.Holder{}))
	if done, err := r.walkQuickly(w); done || err != nil || w.work > 2*freeWork {
		t.Errorf("a request that has no turn did work %d: %v", w.work, err)
	}
	s.reader.costly.Release()
	if _, err := r.walkPath(at.Commit, "merged", 0, 1, freeWork); !errors.Is(err, errAskGit) {
		t.Errorf("the log of a path asked about %d parents: %v", parents, err)
	}
	if done, err := w.walk(laterWork); !done || err != nil {
		t.Errorf("the background: %v, %v", done, err)
	}
	found, err := w.changes()
	side := testkit.Git(t, dir, "rev-parse", fmt.Sprintf("p%d", parents-1))
	if err != nil || found["merged"].ID != at.Commit || found["side"].ID != side {
		t.Errorf("last changes %v: %v", found, err)
	}
}

// TestChangesBehindLargeFolder shows the last changes of a folder that was once too large to read.
func TestChangesBehindLargeFolder(t *testing.T) {
	testkit.SkipRace(t)
	s := newSite(t)
	dir := t.TempDir()
	var b strings.Builder
	commit := func(n int, files ...string) {
		fmt.Fprintf(&b, "commit refs/heads/main\ncommitter C <c@x> %d +0000\ndata 1\nx\n", 1_700_000_000+n)
		for _, f := range files {
			b.WriteString(f + "\n")
		}
		b.WriteByte('\n')
	}
	modify := func(path string, content int) string {
		return fmt.Sprintf("M 100644 inline %s\ndata 1\n%d", path, content)
	}
	large := []string{}
	for i := range maxTreeBytes/260 + 1 {
		large = append(large, modify(fmt.Sprintf("dir/%d%s", 1_000_000+i, strings.Repeat("long", 61)), 1))
	}
	commit(0, modify("dir/old", 0), modify("dir/new", 0))
	commit(1, large...)
	commit(2, "D dir", modify("dir/old", 0), modify("dir/new", 0))
	commit(3, modify("dir/new", 3))
	fastImport(t, dir, b.String())
	repo := s.repo(alice, "x")
	testkit.Git(t, dir, "push", "-q", repo.Dir(), "main")
	s.share(repo)
	for _, graph := range []bool{false, true} {
		if graph {
			check(t, repo.WriteCommitGraph(t.Context(), true))
		}
		r := s.open(repo)
		at, _ := r.HEAD()
		found, err := r.LastChanges(at.Commit, []string{"dir"})
		if err != nil || found["new"].ID != at.Commit || len(found) != 1 {
			t.Errorf("%d changes: %v, %v", len(found), found, err)
		}
		s.reader.changes = newChanges()
	}
}

// TestLargeBlob refuses a blob by its size, before git reads it.
func TestLargeBlob(t *testing.T) {
	s := newSite(t)
	dir := t.TempDir()
	testkit.Git(t, dir, "init", "-q", "-b", "main")
	check(t, os.WriteFile(filepath.Join(dir, "README"), bytes.Repeat([]byte("x"), 100_000), 0o644))
	testkit.Git(t, dir, "add", "-A")
	testkit.Git(t, dir, "commit", "-q", "-m", "large")
	repo := s.repo(alice, "x")
	testkit.Git(t, dir, "push", "-q", repo.Dir(), "main")
	r := s.open(repo)
	// The error names the question that was asked: that for the size.
	if _, err := r.Blob(testkit.Git(t, dir, "rev-parse", "HEAD:README"), 1000); !errors.Is(err, ErrTooLarge) || !strings.Contains(err.Error(), "read the blob") {
		t.Errorf("a large blob: %v", err)
	}
}

// TestArchiveOfRepository does not show one repository the refs of another in an archive.
func TestArchiveOfRepository(t *testing.T) {
	s := newSite(t)
	dir := t.TempDir()
	testkit.Git(t, dir, "init", "-q", "-b", "main")
	check(t, os.WriteFile(filepath.Join(dir, ".gitattributes"), []byte("version export-subst\n"), 0o644))
	check(t, os.WriteFile(filepath.Join(dir, "version"), []byte("$Format:%D$\n"), 0o644))
	testkit.Git(t, dir, "add", "-A")
	testkit.Git(t, dir, "commit", "-q", "-m", "one")
	head := testkit.Git(t, dir, "rev-parse", "HEAD")
	a, b := s.repo(alice, "x"), s.repo(bob, "x")
	testkit.Git(t, dir, "push", "-q", a.Dir(), "main", "main:refs/heads/secret")
	testkit.Git(t, dir, "push", "-q", b.Dir(), "main")
	for _, r := range []*Repository{s.open(a), s.open(b)} {
		f, err := r.Archive(head, "zip", "x")
		check(t, err)
		content, err := io.ReadAll(f)
		check(t, errors.Join(err, f.Close()))
		z, err := zip.NewReader(bytes.NewReader(content), int64(len(content)))
		check(t, err)
		in, err := z.Open("x/version")
		check(t, err)
		text, err := io.ReadAll(in)
		check(t, err)
		if shows := strings.Contains(string(text), "secret"); shows != (r.repo == a) {
			t.Errorf("the archive of %s says %q", r.repo.Name(), text)
		}
	}
}
