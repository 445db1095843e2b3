package smallfile

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// TestRead shows what is read, and that nothing makes a reader wait.
func TestRead(t *testing.T) {
	dir := t.TempDir()
	path := func(name string) string { return filepath.Join(dir, name) }
	if err := os.WriteFile(path("file"), []byte("12345"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mkfifo(path("pipe"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("file", path("link")); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name  string
		limit int64
		want  error
	}{
		{"file", 5, nil}, {"file", 4, ErrTooLarge}, {"link", 5, nil}, {"pipe", 5, ErrNotRegular}, {".", 5, ErrNotRegular},
		{"absent", 5, fs.ErrNotExist}, {"file/below", 5, syscall.ENOTDIR},
	} {
		text, err := Read(path(tt.name), tt.limit)
		if !errors.Is(err, tt.want) || tt.want == nil && string(text) != "12345" {
			t.Errorf("%s, %d bytes: got %q and %v, want %v", tt.name, tt.limit, text, err, tt.want)
		}
		if err != nil && !strings.Contains(err.Error(), path(tt.name)) {
			t.Errorf("%s: the error %q does not name the file", tt.name, err)
		}
	}
}

// A secret that others can use is not read.
func TestReadSecret(t *testing.T) {
	path := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(path, []byte("12345"), 0o600); err != nil {
		t.Fatal(err)
	}
	for mode, want := range map[os.FileMode]error{0o600: nil, 0o400: nil, 0o640: ErrShared, 0o602: ErrShared} {
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
		if text, err := ReadSecret(path, 5); !errors.Is(err, want) || (err == nil) != (string(text) == "12345") {
			t.Errorf("mode %04o: %q, %v, want %v", mode, text, err, want)
		}
	}
	if err := os.Chmod(path, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := ReadSecret(path, 4); !errors.Is(err, ErrTooLarge) {
		t.Errorf("too long: %v", err)
	}
}
