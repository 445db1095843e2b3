package main

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// tree makes a folder with files and a link, and sets their times.
func tree(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(text), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("no-file", filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	if err := setTimes(dir); err != nil {
		t.Fatal(err)
	}
	return dir
}

func timeAt(t *testing.T, dir, name string) time.Time {
	t.Helper()
	info, err := os.Lstat(filepath.Join(dir, name))
	if err != nil {
		t.Fatal(err)
	}
	return info.ModTime()
}

// TestSetTimes: the same content has the same time, wherever and whenever it is written, and other content
// another.
func TestSetTimes(t *testing.T) {
	files := map[string]string{"a/one": "1", "a/two": "2", "b/one": "1", ".git/index": "x"}
	first := tree(t, files)
	files["a/two"], files[".git/index"] = "3", "y"
	second := tree(t, files)
	files["b/new"] = ""
	third := tree(t, files)
	for _, name := range []string{".", "a", "b", "a/one", "link", "b/one"} {
		if a, b := timeAt(t, first, name), timeAt(t, second, name); a != b {
			t.Errorf("%s: %v and %v in the other folder", name, a, b)
		}
		if age := time.Since(timeAt(t, first, name)); age < 365*24*time.Hour {
			t.Errorf("%s is %v old: that is not in the past", name, age)
		}
	}
	if timeAt(t, first, "a/one") != timeAt(t, first, "b/one") || timeAt(t, first, "a/one") == timeAt(t, first, "a/two") {
		t.Error("the time of a file does not follow from its content")
	}
	if timeAt(t, first, "a/two") == timeAt(t, second, "a/two") {
		t.Error("a file with another content has the same time")
	}
	if timeAt(t, second, "b") == timeAt(t, third, "b") {
		t.Error("a folder with one more file has the same time")
	}
	if age := time.Since(timeAt(t, first, ".git/index")); age > time.Hour {
		t.Error("the folder of git is changed")
	}
}
