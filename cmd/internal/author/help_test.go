package author

import (
	"errors"
	"io"
	"os"
	"path"
	"path/filepath"
	"testing"

	"talon/host/plugin/plugintest"
)

// TestMain keeps what is compiled away from the user's own, but for what the go
// tool has compiled.
func TestMain(m *testing.M) {
	if base, err := os.UserCacheDir(); err == nil && os.Getenv("GOCACHE") == "" {
		_ = os.Setenv("GOCACHE", filepath.Join(base, "go-build"))
	}
	dir, err := os.MkdirTemp("", "talon-author-")
	if err != nil {
		panic(err)
	}
	_ = os.Setenv("XDG_CACHE_HOME", dir)
	code := plugintest.Main(tests{m})
	_ = os.RemoveAll(dir)
	os.Exit(code)
}

type tests struct{ *testing.M }

// Run runs the tests with compiled code that other test programs share.
func (m tests) Run() int {
	base := filepath.Join(os.Getenv("XDG_CACHE_HOME"), "talon")
	if err := errors.Join(os.MkdirAll(base, 0o700), os.MkdirAll(plugintest.Code(), 0o700),
		os.Symlink(plugintest.Code(), filepath.Join(base, "modules"))); err != nil {
		panic(err)
	}
	return m.M.Run()
}

// built returns a module of this repository with the text of a side-car.
func built(t *testing.T, folder, side string) *Source {
	t.Helper()
	name := path.Base(folder)
	dir := plugintest.Build(t, folder)
	plugintest.MachineCode(t, folder)
	if side != "" {
		put(t, filepath.Join(dir, name+".toml"), side)
	}
	s, err := Find(t.Context(), filepath.Join(dir, name+".wasm"), "", io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func running(t *testing.T, s *Source, o Options) *Runner {
	t.Helper()
	r, err := s.Run(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	})
	return r
}

func put(t *testing.T, file, text string) {
	t.Helper()
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func question(t *testing.T, text string) *Case {
	t.Helper()
	q, err := Clock{}.ParseQuestion("file:1", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return q
}
