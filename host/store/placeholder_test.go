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

func dropPlaceholder(t testing.TB, s *Store, repo string, ids ...host.ID) {
	t.Helper()
	if err := s.DropPlaceholder(context.Background(), repo, ids...); err != nil {
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

func TestPlaceholders(t *testing.T) {
	dir := t.TempDir()
	s := reopen(t, dir)
	wantPlaceholders(t, s)
	total := s.Stats().Total
	addPlaceholder(t, s, "b", host.ID{1}, 30)
	addPlaceholder(t, s, "a", host.ID{2}, 20)
	addPlaceholder(t, s, "a", host.ID{1}, 20)
	addPlaceholder(t, s, "\x00\xff", host.ID{1}, -5)
	addPlaceholder(t, s, "a", host.ID{1}, 10) // is there: its time stays
	all := []string{`-5 "\x00\xff" 1`, `20 "a" 1`, `20 "a" 2`, `30 "b" 1`}
	wantPlaceholders(t, s, all...)
	if s.Stats().Total != total {
		t.Errorf("placeholders change the totals of events: %v, %v before", s.Stats().Total, total)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = reopen(t, dir)
	wantPlaceholders(t, s, all...)
	dropPlaceholder(t, s, "a")
	dropPlaceholder(t, s, "c", host.ID{1})
	dropPlaceholder(t, s, "a", host.ID{1}, host.ID{9}, host.ID{1}, host.ID{2})
	wantPlaceholders(t, s, all[0], all[3])
	if n := s.placeholders.Load(); n != 2 {
		t.Errorf("%d rows are counted, 2 are there", n)
	}
	check(t, s)

	ro, err := OpenReadOnly(context.Background(), dir, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer ro.Close()
	wantPlaceholders(t, ro, all[0], all[3])
	if err := ro.AddPlaceholder(context.Background(), "a", host.ID{1}, 1); !errors.Is(err, ErrReadOnly) {
		t.Errorf("add: got %v, want %v", err, ErrReadOnly)
	}
	if err := ro.DropPlaceholder(context.Background(), "a", host.ID{1}); !errors.Is(err, ErrReadOnly) {
		t.Errorf("drop: got %v, want %v", err, ErrReadOnly)
	}
}

// TestPlaceholdersAreBounded counts also after what failed, and after a restart.
func TestPlaceholdersAreBounded(t *testing.T) {
	dir := t.TempDir()
	opts := Options{Readers: 1, Held: HeldLimits{Placeholders: 3}}
	s := openWith(t, dir, opts)
	add := func(n byte) error { return s.AddPlaceholder(context.Background(), "a", host.ID{n}, int64(n)) }
	full := func() {
		t.Helper()
		for range 2 {
			if err := add(9); !errors.Is(err, ErrTooManyPlaceholders) || !strings.Contains(err.Error(), "3 is the most") {
				t.Errorf("got %v, want %v", err, ErrTooManyPlaceholders)
			}
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := s.AddPlaceholder(ctx, "a", host.ID{9}, 1); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	if err := s.AddPlaceholder(context.Background(), strings.Repeat("a", maxPlaceholderRepo+1), host.ID{9}, 1); err == nil {
		t.Error("a key that is too long is taken")
	}
	for n := range byte(3) {
		if err := errors.Join(add(n), add(n)); err != nil {
			t.Fatal(err)
		}
	}
	full()
	wantPlaceholders(t, s, `0 "a" 0`, `1 "a" 1`, `2 "a" 2`)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = openWith(t, dir, opts)
	full()
	if err := add(1); err != nil {
		t.Errorf("one that is there, of a full table: %v", err)
	}
	dropPlaceholder(t, s, "a", host.ID{1})
	if err := add(8); err != nil {
		t.Error(err)
	}
	full()
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

func TestDeletedAddress(t *testing.T) {
	s := reopen(t, t.TempDir())
	a := host.Address{Kind: 30617, PubKey: host.PubKey{1}, D: "repo"}
	other := host.Address{Kind: 30617, PubKey: host.PubKey{2}, D: "repo"}
	put(t, s, 0, fake(1, 1, host.KindDeletion, 20, []string{"a", a.String()}, []string{"a", other.String()}))
	for _, tt := range []struct {
		address host.Address
		at      int64
		want    bool
	}{
		{a, 19, true},
		{a, 20, true},
		{a, 21, false},
		{other, 1, false}, // a stranger deletes nothing
		{host.Address{Kind: 30618, PubKey: a.PubKey, D: "repo"}, 1, false},
	} {
		got, err := s.DeletedAddress(context.Background(), tt.address, tt.at)
		if err != nil || got != tt.want {
			t.Errorf("%s at %d: got %v, %v; want %v", tt.address, tt.at, got, err, tt.want)
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := s.DeletedAddress(context.Background(), a, 1); !errors.Is(err, ErrClosed) {
		t.Errorf("got %v, want %v", err, ErrClosed)
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
