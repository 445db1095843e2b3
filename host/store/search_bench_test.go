package store

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"talon/host"
	"talon/host/store/storetest"
)

// BenchmarkSearch reports what words cost: the bytes of the database for each comment of 25
// words, and for each note of the same text, and the time of searches among 20,000 comments.
// Word N of 5,000 is in about one of N comments.
func BenchmarkSearch(b *testing.B) {
	const events = 20_000
	fill := func(kind host.Kind) *Store {
		s := open(b)
		rng := rand.New(rand.NewPCG(1, 2))
		zipf := rand.NewZipf(rng, 1.01, 1, 4999)
		var batch []*host.Event
		for n := range events {
			text := make([]string, 25)
			for i := range text {
				text[i] = fmt.Sprint("word", zipf.Uint64())
			}
			e := fake(n, byte(n), kind, int64(n))
			e.Content = strings.Join(text, " ")
			e.JSON = e.AppendJSON(nil)
			if batch = append(batch, e); len(batch) == 500 {
				put(b, s, 0, batch...)
				batch = batch[:0]
			}
		}
		return s
	}
	size := func(s *Store) float64 {
		c, err := dial(s.Path(), "ro")
		if err != nil {
			b.Fatal(err)
		}
		defer c.close()
		bytes, err := c.number(context.Background(), `SELECT page_count * page_size FROM pragma_page_count, pragma_page_size`)
		if err != nil {
			b.Fatal(err)
		}
		return float64(bytes) / events
	}
	comments, notes := fill(1111), fill(1)
	for _, text := range []string{"word0", "word0 word1", "word30 word31", "word0 word4000", "word0 missing"} {
		f := storetest.Searching(b, text)
		b.Run(strings.ReplaceAll(text, " ", "+"), func(b *testing.B) {
			for b.Loop() {
				if _, err := comments.Select(context.Background(), []host.Filter{f}, 0); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
	b.Logf("%.0f bytes a comment, %.0f bytes a note", size(comments), size(notes))
}
