package guest

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

var errAsked = errors.New("compile it elsewhere")

// prepared has the code of modules.
type prepared map[[sha256.Size]byte][]byte

func (p prepared) Code(module [sha256.Size]byte) ([]byte, error) {
	code, ok := p[module]
	if ok && code == nil {
		return nil, errors.New("the program is damaged")
	}
	return code, nil
}

// elsewhere are options with which nothing is compiled here.
func elsewhere(cache string, code Prepared) Options {
	return Options{
		Name: "guest", CacheDir: cache, Prepared: code,
		Elsewhere: func(context.Context, []byte) error { return errAsked },
	}
}

// prepareGuest returns a module, and what is compiled of it.
func prepareGuest(t *testing.T) (wasm []byte, code prepared) {
	t.Helper()
	wasm = guest{}.assemble()
	data, err := Prepare(t.Context(), "guest", wasm)
	if err != nil {
		t.Fatal(err)
	}
	return wasm, prepared{sha256.Sum256(wasm): data}
}

// TestPrepared starts with what came compiled with the program. Its self-test has passed,
// for whatever relay.
func TestPrepared(t *testing.T) {
	wasm, code := prepareGuest(t)
	o := elsewhere(filepath.Join(t.TempDir(), "with [brackets]"), code)
	o.Service.Domain = "relay.example.com"
	m, err := Load(t.Context(), wasm, o)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close(context.WithoutCancel(t.Context()))
	if !m.Tested() {
		t.Error("its self-test is to run again")
	}
	admit(t, m, item(1, "hello"))
	if fits, err := Fits(t.Context(), "guest", wasm, code); err != nil || !fits {
		t.Errorf("it fits: %v, %v", fits, err)
	}
}

// TestPreparedForOthers starts with code that is damaged, or of which wazero takes none, as on
// another processor: the module is compiled.
func TestPreparedForOthers(t *testing.T) {
	wasm, code := prepareGuest(t)
	good := code[sha256.Sum256(wasm)]
	for name, data := range map[string][]byte{
		"unreadable": nil,
		"cut short":  good[:len(good)/2],
		"garbage":    bytes.Repeat([]byte("garbage"), 1000),
		"changed": repack(t, wasm, good, func(dir string) error {
			machine, err := machineFile(dir, codeFolder)
			if err != nil {
				return err
			}
			return flip(machine)
		}),
		"for another processor": repack(t, wasm, good, func(dir string) error {
			machine, err := machineFile(dir, codeFolder)
			if err != nil {
				return err
			}
			return errors.Join(os.Rename(machine, filepath.Join(filepath.Dir(machine), strings.Repeat("0", 64))), writeChecksum(dir))
		}),
		"outside of its folder": escaping(t),
	} {
		t.Run(name, func(t *testing.T) {
			cache := filepath.Join(t.TempDir(), "cache")
			others := prepared{sha256.Sum256(wasm): data}
			if _, err := Load(t.Context(), wasm, elsewhere(cache, others)); !errors.Is(err, errAsked) {
				t.Errorf("%v, want that it is compiled", err)
			}
			if left, err := os.ReadDir(cache); len(left) != 0 || err != nil && !os.IsNotExist(err) {
				t.Errorf("%v is left, %v", left, err)
			}
			if fits, err := Fits(t.Context(), "guest", wasm, others); err != nil || fits {
				t.Errorf("it fits: %v, %v", fits, err)
			}
		})
	}
	if _, err := Load(t.Context(), wasm, elsewhere(t.TempDir(), prepared{})); !errors.Is(err, errAsked) {
		t.Errorf("%v, want that it is compiled", err)
	}
}

// repack returns prepared code in which something is changed.
func repack(t *testing.T, wasm, good []byte, change func(dir string) error) []byte {
	t.Helper()
	dir := codeDir(t.TempDir(), sha256.Sum256(wasm))
	err := unpackCode(good, dir)
	if err == nil {
		err = change(dir)
	}
	if err != nil {
		t.Fatal(err)
	}
	changed, err := archive(dir)
	if err != nil {
		t.Fatal(err)
	}
	return changed
}

// escaping returns an archive with a file above its folder.
func escaping(t *testing.T) []byte {
	t.Helper()
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	if err := errors.Join(w.WriteHeader(&tar.Header{Name: "../escaped", Mode: 0o600}), w.Close()); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
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
