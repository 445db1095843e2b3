package durable

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
)

func TestWriteReplaces(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "x.toml")
	for _, text := range []string{"first", "", "third"} {
		if err := Write(path, []byte(text), 0o640); err != nil {
			t.Fatal(err)
		}
		got, err := os.ReadFile(path)
		if err != nil || string(got) != text {
			t.Errorf("got %q, %v, want %q", got, err, text)
		}
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode() != 0o640 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
	wantNames(t, dir, "x.toml")
}

// TestWriteIsAtomic checks that a reader with the file open reads the old content to its end, and
// that nobody sees a part of the new content.
func TestWriteIsAtomic(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x")
	texts := [][]byte{bytes.Repeat([]byte{'a'}, 1<<20), bytes.Repeat([]byte{'b'}, 1<<20)}
	if err := Write(path, texts[0], 0o600); err != nil {
		t.Fatal(err)
	}
	done := make(chan error)
	go func() {
		var err error
		for i := 0; i < 20 && err == nil; i++ {
			err = Write(path, texts[i%2], 0o600)
		}
		done <- err
	}()
	for {
		got, err := os.ReadFile(path)
		if err != nil || !bytes.Equal(got, texts[0]) && !bytes.Equal(got, texts[1]) {
			t.Fatalf("read %d bytes, %v", len(got), err)
		}
		select {
		case err := <-done:
			if err != nil {
				t.Fatal(err)
			}
			return
		default:
		}
	}
}

func TestWriteCleansUp(t *testing.T) {
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "x"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := Write(filepath.Join(dir, "x"), []byte("text"), 0o600); err == nil {
		t.Error("a folder was replaced by a file")
	}
	wantNames(t, dir, "x")
	if err := Write(filepath.Join(dir, "none", "x"), nil, 0o600); err == nil {
		t.Error("wrote into a folder that is not there")
	}
}

func TestRemove(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "x")
	if err := Write(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := Remove(path); err != nil {
			t.Fatal(err)
		}
	}
	wantNames(t, dir)
}

func TestMkdir(t *testing.T) {
	dir := t.TempDir()
	for range 2 {
		if err := Mkdir(filepath.Join(dir, "x"), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if info, err := os.Stat(filepath.Join(dir, "x")); err != nil || info.Mode() != os.ModeDir|0o700 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	if err := Write(filepath.Join(dir, "file"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"file", "none/x"} {
		if err := Mkdir(filepath.Join(dir, path), 0o700); err == nil {
			t.Errorf("%s: no error", path)
		}
	}
}

// TestCreate shows that a file is made once, also by many at the same time, and never replaced.
func TestCreate(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "x")
	made := make(chan error)
	for i := range 8 {
		go func() { made <- Create(path, bytes.Repeat([]byte{'a' + byte(i)}, 1<<16), 0o600) }()
	}
	count := 0
	for range 8 {
		switch err := <-made; {
		case err == nil:
			count++
		case !errors.Is(err, fs.ErrExist):
			t.Error(err)
		}
	}
	text, err := os.ReadFile(path)
	if count != 1 || err != nil || !bytes.Equal(text, bytes.Repeat(text[:1], 1<<16)) {
		t.Errorf("%d calls made the file, %d bytes, %v", count, len(text), err)
	}
	wantNames(t, dir, "x")
}

// TestWriteFromKeeps shows that a file stays if its new content cannot be produced.
func TestWriteFromKeeps(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "x")
	if err := Write(path, []byte("old"), 0o600); err != nil {
		t.Fatal(err)
	}
	bad := errors.New("no more")
	err := WriteFrom(path, 0o600, func(w io.Writer) error {
		_, err := io.WriteString(w, "half")
		return errors.Join(err, bad)
	})
	if text, _ := os.ReadFile(path); !errors.Is(err, bad) || string(text) != "old" {
		t.Errorf("the file holds %q, %v", text, err)
	}
	wantNames(t, dir, "x")
}

func wantNames(t *testing.T, dir string, want ...string) {
	t.Helper()
	list, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	if len(list) != len(want) {
		t.Fatalf("the folder holds %v, want %v", list, want)
	}
	for i, entry := range list {
		if entry.Name() != want[i] {
			t.Errorf("the folder holds %v, want %v", list, want)
		}
	}
}
