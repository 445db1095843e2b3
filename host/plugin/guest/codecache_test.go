package guest

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"runtime/debug"
	"strconv"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"talon/internal/testkit"
)

// TestDamagedCache starts with compiled code on disk that a crash or a full disk
// has left in pieces: it must be compiled again, not run and not be fatal.
func TestDamagedCache(t *testing.T) {
	cache := t.TempDir()
	start := func() error {
		m, err := Load(t.Context(), guest{}.assemble(), Options{Name: "guest", CacheDir: cache})
		if err != nil {
			return err
		}
		return m.Close(context.Background())
	}
	if err := start(); err != nil {
		t.Fatal(err)
	}
	dir := codeDir(cache, sha256.Sum256(guest{}.assemble()))
	want, err := ReadManifest(guest{}.assemble())
	if got := keptManifest(dir); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("the manifest that is kept is %+v, want %+v, %v", got, want, err)
	}
	machineCode := func() (list []string) {
		err := filepath.WalkDir(cache, func(path string, d fs.DirEntry, err error) error {
			if err == nil && !d.IsDir() && d.Name() != checksumFile {
				list = append(list, path)
			}
			return err
		})
		if err != nil || len(list) == 0 {
			t.Fatalf("no compiled code is kept: %v", err)
		}
		return list
	}
	for name, damage := range map[string]func([]byte) []byte{
		"empty":     func([]byte) []byte { return nil },
		"cut short": func(b []byte) []byte { return b[:len(b)/2] },
		"header":    func(b []byte) []byte { return b[:3] },
		"flipped":   func(b []byte) []byte { b[len(b)/2] ^= 0xff; return b },
		"garbage":   func([]byte) []byte { return []byte("garbage") },
	} {
		t.Run(name, func(t *testing.T) {
			for _, path := range machineCode() {
				data, err := os.ReadFile(path)
				if err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(path, damage(data), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			if keptManifest(dir) != nil {
				t.Error("a manifest is read from what is damaged")
			}
			if err := start(); err != nil {
				t.Errorf("start: %v", err)
			}
		})
	}
}

// TestOneModuleByTwoNames loads a module that is not in the cache many times
// concurrently.
func TestOneModuleByTwoNames(t *testing.T) {
	cache := t.TempDir()
	var group errgroup.Group
	for i := range 8 {
		group.Go(func() error {
			o := Options{Name: fmt.Sprint("name-", i), CacheDir: cache}
			if err := SelfTest(t.Context(), guest{}.assemble(), o); err != nil {
				return err
			}
			m, err := Load(t.Context(), guest{}.assemble(), o)
			if err != nil {
				return err
			}
			return m.Close(context.Background())
		})
	}
	if err := group.Wait(); err != nil {
		t.Error(err)
	}
	if len(folders.locks) != 0 {
		t.Errorf("%d folders are locked for good", len(folders.locks))
	}
}

func TestOldCodeIsPruned(t *testing.T) {
	cache := t.TempDir()
	for i := range 2 * maxCode {
		name := fmt.Sprintf("%064x", i)
		if err := os.Mkdir(filepath.Join(cache, name), 0o700); err != nil {
			t.Fatal(err)
		}
		at := time.Unix(now+int64(i), 0)
		if err := os.Chtimes(filepath.Join(cache, name), at, at); err != nil {
			t.Fatal(err)
		}
	}
	stranger := filepath.Join(cache, "not ours")
	if err := os.Mkdir(stranger, 0o700); err != nil {
		t.Fatal(err)
	}
	oldest := filepath.Join(cache, fmt.Sprintf("%064x", 0))
	if err := PruneCache(cache, oldest); err != nil {
		t.Fatal(err)
	}
	entries, err := os.ReadDir(cache)
	if err != nil || len(entries) != maxCode+1 {
		t.Errorf("%d folders are left, %v; want %d and the stranger", len(entries), err, maxCode)
	}
	for _, path := range []string{oldest, stranger, filepath.Join(cache, fmt.Sprintf("%064x", 2*maxCode-1))} {
		if _, err := os.Stat(path); err != nil {
			t.Errorf("%v, want it kept", err)
		}
	}
}

// TestClosedModulesLeaveNothing loads and closes 200 modules, as swaps do: every
// tenth is a Go module, of which one that leaks keeps 10 MB. Goroutines, open
// files and resident memory must not grow.
func TestClosedModulesLeaveNothing(t *testing.T) {
	testkit.SkipRace(t)
	large, small := goModule(t, "plugins/limits"), guest{}.assemble()
	cache := ownCode(t, "plugins/limits")
	swap := func(wasm []byte) {
		o := Options{Name: "limits", Instances: 2, CacheDir: cache, State: newState(t)}
		if err := SelfTest(t.Context(), wasm, o); err != nil {
			t.Fatal(err)
		}
		m, err := Load(t.Context(), wasm, o)
		if err != nil {
			t.Fatal(err)
		}
		admit(t, m, item(1, "hello"))
		if err := m.Close(context.Background()); err != nil {
			t.Fatal(err)
		}
		if m.Instances() != 0 || m.MemoryUsed() != 0 {
			t.Fatalf("%d instances with %d bytes after it was closed", m.Instances(), m.MemoryUsed())
		}
	}
	swaps := func(n int) {
		for i := range n {
			if i%10 == 0 {
				swap(large)
			} else {
				swap(small)
			}
		}
	}
	swaps(40)
	goroutines, files, memory := runtime.NumGoroutine(), openFiles(t), resident(t)
	swaps(200)
	if n := runtime.NumGoroutine(); n > goroutines {
		t.Errorf("%d goroutines, %d before", n, goroutines)
	}
	if n := openFiles(t); n > files {
		t.Errorf("%d open files, %d before", n, files)
	}
	if n := resident(t); n > memory+40<<20 {
		t.Errorf("%d MB are resident, %d before", n>>20, memory>>20)
	}
}

func openFiles(t *testing.T) int {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Skip(err)
	}
	return len(entries)
}

// resident is the memory that this process has in use, in bytes, after what can
// be given back was.
func resident(t *testing.T) int {
	t.Helper()
	debug.FreeOSMemory()
	text, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		t.Skip(err)
	}
	pages, err := strconv.Atoi(string(bytes.Fields(text)[1]))
	if err != nil {
		t.Fatal(err)
	}
	return pages * os.Getpagesize()
}
