package gitread

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"talon/internal/testkit"
)

// TestDiffs compares the diffs of generated commits with those of git, by files and numbers of lines.
func TestDiffs(t *testing.T) {
	s := newSite(t)
	repo, dir := s.generated(60, 3, false)
	r := s.open(repo)
	for _, id := range strings.Fields(testkit.Git(t, dir, "rev-list", "main")) {
		c, err := r.Commit(id)
		if err != nil {
			t.Fatal(err)
		}
		d, err := r.CommitDiff(c)
		if err != nil {
			t.Fatal(err)
		}
		from := "4b825dc642cb6eb9a060e54bf8d69288fbee4904" // the empty tree
		if len(c.Parents) > 0 {
			from = c.Parents[0]
		}
		want := testkit.Git(t, dir, "diff-tree", "-r", "-M", "--numstat", "--no-commit-id", from, id)
		for _, f := range d.Files {
			name := strings.Trim(quote(f.Name()), `"`)
			if f.Status == 'R' {
				continue
			}
			if name != f.Name() {
				name = quote(f.Name())
			}
			row := fmt.Sprintf("%d\t%d\t%s", f.Added, f.Removed, name)
			if !strings.Contains(want+"\n", row+"\n") {
				t.Errorf("%s: %q is not in %q", id, row, want)
			}
			added, removed := 0, 0
			for _, h := range f.Hunks {
				for _, l := range h.Lines {
					switch l.Kind {
					case '+':
						added++
					case '-':
						removed++
					}
				}
			}
			if added != f.Added || removed != f.Removed {
				t.Errorf("%s: %s has %d and %d lines of %d and %d", id, row, added, removed, f.Added, f.Removed)
			}
		}
		if want != "" && d.Count != strings.Count(want, "\n")+1 {
			t.Errorf("%s: %d files, git has %q", id, d.Count, want)
		}
	}
}

// TestLargeDiffs shows a part of a diff that is too large, and says so.
func TestLargeDiffs(t *testing.T) {
	s := newSite(t)
	dir := t.TempDir()
	testkit.Git(t, dir, "init", "-q", "-b", "main")
	for i := range 150 {
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("%03d", i)), []byte(strings.Repeat("a line\n", 20)), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for name, content := range map[string]string{
		"0-many": strings.Repeat("x\n", 3000), "0-long": strings.Repeat("y", 100_000) + "\nshort\n", "0-binary": "\x00\x01", "0 new\nline": "diff --git a/x b/x\n@@ -1 +1 @@\n", "0-end": "no line break",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	testkit.Git(t, dir, "add", "-A")
	testkit.Git(t, dir, "commit", "-q", "-m", "many files")
	repo := s.repo(alice, "x")
	testkit.Git(t, dir, "push", "-q", repo.Dir(), "main")
	r := s.open(repo)
	at, _ := r.HEAD()
	c, err := r.Commit(at.Commit)
	if err != nil {
		t.Fatal(err)
	}
	d, err := r.CommitDiff(c)
	if err != nil {
		t.Fatal(err)
	}
	if d.Count != 155 || !d.Cut || len(d.Files) != 155 {
		t.Errorf("%d files of %d, cut: %v", len(d.Files), d.Count, d.Cut)
	}
	for _, f := range d.Files {
		lines := 0
		for _, h := range f.Hunks {
			lines += len(h.Lines)
		}
		switch f.New {
		case "0-many":
			if lines != maxFileLines || !f.Cut || f.Added != 3000 {
				t.Errorf("%s: %d lines of %d, cut: %v", f.New, lines, f.Added, f.Cut)
			}
		case "0-long", "0 new\nline":
			if lines != 2 || f.Added != 2 || len(f.Hunks) != 1 {
				t.Errorf("%s: %d lines of %d in %d hunks", f.New, lines, f.Added, len(f.Hunks))
			}
		case "0-binary":
			if !f.Binary || lines > 0 {
				t.Errorf("%s: binary: %v", f.New, f.Binary)
			}
		case "0-end":
			if lines != 2 || f.Hunks[0].Lines[1].Kind != '\\' {
				t.Errorf("%s: %v", f.New, f.Hunks)
			}
		}
	}
}
