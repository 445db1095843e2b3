package guest

import (
	"context"
	"crypto/sha256"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
)

var errAsked = errors.New("compile it elsewhere")

// elsewhere are options with which nothing is compiled here.
func elsewhere(cache, prepared string) Options {
	return Options{
		Name: "guest", CacheDir: cache, Prepared: prepared,
		Elsewhere: func(context.Context) error { return errAsked },
	}
}

// prepareGuest returns a module, and a folder with what is compiled of it.
func prepareGuest(t *testing.T) (wasm []byte, folder string) {
	t.Helper()
	wasm, cache, folder := guest{}.assemble(), t.TempDir(), t.TempDir()
	o := Options{Name: "guest", CacheDir: cache}
	m, err := Load(t.Context(), wasm, o)
	if err == nil {
		err = errors.Join(m.Close(t.Context()), SelfTest(t.Context(), wasm, o))
	}
	if err == nil {
		err = errors.Join(os.Chmod(folder, 0o755), pack(folder, cache, wasm))
	}
	if err != nil {
		t.Fatal(err)
	}
	return wasm, folder
}

// TestPrepared starts with what came compiled with the program. Its self-test has passed,
// for whatever relay.
func TestPrepared(t *testing.T) {
	wasm, folder := prepareGuest(t)
	o := elsewhere(t.TempDir(), folder)
	o.Service.Domain = "relay.example.com"
	m, err := Load(t.Context(), wasm, o)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close(context.WithoutCancel(t.Context()))
	if err := SelfTest(t.Context(), wasm, o); err != nil {
		t.Error(err)
	}
	admit(t, m, item(1, "hello"))
}

// TestPreparedForOthers starts with files that nobody may trust, or that are damaged, or
// of which wazero takes none, as on another processor: the module is compiled.
func TestPreparedForOthers(t *testing.T) {
	wasm, folder := prepareGuest(t)
	file := preparedFile(folder, sha256.Sum256(wasm))
	good, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	write := func(t *testing.T, data []byte, mode os.FileMode) {
		t.Helper()
		if err := errors.Join(os.RemoveAll(file), os.WriteFile(file, data, 0o600), os.Chmod(file, mode)); err != nil {
			t.Fatal(err)
		}
	}
	for name, change := range map[string]func(t *testing.T){
		"absent":              func(t *testing.T) { write(t, good, 0o644); os.Remove(file) },
		"writable by others":  func(t *testing.T) { write(t, good, 0o666) },
		"writable by a group": func(t *testing.T) { write(t, good, 0o664) },
		"a folder for all": func(t *testing.T) {
			write(t, good, 0o644)
			os.Chmod(folder, 0o777)
			t.Cleanup(func() { os.Chmod(folder, 0o755) })
		},
		"a link": func(t *testing.T) {
			other := filepath.Join(t.TempDir(), "other")
			if err := errors.Join(os.WriteFile(other, good, 0o644), os.RemoveAll(file), os.Symlink(other, file)); err != nil {
				t.Fatal(err)
			}
		},
		"of another dictionary":            changeDictionary(folder, func(text []byte) []byte { return text[:0] }),
		"of a dictionary that is damaged":  changeDictionary(folder, func(text []byte) []byte { return text[:len(text)/2] }),
		"of a dictionary that is writable": changeDictionary(folder, func([]byte) []byte { return nil }),
		"empty":                            func(t *testing.T) { write(t, nil, 0o644) },
		"cut short":                        func(t *testing.T) { write(t, good[:len(good)/2], 0o644) },
		"garbage":                          func(t *testing.T) { write(t, []byte("garbage"), 0o644) },
		"changed": func(t *testing.T) {
			repack(t, wasm, file, good, func(dir string) {
				machine, err := machineFile(dir, codeFolder)
				if err == nil {
					err = flip(machine)
				}
				if err != nil {
					t.Fatal(err)
				}
			})
		},
		"for another processor": func(t *testing.T) {
			repack(t, wasm, file, good, func(dir string) {
				machine, err := machineFile(dir, codeFolder)
				if err == nil {
					err = os.Rename(machine, filepath.Join(filepath.Dir(machine), strings.Repeat("0", 64)))
				}
				if err == nil {
					err = writeChecksum(dir)
				}
				if err != nil {
					t.Fatal(err)
				}
			})
		},
	} {
		t.Run(name, func(t *testing.T) {
			change(t)
			cache := t.TempDir()
			if _, err := Load(t.Context(), wasm, elsewhere(cache, folder)); !errors.Is(err, errAsked) {
				t.Errorf("%v, want that it is compiled", err)
			}
			if left, err := os.ReadDir(cache); err != nil || len(left) != 0 {
				t.Errorf("%v is left, %v", left, err)
			}
		})
	}
	write(t, good, 0o644)
	m, err := Load(t.Context(), wasm, elsewhere(t.TempDir(), folder))
	if err != nil {
		t.Fatalf("the file as it was: %v", err)
	}
	m.Close(t.Context())
}

// changeDictionary has a folder hold another dictionary, until the test has ended, or the
// same one for all to write if change returns nil.
func changeDictionary(folder string, change func([]byte) []byte) func(t *testing.T) {
	return func(t *testing.T) {
		file := filepath.Join(folder, dictionaryFile)
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = errors.Join(os.WriteFile(file, text, 0o644), os.Chmod(file, 0o644)) })
		if changed := change(slices.Clone(text)); changed == nil {
			err = os.Chmod(file, 0o666)
		} else {
			err = os.WriteFile(file, changed, 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// repack changes what a prepared file holds.
func repack(t *testing.T, wasm []byte, file string, good []byte, change func(dir string)) {
	t.Helper()
	cache := t.TempDir()
	dir := codeDir(cache, sha256.Sum256(wasm))
	err := errors.Join(os.RemoveAll(file), os.WriteFile(file, good, 0o644))
	if err == nil {
		_, err = unpackCode(file, dir)
	}
	if err != nil {
		t.Fatal(err)
	}
	change(dir)
	if err := pack(filepath.Dir(file), cache, wasm); err != nil {
		t.Fatal(err)
	}
}

// flip changes a byte in the middle of a file.
func flip(file string) error {
	data, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	data[len(data)/2] ^= 1
	return os.WriteFile(file, data, 0o600)
}

// TestMappedCode has the code of a module in pages of a file, as often as it is loaded.
func TestMappedCode(t *testing.T) {
	wasm, folder := prepareGuest(t)
	cache := t.TempDir()
	file := filepath.Join(codeDir(cache, sha256.Sum256(wasm)), mappedFile)
	maps := func() int {
		text, err := os.ReadFile("/proc/self/maps")
		if err != nil {
			t.Skip(err)
		}
		return strings.Count(string(text), file)
	}
	var modules []*Module
	for range 2 {
		m, err := Load(t.Context(), wasm, elsewhere(cache, folder))
		if err != nil {
			t.Fatal(err)
		}
		modules = append(modules, m)
		if n := maps(); n != len(modules) {
			t.Errorf("%d mappings of %s, want %d", n, file, len(modules))
		}
		admit(t, m, item(1, "hello"))
	}
	for _, m := range modules {
		if err := m.Close(t.Context()); err != nil {
			t.Error(err)
		}
	}
	for maps() != 0 { // wazero leaves it to the garbage collector
		runtime.GC()
	}
}

func TestWithout(t *testing.T) {
	for _, test := range []struct{ spans, others, want []span }{
		{[]span{{1, 5}}, nil, []span{{1, 5}}},
		{[]span{{1, 5}}, []span{{1, 5}}, nil},
		{[]span{{1, 5}}, []span{{2, 3}}, []span{{1, 2}, {3, 5}}},
		{[]span{{1, 5}, {7, 9}}, []span{{4, 8}}, []span{{1, 4}, {8, 9}}},
		{[]span{{1, 5}}, []span{{5, 8}, {0, 1}}, []span{{1, 5}}},
		{[]span{{1, 9}}, []span{{2, 3}, {4, 5}}, []span{{1, 2}, {3, 4}, {5, 9}}},
	} {
		if got := without(test.spans, test.others); !slices.Equal(got, test.want) {
			t.Errorf("%v without %v is %v, want %v", test.spans, test.others, got, test.want)
		}
	}
}

// TestPrepare compiles a module for a folder, once, from which a server starts without a
// process for it.
func TestPrepare(t *testing.T) {
	wasm := guest{}.assemble()
	modules, folder := t.TempDir(), filepath.Join(t.TempDir(), "with [brackets]")
	if err := errors.Join(os.WriteFile(filepath.Join(modules, "guest.wasm"), wasm, 0o600), os.Mkdir(folder, 0o755),
		os.WriteFile(filepath.Join(folder, "old"), nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	file := preparedFile(folder, sha256.Sum256(wasm))
	for _, again := range []bool{false, true} {
		before, _ := os.Stat(file)
		if err := Prepare(t.Context(), folder, []string{modules}); err != nil {
			t.Fatal(err)
		}
		after, err := os.Stat(file)
		if err != nil {
			t.Fatal(err)
		}
		if again != os.SameFile(before, after) {
			t.Errorf("it is kept: %v, want %v", !again, again)
		}
		if left, err := os.ReadDir(folder); err != nil || len(left) != 2 {
			t.Errorf("%v, %v; want the one file, and the dictionary", left, err)
		}
		if err := os.WriteFile(filepath.Join(folder, "old"), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	o := elsewhere(filepath.Join(t.TempDir(), "with [brackets]"), folder)
	o.Service.Domain = "relay.example.com"
	m, err := Load(t.Context(), wasm, o)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close(context.Background())
	if !m.Tested() {
		t.Error("its self-test is to run again")
	}
	if err := os.WriteFile(file, []byte("damaged"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := Prepare(t.Context(), folder, []string{modules}); err != nil {
		t.Fatal(err)
	}
	if text, err := os.ReadFile(file); err != nil || string(text) == "damaged" {
		t.Errorf("%q, %v: what is damaged is made again", text, err)
	}
}
