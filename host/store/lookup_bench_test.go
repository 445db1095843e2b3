package store

import (
	"context"
	"fmt"
	"testing"

	"talon/host"
)

// BenchmarkAnnouncementsOf looks up the announcements of one identifier, as each push
// does, among 100,000 stored and 10,000 held events. In the hostile cases everything
// in purgatory has that identifier: by one kind, which the answer needs, or by another,
// which it must pass over.
func BenchmarkAnnouncementsOf(b *testing.B) {
	s := openWith(b, b.TempDir(), Options{Held: HeldLimits{Events: 1 << 30, ByAuthor: 1 << 30, Bytes: 1 << 40}})
	l := newLoad(4)
	fill(b, s, l, 100_000)
	const held = 10_000
	one := func(n int, kind host.Kind, d string) *host.Event {
		e := l.event()
		e.Kind, e.PubKey = kind, host.PubKey{byte(n), byte(n >> 8), 1}
		e.Tags = host.Tags{{"d", d}, {"clone", "https://git.example.com/npub1/x.git"}, {"maintainers", l.author().String()}}
		e.JSON = e.AppendJSON(nil)
		return e
	}
	for _, c := range []struct {
		name string
		kind host.Kind
		d    func(n int) string
		put  bool
	}{
		{"ordinary", 30617, func(n int) string { return fmt.Sprint("repo", n/3) }, false},
		{"hostile states", 30618, func(int) string { return "repo7" }, false},
		{"hostile announcements", 30617, func(int) string { return "repo7" }, false},
		{"hostile announcements stored", 30617, func(int) string { return "repo7" }, true},
	} {
		change(b, s, func(tx *Tx) error {
			for n := range held {
				e := one(n, c.kind, c.d(n))
				var err error
				if c.put {
					_, err = tx.Put(e, 100)
				} else {
					_, err = tx.Hold(e, awaitingGit, 100)
				}
				if err != nil {
					return err
				}
			}
			return nil
		})
		f := host.Filter{Kinds: []host.Kind{30617}, Tags: []host.TagFilter{{Name: 'd', Values: []string{"repo7"}}}, Limit: -1}
		for _, limit := range []int{-1, 500} {
			f.Limit = limit
			b.Run(fmt.Sprintf("%s/held limit=%d", c.name, limit), func(b *testing.B) {
				n := 0
				for b.Loop() {
					found, err := s.HeldBy(context.Background(), f)
					if err != nil {
						b.Fatal(err)
					}
					n = len(found)
				}
				b.ReportMetric(float64(n), "rows")
			})
			b.Run(fmt.Sprintf("%s/stored limit=%d", c.name, limit), func(b *testing.B) {
				n := 0
				for b.Loop() {
					sel, err := s.Select(context.Background(), []host.Filter{f}, 0)
					if err != nil {
						b.Fatal(err)
					}
					n = 0
					err = s.Fetch(context.Background(), sel.Rows, func(int64, []byte) error { n++; return nil })
					if err != nil {
						b.Fatal(err)
					}
				}
				b.ReportMetric(float64(n), "rows")
			})
		}
		change(b, s, func(tx *Tx) error { _, err := tx.SweepHeld(1<<40, 1<<30); return err })
	}
}
