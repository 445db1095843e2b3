package gitrepo

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"talon/host"
	"talon/internal/testkit"
)

// packOf returns a pack of what the objects reach and the others do not.
func packOf(t testing.TB, dir string, args ...string) []byte {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "git", "pack-objects", "--revs", "--thin", "--stdout", "-q")
	cmd.Dir = dir
	cmd.Stdin = strings.NewReader(strings.Join(args, "\n") + "\n")
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// bring puts a pack into a quarantine.
func bring(t testing.TB, q *Incoming, pack []byte) error {
	t.Helper()
	return bringWithin(t, q, pack, NoThinLimit)
}

// bringWithin is bring within a limit for thin packs.
func bringWithin(t testing.TB, q *Incoming, pack []byte, limit ThinLimit) error {
	t.Helper()
	p, err := q.Index(t.Context(), nil, limit)
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		_, _ = p.In.Write(pack)
		_ = p.In.Close()
	}()
	_, _ = io.Copy(io.Discard, p.Out)
	return q.Indexed(p)
}

// push does a push as githttp does.
func push(t testing.TB, r *Repo, pack []byte, updates ...host.RefUpdate) error {
	t.Helper()
	q, err := r.Receive(t.Context(), updates)
	if err != nil {
		return err
	}
	defer q.Remove()
	if pack != nil {
		if err := bring(t, q, pack); err != nil {
			return err
		}
	}
	if err := q.Check(t.Context()); err != nil {
		return err
	}
	locked(t, r, func() { _, err = q.ApplyRefs(t.Context()) })
	return err
}

// landed pushes what a folder has.
func landed(t testing.TB, r *Repo, dir string, updates ...host.RefUpdate) {
	t.Helper()
	var want []string
	for _, u := range updates {
		if !IsZero(u.New) {
			want = append(want, u.New)
		}
	}
	var pack []byte
	if len(want) > 0 {
		pack = packOf(t, dir, want...)
	}
	if err := push(t, r, pack, updates...); err != nil {
		t.Fatal(err)
	}
}

func quarantines(t testing.TB, root *Root) []string {
	t.Helper()
	left, err := filepath.Glob(filepath.Join(root.dir, trashDir, "*"))
	if err != nil {
		t.Fatal(err)
	}
	return left
}

// TestLand pushes thin packs, tags, empty packs, deletions, and refs that make room for others.
func TestLand(t *testing.T) {
	for _, format := range []Format{SHA1, SHA256} {
		t.Run(format.String(), func(t *testing.T) {
			root := newRoot(t)
			r := newRepo(t, root, alice, "x", format)
			dir, first, second := work(t, format)
			zero := strings.Repeat("0", len(first))
			tag := git(t, dir, "rev-parse", "v1")
			refs := func(want ...string) {
				t.Helper()
				got, err := r.Refs(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				var list []string
				for _, ref := range got.List {
					list = append(list, ref.Name+" "+ref.ID)
				}
				if !slices.Equal(list, want) {
					t.Errorf("the refs are %q, want %q", list, want)
				}
				fsck(t, r)
				if left := quarantines(t, root); len(left) > 0 {
					t.Errorf("it leaves %v", left)
				}
			}
			do := func(pack []byte, updates ...host.RefUpdate) {
				t.Helper()
				if err := push(t, r, pack, updates...); err != nil {
					t.Fatal(err)
				}
			}
			main := func(old, new string) host.RefUpdate {
				return host.RefUpdate{Ref: "refs/heads/main", Old: old, New: new}
			}

			do(packOf(t, dir, first), main(zero, first))
			refs("refs/heads/main " + first)
			big := strings.Repeat("a line that is there twice\n", 2000)
			if err := os.WriteFile(filepath.Join(dir, "big"), []byte(big), 0o644); err != nil {
				t.Fatal(err)
			}
			third := testkit.Commit(t, dir, "big")
			do(packOf(t, dir, third, "^"+first), main(first, third))
			if err := os.WriteFile(filepath.Join(dir, "big"), []byte(big+"and one more\n"), 0o644); err != nil {
				t.Fatal(err)
			}
			git(t, dir, "commit", "-q", "-a", "-m", "bigger")
			fourth := git(t, dir, "rev-parse", "HEAD")
			thin := packOf(t, dir, fourth, "^"+third)
			do(thin, main(third, fourth), host.RefUpdate{Ref: "refs/tags/v0", Old: zero, New: third})
			refs("refs/heads/main "+fourth, "refs/tags/v0 "+third)
			s, _, err := r.shared()
			if err != nil || packs(t, r.Dir()) != 0 || packs(t, s.dir) != 3 {
				t.Errorf("%d packs here and %d shared, %v", packs(t, r.Dir()), packs(t, s.dir), err)
			}

			do(packOf(t, dir, tag, "^"+fourth), host.RefUpdate{Ref: "refs/tags/v1", Old: zero, New: tag})
			// No pack: what is there already, though no ref is it.
			do(nil, host.RefUpdate{Ref: "refs/heads/old", Old: zero, New: second}, host.RefUpdate{Ref: "refs/tags/v0", Old: third, New: zero})
			refs("refs/heads/main "+fourth, "refs/heads/old "+second, "refs/tags/v1 "+tag)
			do(nil, host.RefUpdate{Ref: "refs/heads/old", Old: second, New: zero}, host.RefUpdate{Ref: "refs/tags/v1", Old: tag, New: zero})
			refs("refs/heads/main " + fourth)
			// A file becomes a folder, and a folder a file.
			do(nil, main(fourth, zero), host.RefUpdate{Ref: "refs/heads/main/a", Old: zero, New: fourth})
			refs("refs/heads/main/a " + fourth)
			do(nil, main(zero, first), host.RefUpdate{Ref: "refs/heads/main/a", Old: fourth, New: zero})
			refs("refs/heads/main " + first)
		})
	}
}

// TestRefusedPushes: each push is refused with a reason, and nothing of it stays.
func TestRefusedPushes(t *testing.T) {
	root := newRoot(t)
	r := newRepo(t, root, alice, "x", SHA1)
	dir, first, second := work(t, SHA1)
	zero, absent := strings.Repeat("0", 40), strings.Repeat("ab", 20)
	blob := git(t, dir, "rev-parse", "HEAD:file")
	whole := packOf(t, dir, second)
	landed(t, r, dir,
		host.RefUpdate{Ref: "refs/heads/main", Old: zero, New: first}, host.RefUpdate{Ref: "refs/heads/b/c", Old: zero, New: first},
		host.RefUpdate{Ref: "refs/heads/d", Old: zero, New: first})
	// A delta of something that only the client has.
	text := strings.Repeat("a line that is there twice\n", 2000)
	for i := range 2 {
		if err := os.WriteFile(filepath.Join(dir, "big"), []byte(text+strings.Repeat("x", i)), 0o644); err != nil {
			t.Fatal(err)
		}
		testkit.Commit(t, dir, "big")
	}
	third := git(t, dir, "rev-parse", "HEAD")
	thin := packOf(t, dir, third, "^"+git(t, dir, "rev-parse", "HEAD~"))
	git(t, dir, "commit", "-q", "--allow-empty", "-m", "more")
	fourth := git(t, dir, "rev-parse", "HEAD")
	damaged := slices.Clone(whole)
	damaged[len(damaged)-1] ^= 1
	updates := func(list ...string) (all []host.RefUpdate) {
		for i := 0; i < len(list); i += 3 {
			all = append(all, host.RefUpdate{Ref: "refs/heads/" + list[i], Old: list[i+1], New: list[i+2]})
		}
		return all
	}
	before, err := r.Refs(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		pack    []byte
		updates []host.RefUpdate
		reason  string // of the whole or the last ref
	}{
		"a missing base":      {thin, updates("new", zero, third), "pack has 1 unresolved delta"},
		"missing commits":     {packOf(t, dir, fourth, "^"+third), updates("new", zero, fourth), "did not receive expected object"},
		"another object":      {whole, updates("new", zero, absent), "missing necessary objects"},
		"no pack":             {nil, updates("new", zero, absent), "missing necessary objects"},
		"a trailer":           {damaged, updates("new", zero, second), "pack is corrupted (SHA1 mismatch)"},
		"half a pack":         {whole[:len(whole)/2], updates("new", zero, second), "early EOF"},
		"it exists":           {whole, updates("new", zero, second, "main", zero, second), "there already"},
		"it is absent":        {whole, updates("new", zero, second, "gone", first, second), "not there any more"},
		"it is not deleted":   {nil, updates("main", first, zero, "d", second, zero), "has moved"},
		"it is there by now":  {nil, updates("main", first, zero, "d", zero, zero), "there already"},
		"it has moved":        {whole, updates("new", zero, second, "main", second, second), "has moved"},
		"below a ref":         {whole, updates("new", zero, second, "main/x", zero, second), "conflicts with refs/heads/main"},
		"above a ref":         {whole, updates("new", zero, second, "b", zero, second), "conflicts with refs/heads/b/c"},
		"both are new":        {whole, updates("new/x", zero, second, "new", zero, second), "conflicts with refs/heads/new/x"},
		"it is no commit":     {whole, updates("new", zero, second, "blob", zero, blob), "non-commit object"},
		"nothing is deleted":  {whole, updates("d", first, zero, "d/blob", zero, blob), "non-commit object"},
		"of the other format": {whole, updates("new", strings.Repeat("0", 64), strings.Repeat("ab", 32)), "by sha1"},
	} {
		err := push(t, r, c.pack, c.updates...)
		refused := new(Refused)
		if !errors.As(err, &refused) {
			t.Errorf("%s: %v", name, err)
			continue
		}
		reason := refused.Refs[c.updates[len(c.updates)-1].Ref]
		if !strings.Contains(refused.Reason+reason, c.reason) || strings.Contains(refused.Reason, root.dir) {
			t.Errorf("%s: it says %q, %v", name, refused.Reason, refused.Refs)
		}
		if now, err := r.Refs(t.Context()); err != nil || !slices.Equal(now.List, before.List) {
			t.Errorf("%s: the refs are %v, %v", name, now.List, err)
		}
		if left := quarantines(t, root); len(left) > 0 {
			t.Errorf("%s: it leaves %v", name, left)
		}
	}
	fsck(t, r)
	landed(t, r, dir, host.RefUpdate{Ref: "refs/heads/main", Old: first, New: third})
}

// TestLandInPlace: a ref that already has its new value is accepted with any old value. The
// other refs of the push change, and the caller learns which were in place.
func TestLandInPlace(t *testing.T) {
	r := newRepo(t, newRoot(t), alice, "x", SHA1)
	dir, first, second := work(t, SHA1)
	zero := strings.Repeat("0", 40)
	landed(t, r, dir,
		host.RefUpdate{Ref: "refs/heads/main", Old: zero, New: first}, host.RefUpdate{Ref: "refs/heads/d", Old: zero, New: first})
	inPlace := []host.RefUpdate{
		{Ref: "refs/heads/a", Old: zero, New: zero},     // what libgit2 sends for a branch that is not there
		{Ref: "refs/heads/b", Old: first, New: zero},    // it was there when the client looked
		{Ref: "refs/heads/main", Old: zero, New: first}, // somebody else made it
	}
	for _, more := range [][]host.RefUpdate{{{Ref: "refs/heads/d", Old: first, New: second}}, nil} {
		q, err := r.Receive(t.Context(), slices.Concat(inPlace, more))
		if err != nil {
			t.Fatal(err)
		}
		defer q.Remove()
		if more != nil {
			if err := bring(t, q, packOf(t, dir, second)); err != nil {
				t.Fatal(err)
			}
		}
		if err := q.Check(t.Context()); err != nil {
			t.Fatal(err)
		}
		var got []host.RefUpdate
		locked(t, r, func() { got, err = q.ApplyRefs(t.Context()) })
		if err != nil || !slices.Equal(got, inPlace) {
			t.Errorf("in place are %v, %v", got, err)
		}
		refs, err := r.Refs(t.Context())
		if err != nil || len(refs.List) != 2 || refs.List[0].ID != second || refs.List[1].ID != first {
			t.Errorf("the refs are %v, %v", refs.List, err)
		}
	}
}

// 20,000 refs are made, moved and deleted in one update, in one file.
func TestLandManyRefs(t *testing.T) {
	root := newRoot(t)
	r := newRepo(t, root, alice, "x", SHA1)
	dir, first, second := work(t, SHA1)
	pack := packOf(t, dir, second)
	before := strings.Repeat("0", 40)
	for _, id := range []string{second, first, strings.Repeat("0", 40)} {
		updates := make([]host.RefUpdate, 20_000)
		for i := range updates {
			updates[i] = host.RefUpdate{Ref: fmt.Sprintf("refs/tags/%d", i), Old: before, New: id}
		}
		began := time.Now()
		if err := push(t, r, pack, updates...); err != nil {
			t.Fatal(err)
		}
		t.Logf("20,000 refs took %v", time.Since(began))
		refs, err := r.Refs(t.Context())
		if want := map[bool]int{true: 0, false: 20_000}[IsZero(id)]; err != nil || len(refs.List) != want {
			t.Errorf("%d refs, %v", len(refs.List), err)
		}
		if loose, err := filepath.Glob(filepath.Join(r.Dir(), "refs", "tags", "*")); err != nil || len(loose) > 0 {
			t.Errorf("%d refs have a file of their own", len(loose))
		}
		before, pack = id, nil
	}
}

// Many refs that change in one update are what they are if git changes them, whether they
// had files of their own or not, and none changes if one of them cannot.
func TestUpdateManyRefs(t *testing.T) {
	for _, format := range []Format{SHA1, SHA256} {
		root := newRoot(t)
		r := newRepo(t, root, alice, "x", format)
		dir, first, second := work(t, format)
		zero := strings.Repeat("0", len(first))
		tag := git(t, dir, "rev-parse", "v1")
		landed(t, r, dir,
			host.RefUpdate{Ref: "refs/heads/main", Old: zero, New: second}, host.RefUpdate{Ref: "refs/tags/v1", Old: zero, New: tag},
			host.RefUpdate{Ref: "refs/heads/a/b", Old: zero, New: second}, host.RefUpdate{Ref: "refs/heads/packed", Old: zero, New: second})
		git(t, r.Dir(), "pack-refs", "--all")
		many := func(old, new string) (list []host.RefUpdate) {
			for i := range ManyRefs {
				list = append(list, host.RefUpdate{Ref: fmt.Sprintf("refs/nostr/%d", i), Old: old, New: new})
			}
			return list
		}
		update := func(list ...host.RefUpdate) (err error) {
			locked(t, r, func() { err = r.UpdateRefs(t.Context(), list) })
			return err
		}
		refs := func() string {
			return git(t, r.Dir(), "for-each-ref", "--format=%(refname) %(objectname) %(*objectname)")
		}
		landed(t, r, dir, host.RefUpdate{Ref: "refs/heads/packed", Old: second, New: first}, host.RefUpdate{Ref: "refs/heads/loose", Old: zero, New: first})
		if err := os.WriteFile(filepath.Join(r.Dir(), "packed-refs.lock"), nil, 0o644); err != nil {
			t.Fatal(err)
		}
		before := refs()
		for name, wrong := range map[string]host.RefUpdate{
			"it exists":        {Ref: "refs/heads/main", Old: zero, New: first},
			"it is another":    {Ref: "refs/heads/packed", Old: second, New: first},
			"it is absent":     {Ref: "refs/heads/none", Old: second, New: first},
			"a folder":         {Ref: "refs/heads/a", New: first},
			"below a file":     {Ref: "refs/heads/main/x", New: first},
			"no commit":        {Ref: "refs/heads/new", New: tag},
			"an absent object": {Ref: "refs/tags/new", New: strings.Repeat("ab", len(first)/2)},
		} {
			if err := update(append(many(zero, first), wrong)...); err == nil || refs() != before {
				t.Errorf("%s, %s: %v, and the refs are\n%s", format, name, err, refs())
			}
		}
		if err := update(append(many(zero, tag), host.RefUpdate{Ref: "refs/heads/packed", Old: first, New: zero},
			host.RefUpdate{Ref: "refs/heads/loose", Old: first, New: second}, host.RefUpdate{Ref: "refs/heads/a/b", New: zero},
			host.RefUpdate{Ref: "refs/heads/a", New: first})...); err != nil {
			t.Fatal(err)
		}
		want := []string{"refs/heads/a " + first + " ", "refs/heads/loose " + second + " ", "refs/heads/main " + second + " "}
		for _, u := range many(zero, tag) {
			want = append(want, u.Ref+" "+tag+" "+first)
		}
		want = append(want, "refs/tags/v1 "+tag+" "+first)
		slices.Sort(want)
		if got := refs(); got != strings.Join(want, "\n") {
			t.Errorf("%s: the refs are\n%s", format, got)
		}
		if entries, err := filepath.Glob(filepath.Join(r.Dir(), "refs", "*", "*")); err != nil || len(entries) > 1 { // the folder a
			t.Errorf("%s: files of their own have %v", format, entries)
		}
		text, err := os.ReadFile(filepath.Join(r.Dir(), "packed-refs"))
		if err != nil {
			t.Fatal(err)
		}
		git(t, r.Dir(), "pack-refs", "--all")
		if again, err := os.ReadFile(filepath.Join(r.Dir(), "packed-refs")); err != nil || string(again) != string(text) {
			t.Errorf("%s: git writes\n%s\nand not\n%s", format, again, text)
		}
		fsck(t, r)
		if err := update(many(tag, zero)...); err != nil || strings.Contains(refs(), "nostr") {
			t.Errorf("%s: after deletions: %v, %s", format, err, refs())
		}
	}
}

// TestCollectDuringPush: objects that a push needs go between its check and its end. The server
// looks for them again.
func TestCollectDuringPush(t *testing.T) {
	root := newRoot(t)
	r := newRepo(t, root, alice, "x", SHA1)
	dir, first, second := work(t, SHA1)
	zero := strings.Repeat("0", 40)
	main := func(old, new string) host.RefUpdate {
		return host.RefUpdate{Ref: "refs/heads/main", Old: old, New: new}
	}
	landed(t, r, dir, main(zero, first))
	for _, gone := range []bool{false, true} {
		q, err := r.Receive(t.Context(), []host.RefUpdate{{Ref: "refs/heads/new", Old: zero, New: second}})
		if err != nil {
			t.Fatal(err)
		}
		defer q.Remove()
		if err := bring(t, q, packOf(t, dir, second, "^"+first)); err != nil {
			t.Fatal(err)
		}
		if err := q.Check(t.Context()); err != nil {
			t.Fatal(err)
		}
		if gone {
			landed(t, r, dir, main(first, zero))
		}
		if err := root.Collect(t.Context(), "x", SHA1, 0); err != nil {
			t.Fatal(err)
		}
		locked(t, r, func() { _, err = q.ApplyRefs(t.Context()) })
		if refused := new(Refused); gone != errors.As(err, &refused) || !gone && err != nil {
			t.Errorf("its base is gone: %t; %v", gone, err)
		}
		fsck(t, r)
		if !gone {
			landed(t, r, dir, host.RefUpdate{Ref: "refs/heads/new", Old: second, New: zero})
			if err := root.Collect(t.Context(), "x", SHA1, 0); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// The repository goes during a push, and comes back: with what the push needs of it, it
// lands, and in another format, it does not.
func TestRemoveDuringPush(t *testing.T) {
	root := newRoot(t)
	for _, format := range []Format{SHA1, SHA256} {
		r := newRepo(t, root, alice, "to-"+format.String(), SHA1)
		dir, _, second := work(t, SHA1)
		q, err := r.Receive(t.Context(), []host.RefUpdate{{Ref: "refs/heads/main", Old: strings.Repeat("0", 40), New: second}})
		if err != nil {
			t.Fatal(err)
		}
		defer q.Remove()
		again := func() {
			locked(t, r, func() {
				if err := r.Remove(t.Context()); err != nil {
					t.Fatal(err)
				}
			})
		}
		p, err := q.Index(t.Context(), nil, NoThinLimit)
		if err != nil {
			t.Fatal(err)
		}
		again()
		if _, err := p.In.Write(packOf(t, dir, second)); err != nil {
			t.Fatal(err)
		}
		_ = p.In.Close()
		_, _ = io.Copy(io.Discard, p.Out)
		if err := errors.Join(q.Indexed(p), q.Check(t.Context())); err != nil {
			t.Fatal(err)
		}
		locked(t, r, func() {
			if _, err := q.ApplyRefs(t.Context()); !errors.Is(err, ErrNotFound) {
				t.Errorf("it lands nowhere: %v", err)
			}
			if err := r.Init(t.Context(), format); err != nil {
				t.Fatal(err)
			}
			_, err = q.ApplyRefs(t.Context())
		})
		if (err == nil) != (format == SHA1) {
			t.Errorf("the repository is one of %s now: %v", format, err)
		}
		fsck(t, r)
	}
}

// A repository of a Folder, which shares with nobody, has refs that only git reads, and
// borrows on its own account.
func TestLandInFolder(t *testing.T) {
	top := t.TempDir()
	dir, first, second := work(t, SHA1)
	git(t, top, "clone", "-q", "--bare", dir, "base.git")
	git(t, top, "init", "-q", "--bare", "-b", "main", "x.git")
	alternates := filepath.Join(top, "x.git", "objects", "info", "alternates")
	if err := os.WriteFile(alternates, []byte("../../base.git/objects\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	git(t, top, "-C", "x.git", "symbolic-ref", "refs/heads/alias", "refs/heads/main")
	folder, err := OpenFolder(newGit(t), top)
	if err != nil {
		t.Fatal(err)
	}
	defer folder.Close()
	r, err := folder.Find([]string{"x"})
	if err != nil {
		t.Fatal(err)
	}
	stale := filepath.Join(r.Dir(), "objects", incoming+"stale")
	if err := os.Mkdir(stale, 0o755); err != nil {
		t.Fatal(err)
	}
	old := time.Now().Add(-2 * staleAfter)
	if err := os.Chtimes(stale, old, old); err != nil {
		t.Fatal(err)
	}
	git(t, dir, "commit", "-q", "--allow-empty", "-m", "three")
	third := git(t, dir, "rev-parse", "HEAD")
	zero := strings.Repeat("0", 40)
	if err := push(t, r, packOf(t, dir, third, "^"+second), host.RefUpdate{Ref: "refs/heads/main", Old: zero, New: third}); err != nil {
		t.Fatal(err)
	}
	if err := push(t, r, nil, host.RefUpdate{Ref: "refs/heads/main", Old: third, New: first}); err != nil {
		t.Fatal(err)
	}
	if git(t, r.Dir(), "rev-parse", "main") != first || packs(t, r.Dir()) != 1 {
		t.Errorf("main is %s, and there are %d packs", git(t, r.Dir(), "rev-parse", "main"), packs(t, r.Dir()))
	}
	if left, err := filepath.Glob(filepath.Join(r.Dir(), "objects", "tmp_*")); err != nil || len(left) > 0 {
		t.Errorf("it leaves %v", left)
	}
}

// The server is killed in a push: after the objects have moved and before the refs change, and
// between the two changes of refs that make room for each other. All refs that were served
// before are whole. Nothing stays in the way, and the push can be repeated.
func TestKilledInPush(t *testing.T) {
	const inChild = "TALON_TEST_KILLED_IN_PUSH"
	if dir := os.Getenv(inChild); dir != "" {
		killedInPush(t, dir)
		return
	}
	for at, want := range []string{"refs/heads/main", ""} { // what is left of refs/heads/main
		top := t.TempDir()
		count, wrapper := filepath.Join(top, "count"), filepath.Join(top, "git")
		script := fmt.Sprintf(`#!/bin/sh
case " $* " in *" update-ref "*)
	echo x >> '%[1]s'
	if [ $(wc -l < '%[1]s') -gt %[2]d ]; then kill -9 $PPID; exit 1; fi;;
esac
exec git "$@"
`, count, at+1) // the first one prepares
		testkit.WriteProgram(t, wrapper, script)
		child := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestKilledInPush$", "-test.timeout=60s")
		child.Env = append(os.Environ(), inChild+"="+top, "TMPDIR="+top) // it removes nothing
		out, err := child.CombinedOutput()
		if exit := new(exec.ExitError); !errors.As(err, &exit) || exit.Success() || exit.Exited() {
			t.Fatalf("the child: %v\n%s", err, out)
		}
		root, err := Open(newGit(t), filepath.Join(top, "root"))
		if err != nil {
			t.Fatal(err)
		}
		defer root.Close()
		if left := quarantines(t, root); len(left) > 0 {
			t.Errorf("after kill %d: quarantines %v", at, left)
		}
		r := root.Repo(mustName(t, alice, "x"))
		refs, err := r.Refs(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		dir := filepath.Join(top, "work")
		first, second := git(t, dir, "rev-parse", "HEAD~"), git(t, dir, "rev-parse", "HEAD")
		old := strings.Repeat("0", 40)
		if want != "" {
			if len(refs.List) != 1 || refs.List[0] != (Ref{Name: want, ID: first}) {
				t.Errorf("after kill %d: the refs are %v", at, refs.List)
			}
			old = first
		} else if len(refs.List) != 0 {
			t.Errorf("after kill %d: the refs are %v", at, refs.List)
		}
		fsck(t, r)
		// The objects have moved.
		if found, err := r.Has(t.Context(), second); err != nil || !found[0] {
			t.Errorf("after kill %d: the objects are there: %v, %v", at, found, err)
		}
		landed(t, r, dir, host.RefUpdate{Ref: "refs/heads/main", Old: old, New: second})
		if err := root.Collect(t.Context(), "x", SHA1, 0); err != nil {
			t.Error(err)
		}
		fsck(t, r)
	}
}

// killedInPush is a server that dies in a push.
func killedInPush(t *testing.T, top string) {
	g, err := Find(t.Context(), filepath.Join(top, "git"), DefaultOptions)
	if err != nil {
		t.Fatal(err)
	}
	root, err := Open(g, filepath.Join(top, "root"))
	if err != nil {
		t.Fatal(err)
	}
	r := newRepo(t, root, alice, "x", SHA1)
	dir, first, second := work(t, SHA1)
	git(t, top, "clone", "-q", dir, "work")
	zero := strings.Repeat("0", 40)
	landed(t, r, dir, host.RefUpdate{Ref: "refs/heads/main", Old: zero, New: first})
	landed(t, r, dir, host.RefUpdate{Ref: "refs/heads/main", Old: first, New: zero}, host.RefUpdate{Ref: "refs/heads/main/x", Old: zero, New: second})
	t.Error("it lives")
}
