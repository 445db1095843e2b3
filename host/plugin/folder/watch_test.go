package folder

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"talon/internal/testkit"

	"github.com/fsnotify/fsnotify"
)

func TestBurst(t *testing.T) {
	start := time.Unix(1000, 0)
	at := func(ms int) time.Time { return start.Add(time.Duration(ms) * time.Millisecond) }
	b := burst{quiet: 100 * time.Millisecond}
	if _, ok := b.due(start); ok {
		t.Error("there is no burst yet")
	}
	b.add(at(0))
	for ms := 0; ms <= 2000; ms += 50 {
		b.add(at(ms))
		want := min(100, max(1000-ms, 0)) // a tenth change is not waited for
		if left, ok := b.due(at(ms)); !ok || left != time.Duration(want)*time.Millisecond {
			t.Errorf("after %d ms: %v, want %d ms", ms, left, want)
		}
	}
	b.clear()
	b.add(at(5000))
	if left, ok := b.due(at(5070)); !ok || left != 30*time.Millisecond {
		t.Errorf("%v, %v, want 30 ms", left, ok)
	}
}

// follower watches a folder, and reads everything at each call, as a registry
// does.
type follower struct {
	dir string
	log bytes.Buffer

	mu    sync.Mutex // guards what follows
	files map[string]string
}

func follow(t *testing.T, dir string, o WatchOptions, change ...func(*watcher)) *follower {
	t.Helper()
	f := &follower{dir: dir}
	o.Log = slog.New(slog.NewTextHandler(&f.log, nil))
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- watch(ctx, dir, o, f.look, change...) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	f.want(t, nil)
	return f
}

func (f *follower) look() {
	entries, _, err := Scan(f.dir)
	seen := files{}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		seen = noFolder
	case err != nil:
		return
	}
	for _, e := range entries {
		for _, file := range []*File{e.Wasm, e.Sidecar} {
			if file == nil {
				continue
			}
			if data, err := Read(file, 1<<20); err == nil {
				seen[filepath.Base(file.Path)] = string(data)
			}
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.files = seen
}

// want waits until the files are these; nil: until there was a look at all.
func (f *follower) want(t *testing.T, want map[string]string) {
	t.Helper()
	testkit.Eventually(t, fmt.Sprintf("a look that sees %.200v", want), func() bool {
		f.mu.Lock()
		defer f.mu.Unlock()
		return want == nil && f.files != nil || want != nil && fmt.Sprint(f.files) == fmt.Sprint(want)
	})
}

type files = map[string]string

// noFolder is what a look sees where there is no folder.
var noFolder = files{"": "no folder"}

// byEvents makes polling too rare to help.
var byEvents = WatchOptions{Quiet: 20 * time.Millisecond, Poll: time.Hour}

// byPolling does without the system's events.
var byPolling = WatchOptions{Quiet: 20 * time.Millisecond, Poll: 20 * time.Millisecond}

func noEvents(w *watcher) {
	w.open = func(string) (*fsnotify.Watcher, error) { return nil, syscall.ENOSPC }
}

func must(t *testing.T, errs ...error) {
	t.Helper()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}

// Each way to change a file is seen, by events alone and by polling alone.
func TestWatchSees(t *testing.T) {
	patterns := []struct {
		name   string
		change func(dir string) error
		want   files
	}{
		{"write", func(dir string) error { return os.WriteFile(dir+"/a.toml", []byte("new"), 0o600) }, files{"a.toml": "new", "a.wasm": "a.wasm"}},
		{"rename into", func(dir string) error {
			return errors.Join(os.WriteFile(dir+"/.a.tmp", []byte("new"), 0o600), os.Rename(dir+"/.a.tmp", dir+"/a.wasm"))
		}, files{"a.toml": "a.toml", "a.wasm": "new"}},
		{"Write", func(dir string) error { return Write(dir, "b.wasm", []byte("new")) }, files{"a.toml": "a.toml", "a.wasm": "a.wasm", "b.wasm": "new"}},
		{"remove", func(dir string) error { return os.Remove(dir + "/a.toml") }, files{"a.wasm": "a.wasm"}},
		{"rename away", func(dir string) error { return os.Rename(dir+"/a.toml", dir+"/a.toml.bak") }, files{"a.wasm": "a.wasm"}},
		{"touch back", func(dir string) error {
			old := time.Unix(1, 0)
			return errors.Join(os.WriteFile(dir+"/a.toml", []byte("A.TOML"), 0o600), os.Chtimes(dir+"/a.toml", old, old))
		}, files{"a.toml": "A.TOML", "a.wasm": "a.wasm"}},
		{"vim", func(dir string) error {
			return errors.Join(
				os.WriteFile(dir+"/.a.toml.swp", nil, 0o600), os.WriteFile(dir+"/4913", nil, 0o600), os.Remove(dir+"/4913"),
				os.Rename(dir+"/a.toml", dir+"/a.toml~"), os.WriteFile(dir+"/a.toml", []byte("new"), 0o600),
				os.Remove(dir+"/a.toml~"), os.Remove(dir+"/.a.toml.swp"))
		}, files{"a.toml": "new", "a.wasm": "a.wasm"}},
		{"emacs", func(dir string) error {
			return errors.Join(
				os.Symlink("me@here", dir+"/.#a.toml"), os.WriteFile(dir+"/#a.toml#", []byte("ne"), 0o600),
				os.Rename(dir+"/a.toml", dir+"/a.toml~"), os.WriteFile(dir+"/a.toml", []byte("new"), 0o600),
				os.Remove(dir+"/#a.toml#"), os.Remove(dir+"/.#a.toml"))
		}, files{"a.toml": "new", "a.wasm": "a.wasm"}},
	}
	for _, pattern := range patterns {
		for _, way := range []string{"events", "polling"} {
			t.Run(pattern.name+" by "+way, func(t *testing.T) {
				t.Parallel()
				dir := t.TempDir()
				put(t, dir, "a.wasm", "a.toml")
				var f *follower
				if way == "events" {
					f = follow(t, dir, byEvents)
				} else {
					f = follow(t, dir, byPolling, noEvents)
				}
				f.want(t, files{"a.toml": "a.toml", "a.wasm": "a.wasm"})
				must(t, pattern.change(dir))
				f.want(t, pattern.want)
			})
		}
	}
}

// A file that is written byte by byte, without end, does not keep another from
// being seen, and is seen as a whole in the end.
func TestWatchSlowWriter(t *testing.T) {
	dir := t.TempDir()
	f := follow(t, dir, byEvents)
	slow, err := os.Create(filepath.Join(dir, "slow.wasm"))
	must(t, err)
	stop := make(chan struct{})
	wrote := make(chan int)
	go func() {
		n := 0
		for {
			select {
			case <-stop:
				wrote <- n
				return
			default:
				if _, err := slow.Write([]byte{'x'}); err == nil {
					n++
				}
			}
		}
	}()
	must(t, Write(dir, "other.wasm", []byte("other")))
	testkit.Eventually(t, "the other file is seen", func() bool {
		f.mu.Lock()
		defer f.mu.Unlock()
		return f.files["other.wasm"] == "other"
	})
	close(stop)
	n := <-wrote
	must(t, slow.Close())
	if n > 1<<20 {
		must(t, os.Truncate(filepath.Join(dir, "slow.wasm"), 1<<20))
		n = 1 << 20
	}
	f.want(t, files{"other.wasm": "other", "slow.wasm": strings.Repeat("x", n)})
}

// What Kubernetes does to change a mounted folder.
func TestWatchLinks(t *testing.T) {
	for _, way := range []string{"events", "polling"} {
		t.Run(way, func(t *testing.T) {
			dir := t.TempDir()
			for _, version := range []string{"..1", "..2"} {
				must(t, os.Mkdir(filepath.Join(dir, version), 0o700),
					os.WriteFile(filepath.Join(dir, version, "a.wasm"), []byte(version), 0o600))
			}
			must(t, os.Symlink("..1", dir+"/..data"), os.Symlink("..data/a.wasm", dir+"/a.wasm"))
			var f *follower
			if way == "events" {
				f = follow(t, dir, byEvents)
			} else {
				f = follow(t, dir, byPolling, noEvents)
			}
			f.want(t, files{"a.wasm": "..1"})
			must(t, os.Symlink("..2", dir+"/..data_tmp"), os.Rename(dir+"/..data_tmp", dir+"/..data"))
			f.want(t, files{"a.wasm": "..2"})
		})
	}
}

// The target of a link lies where no events come from.
func TestWatchLinkTarget(t *testing.T) {
	dir, elsewhere := t.TempDir(), t.TempDir()
	put(t, elsewhere, "target")
	must(t, os.Symlink(filepath.Join(elsewhere, "target"), filepath.Join(dir, "a.wasm")))
	f := follow(t, dir, WatchOptions{Quiet: 20 * time.Millisecond, Poll: 50 * time.Millisecond})
	f.want(t, files{"a.wasm": "target"})
	must(t, os.WriteFile(filepath.Join(elsewhere, "target"), []byte("new"), 0o600))
	f.want(t, files{"a.wasm": "new"})
}

func TestWatchFolderRemovedAndBack(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "plugins")
	must(t, os.Mkdir(dir, 0o700))
	put(t, dir, "a.wasm")
	f := follow(t, dir, WatchOptions{Quiet: 20 * time.Millisecond, Poll: 50 * time.Millisecond})
	f.want(t, files{"a.wasm": "a.wasm"})

	must(t, os.Rename(dir, dir+".old"))
	must(t, os.Mkdir(dir, 0o700))
	put(t, dir, "b.wasm")
	f.want(t, files{"b.wasm": "b.wasm"})
	put(t, dir, "c.wasm")
	f.want(t, files{"b.wasm": "b.wasm", "c.wasm": "c.wasm"})

	must(t, os.RemoveAll(dir))
	f.want(t, noFolder)
	must(t, os.Mkdir(dir, 0o700))
	put(t, dir, "d.wasm")
	f.want(t, files{"d.wasm": "d.wasm"})
}

// After the folder came back, events come from it again.
func TestWatchFollowsTheNewFolder(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "plugins")
	must(t, os.Mkdir(dir, 0o700))
	w := &watcher{dir: dir, log: slog.New(slog.DiscardHandler), open: openEvents}
	defer w.close()
	w.follow()
	first := w.events
	w.follow()
	if first == nil || w.events != first {
		t.Fatal("a folder that is there is followed once")
	}
	must(t, os.Remove(dir))
	w.follow()
	if w.events != nil {
		t.Fatal("follows a folder that is gone")
	}
	must(t, os.Mkdir(dir, 0o700))
	w.follow()
	put(t, dir, "a.wasm")
	event := testkit.Receive(t, "an event from the new folder", w.events.Events)
	if event.Name != filepath.Join(dir, "a.wasm") {
		t.Errorf("event of %s", event.Name)
	}
}

// Without events there is one warning, and events are tried again.
func TestWatchEventsExhausted(t *testing.T) {
	dir := t.TempDir()
	var tries atomic.Int64
	f := follow(t, dir, byPolling, func(w *watcher) {
		w.open = func(dir string) (*fsnotify.Watcher, error) {
			if tries.Add(1) < 5 {
				return nil, syscall.ENOSPC
			}
			return openEvents(dir)
		}
	})
	put(t, dir, "a.wasm")
	f.want(t, files{"a.wasm": "a.wasm"})
	testkit.Eventually(t, "events are tried again", func() bool { return tries.Load() >= 5 })
	put(t, dir, "b.wasm")
	f.want(t, files{"a.wasm": "a.wasm", "b.wasm": "b.wasm"})
	if n := strings.Count(f.log.String(), "level=WARN"); n != 1 {
		t.Errorf("%d warnings: %s", n, f.log.String())
	}
}

// What is no plugin causes no look.
func TestWatchRelevant(t *testing.T) {
	w := &watcher{dir: "/p"}
	for path, want := range map[string]bool{
		"/p": true, "/p/a.wasm": true, "/p/a.toml": true, "/p/a.wasm.sig": true, "/p/a.sig": false, "/p/A.WASM": true, "/p/..data": true,
		"/p/.a.toml.swp": false, "/p/4913": false, "/p/a.toml~": false, "/p/a.log": false, "/p/a.tmp.wasm": false, "": false,
	} {
		if w.relevant(path) != want {
			t.Errorf("%s: %v", path, !want)
		}
	}
}

func TestWatchNoFolder(t *testing.T) {
	dir := t.TempDir()
	put(t, dir, "file")
	for _, path := range []string{"none", "file"} {
		if err := Watch(context.Background(), filepath.Join(dir, path), WatchOptions{}, func() { t.Error("called") }); err == nil {
			t.Errorf("%s: no error", path)
		}
	}
}
