package gitrepo

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"talon/host"
	"talon/internal/testkit"
)

func TestLife(t *testing.T) {
	for _, format := range []Format{SHA1, SHA256} {
		for _, identifier := range []string{"talon", "a b:c 🚀", strings.Repeat("🚀", 200)} {
			t.Run(format.String()+"/"+identifier[:5], func(t *testing.T) { testLife(t, identifier, format) })
		}
	}
}

func testLife(t *testing.T, identifier string, format Format) {
	root := newRoot(t)
	r := newRepo(t, root, alice, identifier, format)
	dir, first, second := work(t, format)
	git(t, dir, "push", "-q", r.Dir(), "main", "v1")

	refs, err := r.Refs(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	tag := git(t, dir, "rev-parse", "v1")
	want := []Ref{{Name: "refs/heads/main", ID: second}, {Name: "refs/tags/v1", ID: tag, Peeled: first}}
	if refs.HEAD != "refs/heads/main" || !slices.Equal(refs.List, want) {
		t.Errorf("refs are %+v, want %+v", refs, want)
	}
	var names []Name
	if err := root.List(func(n Name) bool { names = append(names, n); return true }); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(names, []Name{r.Name()}) {
		t.Errorf("List says %v", names)
	}
	own, shared, err := r.Size()
	if err != nil || own == 0 || shared == 0 {
		t.Errorf("the size is %d and %d, %v", own, shared, err)
	}
	// A second Init changes nothing.
	locked(t, r, func() {
		if err := r.Init(t.Context(), format); err != nil {
			t.Error(err)
		}
	})
	if id, found, err := r.Ref(t.Context(), "refs/heads/main"); id != second || !found || err != nil {
		t.Errorf("main is %q, %t, %v", id, found, err)
	}

	locked(t, r, func() {
		if err := r.Remove(t.Context()); err != nil {
			t.Error(err)
		}
	})
	if there, err := r.Exists(); there || err != nil {
		t.Errorf("after Remove it exists: %t, %v", there, err)
	}
	if _, err := r.Refs(t.Context()); !errors.Is(err, ErrNotFound) {
		t.Errorf("after Remove its refs are: %v", err)
	}
	if store := root.store(identifier, format); isBare(store.dir) {
		t.Error("the shared objects are still there")
	}
	if n := root.locks.len(); n != 0 {
		t.Errorf("%d locks are left", n)
	}
}

// going is a context in which something happens when it is first asked whether it has ended.
type going struct {
	context.Context
	happens func()
}

func (c going) Err() error {
	c.happens()
	return c.Context.Err()
}

// TestServeWhileRepositoriesGo: one that goes after it was seen, and before git is in its
// folder, is not there.
func TestServeWhileRepositoriesGo(t *testing.T) {
	root := newRoot(t)
	for name, serve := range map[string]func(*Repo, context.Context) (*Process, error){
		"advertise": func(r *Repo, ctx context.Context) (*Process, error) { return r.Advertise(ctx, UploadPack, 0) },
		"upload":    func(r *Repo, ctx context.Context) (*Process, error) { return r.Upload(ctx, 2) },
	} {
		r := newRepo(t, root, alice, name, SHA1)
		remove := sync.OnceFunc(func() {
			locked(t, r, func() {
				if err := r.Remove(context.Background()); err != nil {
					t.Error(err)
				}
			})
		})
		if _, err := serve(r, going{t.Context(), remove}); !errors.Is(err, ErrNotFound) {
			t.Errorf("%s: %v, want that it is not found", name, err)
		}
	}
}

// TestListWhileRepositoriesGo: a walk through all repositories takes long. It must not fail if
// an owner's last repository goes during the walk.
func TestListWhileRepositoriesGo(t *testing.T) {
	root := newRoot(t)
	left := []*Repo{newRepo(t, root, alice, "x", SHA1), newRepo(t, root, bob, "x", SHA1)}
	seen := 0
	err := root.List(func(now Name) bool {
		seen++
		for _, r := range left {
			if r.Name() != now {
				locked(t, r, func() {
					if err := r.Remove(t.Context()); err != nil {
						t.Error(err)
					}
				})
			}
		}
		return true
	})
	if err != nil || seen != 1 {
		t.Errorf("List has %d repositories, %v", seen, err)
	}
}

func TestUpdateRefs(t *testing.T) {
	root := newRoot(t)
	r := newRepo(t, root, alice, "x", SHA1)
	dir, first, second := work(t, SHA1)
	git(t, dir, "push", "-q", r.Dir(), "main")
	zero := strings.Repeat("0", 40)
	update := func(list ...host.RefUpdate) (err error) {
		locked(t, r, func() { err = r.UpdateRefs(t.Context(), list) })
		return err
	}
	ref := func(name string) string {
		t.Helper()
		id, _, err := r.Ref(t.Context(), name)
		if err != nil {
			t.Fatal(err)
		}
		return id
	}
	if err := update(
		host.RefUpdate{Ref: "refs/heads/new", Old: zero, New: first},
		host.RefUpdate{Ref: "refs/heads/main", Old: second, New: first},
		host.RefUpdate{Ref: "refs/tags/any", New: second},
	); err != nil {
		t.Fatal(err)
	}
	if ref("refs/heads/new") != first || ref("refs/heads/main") != first || ref("refs/tags/any") != second {
		t.Error("the refs have not changed as told")
	}
	for name, list := range map[string][]host.RefUpdate{
		"another old value": {{Ref: "refs/heads/a", New: first}, {Ref: "refs/heads/main", Old: second, New: second}},
		"it exists":         {{Ref: "refs/heads/a", New: first}, {Ref: "refs/heads/main", Old: zero, New: second}},
		"an absent object":  {{Ref: "refs/heads/a", New: first}, {Ref: "refs/heads/b", New: strings.Repeat("ab", 20)}},
		"a folder":          {{Ref: "refs/heads/a", New: first}, {Ref: "refs/heads/main/x", New: first}},
		"a bad name":        {{Ref: "refs/heads/a", New: first}, {Ref: "refs/heads/a..b", New: first}},
		"an option":         {{Ref: "refs/heads/a", New: first}, {Ref: "--stdin", New: first}},
		"no id":             {{Ref: "refs/heads/a", New: first}, {Ref: "refs/heads/b", New: "HEAD"}},
		"an id in capitals": {{Ref: "refs/heads/a", New: strings.ToUpper(first)}},
		"a command":         {{Ref: "refs/heads/a\x00delete refs/heads/main", New: first}},
		"no delete":         {{Ref: "refs/heads/main", Old: zero, New: zero}},
	} {
		if err := update(list...); err == nil {
			t.Errorf("%s: UpdateRefs allows it", name)
		}
		if id := ref("refs/heads/a"); id != "" || ref("refs/heads/main") != first {
			t.Fatalf("%s: a part of the update stays", name)
		}
	}
	if err := update(host.RefUpdate{Ref: "refs/heads/new", Old: first, New: zero}, host.RefUpdate{Ref: "refs/tags/any", New: zero}); err != nil {
		t.Fatal(err)
	}
	if ref("refs/heads/new") != "" || ref("refs/tags/any") != "" {
		t.Error("the refs were not deleted")
	}
	var many []host.RefUpdate
	for i := range ManyRefs {
		many = append(many, host.RefUpdate{Ref: "refs/tags/t" + strings.Repeat("x", i), New: first})
	}
	if err := update(many...); err != nil {
		t.Fatal(err)
	}
	if entries, err := os.ReadDir(filepath.Join(r.Dir(), "refs", "tags")); err == nil && len(entries) > 0 {
		t.Errorf("%d refs are files of their own", len(entries))
	}
}

func TestHEAD(t *testing.T) {
	r := newRepo(t, newRoot(t), alice, "x", SHA1)
	locked(t, r, func() {
		if err := r.SetHEAD(t.Context(), "refs/heads/dev"); err != nil {
			t.Fatal(err)
		}
		for _, wrong := range []string{"dev", "refs/tags/v1", "refs/heads/..", "-d", "refs/heads/a b", ""} {
			if r.SetHEAD(t.Context(), wrong) == nil {
				t.Errorf("HEAD may be %q", wrong)
			}
		}
	})
	refs, err := r.Refs(t.Context())
	if err != nil || refs.HEAD != "refs/heads/dev" || len(refs.List) != 0 {
		t.Errorf("refs are %+v, %v", refs, err)
	}
}

// A ref whose name, cut short, is that of another is not found under the short one.
func TestRefIsExact(t *testing.T) {
	r := newRepo(t, newRoot(t), alice, "x", SHA1)
	dir, _, _ := work(t, SHA1)
	git(t, dir, "push", "-q", r.Dir(), "main:refs/heads/refs/heads/other")
	for _, name := range []string{"refs/heads/other", "refs/heads/refs", "refs/heads/refs/heads", "HEAD", "refs/heads/main", "--heads"} {
		if id, found, err := r.Ref(t.Context(), name); found || err != nil {
			t.Errorf("Ref(%q) = %q, %v", name, id, err)
		}
	}
}

func TestHasAndConnected(t *testing.T) {
	testkit.SkipRace(t)
	for _, format := range []Format{SHA1, SHA256} {
		root := newRoot(t)
		r := newRepo(t, root, alice, "x", format)
		dir, first, second := work(t, format)
		tree := git(t, dir, "rev-parse", "HEAD^{tree}")
		has := func(ids ...string) []bool {
			t.Helper()
			found, err := r.Has(t.Context(), ids...)
			if err != nil {
				t.Fatal(err)
			}
			return found
		}
		if slices.Contains(has(first, second), true) {
			t.Error("an empty repository has objects")
		}
		// The process that was asked before sees what comes later.
		git(t, dir, "push", "-q", r.Dir(), "HEAD~:refs/heads/main")
		absent := strings.Repeat("ab", len(first)/2)
		other := map[int]int{40: 64, 64: 40}[len(first)]
		asked := []string{
			first, second, tree, absent, "HEAD", "refs/heads/main", "", "main\n" + first, strings.ToUpper(first),
			first[:20], (first + first)[:other], "--batch-all-objects",
		}
		want := make([]bool, len(asked))
		want[0] = true
		if got := has(asked...); !slices.Equal(got, want) {
			t.Errorf("%s: Has = %v, want %v", format, got, want)
		}
		many := slices.Repeat([]string{first, absent}, 20_000)
		if got := has(many...); len(got) != 40_000 || !got[39_998] || got[39_999] {
			t.Error("Has of 40,000 objects is wrong")
		}

		// The second commit alone, without its tree, is there and not connected.
		raw := filepath.Join(t.TempDir(), "commit")
		text := git(t, dir, "cat-file", "commit", second)
		if err := os.WriteFile(raw, []byte(text+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
		if id := git(t, r.Dir(), "hash-object", "-w", "-t", "commit", raw); id != second {
			t.Fatalf("the commit became %s", id)
		}
		for _, c := range []struct {
			ids  []string
			want bool
		}{{[]string{first}, true}, {[]string{second}, false}, {[]string{first, absent}, false}, {nil, true}, {[]string{"--all"}, false}} {
			if got, err := r.Connected(t.Context(), c.ids...); got != c.want || err != nil {
				t.Errorf("Connected(%v) = %t, %v", c.ids, got, err)
			}
		}
		if !has(second)[0] {
			t.Error("the commit is not there")
		}
		git(t, dir, "push", "-q", r.Dir(), "main:refs/heads/dev")
		if got, err := r.Connected(t.Context(), second); !got || err != nil {
			t.Errorf("after the push, Connected = %t, %v", got, err)
		}
	}
}

func TestCancelledContext(t *testing.T) {
	r := newRepo(t, newRoot(t), alice, "x", SHA1)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := r.Has(ctx, strings.Repeat("ab", 20)); !errors.Is(err, context.Canceled) {
		t.Errorf("Has: %v", err)
	}
	if _, err := r.Refs(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("Refs: %v", err)
	}
	unlock, err := r.Lock(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.Lock(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("Lock: %v", err)
	}
	unlock()
	unlock()
	if n := r.locks.len(); n != 0 {
		t.Errorf("%d locks are left", n)
	}
}

// A link in the place of a repository, or of its owner, would lead anywhere.
func TestLinksAreNotFollowed(t *testing.T) {
	root := newRoot(t)
	victim := filepath.Join(t.TempDir(), "victim.git")
	git(t, ".", "init", "-q", "--bare", victim)
	r := root.Repo(mustName(t, alice, "x"))
	if err := os.MkdirAll(filepath.Dir(r.Dir()), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(victim, r.Dir()); err != nil {
		t.Fatal(err)
	}
	b := root.Repo(mustName(t, bob, "victim"))
	if err := os.Symlink(filepath.Dir(victim), filepath.Dir(b.Dir())); err != nil {
		t.Fatal(err)
	}
	for _, repo := range []*Repo{r, b} {
		if _, err := repo.Refs(t.Context()); err == nil || !strings.Contains(err.Error(), "links are not followed") {
			t.Errorf("Refs: %v", err)
		}
		if _, err := repo.Upload(t.Context(), 0); err == nil {
			t.Error("it is served")
		}
		locked(t, repo, func() {
			if repo.Init(t.Context(), SHA1) == nil || repo.Remove(t.Context()) == nil {
				t.Error("it is made or removed")
			}
		})
	}
	if !isBare(victim) {
		t.Error("the victim is gone")
	}
}

// TestRecover: the files that a killed git leaves stop no later git.
func TestRecover(t *testing.T) {
	r := newRepo(t, newRoot(t), alice, "x", SHA1)
	dir, _, _ := work(t, SHA1)
	git(t, dir, "push", "-q", r.Dir(), "main")
	left := []string{"refs/heads/main.lock", "packed-refs.lock", "HEAD.lock", "objects/tmp_objdir-incoming-x/pack/tmp_pack_1", "objects/pack/tmp_pack_2"}
	for _, name := range left {
		if err := writeFile(filepath.Join(r.Dir(), name), ""); err != nil {
			t.Fatal(err)
		}
	}
	if out, err := tryGit(t.Context(), dir, "push", r.Dir(), "+main~:main"); err == nil {
		t.Fatalf("a push goes through a lock:\n%s", out)
	}
	locked(t, r, func() {
		if err := r.Recover(time.Now().Add(-time.Hour)); err != nil {
			t.Fatal(err)
		}
		if _, err := os.Stat(filepath.Join(r.Dir(), left[0])); err != nil {
			t.Error("a young lock was taken away")
		}
		if err := r.Recover(time.Now().Add(time.Hour)); err != nil {
			t.Fatal(err)
		}
	})
	for _, name := range left {
		if _, err := os.Stat(filepath.Join(r.Dir(), name)); err == nil {
			t.Errorf("%s is still there", name)
		}
	}
	git(t, dir, "push", "-q", r.Dir(), "+main~:main")
}

// A git that outlived a crash still writes where things are made: that keeps nobody from
// starting again.
func TestOpenWhileGitWrites(t *testing.T) {
	root := newRoot(t)
	place := filepath.Join(root.dir, trashDir, "push-1", "objects")
	ended := make(chan struct{})
	began := time.Now()
	go func() {
		defer close(ended)
		for i := 0; time.Since(began) < 100*time.Millisecond; i++ {
			// As git does: a folder that has gone is made again.
			_ = os.MkdirAll(place, 0o755)
			_ = os.WriteFile(filepath.Join(place, fmt.Sprint("tmp_", i)), nil, 0o644)
		}
	}()
	for writes := true; writes; {
		again, err := Open(root.git, root.dir)
		if err != nil {
			t.Error(err)
		} else {
			again.Close()
		}
		select {
		case <-ended:
			writes = false
		default:
		}
	}
}

// TestOpenAfterCrash: files that a crash left half made or half removed are gone after the next
// start. A repository with nothing but its owner's mark is made like any other.
func TestOpenAfterCrash(t *testing.T) {
	root := newRoot(t)
	left := filepath.Join(root.dir, trashDir, "new-1", "HEAD")
	if err := writeFile(left, ""); err != nil {
		t.Fatal(err)
	}
	name := mustName(t, alice, "x")
	store := root.store("x", SHA1)
	if err := store.make(t.Context(), alice); err != nil {
		t.Fatal(err)
	}
	again, err := Open(root.git, root.dir)
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	if _, err := os.Stat(left); err == nil {
		t.Error("the trash is still there")
	}
	if there, err := again.Repo(name).Exists(); there || err != nil {
		t.Errorf("it exists: %t, %v", there, err)
	}
	b := newRepo(t, again, bob, "x", SHA1)
	locked(t, b, func() {
		if err := b.Remove(t.Context()); err != nil {
			t.Error(err)
		}
	})
	if isBare(store.dir) {
		t.Error("a mark without a repository keeps the shared objects")
	}
	newRepo(t, again, alice, "x", SHA1)
}
