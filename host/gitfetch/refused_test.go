package gitfetch

import (
	"crypto/rand"
	"encoding/hex"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"talon/internal/testkit"
	"talon/sdk/abi"
)

// attackCommit makes a commit whose submodule runs a command, with a file of random bytes.
func attackCommit(t testing.TB, dir string, size int) string {
	t.Helper()
	noise := make([]byte, size)
	_, _ = rand.Read(noise)
	const modules = "[submodule \"a\"]\n\tpath = a\n\turl = -u./payload\n"
	for name, text := range map[string][]byte{".gitmodules": []byte(modules), "noise": noise} {
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	id := testkit.Commit(t, dir, "attack")
	testkit.Git(t, dir, "branch", "attack")
	testkit.Git(t, dir, "reset", "-q", "--hard", "HEAD~")
	return id
}

// gitFolderCommit makes a commit with a file .git, and so much else that git has ended
// before the server has sent all.
func gitFolderCommit(t testing.TB, dir string) string {
	t.Helper()
	noise := make([]byte, 8<<20)
	_, _ = rand.Read(noise)
	if err := os.WriteFile(filepath.Join(dir, "noise"), noise, 0o644); err != nil {
		t.Fatal(err)
	}
	list := filepath.Join(t.TempDir(), "tree")
	blob := testkit.Git(t, dir, "hash-object", "-w", "noise")
	id, err := hex.DecodeString(blob)
	if err != nil {
		t.Fatal(err)
	}
	raw := "100644 .git\x00" + string(id) + "100644 noise\x00" + string(id)
	if err := os.WriteFile(list, []byte(raw), 0o644); err != nil {
		t.Fatal(err)
	}
	commit := testkit.Git(t, dir, "commit-tree", "-m", "x", testkit.Git(t, dir, "hash-object", "-w", "--literally", "-t", "tree", list))
	testkit.Git(t, dir, "branch", "attack", commit)
	return commit
}

// A server that has what is refused did its part, whenever git notices.
func TestRefusedContent(t *testing.T) {
	for name, c := range map[string]struct {
		forge func(t testing.TB, dir string) string
		fault string
	}{
		"at the end": {func(t testing.TB, dir string) string { return attackCommit(t, dir, 100) }, "gitmodulesUrl: disallowed submodule url: -u./payload"},
		"on the way": {gitFolderCommit, "hasDotgit: contains '.git'"},
	} {
		t.Run(name, func(t *testing.T) {
			dir, _ := work(t, "one")
			id := c.forge(t, dir)
			got, f := attempt(t, newRemote(t).add(t, "x", dir), id, nil, nil)
			if got.Outcome != abi.OutcomeNotFound || !strings.Contains(got.Reason, c.fault) {
				t.Errorf("%s: %q", OutcomeName(got.Outcome), got.Reason)
			}
			nothingLanded(t, f, id)
		})
	}
}

// TestRefusedOnce: the hunter asks a URL only once for an object that it refuses. Everything
// else comes.
func TestRefusedOnce(t *testing.T) {
	dir, good := work(t, "one")
	wrong := attackCommit(t, dir, 100)
	later := testkit.Commit(t, dir, "later")
	first, second, f := newRemote(t), newRemote(t), newForge(t)
	urls := []string{first.add(t, "x", dir), second.add(t, "x", dir)}
	f.hold(alice, "x", []string{good, later}, urls...)
	f.hold(alice, "x", []string{wrong}, urls...) // a pull request, maybe
	module := inAHurry()
	h := hunt(t, f, module, nil)
	h.Held(synced("x"))
	rounds := func(n float64) func() bool {
		from := testutil.ToFloat64(h.metrics.attempts)
		return func() bool { return testutil.ToFloat64(h.metrics.attempts) >= from+n }
	}
	testkit.Eventually(t, "some rounds", rounds(8))
	if left := f.missingOf("x"); !slices.Equal(left, []string{wrong}) {
		t.Errorf("%v is missing, want %s", left, wrong)
	}
	if first.asked() != 1 || second.asked() != 1 {
		t.Errorf("the servers were asked %d and %d times", first.asked(), second.asked())
	}
	module.mu.Lock()
	for _, after := range module.after {
		if after.Outcome != abi.OutcomePartial && after.Outcome != abi.OutcomeNotFound {
			t.Errorf("the throttle is told of %s", OutcomeName(after.Outcome))
		}
	}
	module.mu.Unlock()

	// An operator who wants it has it asked for again.
	if err := h.FetchNow("30617:ab:x", "x"); err != nil {
		t.Fatal(err)
	}
	testkit.Eventually(t, "another request", func() bool { return first.asked() == 2 && second.asked() == 2 })
	testkit.Eventually(t, "some rounds more", rounds(8))
	if first.asked() != 2 || second.asked() != 2 {
		t.Errorf("the servers were asked %d and %d times", first.asked(), second.asked())
	}

	// The hunter forgets refusals when their search has ended.
	f.mu.Lock()
	f.wants["x"] = f.wants["x"][:1]
	f.mu.Unlock()
	h.NoLongerHeld(synced("x"), true)
	over(t, h, "x")
	testkit.Eventually(t, "nothing is remembered", func() bool {
		h.mu.Lock()
		defer h.mu.Unlock()
		return len(h.refused) == 0 && h.refusals == 0
	})
}

// TestRefusalsAreBounded: the number of remembered refusals is bounded, over all searches.
func TestRefusalsAreBounded(t *testing.T) {
	h := newHunter(t, newForge(t), nil, nil)
	for i := range maxRefused + 10 {
		h.refuse(string(rune('a'+i%26)), []string{object(i)}, "http://a/x", "")
	}
	n := 0
	for _, list := range h.refused {
		n += len(list)
	}
	if n != h.refusals || n > maxRefused || n == 0 {
		t.Errorf("%d are remembered, and %d counted", n, h.refusals)
	}
}
