package bundle

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"io/fs"
	"testing"
)

// modules are some modules that have much in common.
func modules() []Source {
	common := bytes.Repeat([]byte("the code of one compiler, "), 4000)
	return []Source{
		{Name: "b", Wasm: append([]byte("b"), common...)},
		{Name: "a", Wasm: append([]byte("a"), common...), Default: true},
		{Name: "c", Wasm: append([]byte("c"), common...), Default: true},
		{Name: "empty", Wasm: nil},
	}
}

func made(t *testing.T, list []Source) []byte {
	t.Helper()
	var file bytes.Buffer
	if err := Write(&file, list); err != nil {
		t.Fatal(err)
	}
	return file.Bytes()
}

// TestBundle returns what was written.
func TestBundle(t *testing.T) {
	file := made(t, modules())
	if again := made(t, modules()); !bytes.Equal(file, again) {
		t.Error("the same modules make other bytes")
	}
	if len(file) > 10_000 {
		t.Errorf("%d bytes: they are not compressed against each other", len(file))
	}
	var code bytes.Buffer
	coded := sha256.Sum256(modules()[1].Wasm)
	if err := WriteCode(&code, []Code{{coded, []byte("code of a")}, {sha256.Sum256(modules()[2].Wasm), []byte("code of c")}}); err != nil {
		t.Fatal(err)
	}
	b, err := Open(file, code.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range modules() {
		m := b.Modules()[i]
		wasm, err := b.Wasm(want.Name)
		if err != nil || m.Name != want.Name || m.Default != want.Default || !bytes.Equal(wasm, want.Wasm) {
			t.Errorf("%+v, %d bytes, %v", m, len(wasm), err)
		}
	}
	for number, want := range map[int]string{0: "", 1: "code of a", 2: "code of c"} {
		if got, err := b.Code(sha256.Sum256(modules()[number].Wasm)); err != nil || string(got) != want {
			t.Errorf("code of module %d: %q, %v", number, got, err)
		}
	}
	if _, err := b.Wasm("d"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("an unknown module: %v", err)
	}
	without, err := Open(file, nil)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := without.Code(coded); got != nil || err != nil {
		t.Errorf("without code: %q, %v", got, err)
	}
}

// TestNoBundle is a program without modules.
func TestNoBundle(t *testing.T) {
	var b *Bundle
	if _, ok := b.Find("a"); ok || len(b.Modules()) > 0 {
		t.Error("there are modules")
	}
	if code, err := b.Code([32]byte{}); code != nil || err != nil {
		t.Errorf("%q, %v", code, err)
	}
	if _, err := b.Wasm("a"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%v", err)
	}
}

// FuzzOpen damages a file: there is an error, or a module is as it was.
func FuzzOpen(f *testing.F) {
	var file bytes.Buffer
	if err := Write(&file, modules()); err != nil {
		f.Fatal(err)
	}
	good := file.Bytes()
	f.Add(uint(0), byte(1))
	f.Add(uint(9), byte(255))
	f.Add(uint(len(good)-1), byte(4))
	f.Add(uint(len(good)/2), byte(8))
	f.Fuzz(func(t *testing.T, at uint, flip byte) {
		changed := bytes.Clone(good)
		changed[at%uint(len(good))] ^= flip
		for _, data := range [][]byte{changed, good[:at%uint(len(good))]} {
			b, err := Open(data, nil)
			if err != nil {
				continue
			}
			for _, m := range b.Modules() {
				// A flip in the hash is found too, unless it is in the name.
				if wasm, err := b.Wasm(m.Name); err == nil && len(wasm) > 1<<20 {
					t.Errorf("%s has %d bytes", m.Name, len(wasm))
				}
			}
		}
	})
}
