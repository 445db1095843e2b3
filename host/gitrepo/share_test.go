package gitrepo

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"talon/host"
)

func packs(t testing.TB, dir string) int {
	t.Helper()
	list, err := filepath.Glob(filepath.Join(dir, "objects", "pack", "*.pack"))
	if err != nil {
		t.Fatal(err)
	}
	return len(list)
}

func fsck(t testing.TB, r *Repo) {
	t.Helper()
	git(t, r.Dir(), "fsck", "--strict", "--connectivity-only")
}

// A second maintainer's copy costs refs only: the objects are there immediately, and stay
// when the first repository goes.
func TestShare(t *testing.T) {
	root := newRoot(t)
	a, b := newRepo(t, root, alice, "x", SHA1), newRepo(t, root, bob, "x", SHA1)
	dir, _, second := work(t, SHA1)
	git(t, dir, "push", "-q", a.Dir(), "main")
	if found, err := b.Has(t.Context(), second); err != nil || found[0] {
		t.Fatalf("Has before Share: %v, %v", found, err)
	}
	locked(t, a, func() {
		if err := a.Share(t.Context()); err != nil {
			t.Fatal(err)
		}
	})
	if packs(t, a.Dir()) != 0 {
		t.Error("the packs stay in the repository")
	}
	locked(t, b, func() {
		if ok, err := b.Connected(t.Context(), second); err != nil || !ok {
			t.Fatalf("Connected after Share: %t, %v", ok, err)
		}
		if err := b.UpdateRefs(t.Context(), []host.RefUpdate{{Ref: "refs/heads/main", New: second}}); err != nil {
			t.Fatal(err)
		}
	})
	fsck(t, a)
	fsck(t, b)
	locked(t, a, func() {
		if err := a.Remove(t.Context()); err != nil {
			t.Fatal(err)
		}
	})
	fsck(t, b)
	clone := filepath.Join(t.TempDir(), "clone")
	git(t, ".", "clone", "-q", b.Dir(), clone)
	if git(t, clone, "rev-parse", "HEAD") != second {
		t.Error("the clone is another")
	}
}

// Identifiers and formats do not share with each other.
func TestNotShared(t *testing.T) {
	root := newRoot(t)
	a, b, c := newRepo(t, root, alice, "x", SHA1), newRepo(t, root, alice, "y", SHA1), newRepo(t, root, bob, "x", SHA256)
	dir, _, second := work(t, SHA1)
	git(t, dir, "push", "-q", a.Dir(), "main")
	locked(t, a, func() {
		if err := a.Share(t.Context()); err != nil {
			t.Fatal(err)
		}
	})
	for _, r := range []*Repo{b, c} {
		if found, err := r.Has(t.Context(), second); err != nil || found[0] {
			t.Errorf("%s has it: %v, %v", r.Name(), found, err)
		}
	}
}

func TestMaintain(t *testing.T) {
	root := newRoot(t)
	a := newRepo(t, root, alice, "x", SHA1)
	dir, _, _ := work(t, SHA1)
	for range 12 {
		git(t, dir, "commit", "-q", "--allow-empty", "-m", "more")
		git(t, dir, "push", "-q", a.Dir(), "main")
	}
	if n := packs(t, a.Dir()); n < 12 {
		t.Fatalf("%d packs came of 12 pushes; small pushes were unpacked", n)
	}
	locked(t, a, func() {
		if err := a.Maintain(t.Context()); err != nil {
			t.Fatal(err)
		}
	})
	s, _, err := a.shared()
	if err != nil {
		t.Fatal(err)
	}
	if packs(t, a.Dir()) != 0 || packs(t, s.dir) > 4 {
		t.Errorf("%d packs here, %d shared", packs(t, a.Dir()), packs(t, s.dir))
	}
	// A later push builds on what is in the shared store now.
	if err := os.WriteFile(filepath.Join(dir, "file"), []byte("later"), 0o644); err != nil {
		t.Fatal(err)
	}
	git(t, dir, "commit", "-q", "-a", "-m", "later")
	git(t, dir, "push", "-q", a.Dir(), "main")
	fsck(t, a)
}

// Objects that no repository reaches go when they are old, and not before.
func TestCollect(t *testing.T) {
	root := newRoot(t)
	a, b := newRepo(t, root, alice, "x", SHA1), newRepo(t, root, bob, "x", SHA1)
	dir, first, second := work(t, SHA1)
	git(t, dir, "push", "-q", a.Dir(), "main")
	git(t, dir, "checkout", "-q", "--orphan", "gone")
	git(t, dir, "commit", "-q", "-m", "gone")
	gone := git(t, dir, "rev-parse", "HEAD")
	git(t, dir, "push", "-q", b.Dir(), "gone", "v1")
	collect := func(grace time.Duration) error {
		return root.Collect(t.Context(), "x", SHA1, grace)
	}
	has := func(id string) bool {
		t.Helper()
		// A new look: the process kept from before may have the old pack open.
		root.batches.closeIdle(a.dir)
		found, err := a.Has(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		return found[0]
	}
	if err := collect(0); err != nil {
		t.Fatal(err)
	}
	if !has(second) || !has(gone) || !has(first) {
		t.Fatal("what a repository reaches is gone")
	}
	git(t, b.Dir(), "update-ref", "-d", "refs/heads/gone")
	if err := collect(time.Hour); err != nil {
		t.Fatal(err)
	}
	if !has(gone) {
		t.Error("it went before its time")
	}
	old := time.Now().Add(-2 * time.Hour)
	s, _, err := a.shared()
	if err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join(s.dir, "objects", "pack", "*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		if err := os.Chtimes(file, old, old); err != nil {
			t.Fatal(err)
		}
	}
	if err := collect(0); err != nil {
		t.Fatal(err)
	}
	if has(gone) {
		t.Error("an old object that nobody reaches stays")
	}
	if !has(first) || !has(second) {
		t.Error("an object that bob's tag or alice's branch reaches is gone")
	}
	fsck(t, a)
	fsck(t, b)
	if n := root.locks.len(); n != 0 {
		t.Errorf("%d locks are left", n)
	}

	// A ref that is broken: nothing is dropped.
	if err := os.WriteFile(filepath.Join(b.Dir(), "refs", "heads", "broken"), []byte(strings.Repeat("ab", 20)+"\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	git(t, b.Dir(), "update-ref", "-d", "refs/tags/v1")
	if err := collect(0); err == nil {
		t.Error("a broken ref is no error")
	}
	if !has(first) {
		t.Error("objects went although a ref is broken")
	}
}

// TestForkAfterDeletion shows that a fork keeps all that it refers to when the repository goes in
// which the objects came: it is cloned, repacked and collected as before. A fork of another
// identifier has its objects itself.
func TestForkAfterDeletion(t *testing.T) {
	root := newRoot(t)
	origin, fork, other := newRepo(t, root, alice, "x", SHA1), newRepo(t, root, bob, "x", SHA1), newRepo(t, root, bob, "y", SHA1)
	dir, first, second := work(t, SHA1)
	git(t, dir, "push", "-q", origin.Dir(), "main", "v1")
	locked(t, origin, func() {
		if err := origin.Share(t.Context()); err != nil {
			t.Fatal(err)
		}
	})
	locked(t, fork, func() {
		if err := fork.UpdateRefs(t.Context(), []host.RefUpdate{{Ref: "refs/heads/main", New: second}}); err != nil {
			t.Fatal(err)
		}
	})
	git(t, dir, "push", "-q", other.Dir(), first+":refs/heads/main")
	locked(t, other, func() {
		if err := other.Copy(t.Context(), origin, second); err != nil {
			t.Fatal(err)
		}
		if err := other.UpdateRefs(t.Context(), []host.RefUpdate{{Ref: "refs/heads/two", New: second}}); err != nil {
			t.Fatal(err)
		}
	})
	pool, _, err := fork.shared()
	if err != nil {
		t.Fatal(err)
	}
	locked(t, origin, func() {
		if err := origin.Remove(t.Context()); err != nil {
			t.Fatal(err)
		}
	})
	files, err := filepath.Glob(filepath.Join(pool.dir, "objects", "pack", "*"))
	if err != nil || len(files) == 0 {
		t.Fatalf("the shared store has the files %v, %v", files, err)
	}
	old := time.Now().Add(-24 * time.Hour)
	for _, file := range files {
		if err := os.Chtimes(file, old, old); err != nil {
			t.Fatal(err)
		}
	}
	if err := root.Collect(t.Context(), "x", SHA1, 0); err != nil {
		t.Fatal(err)
	}
	for _, r := range []*Repo{fork, other} {
		fsck(t, r)
		into := filepath.Join(t.TempDir(), "clone")
		git(t, dir, "clone", "-q", "--no-local", r.Dir(), into)
		git(t, into, "cat-file", "-e", second+"^{tree}")
	}
}

// A pull request of another root or identifier is copied, with what is new alone.
func TestCopy(t *testing.T) {
	root := newRoot(t)
	a, b := newRepo(t, root, alice, "x", SHA1), newRepo(t, root, bob, "y", SHA1)
	dir, first, second := work(t, SHA1)
	git(t, dir, "push", "-q", a.Dir(), "main")
	git(t, dir, "push", "-q", b.Dir(), first+":refs/heads/main")
	locked(t, b, func() {
		if err := b.Copy(t.Context(), a, second); err != nil {
			t.Fatal(err)
		}
		if ok, err := b.Connected(t.Context(), second); !ok || err != nil {
			t.Errorf("Connected after Copy: %t, %v", ok, err)
		}
		for _, wrong := range []string{strings.Repeat("ab", 20), "HEAD", "--all", first[:39], ""} {
			if b.Copy(t.Context(), a, wrong) == nil {
				t.Errorf("Copy of %q is no error", wrong)
			}
		}
	})
	fsck(t, b)
	if left, err := filepath.Glob(filepath.Join(b.Dir(), "objects", "pack", "tmp_*")); err != nil || len(left) > 0 {
		t.Errorf("failed copies leave %v", left)
	}
}
