package gitread

import (
	"archive/tar"
	"archive/zip"
	"compress/gzip"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"talon/host/bound"
	"talon/internal/testkit"
)

// TestCostly shows that costly answers end soon while others are made, unless they are kept.
func TestCostly(t *testing.T) {
	s := newSite(t)
	repo, dir := s.generated(30, 1, false)
	r := s.open(repo)
	head := testkit.Git(t, dir, "rev-parse", "main")
	name := strings.Fields(testkit.Git(t, dir, "ls-tree", "--name-only", "-r", head))[0]
	path := strings.Split(name, "/")
	before, err := r.Blame(head, path)
	if err != nil || len(before) == 0 {
		t.Fatalf("a blame has %d lines: %v", len(before), err)
	}
	if err := s.reader.costly.Acquire(t.Context(), bound.Holder{}); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Blame(head, path); err != nil {
		t.Errorf("a blame that is kept: %v", err)
	}
	if _, _, err := r.Grep(head, "12"); !errors.Is(err, ErrBusy) {
		t.Errorf("a search while another is made: %v", err)
	}
	s.reader.costly.Release()
	if _, _, err := r.Grep(head, "12"); err != nil {
		t.Errorf("a search afterwards: %v", err)
	}
}

// TestBlame compares with git, with names that git quotes.
func TestBlame(t *testing.T) {
	s := newSite(t)
	dir := t.TempDir()
	testkit.Git(t, dir, "init", "-q", "-b", "main")
	write := func(name, content string) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
		testkit.Git(t, dir, "add", "-A")
		testkit.Git(t, dir, "commit", "-q", "-m", name)
	}
	odd := "a\"\n\u00fc\tb"
	write(odd, strings.Repeat("line that stays\n", 5)+"one\n")
	first := testkit.Git(t, dir, "rev-parse", "HEAD")
	testkit.Git(t, dir, "mv", odd, "new")
	write("new", strings.Repeat("line that stays\n", 5)+"two\n")
	second := testkit.Git(t, dir, "rev-parse", "HEAD")
	repo := s.repo(alice, "x")
	testkit.Git(t, dir, "push", "-q", repo.Dir(), "main")
	lines, err := s.open(repo).Blame(second, []string{"new"})
	if err != nil || len(lines) != 6 {
		t.Fatalf("%d lines: %v", len(lines), err)
	}
	if l := lines[0]; l.Commit != first || l.Line != 1 || l.Previous != "" {
		t.Errorf("the first line: %+v", l)
	}
	if l := lines[5]; l.Commit != second || l.Previous != first || l.OldName != odd {
		t.Errorf("the last line: %+v", l)
	}
}

// TestArchive reads what is in an archive, and asks for one that is too large.
func TestArchive(t *testing.T) {
	s := newSite(t)
	repo, dir := s.generated(30, 2, false)
	r := s.open(repo)
	head := testkit.Git(t, dir, "rev-parse", "main")
	want := strings.Count(testkit.Git(t, dir, "ls-tree", "-r", head), "\n") + 1
	for range 2 { // the second time it is kept
		f, err := r.Archive(head, "tar.gz", "x-main")
		if err != nil {
			t.Fatal(err)
		}
		z, err := gzip.NewReader(f)
		if err != nil {
			t.Fatal(err)
		}
		files := 0
		for in := tar.NewReader(z); ; {
			h, err := in.Next()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			if h.Typeflag == tar.TypeReg {
				files++
				if !strings.HasPrefix(h.Name, "x-main/") {
					t.Errorf("the file %q", h.Name)
				}
			}
		}
		if files != want {
			t.Errorf("%d files of %d", files, want)
		}
		check(t, f.Close())
	}
	f, err := r.Archive(head, "zip", "x-main")
	if err != nil {
		t.Fatal(err)
	}
	info, err := f.Stat()
	check(t, err)
	z, err := zip.NewReader(f, info.Size())
	if err != nil || len(z.File) < want {
		t.Errorf("a zip of %d files: %v", len(z.File), err)
	}
	check(t, f.Close())
}

// TestDropArchives: after a purge no archive is left on the disk, and the next request makes one.
func TestDropArchives(t *testing.T) {
	s := newSite(t)
	repo, dir := s.generated(3, 2, false)
	r := s.open(repo)
	head := testkit.Git(t, dir, "rev-parse", "main")
	kept := func() int {
		entries, err := os.ReadDir(r.reader.archives.dir)
		if err != nil {
			t.Fatal(err)
		}
		return len(entries)
	}
	for range 2 {
		f, err := r.Archive(head, "zip", "x")
		if err != nil {
			t.Fatal(err)
		}
		if n := kept(); n != 1 {
			t.Errorf("%d archives are kept, want 1", n)
		}
		if err := r.reader.DropArchives(); err != nil {
			t.Fatal(err)
		}
		if n := kept(); n != 0 {
			t.Errorf("%d archives are left", n)
		}
		if got, err := io.ReadAll(f); err != nil || len(got) == 0 {
			t.Errorf("who reads it gets %d bytes, %v", len(got), err)
		}
		f.Close()
	}
}
