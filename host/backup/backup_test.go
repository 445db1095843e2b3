package backup

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"
)

// data is a server's data on disk, which the tests change between backups.
type data struct {
	dir    string
	paused int
	broken error // what the database's copy fails with
}

func (d *data) Pause(context.Context) (func(), error) {
	d.paused++
	return func() { d.paused-- }, nil
}

func (d *data) Snapshot(context.Context) (string, error) {
	if d.paused != 1 {
		return "", errors.New("nothing is paused")
	}
	dir, err := os.MkdirTemp(d.dir, "links-")
	if err == nil {
		err = os.CopyFS(dir, os.DirFS(filepath.Join(d.dir, "git")))
	}
	return dir, err
}

type fakeSnapshot struct {
	d       *data
	content []byte
}

func (s fakeSnapshot) Write(_ context.Context, path string, progress func(done, total int)) error {
	progress(1, 1)
	return errors.Join(s.d.broken, os.WriteFile(path, s.content, 0o600))
}

func (fakeSnapshot) Close() error { return nil }

func newData(t *testing.T) *data {
	t.Helper()
	d := &data{dir: t.TempDir()}
	source := rand.NewChaCha8([32]byte{1})
	content := make([]byte, 10*blockSize+100)
	source.Read(content)
	pack := make([]byte, 3*blockSize+7)
	source.Read(pack)
	d.write(t, map[string]string{
		"talon.db": string(content), "relay.key": "secret\n", "plugins/rate.wasm": "rate", "plugins/rate.toml": "a = 1\n",
		"git/npub1a/x.git/HEAD": "ref: refs/heads/main\n", "git/npub1a/x.git/refs/heads/main": "1\n",
		"git/npub1a/x.git/objects/pack/pack-1.pack": string(pack), "git/npub1a/x.git/objects/pack/pack-1.idx": "index",
		"git/.shared/sha1/x.git/HEAD": "ref: refs/heads/main\n", "git/.shared/sha1/x.git/objects/info/packs": "",
		"git/npub1a/empty.git/HEAD": "ref: refs/heads/main\n", "git/npub1a/very empty.git/HEAD": "",
	})
	if err := os.MkdirAll(filepath.Join(d.dir, "git/npub1a/empty.git/refs"), 0o755); err != nil {
		t.Fatal(err)
	}
	return d
}

func (d *data) write(t *testing.T, files map[string]string) {
	t.Helper()
	for name, text := range files {
		path := filepath.Join(d.dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
}

func (d *data) source() Source {
	return Source{
		Database: func(context.Context) (Snapshot, error) {
			text, err := os.ReadFile(filepath.Join(d.dir, "talon.db"))
			return fakeSnapshot{d, text}, err
		},
		Git:     []Folder{{GitFolder, d}},
		Others:  []Other{{"relay.key", filepath.Join(d.dir, "relay.key")}, {PluginsFolder, filepath.Join(d.dir, "plugins")}, {"absent", filepath.Join(d.dir, "absent")}},
		Scratch: d.dir, Release: "test",
	}
}

func quiet(Progress) {}

func make1(t *testing.T, d *data, dir string, incremental bool) Summary {
	t.Helper()
	sum, err := Run(t.Context(), d.source(), dir, incremental, quiet)
	if err != nil {
		t.Fatal(err)
	}
	if left, _ := filepath.Glob(filepath.Join(d.dir, "*-*")); len(left) > 0 || d.paused != 0 {
		t.Errorf("left: %q, paused %d", left, d.paused)
	}
	if left, _ := filepath.Glob(filepath.Join(d.dir, scratchPrefix+"*")); len(left) > 0 {
		t.Errorf("left: %q", left)
	}
	return sum
}

// same compares the data with what a restore brought back.
func same(t *testing.T, d *data, restored string) {
	t.Helper()
	for _, pair := range [][2]string{{d.dir, restored}, {restored, d.dir}} {
		err := fs.WalkDir(os.DirFS(pair[0]), ".", func(path string, e fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			other := filepath.Join(pair[1], path)
			if e.IsDir() {
				if _, err := os.Stat(other); err != nil {
					t.Errorf("the folder %s: %v", path, err)
				}
				return nil
			}
			a, err := os.ReadFile(filepath.Join(pair[0], path))
			b, berr := os.ReadFile(other)
			if !bytes.Equal(a, b) {
				t.Errorf("%s differs: %d and %d bytes, %v", path, len(a), len(b), berr)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

func restoreInto(t *testing.T, from string) (string, Summary, error) {
	t.Helper()
	to := filepath.Join(t.TempDir(), "data")
	sum, err := Restore(t.Context(), from, Target{Data: to, Git: to, Plugins: filepath.Join(to, "plugins")}, quiet)
	return to, sum, err
}

func TestRoundTrip(t *testing.T) {
	d, dir := newData(t), filepath.Join(t.TempDir(), "backup")
	sum := make1(t, d, dir, false)
	if sum.Repositories != 1 || sum.Database != SQLite || sum.Bytes < 13*blockSize || sum.Written < 10*blockSize {
		t.Errorf("%+v", sum)
	}
	to, got, err := restoreInto(t, dir)
	if err != nil {
		t.Fatal(err)
	}
	if got.Repositories != 3 { // with the two that are empty
		t.Errorf("restored %d repositories", got.Repositories)
	}
	if got.ID != sum.ID || got.Files != sum.Files || len(got.Notes) != 0 {
		t.Errorf("restored %+v, made %+v", got, sum)
	}
	same(t, d, to)
}

// TestIncremental changes the data between two backups: only what changed is written, and what
// the second does not have is removed.
func TestIncremental(t *testing.T) {
	d, dir := newData(t), filepath.Join(t.TempDir(), "backup")
	make1(t, d, dir, true)
	if again := make1(t, d, dir, true); again.Written != 0 {
		t.Errorf("%d bytes were written of the same data", again.Written)
	}
	text, err := os.ReadFile(filepath.Join(d.dir, "talon.db"))
	if err != nil {
		t.Fatal(err)
	}
	text[3*blockSize+5]++
	d.write(t, map[string]string{"talon.db": string(text), "git/npub1a/x.git/objects/pack/pack-2.pack": "second"})
	if err := os.Remove(filepath.Join(d.dir, "git/npub1a/x.git/objects/pack/pack-1.pack")); err != nil {
		t.Fatal(err)
	}
	if sum := make1(t, d, dir, true); sum.Written > blockSize+10 {
		t.Errorf("%d bytes were written of one changed block", sum.Written)
	}
	if _, err := os.Stat(filepath.Join(dir, packsDir, "git/npub1a/x.git/objects/pack/pack-1.pack")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the pack that has gone: %v", err)
	}
	blocks := 0
	_ = filepath.WalkDir(filepath.Join(dir, blocksDir), func(_ string, e fs.DirEntry, _ error) error {
		if !e.IsDir() {
			blocks++
		}
		return nil
	})
	m, err := Read(dir)
	if err != nil {
		t.Fatal(err)
	}
	want := make(map[hash]bool)
	for _, f := range m.Files {
		for _, h := range f.Blocks {
			want[h] = true
		}
	}
	if blocks != len(want) {
		t.Errorf("%d blocks are there, want %d", blocks, len(want))
	}
	to, _, err := restoreInto(t, dir)
	if err != nil {
		t.Fatal(err)
	}
	same(t, d, to)
}

// TestInterrupted ends a backup at every step: the one before stays good, and the next works.
func TestInterrupted(t *testing.T) {
	d, dir := newData(t), filepath.Join(t.TempDir(), "backup")
	first := make1(t, d, dir, true)
	for _, phase := range []string{PhaseRepositories, PhaseDatabase, PhaseBlocks, PhaseGit, PhaseVerify} {
		text := bytes.Repeat([]byte(phase), 40_000)
		d.write(t, map[string]string{"talon.db": string(text), "git/npub1a/x.git/objects/pack/pack-" + fmt.Sprintf("%x", phase) + ".pack": string(text)})
		ctx, cancel := context.WithCancel(t.Context())
		_, err := Run(ctx, d.source(), dir, true, func(p Progress) {
			if p.Phase == phase {
				cancel()
			}
		})
		cancel()
		if !errors.Is(err, context.Canceled) && phase != PhaseRepositories && phase != PhaseDatabase {
			t.Errorf("%s: %v", phase, err)
		}
		if err == nil {
			continue // the fakes have no more steps that look at the context
		}
		if m, err := Read(dir); err != nil || m.ID != first.ID {
			t.Fatalf("%s: the backup before is not there: %v", phase, err)
		}
		if _, _, err := restoreInto(t, dir); err != nil {
			t.Errorf("%s: the backup before is damaged: %v", phase, err)
		}
	}
	make1(t, d, dir, true)
	to, _, err := restoreInto(t, dir)
	if err != nil {
		t.Fatal(err)
	}
	same(t, d, to)
}

func TestRunRefuses(t *testing.T) {
	d := newData(t)
	dir := filepath.Join(t.TempDir(), "backup")
	make1(t, d, dir, false)
	if _, err := Run(t.Context(), d.source(), dir, false, quiet); err == nil || !strings.Contains(err.Error(), "--incremental") {
		t.Errorf("over a backup: %v", err)
	}
	other := t.TempDir()
	if err := os.WriteFile(filepath.Join(other, "thesis.txt"), []byte("precious"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Run(t.Context(), d.source(), other, true, quiet); err == nil || !strings.Contains(err.Error(), "thesis.txt") {
		t.Errorf("into a folder of others: %v", err)
	}
	f, err := openFolder(dir, true)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Run(t.Context(), d.source(), dir, true, quiet); err == nil || !strings.Contains(err.Error(), "under way") {
		t.Errorf("two at once: %v", err)
	}
	f.close()
	d.broken = errors.New("the disk is on fire")
	if _, err := Run(t.Context(), d.source(), dir, true, quiet); !errors.Is(err, d.broken) {
		t.Errorf("got %v", err)
	}
}

// TestRestoreRefuses damages a backup in every way that the manifest can tell.
func TestRestoreRefuses(t *testing.T) {
	d := newData(t)
	block := func(dir string) string {
		list, _ := filepath.Glob(filepath.Join(dir, blocksDir, "*", "*"))
		return list[0]
	}
	for _, tt := range []struct {
		name, want string
		damage     func(dir string) error
	}{
		{"no manifest", "there is no backup", func(dir string) error { return os.Remove(filepath.Join(dir, manifestFile)) }},
		{"no block", "no such file", func(dir string) error { return os.Remove(block(dir)) }},
		{"a damaged block", "is damaged", func(dir string) error { return os.WriteFile(block(dir), []byte("x"), 0o600) }},
		{"a damaged pack", "is damaged", func(dir string) error {
			return os.WriteFile(filepath.Join(dir, packsDir, "git/npub1a/x.git/objects/pack/pack-1.pack"), []byte("x"), 0o600)
		}},
		{"another format", "has format 9", edit(`"format":1`, `"format":9`)},
		{"a path that leads out", "leads out", edit(`"path":"relay.key"`, `"path":"../relay.key"`)},
		{"an absolute path", "leads out", edit(`"path":"relay.key"`, `"path":"/relay.key"`)},
		{"half a manifest", "unexpected end", func(dir string) error { return os.Truncate(filepath.Join(dir, manifestFile), 100) }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "backup")
			make1(t, d, dir, false)
			if err := tt.damage(dir); err != nil {
				t.Fatal(err)
			}
			to, _, err := restoreInto(t, dir)
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want %q", err, tt.want)
			}
			if list, _ := os.ReadDir(to); len(list) > 0 {
				t.Errorf("something appeared: %v", list)
			}
		})
	}
}

func edit(old, new string) func(dir string) error {
	return func(dir string) error {
		path := filepath.Join(dir, manifestFile)
		text, err := os.ReadFile(path)
		if err == nil && !bytes.Contains(text, []byte(old)) {
			err = fmt.Errorf("no %s", old)
		}
		return errors.Join(err, os.WriteFile(path, bytes.Replace(text, []byte(old), []byte(new), 1), 0o600))
	}
}

// TestRestoreKeepsData: nothing is written over.
func TestRestoreKeepsData(t *testing.T) {
	d, dir := newData(t), filepath.Join(t.TempDir(), "backup")
	make1(t, d, dir, false)
	to := t.TempDir()
	target := Target{Data: to, Git: to, Plugins: filepath.Join(t.TempDir(), "p")}
	for _, name := range []string{"talon.db", "talon.db-wal", "git", "relay.key"} {
		path := filepath.Join(to, name)
		if err := os.WriteFile(path, []byte("precious"), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := Restore(t.Context(), dir, target, quiet); err == nil || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: %v", name, err)
		}
		if text, _ := os.ReadFile(path); string(text) != "precious" {
			t.Errorf("%s is %q", name, text)
		}
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.CopyFS(target.Plugins, fstest.MapFS{"rate.toml": {Data: []byte("a = 2\n")}}); err != nil {
		t.Fatal(err)
	}
	sum, err := Restore(t.Context(), dir, target, quiet)
	if err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		filepath.Join(target.Plugins, "rate.toml"): "a = 2\n", filepath.Join(target.Plugins, "rate.wasm"): "rate",
		filepath.Join(to, pluginsLeft, "rate.toml"): "a = 1\n",
	} {
		if text, err := os.ReadFile(path); string(text) != want {
			t.Errorf("%s is %q, %v; want %q", path, text, err, want)
		}
	}
	if len(sum.Notes) != 1 || !strings.Contains(sum.Notes[0], "rate.toml differs") {
		t.Errorf("notes: %q", sum.Notes)
	}
}

func TestHistory(t *testing.T) {
	dir := t.TempDir()
	h, err := OpenHistory(dir)
	if err != nil || len(h.List()) != 0 {
		t.Fatal(err)
	}
	for i := range maxHistory + 5 {
		if err := h.Add(Summary{Dir: fmt.Sprint(i), ID: "x"}); err != nil {
			t.Fatal(err)
		}
	}
	if err := h.Add(Summary{Dir: "50", ID: "y"}); err != nil {
		t.Fatal(err)
	}
	h, err = OpenHistory(dir)
	if err != nil {
		t.Fatal(err)
	}
	list := h.List()
	if last := list[len(list)-1]; len(list) != maxHistory || last.Dir != "50" || last.ID != "y" {
		t.Errorf("%d backups, the last is %+v", len(list), last)
	}
}
