package gitread

import (
	"errors"
	"fmt"
	"testing"

	"talon/internal/testkit"
)

// TestNotes asks for a commit and a tag twice, and for a commit through a repository that does not
// reach it.
func TestNotes(t *testing.T) {
	s := newSite(t)
	dir := t.TempDir()
	testkit.Git(t, dir, "init", "-q", "-b", "main")
	testkit.Git(t, dir, "commit", "-q", "--allow-empty", "-m", "One")
	other := s.repo(bob, "lib")
	testkit.Git(t, dir, "push", "-q", other.Dir(), "main")
	testkit.Git(t, dir, "commit", "-q", "--allow-empty", "-m", "Two")
	testkit.Git(t, dir, "tag", "-a", "-m", "The tag", "v1")
	repo := s.repo(alice, "lib")
	testkit.Git(t, dir, "push", "-q", repo.Dir(), "main", "v1")
	s.share(other)
	s.share(repo)
	id, tag := testkit.Git(t, dir, "rev-parse", "main"), testkit.Git(t, dir, "rev-parse", "v1")
	for round := range 2 {
		r := s.open(repo)
		c, err := r.Commit(id)
		if err != nil || c.Subject() != "Two" {
			t.Fatalf("the commit: %+v, %v", c, err)
		}
		v, err := r.Tag(tag)
		if err != nil || v.Name != "v1" || v.Object != id {
			t.Fatalf("the tag: %+v, %v", v, err)
		}
		if asked := r.objects != nil; asked != (round == 0) {
			t.Errorf("round %d: git is asked: %v", round, asked)
		}
	}
	if _, err := s.open(other).Commitish(id); !errors.Is(err, ErrNotFound) {
		t.Errorf("a commit that only another repository reaches: %v", err)
	}
}

// TestNotesBound remembers more than fits, and something large.
func TestNotesBound(t *testing.T) {
	n := newNotes[string]()
	size := noteBytes / 256
	remember := func(id string, size int) (read bool) {
		value, err := n.get(id, func() (*string, int, error) {
			read = true
			return &id, size, nil
		})
		if err != nil || *value != id {
			t.Fatalf("%s: %v, %v", id, value, err)
		}
		return read
	}
	for i := range 1000 {
		remember(fmt.Sprint(i), size)
	}
	if remember("999", size) || !remember("0", size) {
		t.Error("want the last one remembered, and the first one forgotten")
	}
	for range 2 {
		if !remember("large", noteBytes/64) {
			t.Error("a large object is remembered")
		}
	}
	if _, err := n.get("damaged", func() (*string, int, error) { return nil, 0, ErrNotFound }); !errors.Is(err, ErrNotFound) || !remember("damaged", 1) {
		t.Errorf("an error: %v", err)
	}
}
