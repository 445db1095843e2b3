package store

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"talon/host"
)

func addPlaceholder(t testing.TB, s *Store, repo string, id host.ID, since int64) {
	t.Helper()
	if err := s.AddPlaceholder(context.Background(), repo, id, since); err != nil {
		t.Fatal(err)
	}
}

// wantPlaceholders compares all rows, as "since repo first-byte-of-id".
func wantPlaceholders(t testing.TB, s *Store, want ...string) {
	t.Helper()
	var got []string
	err := s.Placeholders(context.Background(), func(repo string, id host.ID, since int64) error {
		got = append(got, fmt.Sprintf("%d %q %d", since, repo, id[0]))
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// TestPlaceholdersInParts lists more than one statement reads, while they change.
func TestPlaceholdersInParts(t *testing.T) {
	s := open(t)
	n := 2*fetchRows + 10
	long := strings.Repeat("x", maxPlaceholderRepo)
	err := s.changeState(context.Background(), func(c *conn) error {
		for i := range n {
			if err := c.exec(`INSERT INTO placeholder VALUES (?, ?, ?)`, []byte(long), fake(i, 1, 1, 1).ID[:], int64(i/3)); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	seen, last := map[host.ID]bool{}, int64(0)
	err = s.Placeholders(context.Background(), func(repo string, id host.ID, since int64) error {
		if seen[id] || since < last || repo != long {
			t.Fatalf("row %d: %s again, or since %d after %d", len(seen), id, since, last)
		}
		seen[id], last = true, since
		return s.DropPlaceholder(context.Background(), repo, id)
	})
	if err != nil || len(seen) != n {
		t.Errorf("%d of %d, %v", len(seen), n, err)
	}
	wantPlaceholders(t, s)
	addPlaceholder(t, s, "a", host.ID{1}, 1)
	enough := errors.New("enough")
	if err := s.Placeholders(context.Background(), func(string, host.ID, int64) error { return enough }); err != enough {
		t.Errorf("got %v, want %v", err, enough)
	}
}

// TestPlaceholdersFromIndex: a part costs what it reads, not what is before it.
func TestPlaceholdersFromIndex(t *testing.T) {
	s := open(t)
	var plan []string
	const sql = `EXPLAIN QUERY PLAN SELECT since, repo, id FROM placeholder INDEXED BY placeholder_since
		WHERE (since, repo, id) > (1, x'00', x'00') ORDER BY since, repo, id LIMIT 1`
	err := s.writer.conn.each(context.Background(), sql, nil, func(row []driver.Value) error {
		plan = append(plan, fmt.Sprint(row[3]))
		return nil
	})
	want := "SEARCH placeholder USING COVERING INDEX placeholder_since ((since,repo,id)>(?,?,?))"
	if err != nil || len(plan) != 1 || plan[0] != want {
		t.Errorf("got %q, %v; want %q", plan, err, want)
	}
}

// BenchmarkAddPlaceholder adds to a table that is nearly full.
func BenchmarkAddPlaceholder(b *testing.B) {
	dir := b.TempDir()
	s := openWith(b, dir, Options{})
	if err := s.Close(); err != nil {
		b.Fatal(err)
	}
	raw(b, filepath.Join(dir, FileName), `
		WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 99000)
		INSERT INTO placeholder SELECT CAST(printf('%063d/repository', i % 500) AS BLOB), randomblob(32), 1700000000 + i FROM n`)
	s = openWith(b, dir, Options{Held: HeldLimits{Placeholders: 1 << 40}})
	n := 0
	for b.Loop() {
		n++
		addPlaceholder(b, s, "repo", fake(n, 1, 1, 1).ID, int64(n))
	}
}
