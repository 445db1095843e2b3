package folder

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
)

func TestWriteReplaces(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "x.toml")
	for _, text := range []string{"first", "", "third"} {
		if err := writeDurably(path, []byte(text), 0o640); err != nil {
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

// Whoever has the file open reads the old content to its end, and nobody sees a
// part of the new.
func TestWriteIsAtomic(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x")
	texts := [][]byte{bytes.Repeat([]byte{'a'}, 1<<20), bytes.Repeat([]byte{'b'}, 1<<20)}
	if err := writeDurably(path, texts[0], 0o600); err != nil {
		t.Fatal(err)
	}
	done := make(chan error)
	go func() {
		var err error
		for i := 0; i < 20 && err == nil; i++ {
			err = writeDurably(path, texts[i%2], 0o600)
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
	if err := writeDurably(filepath.Join(dir, "x"), []byte("text"), 0o600); err == nil {
		t.Error("a folder was replaced by a file")
	}
	wantNames(t, dir, "x")
	if err := writeDurably(filepath.Join(dir, "none", "x"), nil, 0o600); err == nil {
		t.Error("wrote into a folder that is not there")
	}
}

func TestRemoveDurably(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "x")
	if err := writeDurably(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := removeDurably(path); err != nil {
			t.Fatal(err)
		}
	}
	wantNames(t, dir)
}

func TestMakeFolder(t *testing.T) {
	dir := t.TempDir()
	for range 2 {
		if err := makeFolder(filepath.Join(dir, "x"), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if info, err := os.Stat(filepath.Join(dir, "x")); err != nil || info.Mode() != os.ModeDir|0o700 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	if err := writeDurably(filepath.Join(dir, "file"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"file", "none/x"} {
		if err := makeFolder(filepath.Join(dir, path), 0o700); err == nil {
			t.Errorf("%s: no error", path)
		}
	}
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
