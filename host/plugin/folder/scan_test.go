package folder

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func put(t *testing.T, dir string, files ...string) {
	t.Helper()
	for _, file := range files {
		if err := os.WriteFile(filepath.Join(dir, file), []byte(file), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// scanned returns the entries as "name", with .wasm and .toml where these are,
// and the problems by file.
func scanned(t *testing.T, dir string) ([]string, map[string]string) {
	t.Helper()
	entries, problems, err := Scan(dir)
	if err != nil {
		t.Fatal(err)
	}
	var list []string
	for _, e := range entries {
		if e.Wasm != nil {
			e.Name += ".wasm"
		}
		if e.Sidecar != nil {
			e.Name += ".toml"
		}
		if e.Signature != nil {
			e.Name += ".sig"
		}
		list = append(list, e.Name)
	}
	byFile := map[string]string{}
	for _, p := range problems {
		byFile[p.Name] = p.Reason
	}
	return list, byFile
}

func TestScan(t *testing.T) {
	dir := t.TempDir()
	long := strings.Repeat("x", 64)
	put(t, dir,
		"b.wasm", "a.wasm", "a.toml", "a.wasm.sig", "alone.toml", "alone.wasm.sig", "none.wasm.sig", "ä.wasm.sig", "b.sig", ".b.wasm.sig", "A-_9.wasm", long+".wasm",
		"Open.wasm", "open.wasm", "OPEN.toml", "Rate.wasm", "rate.toml",
		"a b.wasm", "ä.wasm", "a.b.wasm", long+"x.wasm", "c.WASM", "c.Toml", "a\nb.wasm",
		// What is passed over.
		".wasm", ".hidden.wasm", "a.wasm~", "a.toml~", ".a.toml.swp", "a.wasm.tmp", "a.tmp.wasm", "a.new.toml", "a.part.wasm",
		"a.wasm.part", "a.bak.toml", "a~.wasm", "#a.toml#", "#a.toml", "4913", "README.md", "a.wasm.sha256", "wasm", "toml")
	for _, folder := range []string{"folder.wasm", "sub"} {
		if err := os.Mkdir(filepath.Join(dir, folder), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	list, problems := scanned(t, dir)
	want := []string{"A-_9.wasm", "Rate.wasm", "a.wasm.toml.sig", "alone.toml.sig", "b.wasm", "none.sig", "open.wasm", long + ".wasm"}
	if !slices.Equal(list, want) {
		t.Errorf("got  %q\nwant %q", list, want)
	}
	wantProblems := map[string]string{
		"alone.toml": "no alone.wasm", "Open.wasm": "open.wasm only in case", "OPEN.toml": "open.toml only in case",
		"rate.toml": "Rate.toml only in case", "c.WASM": "want .wasm", "c.Toml": "want .toml",
		"a b.wasm": "a-z", "ä.wasm": "a-z", "a.b.wasm": "a-z", long + "x.wasm": "at most 64", "a\nb.wasm": `"a\nb" has not`,
	}
	for file, part := range wantProblems {
		if !strings.Contains(problems[file], part) {
			t.Errorf("problem of %q is %q, want %q", file, problems[file], part)
		}
		delete(problems, file)
	}
	if len(problems) > 0 {
		t.Errorf("problems that are none: %q", problems)
	}
}

func TestScanJunk(t *testing.T) {
	dir := t.TempDir()
	put(t, dir, "a.wasm")
	for i := range 250 {
		put(t, dir, fmt.Sprintf("%d.log", i), fmt.Sprintf(".%d.wasm", i), fmt.Sprintf("%d.wasm~", i), fmt.Sprintf("x y%d.wasm", i))
	}
	list, problems := scanned(t, dir)
	if !slices.Equal(list, []string{"a.wasm"}) || len(problems) != maxProblems {
		t.Errorf("got %q and %d problems", list, len(problems))
	}
}

func TestScanTooMany(t *testing.T) {
	dir := t.TempDir()
	for i := range maxEntries + 5 {
		put(t, dir, fmt.Sprintf("p%d.wasm", i))
	}
	list, problems := scanned(t, dir)
	if len(list) != maxEntries || len(problems) != 5 {
		t.Errorf("%d entries and %d problems", len(list), len(problems))
	}
}

func TestScanNoFolder(t *testing.T) {
	dir := t.TempDir()
	put(t, dir, "file")
	for _, path := range []string{"none", "file"} {
		if _, _, err := Scan(filepath.Join(dir, path)); err == nil {
			t.Errorf("%s: no error", path)
		}
	}
}

// What is there and cannot be read is an entry, and Read says why.
func TestUnreadable(t *testing.T) {
	dir := t.TempDir()
	if err := unix.Mkfifo(filepath.Join(dir, "fifo.wasm"), 0o600); err != nil {
		t.Fatal(err)
	}
	for link, target := range map[string]string{"broken.wasm": "none", "folder.wasm": ".", "zero.wasm": os.DevNull, "loop.wasm": "loop.wasm"} {
		if err := os.Symlink(target, filepath.Join(dir, link)); err != nil {
			t.Fatal(err)
		}
	}
	put(t, dir, "large.wasm", "good.wasm")
	if err := os.Truncate(filepath.Join(dir, "large.wasm"), 1001); err != nil {
		t.Fatal(err)
	}
	want := map[string]string{
		"fifo": "not a regular file", "broken": "no such file", "folder": "not a regular file", "zero": "not a regular file",
		"loop": "too many levels", "large": "large.wasm has 1001 bytes: want at most 1000", "good": "",
	}
	entries, problems, err := Scan(dir)
	if err != nil || len(problems) > 0 || len(entries) != len(want) {
		t.Fatalf("%d entries, problems %v, %v", len(entries), problems, err)
	}
	for _, e := range entries {
		data, err := Read(e.Wasm, 1000)
		switch part := want[e.Name]; {
		case part == "" && (err != nil || string(data) != "good.wasm"):
			t.Errorf("%s: %q, %v", e.Name, data, err)
		case part != "" && (err == nil || errors.Is(err, ErrChanged) || !strings.Contains(err.Error(), part)):
			t.Errorf("%s: %v, want %q", e.Name, err, part)
		}
	}
}

func TestReadChanged(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "a.wasm")
	for name, change := range map[string]func() error{
		"longer":   func() error { return appendTo(path, "more") },
		"shorter":  func() error { return os.Truncate(path, 1) },
		"removed":  func() error { return os.Remove(path) },
		"replaced": func() error { return Write(dir, "a.wasm", []byte("a.wasm")) },
		"same size and time": func() error {
			info, err := os.Stat(path)
			if err != nil {
				return err
			}
			put(t, dir, "a.wasm")
			return os.Chtimes(path, info.ModTime(), info.ModTime())
		},
	} {
		t.Run(name, func(t *testing.T) {
			put(t, dir, "a.wasm")
			entries, _, err := Scan(dir)
			if err != nil {
				t.Fatal(err)
			}
			// The content is settled after it was read once.
			if _, err := Read(entries[0].Wasm, 1000); err != nil {
				t.Fatal(err)
			}
			if err := change(); err != nil {
				t.Fatal(err)
			}
			if _, err := Read(entries[0].Wasm, 1000); !errors.Is(err, ErrChanged) {
				t.Errorf("got %v, want ErrChanged", err)
			}
		})
	}
}

// A file that changes while it is read, right after it was made, is not taken
// for what it was.
func TestReadWhileWritten(t *testing.T) {
	dir := t.TempDir()
	put(t, dir, "a.wasm")
	for name, write := range map[string]func() error{
		"more":      func() error { return appendTo(filepath.Join(dir, "a.wasm"), "more") },
		"as much":   func() error { return os.WriteFile(filepath.Join(dir, "a.wasm"), []byte("A.WASM"), 0o600) },
		"less":      func() error { return os.Truncate(filepath.Join(dir, "a.wasm"), 0) },
		"elsewhere": func() error { return nil },
	} {
		put(t, dir, "a.wasm")
		entries, _, err := Scan(dir)
		if err != nil {
			t.Fatal(err)
		}
		data, err := read(entries[0].Wasm, 1000, func(d time.Duration) {
			time.Sleep(d)
			if err := write(); err != nil {
				t.Error(err)
			}
		})
		if name == "elsewhere" && (err != nil || string(data) != "a.wasm") || name != "elsewhere" && !errors.Is(err, ErrChanged) {
			t.Errorf("%s: %q, %v", name, data, err)
		}
	}
}

func appendTo(path, text string) error {
	f, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	return errors.Join(err, f.Close())
}

func TestSettled(t *testing.T) {
	now := time.Unix(1000, 0)
	s := Stamp{modified: now.Add(-time.Hour).UnixNano(), changed: now.Add(-5 * time.Millisecond).UnixNano()}
	for after, want := range map[time.Duration]time.Duration{
		0: 15 * time.Millisecond, 15 * time.Millisecond: 0, time.Hour: 0, -time.Hour: 0,
	} {
		if got := s.settled(now.Add(after)); got != want {
			t.Errorf("after %v: %v, want %v", after, got, want)
		}
	}
}

func TestWriteAndRemove(t *testing.T) {
	dir := t.TempDir()
	target := filepath.Join(t.TempDir(), "theirs")
	if err := os.WriteFile(target, []byte("theirs"), 0o600); err != nil {
		t.Fatal(err)
	}
	put(t, dir, "kept.toml")
	if err := os.Symlink(target, filepath.Join(dir, "link.toml")); err != nil {
		t.Fatal(err)
	}
	for file, mode := range map[string]os.FileMode{"kept.toml": 0o600, "fresh.wasm": 0o644, "link.toml": 0o644} {
		if err := Write(dir, file, []byte("new")); err != nil {
			t.Fatal(err)
		}
		info, err := os.Lstat(filepath.Join(dir, file))
		if err != nil || info.Mode() != mode || info.Size() != 3 {
			t.Errorf("%s: %v, %v, want %v", file, info.Mode(), err, mode)
		}
	}
	if data, err := os.ReadFile(target); err != nil || string(data) != "theirs" {
		t.Errorf("the target of the link has %q, %v", data, err)
	}
	if err := errors.Join(Write(dir, "fresh.wasm.sig", nil), Remove(dir, "fresh.wasm.sig")); err != nil {
		t.Error(err)
	}
	for range 2 {
		if err := Remove(dir, "kept.toml"); err != nil {
			t.Fatal(err)
		}
	}
	if list, _ := scanned(t, dir); !slices.Equal(list, []string{"fresh.wasm", "link.toml"}) {
		t.Errorf("got %q", list)
	}
	for _, file := range []string{"", "x", "../x.wasm", "a/b.toml", ".x.wasm", ".wasm", "x.md", "x.tmp.wasm", "a b.toml", "#a.toml", "x.WASM"} {
		if err := Write(dir, file, nil); err == nil {
			t.Errorf("wrote %q", file)
		}
		if err := Remove(dir, file); err == nil {
			t.Errorf("removed %q", file)
		}
	}
}
