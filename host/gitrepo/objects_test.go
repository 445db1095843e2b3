package gitrepo

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestLook: the indexes of packs give the same answers as git, wherever the objects are.
func TestLook(t *testing.T) {
	for _, format := range []Format{SHA1, SHA256} {
		root := newRoot(t)
		r := newRepo(t, root, alice, "x", format)
		dir, first, second := work(t, format)
		ids := strings.Fields(git(t, dir, "cat-file", "--batch-all-objects", "--batch-check=%(objectname)"))
		ids = append(ids, strings.Repeat("0", len(first)), strings.Repeat("f", len(first)), strings.Repeat("0", 104-len(first)),
			first[:39]+"0", "HEAD", "", first[:20], strings.ToUpper(second))
		same := func(what string, all int) {
			t.Helper()
			found, ok := r.hasNative(ids)
			if !ok {
				t.Fatalf("%s: it cannot say", what)
			}
			root.batches.closeIdle(r.dir)
			for i, id := range ids {
				answer, err := r.ask(t.Context(), []string{id})
				if err != nil {
					t.Fatal(err)
				}
				if want := IsID(id) && answer[0] == id; found[i] != want {
					t.Errorf("%s: %s is there: %t; git says %t", what, id, found[i], want)
				}
				if found[i] {
					all--
				}
			}
			if all != 0 {
				t.Errorf("%s: %d objects too few", what, all)
			}
		}
		objects := len(ids) - 8
		same("empty", 0)
		git(t, dir, "push", "-q", r.Dir(), "main~:refs/heads/main")
		same("a pack", 3)
		git(t, dir, "push", "-q", r.Dir(), "main", "v1")
		same("two packs", objects)
		locked(t, r, func() {
			if err := r.Share(t.Context()); err != nil {
				t.Fatal(err)
			}
		})
		same("shared", objects)
		if err := root.Collect(t.Context(), "x", format, 0); err != nil {
			t.Fatal(err)
		}
		same("collected", objects)
		git(t, r.Dir(), "repack", "-a", "-d", "-q")
		same("repacked", objects)
		loose := filepath.Join(t.TempDir(), "loose")
		if err := os.WriteFile(loose, []byte("a file of its own"), 0o644); err != nil {
			t.Fatal(err)
		}
		ids = append(ids, git(t, r.Dir(), "hash-object", "-w", loose))
		same("a single object", objects+1)
	}
}

// An index that is damaged, or whose pack has gone, is left to git, and ends nothing.
func TestLookAtDamage(t *testing.T) {
	r := newRepo(t, newRoot(t), alice, "x", SHA1)
	dir, first, second := work(t, SHA1)
	git(t, dir, "push", "-q", r.Dir(), "main")
	list, err := filepath.Glob(filepath.Join(r.Dir(), "objects", "pack", "*.idx"))
	if err != nil || len(list) != 1 {
		t.Fatal(list, err)
	}
	whole, err := os.ReadFile(list[0])
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(list[0], 0o644); err != nil {
		t.Fatal(err)
	}
	huge := slices.Clone(whole)
	for i := 8; i < 8+1024; i++ {
		huge[i] = 0xff
	}
	for what, text := range map[string][]byte{"empty": nil, "cut": whole[:500], "cut later": whole[:1040], "version 1": whole[8:], "huge counts": huge} {
		if err := os.WriteFile(list[0], text, 0o644); err != nil {
			t.Fatal(err)
		}
		if found, ok := r.hasNative([]string{first, second}); ok && slices.Contains(found, true) {
			t.Errorf("%s: it finds %v", what, found)
		}
		r.batches.closeIdle(r.dir)
		if _, err := r.Has(t.Context(), first, second); err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
	if err := os.WriteFile(list[0], whole, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(strings.TrimSuffix(list[0], ".idx") + ".pack"); err != nil {
		t.Fatal(err)
	}
	r.batches.closeIdle(r.dir)
	if found, err := r.Has(t.Context(), first); err != nil || found[0] {
		t.Errorf("without the pack: %v, %v", found, err)
	}
}

// TestTemplate: a copy of a template equals a repository that git init makes.
func TestTemplate(t *testing.T) {
	for _, format := range []Format{SHA1, SHA256} {
		root := newRoot(t)
		newRepo(t, root, alice, "first", format)
		r := newRepo(t, root, alice, "second", format)
		plain := filepath.Join(t.TempDir(), "plain.git")
		git(t, ".", "init", "-q", "--bare", "--template=", "-b", "main", "--object-format="+format.String(), plain)
		if err := appendFile(filepath.Join(plain, "config"), configText(root.git.config)); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(plain, "objects", "info", "alternates"),
			[]byte("../../../.shared/"+format.String()+"/second.git/objects\n"), 0o644); err != nil {
			t.Fatal(err)
		}
		want, err := readTemplate(plain)
		if err != nil {
			t.Fatal(err)
		}
		got, err := readTemplate(r.Dir())
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(got.dirs, want.dirs) || len(got.files) != len(want.files) {
			t.Errorf("it has %v and %d files, want %v and %d", got.dirs, len(got.files), want.dirs, len(want.files))
		}
		for name, text := range want.files {
			if got.files[name] != text {
				t.Errorf("%s is\n%s\nwant\n%s", name, got.files[name], text)
			}
		}
		fsck(t, r)
	}
}
