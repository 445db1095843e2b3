package gitread

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"talon/host/gitrepo"
	"talon/internal/testkit"
)

// generated makes a repository with a history of n commits, with a commit-graph of all but the last
// commits or without one.
func (s *site) generated(n int, seed uint64, graph bool) (*gitrepo.Repo, string) {
	s.t.Helper()
	dir := s.t.TempDir()
	generate(s.t, dir, n, seed)
	repo := s.repo(alice, "x")
	if graph {
		testkit.Git(s.t, dir, "push", "-q", repo.Dir(), "main~9:refs/heads/main")
		s.share(repo)
		if err := repo.WriteCommitGraph(s.t.Context(), true); err != nil {
			s.t.Fatal(err)
		}
	}
	testkit.Git(s.t, dir, "push", "-q", repo.Dir(), "refs/*:refs/*")
	s.share(repo)
	return repo, dir
}

// TestLastChanges compares each entry of each folder with git log -1, with and without a
// commit-graph, and after pushes.
func TestLastChanges(t *testing.T) {
	testkit.SkipRace(t)
	trees := 0
	for _, graph := range []bool{false, true} {
		for seed := range uint64(3) {
			s := newSite(t)
			repo, dir := s.generated(150, seed, graph)
			r := s.open(repo)
			if g, err := r.graph(); err != nil || (g != nil) != graph {
				t.Fatalf("a graph: %v, %v", g != nil, err)
			}
			// Older commits first, so that later ones build on them.
			for _, rev := range []string{"main~40", "main~3", "main"} {
				trees += compareChanges(t, r, dir, rev)
			}
		}
	}
	if trees < 50 {
		t.Errorf("%d trees were compared", trees)
	}
}

// TestLastChangesOfNames looks into folders whose names are odd.
func TestLastChangesOfNames(t *testing.T) {
	s := newSite(t)
	dir := t.TempDir()
	testkit.Git(t, dir, "init", "-q", "-b", "main")
	names := []string{"a b", "new\nline", ".github", "..dots", "colon:x", "^{tree}", "@{u}", "ü", "\xff", "missing", "x missing"}
	for round := range 2 {
		for i, name := range names {
			writeFile(t, dir, name+"/sub/file", strconv.Itoa(round))
			writeFile(t, dir, name+"/other", strconv.Itoa(round*(i%2)))
			testkit.Git(t, dir, "add", "-A")
			testkit.Git(t, dir, "commit", "-q", "-m", "one")
		}
	}
	// A folder that was a file once.
	testkit.Git(t, dir, "rm", "-rq", "a b")
	writeFile(t, dir, "a b", "a file")
	testkit.Git(t, dir, "add", "-A")
	testkit.Git(t, dir, "commit", "-q", "-m", "a file")
	testkit.Git(t, dir, "revert", "--no-edit", "HEAD")
	repo := s.repo(alice, "x")
	testkit.Git(t, dir, "push", "-q", repo.Dir(), "main")
	if n := compareChanges(t, s.open(repo), dir, "main"); n != 1+2*len(names) {
		t.Errorf("%d trees were compared", n)
	}
}

// compareChanges compares the last changes of all folders of a commit with those of git. It returns how
// many these are.
func compareChanges(t *testing.T, r *Repository, dir, rev string) (trees int) {
	t.Helper()
	commit := strings.TrimSpace(testkit.Git(t, dir, "rev-parse", rev))
	c, err := r.Commit(commit)
	if err != nil {
		t.Fatal(err)
	}
	var folder func(tree string, path []string)
	folder = func(tree string, path []string) {
		trees++
		entries, err := r.Tree(tree)
		if err != nil {
			t.Fatal(err)
		}
		changes, err := r.LastChanges(commit, path)
		if err != nil || changes == nil {
			t.Fatalf("no changes of %q: %v", path, err)
		}
		for _, e := range entries {
			at := append(path[:len(path):len(path)], e.Name)
			want := strings.TrimSpace(testkit.Git(t, dir, "--literal-pathspecs", "log", "-1", "--format=%H", commit, "--", strings.Join(at, "/")))
			if got := changes[e.Name]; got.ID != want {
				t.Errorf("%s: the last change of %q is %s, git says %s", rev, strings.Join(at, "/"), got.ID, want)
			}
			if e.Mode == ModeTree {
				folder(e.ID, at)
			}
		}
	}
	folder(c.Tree, nil)
	return trees
}

// TestLogOrder compares the list of commits with git log.
func TestLogOrder(t *testing.T) {
	for _, graph := range []bool{false, true} {
		s := newSite(t)
		repo, dir := s.generated(200, 7, graph)
		r := s.open(repo)
		for _, rev := range []string{"main", "main~5", "topic/47"} {
			commit := strings.TrimSpace(testkit.Git(t, dir, "rev-parse", rev))
			want := strings.Fields(testkit.Git(t, dir, "log", "--format=%H", commit))
			got, count, err := r.Log(commit, 0, len(want)+1)
			if err != nil || count != len(want) || strings.Join(got, " ") != strings.Join(want, " ") {
				t.Errorf("%s: %d commits, git has %d: %v", rev, len(got), len(want), err)
			}
			got, _, err = r.Log(commit, 10, 10)
			if err != nil || strings.Join(got, " ") != strings.Join(want[10:20], " ") {
				t.Errorf("%s: a page differs: %v", rev, err)
			}
		}
	}
}

// TestImposter shows that a commit of another repository of the same objects is not found.
func TestImposter(t *testing.T) {
	s := newSite(t)
	dir := t.TempDir()
	testkit.Git(t, dir, "init", "-q", "-b", "main")
	first, second := testkit.Commit(t, dir, "one"), testkit.Commit(t, dir, "two")
	a, b := s.repo(alice, "x"), s.repo(bob, "x")
	testkit.Git(t, dir, "push", "-q", a.Dir(), first+":refs/heads/main")
	testkit.Git(t, dir, "push", "-q", b.Dir(), second+":refs/heads/main")
	s.share(a)
	s.share(b)
	for _, indexed := range []bool{false, true} {
		if indexed {
			if err := b.WriteCommitGraph(t.Context(), true); err != nil {
				t.Fatal(err)
			}
		}
		for _, test := range []struct {
			repo *gitrepo.Repo
			id   string
			want bool
		}{{a, first, true}, {a, second, false}, {b, first, true}, {b, second, true}} {
			r := s.open(test.repo)
			got, err := r.Reaches(test.id)
			if err != nil || got != test.want {
				t.Errorf("%s reaches %s: %v, %v", test.repo.Name(), test.id, got, err)
			}
			_, _, err = r.Resolve([]string{test.id[:8], "x"})
			if (err == nil) != test.want {
				t.Errorf("%s has %s: %v", test.repo.Name(), test.id[:8], err)
			}
		}
	}
}

// TestReal measures and compares the repository that TALON_CODE_REPO names: a bare repository whose
// objects are packed.
func TestReal(t *testing.T) {
	source := os.Getenv("TALON_CODE_REPO")
	if source == "" {
		t.Skip("TALON_CODE_REPO names no repository")
	}
	s := newSite(t)
	repo := s.repo(alice, "x")
	packs, _ := filepath.Glob(filepath.Join(source, "objects", "pack", "pack-*"))
	for _, file := range packs {
		if err := os.Symlink(file, filepath.Join(repo.Dir(), "objects", "pack", filepath.Base(file))); err != nil {
			t.Fatal(err)
		}
	}
	var refs strings.Builder
	for line := range strings.Lines(testkit.Git(t, source, "for-each-ref", "--format=%(objectname) %(refname)", "refs/heads/master", "refs/tags")) {
		refs.WriteString(line)
	}
	if err := os.WriteFile(filepath.Join(repo.Dir(), "packed-refs"), []byte(refs.String()+"\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	testkit.Git(t, repo.Dir(), "pack-refs", "--all")
	s.share(repo)
	timed := func(what string, f func()) {
		began, used := time.Now(), cpu()
		f()
		t.Logf("%8.1f ms of CPU, %8.1f ms in all: %s", float64((cpu()-used).Microseconds())/1000, float64(time.Since(began).Microseconds())/1000, what)
	}
	timed("write the commit-graph", func() {
		if err := repo.WriteCommitGraph(t.Context(), true); err != nil {
			t.Fatal(err)
		}
	})
	head := ""
	timed("open", func() { s.open(repo) })
	timed("open again, 20 times", func() {
		for range 20 {
			s.open(repo)
		}
	})
	timed("history", func() {
		r := s.open(repo)
		if _, err := r.history(); err != nil {
			t.Fatal(err)
		}
		at, _ := r.named("master")
		head = at.Commit
	})
	timed("history again", func() { r := s.open(repo); _, _ = r.history() })
	timed("list", func() { _, _, _ = s.open(repo).Log(head, 0, 50) })
	timed("log at 80,000", func() { _, _, _ = s.open(repo).Log(head, 80_000, 50) })
	changes := func(commit string, folder ...string) Changes {
		r := s.open(repo)
		w, err := r.newWalker(changeKey{commit, strings.Join(folder, "/")}, folder)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := w.walk(laterWork); err != nil {
			t.Fatal(err)
		}
		t.Logf("%d trees, %d MiB of work", w.trees, w.work>>20)
		found, err := r.finish(w)
		if err != nil {
			t.Fatal(err)
		}
		return found
	}
	older := strings.TrimSpace(testkit.Git(t, source, "--git-dir=.", "rev-parse", head+"~50"))
	timed("last changes of the root, 50 first parents ago", func() { changes(older) })
	timed("last changes of t, 50 first parents ago", func() { changes(older, "t") })
	timed("last changes of the root after a push", func() { changes(head) })
	timed("last changes of t after a push", func() { changes(head, "t") })
	timed("the log of a path", func() { _, _, err := s.open(repo).PathLog(head, []string{"t"}, 0, 50); check(t, err) })
	timed("the log of a rare path", func() { _, _, err := s.open(repo).PathLog(head, []string{"COPYING"}, 0, 50); check(t, err) })
	past, _, err := s.open(repo).Log(head, 5000, 20)
	check(t, err)
	timed("the last commit of diff.c in 20 old commits", func() {
		r := s.open(repo)
		for _, id := range past {
			_, err := r.findLastCommit(id, []string{"diff.c"})
			check(t, err)
		}
	})
	timed("last changes of the root of 20 old commits, as far as a request walks", func() {
		r := s.open(repo)
		for _, id := range past {
			w, err := r.newWalker(changeKey{id, ""}, nil)
			check(t, err)
			_, err = w.walk(quickWork)
			check(t, err)
		}
	})
	timed("blame of diff.c", func() { _, err := s.open(repo).Blame(head, []string{"diff.c"}); check(t, err) })
	timed("blame of diff.c again", func() { _, err := s.open(repo).Blame(head, []string{"diff.c"}); check(t, err) })
	timed("an archive", func() { _, err := s.open(repo).Archive(head, "tar.gz", "git"); check(t, err) })
	timed("a search", func() { _, _, err := s.open(repo).Grep(head, "oid_to_hex"); check(t, err) })
	r := s.open(repo)
	ids, _, err := r.Log(head, 1000, 200)
	check(t, err)
	var each []time.Duration
	timed("200 commits with their diffs", func() {
		for _, id := range ids {
			used := cpu()
			c, err := r.Commit(id)
			check(t, err)
			if _, err := r.CommitDiff(c); err != nil {
				t.Error(id, err)
			}
			each = append(each, cpu()-used)
		}
	})
	slices.Sort(each)
	t.Logf("a commit with its diff: p50 %v, p90 %v, most %v", each[len(each)/2], each[len(each)*9/10], each[len(each)-1])
	timed("compare two releases", func() {
		a, err := r.Named("refs/tags/v2.30.0")
		check(t, err)
		b, err := r.Named("refs/tags/v2.31.0")
		check(t, err)
		_, err = r.Diff(a.Commit, b.Commit)
		check(t, err)
	})
	if os.Getenv("TALON_CODE_COMPARE") == "" {
		return
	}
	for _, folder := range [][]string{nil, {"t"}, {"Documentation"}} {
		for name, got := range changes(head, folder...) {
			want := strings.TrimSpace(testkit.Git(t, s.root.Repo(repo.Name()).Dir(), "--git-dir=.", "log", "-1", "--format=%H", head, "--", strings.Join(append(folder[:len(folder):len(folder)], name), "/")))
			if got.ID != want {
				t.Errorf("%v/%s: %s, git says %s", folder, name, got.ID, want)
			}
		}
	}
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// TestRuns has changes that come back within one run of commits: both ends of it are the same, and the
// last change is between them.
func TestRuns(t *testing.T) {
	s := newSite(t)
	dir := t.TempDir()
	var b strings.Builder
	r := rand.New(rand.NewPCG(7, 7))
	const files = 60
	contents := make([]string, files)
	commits := 0
	commit := func(changed ...int) {
		at := 1_700_000_000 + 60*commits
		commits++
		fmt.Fprintf(&b, "commit refs/heads/main\nauthor A <a@example.com> %d +0000\ncommitter A <a@example.com> %d +0000\ndata 2\n%d\n", at, at, commits%10)
		for _, i := range changed {
			fmt.Fprintf(&b, "M 100644 inline dir/f%d\ndata %d\n%s\n", i, len(contents[i]), contents[i])
		}
		b.WriteString("\n")
	}
	all := make([]int, files)
	for i := range files {
		all[i], contents[i] = i, "0"
	}
	commit(all...)
	for range 300 {
		i := r.IntN(files)
		old := contents[i]
		contents[i] = fmt.Sprint(r.IntN(1000))
		commit(i)
		if r.IntN(3) == 0 { // it comes back
			for range r.IntN(3) {
				j := r.IntN(files)
				contents[j] = fmt.Sprint(r.IntN(1000))
				commit(j)
			}
			contents[i] = old
			commit(i)
		}
	}
	fastImport(t, dir, b.String())
	repo := s.repo(alice, "x")
	testkit.Git(t, dir, "push", "-q", repo.Dir(), "main")
	s.share(repo)
	if err := repo.WriteCommitGraph(t.Context(), true); err != nil {
		t.Fatal(err)
	}
	o := s.open(repo)
	head := testkit.Git(t, dir, "rev-parse", "main")
	w, err := o.newWalker(changeKey{head, "dir"}, []string{"dir"})
	check(t, err)
	if _, err := w.walk(laterWork); err != nil {
		t.Fatal(err)
	}
	if w.trees > commits/2 {
		t.Errorf("%d commits have %d comparisons of trees", commits, w.trees)
	}
	if n := compareChanges(t, o, dir, "main"); n != 2 {
		t.Errorf("%d trees were compared", n)
	}
}
