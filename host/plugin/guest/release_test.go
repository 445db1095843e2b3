package guest

import (
	"bytes"
	"context"
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
	"testing"

	"talon/internal/testkit"
)

// TestClosedModulesLeaveNothing loads and closes 200 modules, as swaps do: every
// tenth is a Go module, of which one that leaks keeps 10 MB. Goroutines, open
// files and resident memory must not grow.
func TestClosedModulesLeaveNothing(t *testing.T) {
	testkit.SkipRace(t)
	large, small, cache := goModule(t, "plugins/limits"), guest{}.assemble(), t.TempDir()
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
