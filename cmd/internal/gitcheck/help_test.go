package gitcheck

import (
	"context"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"talon/host"
	"talon/host/gitrepo"
	"talon/host/store"
	"talon/internal/testkit"
	"talon/sdk/grasp"
	"talon/sdk/nip19"
)

// world is a data folder in which events and repositories agree.
type world struct {
	t     testing.TB
	data  string
	git   *gitrepo.Git
	db    *store.Store
	roots map[bool]*gitrepo.Root // by whether it is that of /prs/
	n     uint16

	alice, bob [32]byte
	one, two   string // commits
	state      *host.Event
	pr         *host.Event // at commit one
	prs        *host.Event // Bob's, pushed under /prs/
	lost       []string    // identifiers of lost repositories that check found
}

const now = 1_700_000_000

func newWorld(t testing.TB) *world {
	t.Helper()
	w := &world{data: t.TempDir(), alice: [32]byte{0xa1}, bob: [32]byte{0xb0}}
	w.open(t)
	t.Cleanup(w.close)
	return w
}

func (w *world) open(t testing.TB) {
	t.Helper()
	w.t, w.roots = t, map[bool]*gitrepo.Root{}
	var err error
	if w.git == nil {
		options := gitrepo.DefaultOptions
		options.DefaultBranch = "main"
		if w.git, err = gitrepo.Find(t.Context(), "git", options); err != nil {
			t.Fatal(err)
		}
	}
	if w.db, err = store.Open(t.Context(), w.data, store.Options{}); err != nil {
		t.Fatal(err)
	}
	for prs, name := range map[bool]string{false: "git", true: "git-prs"} {
		if w.roots[prs], err = gitrepo.Open(w.git, filepath.Join(w.data, name)); err != nil {
			t.Fatal(err)
		}
	}
}

func (w *world) close() {
	for _, root := range w.roots {
		root.Close()
	}
	if err := w.db.Close(); err != nil {
		w.t.Error(err)
	}
}

// template is what settled copies: making it takes some 30 runs of git.
var template struct {
	once  sync.Once
	world world
}

func TestMain(m *testing.M) {
	code := m.Run()
	if dir := template.world.data; dir != "" {
		_ = os.RemoveAll(dir)
	}
	os.Exit(code)
}

// settled returns a world with what a service has after a while.
func settled(t testing.TB) *world {
	t.Helper()
	template.once.Do(func() {
		dir, err := os.MkdirTemp("", "talon-gitcheck-")
		if err != nil {
			t.Fatal(err)
		}
		w := &template.world
		w.data, w.alice, w.bob = dir, [32]byte{0xa1}, [32]byte{0xb0}
		w.open(t)
		defer w.close()
		w.fill()
	})
	if template.world.prs == nil {
		t.Fatal("an earlier test could not make the data folder")
	}
	w := template.world
	w.data = t.TempDir()
	if err := os.CopyFS(w.data, os.DirFS(template.world.data)); err != nil {
		t.Fatal(err)
	}
	w.open(t)
	t.Cleanup(w.close)
	return &w
}

// fill fills a world.
// sun is an identifier whose folder has a name that was cut inside of an escape.
var sun = strings.Repeat("日", 23)

func (w *world) fill() {
	w.t.Helper()
	dir := w.repo(w.alice, "repo", false)
	w.one = w.commit(dir, "one", "")
	w.two = w.commit(dir, "two", w.one)
	w.run(dir, "update-ref", "refs/heads/main", w.two)
	w.run(dir, "update-ref", "refs/tags/v1", w.one)
	w.put(w.announcement(w.alice, "repo", w.bob))
	// Bob is a maintainer: he has no repository of his own here, and the newest state.
	w.put(w.announcement(w.bob, "repo"))
	w.put(w.stateEvent(w.alice, "repo", 10, "refs/heads/main", w.one))
	w.state = w.stateEvent(w.bob, "repo", 20, "refs/heads/main", w.two, "refs/tags/v1", w.one, "HEAD", "ref: refs/heads/main")
	w.put(w.state)
	w.put(w.stateEvent([32]byte{9}, "repo", 30, "refs/heads/main", w.one)) // a stranger's
	// It waits for its data.
	w.hold(w.stateEvent(w.alice, "repo", 40, "refs/heads/main", strings.Repeat("7", 40)))

	w.pr = w.event(w.bob, 1618, 10, host.Tag{"a", address(w.alice, "repo")}, host.Tag{"c", w.one})
	w.put(w.pr)
	w.run(dir, "update-ref", "refs/nostr/"+w.pr.ID.String(), w.one)
	early := host.ID{7}
	w.run(dir, "update-ref", "refs/nostr/"+early.String(), w.two)
	w.placeholder(w.alice, "repo", false, early)

	// Fresh announcements, with names that a path cannot contain unescaped.
	for _, d := range []string{"new", "ein Name: äöü%41~", sun} {
		w.repo(w.alice, d, false)
		w.hold(w.announcement(w.alice, d))
	}
	w.hold(w.announcement(w.alice, "without a folder"))

	other := w.repo(w.bob, "elsewhere", true)
	w.commit(other, "one", "")
	w.prs = w.event(w.bob, 1618, 10, host.Tag{"a", address(w.alice, "elsewhere")}, host.Tag{"c", w.one})
	w.hold(w.prs)
	w.run(other, "update-ref", "refs/nostr/"+w.prs.ID.String(), w.one)
	w.run(other, "update-ref", "refs/nostr/"+early.String(), w.one)
	w.placeholder(w.bob, "elsewhere", true, early)
}

// check returns the problems, each as a line.
func (w *world) check(change func(*Config)) (lines []string, repositories int) {
	w.t.Helper()
	cfg := Config{
		Git: w.git, Announced: filepath.Join(w.data, "git"), PRs: filepath.Join(w.data, "git-prs"), Events: w.db,
		Service: grasp.Service{Host: "git.example.com"},
		Connected: func(ctx context.Context, dir string) ([]string, error) {
			return said(exec.CommandContext(ctx, "git", "--git-dir="+dir, "rev-list", "--objects", "--all", "--quiet"))
		},
		Limit: time.Minute,
		Now:   func() time.Time { return time.Unix(now, 0) },
	}
	if change != nil {
		change(&cfg)
	}
	repositories, err := Run(w.t.Context(), cfg, func(p Problem) {
		lines = append(lines, p.String())
		if p.Lost != (grasp.Repo{}) {
			w.lost = append(w.lost, p.Lost.Identifier)
		}
	})
	if err != nil {
		w.t.Fatal(err)
	}
	return lines, repositories
}

func said(cmd *exec.Cmd) ([]string, error) {
	cmd.Env = append(os.Environ(), "LC_ALL=C")
	out, err := cmd.CombinedOutput()
	if err == nil {
		return nil, nil
	}
	return strings.Split(strings.TrimSpace(string(out)), "\n"), nil
}

func address(owner [32]byte, d string) string {
	return grasp.Repo{PubKey: owner, Identifier: d}.Address()
}

// repo makes a repository and returns its folder.
func (w *world) repo(owner [32]byte, d string, prs bool) string {
	w.t.Helper()
	name, err := gitrepo.ParseName(nip19.EncodeNpub(owner), d)
	if err != nil {
		w.t.Fatal(err)
	}
	repo := w.roots[prs].Repo(name)
	unlock, err := repo.Lock(w.t.Context())
	if err != nil {
		w.t.Fatal(err)
	}
	defer unlock()
	if err := repo.Init(w.t.Context(), gitrepo.SHA1); err != nil {
		w.t.Fatal(err)
	}
	return repo.Dir()
}

// dir returns the folder of a repository that is there.
func (w *world) dir(owner [32]byte, d string) string {
	return filepath.Join(w.data, "git", nip19.EncodeNpub(owner), d+".git")
}

// cutDir is the folder of the repository sun.
func (w *world) cutDir() string {
	w.t.Helper()
	found, err := filepath.Glob(filepath.Join(w.data, "git", nip19.EncodeNpub(w.alice), "%E6%97%A5*"))
	if err != nil || len(found) != 1 {
		w.t.Fatal(found, err)
	}
	return found[0]
}

func (w *world) run(dir string, args ...string) string {
	w.t.Helper()
	return testkit.Git(w.t, dir, args...)
}

// commit makes a commit with one file, of the same name in every repository.
func (w *world) commit(dir, text, parent string) string {
	w.t.Helper()
	file := filepath.Join(w.t.TempDir(), "file")
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		w.t.Fatal(err)
	}
	blob := w.run(dir, "hash-object", "-w", file)
	w.t.Setenv("GIT_INDEX_FILE", filepath.Join(w.t.TempDir(), "index"))
	w.run(dir, "update-index", "--add", "--cacheinfo", "100644,"+blob+",file")
	args := []string{"commit-tree", "-m", text, w.run(dir, "write-tree")}
	if parent != "" {
		args = append(args, "-p", parent)
	}
	return w.run(dir, args...)
}

// loose is the file of a loose object.
func loose(dir, id string) string { return filepath.Join(dir, "objects", id[:2], id[2:]) }

func (w *world) event(author [32]byte, kind host.Kind, at int64, tags ...host.Tag) *host.Event {
	e := &host.Event{PubKey: author, Kind: kind, CreatedAt: at, Tags: tags}
	w.n++
	rand.NewChaCha8([32]byte{byte(w.n), byte(w.n >> 8)}).Read(e.ID[:])
	e.JSON = e.AppendJSON(nil)
	return e
}

func (w *world) announcement(owner [32]byte, d string, maintainers ...[32]byte) *host.Event {
	tag := host.Tag{"maintainers"}
	for _, m := range maintainers {
		tag = append(tag, host.PubKey(m).String())
	}
	tags := []host.Tag{{"d", d}, tag}
	if owner == w.alice {
		tags = append(tags, host.Tag{"clone", "https://git.example.com/" + nip19.EncodeNpub(owner) + "/" + d + ".git"},
			host.Tag{"relays", "wss://git.example.com"})
	}
	return w.event(owner, 30617, 10, tags...)
}

func (w *world) stateEvent(author [32]byte, d string, at int64, pairs ...string) *host.Event {
	tags := []host.Tag{{"d", d}}
	for i := 0; i < len(pairs); i += 2 {
		tags = append(tags, host.Tag{pairs[i], pairs[i+1]})
	}
	return w.event(author, 30618, at, tags...)
}

func (w *world) change(f func(*store.Tx) error) {
	w.t.Helper()
	tx, err := w.db.Begin()
	if err != nil {
		w.t.Fatal(err)
	}
	defer tx.Rollback()
	if err := f(tx); err != nil {
		w.t.Fatal(err)
	}
	if err := tx.Commit(); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) put(e *host.Event) {
	w.t.Helper()
	w.change(func(tx *store.Tx) error { _, err := tx.Put(e, now); return err })
}

func (w *world) hold(e *host.Event) {
	w.t.Helper()
	w.change(func(tx *store.Tx) error {
		_, err := tx.Hold(e, host.HoldOptions{Reason: host.ReasonHeld}, now)
		return err
	})
}

// delete puts a deletion of events.
func (w *world) delete(author [32]byte, list ...*host.Event) {
	w.t.Helper()
	var tags []host.Tag
	for _, e := range list {
		tags = append(tags, host.Tag{"e", e.ID.String()})
	}
	w.put(w.event(author, host.KindDeletion, 1000, tags...))
}

func (w *world) placeholder(owner [32]byte, d string, prs bool, id host.ID) {
	w.t.Helper()
	if err := w.db.AddPlaceholder(w.t.Context(), key(grasp.Repo{PubKey: owner, Identifier: d}, prs), id, now); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) write(path, text string) {
	w.t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		w.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) remove(path string) {
	w.t.Helper()
	if err := os.RemoveAll(path); err != nil {
		w.t.Fatal(err)
	}
}
