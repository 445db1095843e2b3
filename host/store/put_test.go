package store

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"talon/host"
)

// TestRemoveDamaged replaces an event whose text cannot be read any more.
func TestRemoveDamaged(t *testing.T) {
	dir := t.TempDir()
	s := reopen(t, dir)
	put(t, s, 0, fake(1, 1, 0, 1, host.Tag{"t", "x"}))
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	raw(t, s.Path(), `UPDATE event SET json = x'7b7d'; UPDATE total SET bytes = 2; UPDATE usage SET bytes = 2`)
	s = reopen(t, dir)
	e := fake(2, 1, 0, 2)
	put(t, s, 0, e)
	if got := selected(t, s, 0, host.Filter{Limit: 10}); !slices.Equal(got, texts(e)) {
		t.Errorf("got %q", got)
	}
	check(t, s)
}

// TestFailure makes the database full in the middle of a transaction.
func TestFailure(t *testing.T) {
	s := merged(t, t.TempDir())
	before := fake(0, 1, 1, 1)
	put(t, s, 0, before)
	limit := func(pages int64) {
		if _, err := s.writer.conn.number(context.Background(), fmt.Sprintf(`PRAGMA max_page_count = %d`, pages)); err != nil {
			t.Fatal(err)
		}
	}
	pages, err := s.writer.conn.number(context.Background(), `PRAGMA page_count`)
	if err != nil {
		t.Fatal(err)
	}
	limit(pages + 5)
	tx, err := s.Begin()
	if err != nil {
		t.Fatal(err)
	}
	for n := 1; err == nil; n++ {
		if n > 10_000 {
			t.Fatal("the database does not get full")
		}
		_, err = tx.Put(fake(n, 1, 1, 1, host.Tag{"t", fmt.Sprint(n)}), 0)
	}
	if code(err) != 13 {
		t.Errorf("got %v, want that the database is full", err)
	}
	if _, err := tx.Put(fake(1, 1, 1, 1), 0); err == nil {
		t.Error("a broken transaction goes on")
	}
	if err := tx.Commit(); err == nil {
		t.Error("a broken transaction can be committed")
	}
	check(t, s)

	// The index is written by the commit.
	tx, err = s.Begin()
	if err != nil {
		t.Fatal(err)
	}
	var tags []host.Tag
	for n := range 250 {
		tags = append(tags, host.Tag{"t", fmt.Sprint(n)})
	}
	if _, err := tx.Put(fake(1, 1, 1, 1, tags...), 0); err != nil {
		t.Fatal(err)
	}
	limit(pages)
	if err := tx.Commit(); code(err) != 13 {
		t.Errorf("commit: got %v, want that the database is full", err)
	}
	check(t, s)
	if got := selected(t, s, 0, host.Filter{Limit: 10}); !slices.Equal(got, texts(before)) {
		t.Errorf("got %q", got)
	}

	limit(1 << 30)
	after := fake(1, 1, 1, 2)
	put(t, s, 0, after)
	if got := selected(t, s, 0, host.Filter{Limit: 10}); !slices.Equal(got, texts(before, after)) {
		t.Errorf("with room again: got %q", got)
	}
	check(t, s)
}
