package guest

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// unloading loads a module that leaves the memory when nobody calls it. asked counts how often
// its file is read again.
func unloading(t *testing.T, wasm []byte) (m *Module, cache string, asked *atomic.Int64) {
	t.Helper()
	cache, asked = t.TempDir(), new(atomic.Int64)
	m = mustLoad(t, wasm, func(o *Options) {
		o.CacheDir, o.Clock = cache, time.Now
		o.Source = func(context.Context) ([]byte, error) {
			asked.Add(1)
			return wasm, nil
		}
	})
	return m, cache, asked
}

// becomeIdle waits until nobody has called the module for long.
func becomeIdle(t *testing.T, m *Module) {
	t.Helper()
	time.Sleep(2 * surplusTime)
	synctest.Wait()
	if m.Instances() != 0 || m.MemoryUsed() != 0 || m.engines.loaded() {
		t.Fatalf("%d instances, %d bytes, loaded: %v, and nobody calls the module", m.Instances(), m.MemoryUsed(), m.engines.loaded())
	}
}

// TestIdleModuleIsUnloaded has a module leave the memory, and calls it again: by many at the same
// time, and when its compiled code is lost.
func TestIdleModuleIsUnloaded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, cache, asked := unloading(t, guest{}.assemble())
		want := admit(t, m, item(1, "hello"))
		time.Sleep(surplusTime / 2)
		admit(t, m, item(1, "hello"))
		time.Sleep(surplusTime - time.Second)
		if synctest.Wait(); m.Instances() != 1 {
			t.Errorf("%d instances of a module that was called less than %v ago", m.Instances(), surplusTime)
		}
		becomeIdle(t, m)
		if !m.Calls(Admit) || m.Code() == "" {
			t.Errorf("admit is called: %v, code in %q; unloading must not change that", m.Calls(Admit), m.Code())
		}
		var all sync.WaitGroup
		for range 4 {
			all.Go(func() {
				if got := admit(t, m, item(1, "hello")); got != want {
					t.Errorf("%+v after it was unloaded, want %+v", got, want)
				}
			})
		}
		all.Wait()
		if asked.Load() != 0 {
			t.Error("its file is read again, though its code is kept")
		}
		becomeIdle(t, m)
		if err := os.RemoveAll(cache); err != nil {
			t.Fatal(err)
		}
		if got := admit(t, m, item(1, "hello")); got != want || asked.Load() != 1 {
			t.Errorf("%+v and its file read %d times after its code was lost, want %+v and once", got, asked.Load(), want)
		}
	})
}

// TestModuleIsLost has a module whose code and file are lost while it is not in memory: the host
// fails, and not the module.
func TestModuleIsLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lost := errors.New("the file is lost")
		cache := t.TempDir()
		m := mustLoad(t, guest{}.assemble(), func(o *Options) {
			o.CacheDir, o.Clock = cache, time.Now
			o.Source = func(context.Context) ([]byte, error) { return nil, lost }
		})
		becomeIdle(t, m)
		if err := os.RemoveAll(cache); err != nil {
			t.Fatal(err)
		}
		if _, err := ask(t, m, item(1, ""), nil); !errors.Is(err, lost) || AsFailure(err) != nil || failures(m, CauseStart) != 0 {
			t.Errorf("%v with %v failures to start; want %q, and no failure of the module", err, failures(m, CauseStart), lost)
		}
	})
}

// TestModulesThatStay have no file to come back from, no code that is kept, or a reducer.
func TestModulesThatStay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cache := t.TempDir()
		noFile := mustLoad(t, guest{}.assemble(), func(o *Options) { o.CacheDir, o.Clock = cache, time.Now })
		noCode := mustLoad(t, guest{}.assemble(), func(o *Options) {
			o.Clock = time.Now
			o.Source = func(context.Context) ([]byte, error) { return guest{}.assemble(), nil }
		})
		reduces, _, _ := unloading(t, counting().assemble())
		r, err := reduces.NewReducer(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * surplusTime)
		synctest.Wait()
		if noFile.Instances() != 1 || noCode.Instances() != 1 || reduces.Instances() != 1 {
			t.Errorf("%d, %d, %d instances; want one each", noFile.Instances(), noCode.Instances(), reduces.Instances())
		}
		if _, _, err := r.Call(t.Context(), Step, []byte("request"), now); err != nil {
			t.Error(err)
		}
	})
}

// TestReducerOfAnUnloadedModule begins with a strategy that nobody needed for a while.
func TestReducerOfAnUnloadedModule(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, _, _ := unloading(t, counting().assemble())
		becomeIdle(t, m)
		r, err := m.NewReducer(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if answer, _, err := r.Call(t.Context(), Step, []byte("request"), now); err != nil || answer[0] != 1 {
			t.Errorf("%v, %v; want its first step", answer, err)
		}
	})
}

// TestCloseUnloaded closes a module that is not in memory.
func TestCloseUnloaded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, _, _ := unloading(t, guest{}.assemble())
		becomeIdle(t, m)
		if err := m.Close(t.Context()); err != nil {
			t.Error(err)
		}
		if _, err := ask(t, m, item(1, ""), nil); err == nil || m.engines.loaded() {
			t.Errorf("%v, loaded: %v; want an error of a module that was closed", err, m.engines.loaded())
		}
	})
}

// TestCutShort has a file of compiled code that a power cut left at any length. It must be
// refused and removed, since wazero would refuse to compile the module.
func TestCutShort(t *testing.T) {
	wasm, code := prepareGuest(t)
	dir := codeDir(t.TempDir(), sha256.Sum256(wasm))
	if err := unpackCode(code[sha256.Sum256(wasm)], dir); err != nil {
		t.Fatal(err)
	}
	c, err := openCode(dir)
	if err != nil || c == nil {
		t.Fatalf("%v, %v: the code is whole", c, err)
	}
	data, err := os.ReadFile(c.machine)
	if err != nil {
		t.Fatal(err)
	}
	want, err := os.ReadFile(filepath.Join(dir, checksumFile))
	if err != nil {
		t.Fatal(err)
	}
	for n := len(data) - 1; n >= 0; n-- {
		if err := os.Truncate(c.machine, int64(n)); err != nil {
			t.Fatal(err)
		}
		if _, sum, err := readCode(dir); err == nil && bytes.Equal(sum, want) {
			t.Fatalf("code that is cut to %d of %d bytes passes", n, len(data))
		}
	}
	e, err := loadEngine(t.Context(), dir, compiler)
	if _, there := os.Stat(dir); e != nil || err != nil || !errors.Is(there, os.ErrNotExist) {
		t.Errorf("%v, %v, the folder: %v; want no engine and no folder", e, err, there)
	}
}
