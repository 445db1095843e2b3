package web

import (
	"os"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"
	"time"

	"talon/internal/testkit"
)

// TestRealPages measures pages of the repository that TALON_CODE_REPO names: git's own, with its
// objects in packs.
func TestRealPages(t *testing.T) {
	source := os.Getenv("TALON_CODE_REPO")
	if source == "" {
		t.Skip("TALON_CODE_REPO names no repository")
	}
	w := newWorld(t)
	w.serveCodeOf("nest", workTree(t, map[string]string{"x": "x\n"}))
	address, _ := announce("owl", "nest").Address()
	repo := w.repos[address].git
	packs, _ := filepath.Glob(filepath.Join(source, "objects", "pack", "pack-*"))
	for _, file := range packs {
		if err := os.Symlink(file, filepath.Join(repo.Dir(), "objects", "pack", filepath.Base(file))); err != nil {
			t.Fatal(err)
		}
	}
	refs := testkit.Git(t, source, "for-each-ref", "--format=%(objectname) %(refname)", "refs/heads/master", "refs/tags")
	if err := os.WriteFile(filepath.Join(repo.Dir(), "packed-refs"), []byte(refs+"\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	testkit.Git(t, repo.Dir(), "pack-refs", "--all")
	unlock, err := repo.Lock(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := repo.Share(t.Context()); err != nil {
		t.Fatal(err)
	}
	unlock()
	if err := repo.WriteCommitGraph(t.Context(), true); err != nil {
		t.Fatal(err)
	}
	base := "/" + npub("owl") + "/nest"
	head := testkit.Git(t, repo.Dir(), "rev-parse", "refs/heads/master")
	for _, path := range []string{"/tree/master", "/tree/master/t", "/blob/master/diff.c", "/blob/master/strbuf.c", "/log/master", "/log/" + head + "?from=80000", "/log/master/t", "/commit/" + head, "/refs", "/blame/master/strbuf.c"} {
		first := time.Now()
		got := w.raw(base + path)
		cold := time.Since(first)
		if got.Code != 200 {
			t.Errorf("%s: %d", path, got.Code)
		}
		for range 3 {
			w.raw(base + path)
			time.Sleep(time.Second) // for the walk in the background
		}
		const n = 10
		runtime.GC()
		used := ownTime()
		for range n {
			got = w.raw(base + path)
		}
		t.Logf("%8.1f ms of CPU warm, %8.1f ms in all at first: %d, %d bytes of %s", float64((ownTime()-used).Microseconds())/1000/n, float64(cold.Microseconds())/1000, got.Code, got.Body.Len(), path)
	}
}

// ownTime returns the processor time of this process and of those that it has waited for.
func ownTime() (sum time.Duration) {
	for _, who := range []int{syscall.RUSAGE_SELF, syscall.RUSAGE_CHILDREN} {
		var use syscall.Rusage
		_ = syscall.Getrusage(who, &use)
		sum += time.Duration(use.Utime.Nano() + use.Stime.Nano())
	}
	return sum
}
