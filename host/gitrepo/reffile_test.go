package gitrepo

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"talon/host"
	"talon/internal/testkit"
)

// TestRefFilesAreAsGitReadsThem: reading refs from files gives the same result as git, whatever
// happened to the repository before.
func TestRefFilesAreAsGitReadsThem(t *testing.T) {
	testkit.SkipRace(t)
	for _, format := range []Format{SHA1, SHA256} {
		r := newRepo(t, newRoot(t), alice, "x", format)
		dir, first, second := work(t, format)
		same := func(what string, files bool) {
			t.Helper()
			if _, _, err := r.refFiles(t.Context()); (err == nil) != files {
				t.Errorf("%s: reading the files: %v", what, err)
			}
			got, err := r.Refs(t.Context())
			if err != nil {
				t.Fatalf("%s: %v", what, err)
			}
			want, err := r.askRefs(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if got.HEAD != want.HEAD || !slices.Equal(got.List, want.List) {
				t.Errorf("%s: the refs are\n%+v\ngit reads\n%+v", what, got, want)
			}
			for _, name := range []string{"refs/heads/main", "refs/heads/dev", "refs/tags/v1", "refs/tags/v", "refs/heads/d", "refs/heads", "refs/heads/main/x"} {
				id, found, err := r.Ref(t.Context(), name)
				wantID, wantFound, wantErr := r.askRef(t.Context(), name)
				if id != wantID || found != wantFound || err != nil || wantErr != nil {
					t.Errorf("%s: %s is %q, %t, %v; git reads %q, %t, %v", what, name, id, found, err, wantID, wantFound, wantErr)
				}
			}
		}
		write := func(name, text string) {
			t.Helper()
			if err := writeFile(filepath.Join(r.Dir(), name), text); err != nil {
				t.Fatal(err)
			}
		}
		g := func(args ...string) {
			t.Helper()
			git(t, r.Dir(), args...)
		}
		same("empty", true)
		git(t, dir, "tag", "-a", "-m", "of a tag", "v2", "v1")
		git(t, dir, "tag", "plain", "main")
		git(t, dir, "push", "-q", r.Dir(), "main", "main~:refs/heads/a/b", "v1", "v2", "plain", "v1:refs/nostr/"+strings.Repeat("ab", 32))
		same("single files", true)
		same("again", true)
		g("pack-refs", "--all", "--prune")
		same("packed", true)
		g("update-ref", "refs/heads/main", first)
		g("update-ref", "refs/tags/v1", second)
		g("update-ref", "refs/tags/plain", git(t, dir, "rev-parse", "v1"))
		g("update-ref", "refs/heads/a-b", first)
		same("packed and changed", true)
		g("update-ref", "-d", "refs/tags/v2")
		g("update-ref", "-d", "refs/heads/a/b")
		g("update-ref", "refs/heads/a", first)
		same("deleted", true)
		write("refs/heads/a.lock", "")
		write("refs/heads/deep/er/x.lock", "")
		same("locks", true)

		g("symbolic-ref", "refs/heads/dev", "refs/heads/main")
		same("a symbolic ref", false)
		g("symbolic-ref", "-d", "refs/heads/dev")
		if err := os.Symlink("main", filepath.Join(r.Dir(), "refs/heads/dev")); err != nil {
			t.Fatal(err)
		}
		same("a link", false)
		if err := os.Remove(filepath.Join(r.Dir(), "refs/heads/dev")); err != nil {
			t.Fatal(err)
		}
		write("refs/heads/dev", second) // without the end of the line
		same("a file that was cut", false)
		write("refs/heads/dev", second+"\n")
		same("and mended", true)
		packed, err := os.ReadFile(filepath.Join(r.Dir(), "packed-refs"))
		if err != nil {
			t.Fatal(err)
		}
		_, rest, _ := strings.Cut(string(packed), "\n")
		write("packed-refs", "# pack-refs with: peeled sorted \n"+rest)
		same("packed by an old git", false)
		write("packed-refs", rest)
		same("packed by a very old git", false)
		write("packed-refs", "")
		same("an empty file", true)
		if err := os.WriteFile(filepath.Join(r.Dir(), "HEAD"), []byte(first+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
		same("HEAD is a commit", true)
	}
}

// TestDamagedRefs: damage causes no panic, and invents no refs.
func TestDamagedRefs(t *testing.T) {
	r := newRepo(t, newRoot(t), alice, "x", SHA1)
	dir, _, second := work(t, SHA1)
	git(t, dir, "push", "-q", r.Dir(), "main")
	const head = "# pack-refs with: peeled fully-peeled sorted \n"
	for _, packed := range []string{
		"\n", "^" + second + "\n", head + "^" + second + "\n", head + "\n", head + second + "\n", head + second + " \n",
		head + second + " refs/heads/..\n", head + second[1:] + " refs/heads/x\n", head + second + " refs/heads/x\n^\n", "\x00", head + "\x00\n",
		head + "HEAD refs/heads/x\n", head + second + " HEAD\n",
	} {
		if err := writeFile(filepath.Join(r.Dir(), "packed-refs"), packed); err != nil {
			t.Fatal(err)
		}
		if list, _, err := r.refFiles(t.Context()); !errors.Is(err, errUnusual) {
			t.Errorf("packed-refs %q are read as %v, %v", packed, list, err)
		}
		refs, _ := r.Refs(t.Context())
		for _, ref := range refs.List {
			if !IsRef(ref.Name) || !IsID(ref.ID) {
				t.Errorf("packed-refs %q: a ref is %+v", packed, ref)
			}
		}
	}
	if err := os.Remove(filepath.Join(r.Dir(), "packed-refs")); err != nil {
		t.Fatal(err)
	}
	// A tag that is not there cannot be said what it is of.
	if err := writeFile(filepath.Join(r.Dir(), "refs/tags/gone"), strings.Repeat("ab", 20)+"\n"); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Refs(t.Context()); err == nil || !strings.Contains(err.Error(), "refs/tags/gone") {
		t.Errorf("a tag of nothing: %v", err)
	}
}

// Somebody reads while refs change, are packed, and packs move to the shared store:
// what is there all the time is never missing.
func TestReadingWhileFilesMove(t *testing.T) {
	root := newRoot(t)
	r := newRepo(t, root, alice, "x", SHA1)
	dir, first, second := work(t, SHA1)
	git(t, dir, "push", "-q", r.Dir(), "main", "v1", "main~:refs/heads/stays")
	tag := git(t, dir, "rev-parse", "v1")
	ctx, stop := context.WithCancel(t.Context())
	var readers sync.WaitGroup
	for range 2 {
		readers.Go(func() {
			for ctx.Err() == nil {
				refs, err := r.Refs(context.Background())
				if err != nil {
					t.Errorf("Refs: %v", err)
					return
				}
				there := map[string]string{}
				for _, ref := range refs.List {
					there[ref.Name] = ref.ID
				}
				if there["refs/heads/stays"] != first || there["refs/tags/v1"] != tag || there["refs/heads/main"] == "" {
					t.Errorf("the refs are %v", there)
					return
				}
				if id, found, err := r.Ref(context.Background(), "refs/heads/stays"); id != first || !found || err != nil {
					t.Errorf("Ref: %q, %t, %v", id, found, err)
					return
				}
				if found, ok := r.hasNative([]string{first, second, tag}); ok && slices.Contains(found, false) {
					t.Errorf("look: %v", found)
					return
				}
				if found, err := r.Has(context.Background(), first, second, tag); err != nil || slices.Contains(found, false) {
					t.Errorf("Has: %v, %v", found, err)
					return
				}
			}
		})
	}
	for i := range testkit.Sized(6, 12) {
		git(t, dir, "commit", "-q", "--allow-empty", "-m", fmt.Sprint("more ", i))
		git(t, dir, "push", "-q", r.Dir(), "main", fmt.Sprint("main:refs/heads/b", i))
		locked(t, r, func() {
			err := r.UpdateRefs(t.Context(), []host.RefUpdate{{Ref: fmt.Sprint("refs/heads/b", i), New: strings.Repeat("0", 40)}})
			if err == nil && i%3 == 0 {
				err = r.PackRefs(t.Context())
			}
			if err == nil && i%2 == 0 {
				err = r.Maintain(t.Context())
			}
			if err == nil && i%4 == 0 {
				err = r.Share(t.Context())
			}
			if err != nil {
				t.Error(err)
			}
		})
	}
	stop()
	readers.Wait()
}

func FuzzPackedRefs(f *testing.F) {
	id := strings.Repeat("ab", 20)
	f.Add("# pack-refs with: peeled fully-peeled sorted \n" + id + " refs/heads/a\n" + id + " refs/tags/b\n^" + id + "\n")
	f.Add("^\n")
	dir := f.TempDir()
	r := &Repo{dir: dir}
	f.Fuzz(func(t *testing.T, text string) {
		if err := os.WriteFile(filepath.Join(dir, "packed-refs"), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		list, err := r.readRefs()
		if err != nil {
			return
		}
		for _, ref := range list {
			if !strings.HasPrefix(ref.Name, "refs/") || !isRefFormat(ref.Name) || !IsID(ref.ID) || ref.Peeled != "" && !IsID(ref.Peeled) {
				t.Fatalf("a ref is %+v", ref)
			}
		}
	})
}

func checkRefFormat(t testing.TB, name string) bool {
	t.Helper()
	err := exec.Command("git", "check-ref-format", name).Run()
	if err != nil && exitCode(err) != 1 {
		t.Fatal(err)
	}
	return err == nil
}

var refSeeds = []string{
	"refs/heads/main", "refs/heads/a/b", "refs/heads/", "refs//heads", "/refs/heads/x", "refs/heads/.x", "refs/heads/x.lock",
	"refs/heads/x.lock/y", "refs/heads/x..y", "refs/heads/x.", "refs/heads/x@{1}", "refs/heads/@", "@", "refs/heads/a b", "refs/heads/a~b",
	"refs/heads/a^{}", "refs/heads/a:b", "refs/heads/a?b", "refs/heads/*", "refs/heads/[", "refs/heads/a\\b", "refs/heads/\x7f", "refs/heads/é",
	"refs/heads/\xff", "refs/heads/-", "-x/y", "HEAD", "refs", "refs/x", "refs/heads/a\nb", "", "/", ".", "refs/heads/x.lock.", "refs/./x",
}

// The rules are git's own.
func TestRefFormat(t *testing.T) {
	for _, name := range refSeeds {
		if name == "" || strings.HasPrefix(name, "-") {
			continue // git takes these for no argument, or an option
		}
		if got, want := isRefFormat(name), checkRefFormat(t, name); got != want {
			t.Errorf("isRefFormat(%q) = %t; git check-ref-format says %t", name, got, want)
		}
	}
}

func TestRefBounds(t *testing.T) {
	for name, want := range map[string]bool{
		"refs/heads/main": true, "heads/main": false, "HEAD": false, "-x/y": false, "": false,
		"refs/heads/" + strings.Repeat("a", 250):  true,
		"refs/heads/" + strings.Repeat("a", 251):  false, // its lock file has no name
		"refs/" + strings.Repeat("a/", 600) + "b": false,
	} {
		if IsRef(name) != want {
			t.Errorf("IsRef(%.30q) = %t", name, !want)
		}
	}
	event := strings.Repeat("ab", 32)
	for name, want := range map[string]bool{
		"refs/heads/main": true, "refs/tags/v1": true, "refs/nostr/" + event: true, "refs/nostr/" + strings.ToUpper(event): false,
		"refs/nostr/" + event[:40]: false, "refs/nostr/" + event + "/x": false, "refs/notes/x": false, "refs/pull/1/head": false,
		"HEAD": false, "refs/headsx/y": false, "refs/heads/..": false,
	} {
		if IsPushable(name) != want {
			t.Errorf("IsPushable(%q) = %t", name, !want)
		}
	}
}

func FuzzRef(f *testing.F) {
	for _, name := range refSeeds {
		f.Add(name)
	}
	f.Fuzz(func(t *testing.T, name string) {
		if name == "" || name[0] == '-' || strings.Contains(name, "\x00") || len(name) > 1<<12 {
			return
		}
		if got, want := isRefFormat(name), checkRefFormat(t, name); got != want {
			t.Fatalf("isRefFormat(%q) = %t; git check-ref-format says %t", name, got, want)
		}
	})
}
