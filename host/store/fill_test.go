package store

import (
	"context"
	"slices"
	"testing"

	"talon/host"
	"talon/host/store/storetest"
)

// TestIndexWords takes the rows of words out of the index, and has them made from the events:
// once with all rows in table posting, and once with some in a memtable.
func TestIndexWords(t *testing.T) {
	mergesSome := defaultTuning
	mergesSome.mergeFrom = 4
	for _, tune := range []*tuning{mergesAll, &mergesSome} {
		s, err := Open(t.Context(), t.TempDir(), Options{tune: tune})
		if err != nil {
			t.Fatal(err)
		}
		issue := fake(1, 1, 1621, 10, host.Tag{"subject", "Crash of words"})
		put(t, s, 0, issue)
		words := issue.Words()
		for n := range 6 {
			comment := fake(n+2, 1, 1111, 11)
			put(t, s, 0, comment, fake(n+20, 1, 1, 11))
			words = append(words, comment.Words()...)
		}
		var keys [][]byte
		for _, word := range words {
			keys = append(keys, s.keys.key(host.WordOf, word))
		}
		path := s.Path()
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		c, err := dial(path, "rw")
		if err != nil {
			t.Fatal(err)
		}
		rows := func() int64 {
			n, err := c.number(context.Background(), `SELECT count(*) FROM posting`)
			if err != nil {
				t.Fatal(err)
			}
			return n
		}
		before := rows()
		for _, key := range keys {
			if err := c.exec(`DELETE FROM posting WHERE key = ?`, key); err != nil {
				t.Fatal(err)
			}
		}
		without := rows()
		if err := indexWords(c); err != nil {
			t.Fatal(err)
		}
		if without >= before || rows() != before {
			t.Errorf("%d rows, %d without words, and %d again", before, without, rows())
		}
		if err := c.close(); err != nil {
			t.Fatal(err)
		}
		s, err = Open(t.Context(), path, Options{tune: tune})
		if err != nil {
			t.Fatal(err)
		}
		if got := storetest.Selected(t, tested{s}, 0, storetest.Searching(t, "words crash")); !slices.Equal(got, texts(issue)) {
			t.Errorf("got %q", got)
		}
		check(t, s)
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
}
