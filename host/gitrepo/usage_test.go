package gitrepo

import (
	"os"
	"path/filepath"
	"testing"
)

// measured returns the bytes that count for repositories, after it has checked that they are those of the
// shared store.
func measured(t *testing.T, repos ...*Repo) (list []int64) {
	t.Helper()
	sum := int64(0)
	for _, r := range repos {
		n, err := r.Usage()
		if err != nil {
			t.Fatal(err)
		}
		own, err := diskUse(filepath.Join(r.dir, "objects"))
		if err != nil {
			t.Fatal(err)
		}
		if same, err := FolderUsage(r.dir); err != nil || same != n {
			t.Errorf("another process measures %d bytes, %v, want %d", same, err, n)
		}
		list = append(list, n)
		sum += n - own
	}
	s, _, err := repos[0].shared()
	if err != nil {
		t.Fatal(err)
	}
	size, err := diskUse(filepath.Join(s.dir, "objects"))
	if err != nil {
		t.Fatal(err)
	}
	if sum != size {
		t.Errorf("%d bytes count for the repositories, the shared store has %d", sum, size)
	}
	return list
}

// TestUsage: objects count for the repository through which they came, also after a repack, after a
// crash, and after the objects of an older Talon were measured.
func TestUsage(t *testing.T) {
	root := newRoot(t)
	a, b := newRepo(t, root, alice, "x", SHA1), newRepo(t, root, bob, "x", SHA1)
	dir, _, _ := work(t, SHA1)
	git(t, dir, "push", "-q", a.Dir(), "main")
	share := func(r *Repo) {
		t.Helper()
		locked(t, r, func() {
			if err := r.Share(t.Context()); err != nil {
				t.Fatal(err)
			}
		})
	}
	locked(t, a, func() {
		if err := a.SettleUsage(t.Context()); err != nil {
			t.Fatal(err)
		}
	})
	before := measured(t, a, b)
	share(a)
	shared := measured(t, a, b)
	if shared[0] < 100 || shared[1] > before[1] {
		t.Errorf("after alice's objects came: %v, before %v", shared, before)
	}

	if err := os.WriteFile(filepath.Join(dir, "more"), make([]byte, 1<<10), 0o644); err != nil {
		t.Fatal(err)
	}
	git(t, dir, "add", ".")
	git(t, dir, "commit", "-qm", "more")
	git(t, dir, "push", "-q", b.Dir(), "main")
	share(b)
	both := measured(t, a, b)
	if both[0] != shared[0] || both[1] < shared[1]+50 {
		t.Errorf("after bob's objects came: %v, before %v", both, shared)
	}

	s, _, err := a.shared()
	if err != nil {
		t.Fatal(err)
	}
	mark := filepath.Join(s.dir, borrowers, b.name.npub)
	if err := os.WriteFile(mark, nil, 0o644); err != nil { // by a crash
		t.Fatal(err)
	}
	if err := a.SettleUsage(t.Context()); err != nil {
		t.Fatal(err)
	}
	if lost := measured(t, a, b); lost[0] < both[0] {
		t.Errorf("after a crash: %v, before %v", lost, both)
	}
	for _, r := range []*Repo{a, b} {
		if err := os.WriteFile(filepath.Join(s.dir, borrowers, r.name.npub), nil, 0o644); err != nil { // by an older Talon
			t.Fatal(err)
		}
	}
	if err := a.SettleUsage(t.Context()); err != nil {
		t.Fatal(err)
	}
	if old := measured(t, a, b); old[0] < old[1]-1 || old[1] < old[0]-1 {
		t.Errorf("parts of the objects of an older Talon: %v", old)
	}
	locked(t, a, func() {
		if err := a.Maintain(t.Context()); err != nil {
			t.Fatal(err)
		}
	})
	measured(t, a, b)
	if err := root.Collect(t.Context(), "x", SHA1, 0); err != nil {
		t.Fatal(err)
	}
	measured(t, a, b)
}
