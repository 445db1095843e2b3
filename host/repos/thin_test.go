package repos

import (
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"talon/host"
	"talon/host/githttp"
	"talon/host/gitrepo"
	"talon/internal/testkit"
	"talon/sdk/nip19"
)

// TestAuthorOfPush shows whose part pays for what git appends to a thin pack. It is the owner's
// if heads or tags change, and that of a pull request's author for its ref. It is nobody's
// where no event asks for a change.
func TestAuthorOfPush(t *testing.T) {
	w := newWorld(t)
	w.sent(w.announce(alice, "demo"), host.Held)
	pr := w.sent(w.pullRequest(bob, strings.Repeat("1", 40), repoOf(alice, "demo")), host.Held)
	repo, err := w.disk.repo(demo(alice))
	w.must(err)
	here, there := strings.Repeat("1", 40), strings.Repeat("2", 40)
	refs := gitrepo.Refs{List: []gitrepo.Ref{{Name: "refs/heads/main", ID: here}, {Name: nostrRefs + pr.ID.String(), ID: here}}}
	unknown := nostrRefs + host.ID{7}.String()
	owner, author := nip19.EncodeNpub(alice.PubKey), nip19.EncodeNpub(bob.PubKey)
	for _, c := range []struct {
		updates []string // name and new object, in turn
		want    string
	}{
		{[]string{"refs/heads/main", there}, owner},
		{[]string{"refs/heads/main", here}, ""},
		{[]string{"refs/heads/main", zeros(here)}, ""},
		{[]string{"refs/heads/other", here}, owner},
		{[]string{unknown, there}, ""},
		{[]string{unknown, there, "refs/heads/main", here}, ""},
		{[]string{nostrRefs + pr.ID.String(), there}, author},
		{[]string{nostrRefs + pr.ID.String(), here}, ""},
		{[]string{nostrRefs + pr.ID.String(), there, unknown, there}, author},
		{[]string{nostrRefs + pr.ID.String(), there, "refs/tags/v1", there}, owner},
	} {
		p := &githttp.Push{Repo: repo, Parts: strings.Split(strings.SplitN(w.url(alice, "demo"), "/", 4)[3], "/")}
		for i := 0; i < len(c.updates); i += 2 {
			p.Updates = append(p.Updates, host.RefUpdate{Ref: c.updates[i], New: c.updates[i+1]})
		}
		if err := w.reconciler.unknownPulls(t.Context(), p, checked{refs: refs}); err != nil || p.Author != c.want {
			t.Errorf("%v: the author is %q, want %q; %v", c.updates, p.Author, c.want, err)
		}
	}
}

// TestEditsOfALargeFile shows that a maintainer may edit a line of a large file and push, again
// and again, with thin packs, while the disk stays level. The same packs for events that are
// not here are refused. With TALON_TEST_SCALE the file has 40 MB, for which the limits are
// made. Without it, file and limits are a twentieth of that.
func TestEditsOfALargeFile(t *testing.T) {
	testkit.SkipRace(t)
	size, edits := 2<<20, 5
	options, limits := gitrepo.DefaultOptions, githttp.DefaultLimits
	if os.Getenv("TALON_TEST_SCALE") != "" {
		size, edits = 40_000_000, 20
	} else {
		options.RepackBytes /= 20
		limits.ThinEarly.Free /= 20
		limits.Thin /= 20
	}
	w := newWorldOf(t, options, limits)
	work := w.workspace()
	lines, random := make([]string, size/65), rand.NewChaCha8([32]byte{})
	for i := range lines {
		var raw [32]byte
		_, _ = random.Read(raw[:])
		lines[i] = hex.EncodeToString(raw[:])
	}
	commit := func(n int) string {
		t.Helper()
		lines[n*len(lines)/edits] = fmt.Sprint("edit ", n)
		w.must(os.WriteFile(filepath.Join(work.dir, "large"), []byte(strings.Join(lines, "\n")), 0o644))
		return work.commit(fmt.Sprint("edit ", n))
	}
	w.sent(w.announce(alice, "demo"), host.Held)
	repo, err := w.disk.repo(demo(alice))
	w.must(err)
	stored := func() int64 {
		t.Helper()
		own, shared, err := repo.Size()
		w.must(err)
		return own + shared
	}
	first := int64(0)
	for n := range edits {
		tip := commit(n)
		w.send(w.state(alice, "demo", "HEAD", "ref: refs/heads/main", "refs/heads/main", tip))
		work.git("push", "-q", w.url(alice, "demo"), "main")
		w.wantRefs(demo(alice), "HEAD=refs/heads/main", "refs/heads/main="+tip)
		w.waitIdle()
		if n == 0 {
			first = stored()
		}
	}
	if now := stored(); now > 2*first {
		t.Errorf("after %d edits the repository has %d bytes, and had %d", edits, now, first)
	}

	before := stored()
	lines[1] = "an edit of a stranger"
	commit(0)
	ref := "main:" + nostrRefs + host.ID{7}.String()
	if out, err := work.try("push", w.url(alice, "demo"), ref); err == nil || !strings.Contains(out, gitrepo.NoThin) {
		t.Errorf("a thin pack for an event that is not here: %v\n%s", err, out)
	}
	if now := stored(); now > before+1<<20 {
		t.Errorf("a pack that is refused makes the repository grow from %d to %d", before, now)
	}
	work.git("push", "-q", w.url(alice, "demo"), ref)
}
