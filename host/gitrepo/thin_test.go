package gitrepo

import (
	"bytes"
	"crypto/sha1"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"talon/host"
	"talon/internal/testkit"
)

// noise returns text that shrinks little: half of its length at least.
func noise(n int, seed uint64) []byte {
	random := rand.NewChaCha8([32]byte{byte(seed)})
	raw := make([]byte, n/2)
	_, _ = random.Read(raw)
	return fmt.Appendf(nil, "%x", raw)
}

// write writes a file and commits it.
func write(t testing.TB, dir, file string, content []byte) string {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, file), content, 0o644); err != nil {
		t.Fatal(err)
	}
	git(t, dir, "add", ".")
	git(t, dir, "commit", "-q", "-m", file)
	return git(t, dir, "rev-parse", "HEAD")
}

// pushThin is push of a pack that git may append to within a limit.
func pushThin(t testing.TB, r *Repo, pack []byte, limit ThinLimit, u host.RefUpdate) (stored, completed int64, err error) {
	t.Helper()
	q, err := r.Receive(t.Context(), []host.RefUpdate{u})
	if err != nil {
		t.Fatal(err)
	}
	defer q.Remove()
	if err := bringWithin(t, q, pack, limit); err != nil {
		return 0, 0, err
	}
	stored, completed = q.Stored()
	if err := q.Check(t.Context()); err != nil {
		t.Fatal(err)
	}
	locked(t, r, func() { _, err = q.ApplyRefs(t.Context()) })
	return stored, completed, err
}

// TestThinLimit shows that git appends to a thin pack what it may, whether one base is large
// or many are small. A full pack needs no limit. make test has SHA-1 alone.
func TestThinLimit(t *testing.T) {
	testkit.SkipRace(t)
	for _, format := range []Format{SHA1, SHA256}[:testkit.Sized(1, 2)] {
		root := newRoot(t)
		r := newRepo(t, root, alice, "x", format)
		dir, _, _ := work(t, format)
		const large, small, many = 1 << 20, 64 << 10, 16
		one := noise(large, 1)
		write(t, dir, "one", one)
		for i := range many {
			if err := os.WriteFile(filepath.Join(dir, fmt.Sprint("many", i)), noise(small, uint64(i+2)), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		base := testkit.Commit(t, dir, "many")
		landed(t, r, dir, host.RefUpdate{Ref: "refs/heads/main", Old: strings.Repeat("0", len(base)), New: base})

		git(t, dir, "checkout", "-q", "-b", "large")
		write(t, dir, "one", append(one, "an edit\n"...))
		git(t, dir, "checkout", "-q", "-b", "small", "main")
		for i := range many {
			path := filepath.Join(dir, fmt.Sprint("many", i))
			if err := os.WriteFile(path, append(noise(small, uint64(i+2)), "an edit\n"...), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		testkit.Commit(t, dir, "edit many")
		for branch, appends := range map[string]int64{"large": large / 2, "small": many * small / 2} {
			tip := git(t, dir, "rev-parse", branch)
			update := host.RefUpdate{Ref: "refs/heads/" + branch, Old: strings.Repeat("0", len(base)), New: tip}
			thin := packOf(t, dir, tip, "^"+base)
			for _, limit := range []ThinLimit{{}, {Free: appends / 2}, {Free: 1 << 10, Times: 10}} {
				_, _, err := pushThin(t, r, thin, limit, update)
				refused := (*Refused)(nil)
				if !errors.As(err, &refused) || !strings.HasPrefix(refused.Reason, NoThin) {
					t.Errorf("%s %s: a pack of %d bytes within %v: %v", format, branch, len(thin), limit, err)
				}
				if left := quarantines(t, root); len(left) > 0 {
					t.Errorf("%s %s: it leaves %v", format, branch, left)
				}
			}
			stored, completed, err := pushThin(t, r, thin, ThinLimit{Free: 2 * appends}, update)
			if err != nil || completed < appends || stored < completed+int64(len(thin)) {
				t.Errorf("%s %s: git appended %d to %d bytes, and stored %d: %v", format, branch, completed, len(thin), stored, err)
			}
		}
		fsck(t, r)

		// The index of small objects is longer than their pack.
		git(t, dir, "checkout", "-q", "-b", "tiny", "main")
		for i := range 500 {
			if err := os.WriteFile(filepath.Join(dir, fmt.Sprint("tiny", i)), fmt.Append(nil, i), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		tip := testkit.Commit(t, dir, "tiny")
		full := packOf(t, dir, tip)
		update := host.RefUpdate{Ref: "refs/heads/tiny", Old: strings.Repeat("0", len(base)), New: tip}
		if _, completed, err := pushThin(t, r, full, ThinLimit{}, update); err != nil || completed != 0 {
			t.Errorf("%s: a pack that is not thin: git appended %d: %v", format, completed, err)
		}
		fsck(t, r)
	}
}

// TestThinLimitStopsGit shows that git does not write much more than it may: the server waits
// for no end of it.
func TestThinLimitStopsGit(t *testing.T) {
	testkit.SkipRace(t)
	root := newRoot(t)
	r := newRepo(t, root, alice, "x", SHA1)
	dir, _, _ := work(t, SHA1)
	one := noise(8<<20, 1)
	base := write(t, dir, "one", one)
	landed(t, r, dir, host.RefUpdate{Ref: "refs/heads/main", Old: strings.Repeat("0", 40), New: base})
	tip := write(t, dir, "one", append(one, "an edit\n"...))
	q, err := r.Receive(t.Context(), []host.RefUpdate{{Ref: "refs/heads/main", Old: base, New: tip}})
	if err != nil {
		t.Fatal(err)
	}
	defer q.Remove()
	if err := bringWithin(t, q, packOf(t, dir, tip, "^"+base), ThinLimit{Free: 1 << 20}); err == nil {
		t.Fatal("a pack that git appends 4 MiB to is taken")
	}
	size, err := diskUse(q.dir)
	if err != nil || size > 3<<19 {
		t.Errorf("git wrote %d bytes, and may append %d: %v", size, 1<<20, err)
	}
}

// repackable pushes edits of a large file as thin packs, and returns what is on disk.
func repackable(t testing.TB, edits int) (r *Repo, dir string, content []byte) {
	t.Helper()
	root := newRoot(t)
	root.git.options.RepackBytes = 1 << 20
	r = newRepo(t, root, alice, "x", SHA1)
	dir, _, _ = work(t, SHA1)
	content = noise(2<<20, 1)
	old := write(t, dir, "one", content)
	landed(t, r, dir, host.RefUpdate{Ref: "refs/heads/main", Old: strings.Repeat("0", 40), New: old})
	for i := range edits {
		content = append(content, fmt.Sprintln("edit", i)...)
		tip := write(t, dir, "one", content)
		if err := push(t, r, packOf(t, dir, tip, "^"+old), host.RefUpdate{Ref: "refs/heads/main", Old: old, New: tip}); err != nil {
			t.Fatal(err)
		}
		old = tip
	}
	return r, dir, content
}

// TestRepack shows that a repack removes the copies that git appended, and nothing else. Pushes
// that were checked before it land after it.
func TestRepack(t *testing.T) {
	r, dir, content := repackable(t, 3)
	if !r.NeedsRepack() {
		t.Fatal("three copies of a large file need no repack")
	}
	_, before, err := r.Size()
	if err != nil {
		t.Fatal(err)
	}
	old := git(t, dir, "rev-parse", "main")
	tip := write(t, dir, "one", append(content, "one more\n"...))
	update := host.RefUpdate{Ref: "refs/heads/main", Old: old, New: tip}
	q, err := r.Receive(t.Context(), []host.RefUpdate{update})
	if err != nil {
		t.Fatal(err)
	}
	defer q.Remove()
	if err := bring(t, q, packOf(t, dir, tip, "^"+old)); err != nil {
		t.Fatal(err)
	}
	if err := q.Check(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := r.Repack(t.Context()); err != nil {
		t.Fatal(err)
	}
	_, after, err := r.Size()
	if err != nil || after > before/2 || r.NeedsRepack() {
		t.Errorf("the store has %d bytes, and had %d: %v", after, before, err)
	}
	locked(t, r, func() { _, err = q.ApplyRefs(t.Context()) })
	if err != nil {
		t.Error(err)
	}
	fsck(t, r)
	if got := git(t, r.Dir(), "rev-list", "--count", "main"); got != git(t, dir, "rev-list", "--count", "main") {
		t.Errorf("%s commits are here", got)
	}
	// The next one finds one more copy.
	if err := r.Repack(t.Context()); err != nil {
		t.Fatal(err)
	}
	s, _, err := r.shared()
	if err != nil || packs(t, s.dir) != 1 {
		t.Errorf("%d packs are left, %v", packs(t, s.dir), err)
	}
	git(t, r.Dir(), "fsck", "--strict")
	if left := quarantines(t, r.root); len(left) != 1 { // that of q
		t.Errorf("it leaves %v", left)
	}
}

// TestCopyOfThinPack shows that what a copy between repositories appends is removed as well.
func TestCopyOfThinPack(t *testing.T) {
	r, dir, content := repackable(t, 0)
	other := newRepo(t, r.root, bob, "y", SHA1)
	tip := write(t, dir, "one", append(content, "an edit\n"...))
	landed(t, other, dir, host.RefUpdate{Ref: "refs/heads/main", Old: strings.Repeat("0", 40), New: tip})
	locked(t, r, func() {
		if err := r.Copy(t.Context(), other, tip); err != nil {
			t.Fatal(err)
		}
		if err := r.Share(t.Context()); err != nil {
			t.Fatal(err)
		}
	})
	_, before, err := r.Size()
	if err != nil || !r.NeedsRepack() {
		t.Fatalf("a copy of %d bytes needs no repack: %v", before, err)
	}
	if err := r.Repack(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, after, err := r.Size(); err != nil || after > before*2/3 {
		t.Errorf("the store has %d bytes, and had %d: %v", after, before, err)
	}
	fsck(t, r)
}

// TestRepackOfManyBases shows that a repack takes from old packs what they have as deltas: one
// thin pack of a few hundred bytes makes git append each version of a large file as a whole.
func TestRepackOfManyBases(t *testing.T) {
	testkit.SkipRace(t)
	const versions = 6
	r, dir, _ := repackable(t, versions)
	if err := r.Repack(t.Context()); err != nil {
		t.Fatal(err)
	}
	_, before, err := r.Size()
	if err != nil {
		t.Fatal(err)
	}
	old := git(t, dir, "rev-parse", "main")
	var deltas [][2][]byte // the id of a base, and the delta of it
	for i := range versions {
		cmd := testkit.GitCommand(t.Context(), dir, "cat-file", "blob", fmt.Sprintf("main~%d:one", i))
		base, err := cmd.Output()
		if err != nil {
			t.Fatal(err)
		}
		id := blobID(string(base))
		text := []byte(fmt.Sprint("more", i))
		delta := binary.AppendUvarint(binary.AppendUvarint(nil, uint64(len(base))), uint64(len(base)+len(text)))
		delta = append(delta, 0xf0, byte(len(base)), byte(len(base)>>8), byte(len(base)>>16))
		deltas = append(deltas, [2][]byte{id[:], append(append(delta, byte(len(text))), text...)})
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprint("version", i)), append(base, text...), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	tip := testkit.Commit(t, dir, "versions")
	w := newPack(versions + 3)
	for _, d := range deltas {
		w.object(objIDDelta, len(d[1]), d[0], d[1])
	}
	kinds := map[string]byte{"commit": 1, "tree": 2, "blob": 3}
	for name, kind := range map[string]string{tip: "commit", tip + "^{tree}": "tree", tip + ":file": "blob"} {
		content, err := testkit.GitCommand(t.Context(), dir, "cat-file", kind, name).Output()
		if err != nil {
			t.Fatal(err)
		}
		w.object(kinds[kind], len(content), nil, content)
	}
	sum := sha1.Sum(w.Bytes())
	pack := append(w.Bytes(), sum[:]...)
	if err := push(t, r, pack, host.RefUpdate{Ref: "refs/heads/main", Old: old, New: tip}); err != nil {
		t.Fatal(err)
	}
	_, grown, err := r.Size()
	if err != nil || grown < before+versions<<20 {
		t.Fatalf("a pack of %d bytes makes the store grow from %d to %d: %v", len(pack), before, grown, err)
	}
	if !r.NeedsRepack() {
		t.Error("it needs no repack")
	}
	if err := r.Repack(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, after, err := r.Size(); err != nil || after > before+before/8 {
		t.Errorf("the store has %d bytes after the repack, and had %d before the push: %v", after, before, err)
	}
	git(t, r.Dir(), "fsck", "--strict")
}

// TestRepackAfterMaintenance shows that a repack which comes late puts nothing in the place of
// what maintenance has made, and that maintenance leaves nothing to repack.
func TestRepackAfterMaintenance(t *testing.T) {
	testkit.SkipRace(t)
	r, _, _ := repackable(t, 2)
	s, _, err := r.shared()
	if err != nil {
		t.Fatal(err)
	}
	old, err := s.packs()
	if err != nil || len(old) != 3 {
		t.Fatalf("%d packs: %v", len(old), err)
	}
	if err := r.root.Collect(t.Context(), "x", SHA1, 0); err != nil {
		t.Fatal(err)
	}
	if r.NeedsRepack() {
		t.Error("maintenance leaves copies to a repack")
	}
	now, err := s.packs()
	if err != nil {
		t.Fatal(err)
	}
	if containsAll(now, old) {
		t.Errorf("maintenance keeps %v", old)
	}
	if err := r.Repack(t.Context()); err != nil {
		t.Error(err)
	}
	if again, err := s.packs(); err != nil || !slices.Equal(again, now) {
		t.Errorf("the packs are %v, and were %v: %v", again, now, err)
	}
	fsck(t, r)
}

// TestFewCopiesAreNotRepacked shows that a push which costs little has no repack.
func TestFewCopiesAreNotRepacked(t *testing.T) {
	r, dir, _ := repackable(t, 0)
	old := git(t, dir, "rev-parse", "main")
	tip := testkit.Commit(t, dir, "more")
	if err := push(t, r, packOf(t, dir, tip, "^"+old), host.RefUpdate{Ref: "refs/heads/main", Old: old, New: tip}); err != nil {
		t.Fatal(err)
	}
	if r.NeedsRepack() {
		t.Error("a small push needs a repack")
	}
}

// TestSmallPacks shows which packs are combined where there are many: no large one is copied for
// a few small ones.
func TestSmallPacks(t *testing.T) {
	for _, c := range []struct{ sizes, want []int64 }{
		{nil, nil},
		{[]int64{5}, nil},
		{[]int64{5, 5, 5}, []int64{5, 5, 5}},
		{[]int64{1000, 5, 6, 5}, []int64{5, 6, 5}},
		{[]int64{1000, 10, 5, 6, 5}, []int64{10, 5, 6, 5}},
		{[]int64{1000, 99, 5}, nil},
		{[]int64{1000, 999, 5}, []int64{1000, 999, 5}},
		{[]int64{999, 5, 995}, []int64{999, 5, 995}},
	} {
		var packs []packFile
		for i, size := range c.sizes {
			packs = append(packs, packFile{size: size, at: time.Unix(int64(i), 0)})
		}
		var got []int64
		for _, p := range smallPacks(packs) {
			got = append(got, p.size)
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("of %v, %v are combined, want %v", c.sizes, got, c.want)
		}
	}
}

// TestManyPacksAreRepacked shows that many pushes leave few packs.
func TestManyPacksAreRepacked(t *testing.T) {
	testkit.SkipRace(t)
	root := newRoot(t)
	r := newRepo(t, root, alice, "x", SHA1)
	dir, first, _ := work(t, SHA1)
	landed(t, r, dir, host.RefUpdate{Ref: "refs/heads/main", Old: strings.Repeat("0", 40), New: first})
	s, _, err := r.shared()
	if err != nil {
		t.Fatal(err)
	}
	// Each pack has one blob, which nothing reaches.
	for i := range maxPacks {
		w := newPack(1)
		content := fmt.Append(nil, i)
		w.object(3, len(content), nil, content)
		sum := sha1.Sum(w.Bytes())
		cmd := testkit.GitCommand(t.Context(), s.dir, "index-pack", "--stdin")
		cmd.Stdin = bytes.NewReader(append(w.Bytes(), sum[:]...))
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatal(err, string(out))
		}
	}
	if !r.NeedsRepack() {
		t.Errorf("%d packs need no repack", packs(t, s.dir))
	}
	if err := r.Repack(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := packs(t, s.dir); n > 2 || r.NeedsRepack() {
		t.Errorf("%d packs are left", n)
	}
	last := blobID(fmt.Sprint(maxPacks - 1))
	if there, err := r.Has(t.Context(), hex.EncodeToString(last[:])); err != nil || !there[0] {
		t.Errorf("the last blob is there: %v, %v", there, err)
	}
	fsck(t, r)
}

// TestFetchOfThinPack shows that git appends to a fetched pack what it may, and that the caller
// knows how much, and may refuse it.
func TestFetchOfThinPack(t *testing.T) {
	root := newRoot(t)
	r := newRepo(t, root, alice, "project", SHA1)
	dir, _, _ := work(t, SHA1)
	content := noise(1<<20, 1)
	base := write(t, dir, "one", content)
	landed(t, r, dir, host.RefUpdate{Ref: "refs/heads/main", Old: strings.Repeat("0", 40), New: base})
	tip := write(t, dir, "one", append(content, "an edit\n"...))
	url := served(t, dir)
	const sent, appended = 4 << 10, 1 << 19
	full := &Refused{Reason: "enough"}
	for _, c := range []struct {
		limit int64
		full  error
		ok    bool
	}{{limit: 0}, {limit: appended / 2}, {limit: 2 * appended, full: full}, {limit: 2 * appended, ok: true}} {
		completed := int64(0)
		found, err := r.Fetch(t.Context(), Source{
			URL: url, Received: func() int64 { return sent }, Thin: ThinLimit{Free: c.limit},
			Completed: func(bytes int64) error { completed = bytes; return c.full },
		}, tip)
		refused := (*Refused)(nil)
		if c.ok != (err == nil) || c.ok != (len(found) == 1) || c.ok && completed < appended || !c.ok && !errors.As(err, &refused) {
			t.Errorf("git may append %d: it found %v, and appended %d: %v", c.limit, found, completed, err)
		}
		if there, err := r.Has(t.Context(), tip); err != nil || there[0] != c.ok {
			t.Errorf("git may append %d: the commit is there: %v, %v", c.limit, there, err)
		}
		clean(t, root)
	}
}
