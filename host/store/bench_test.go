package store

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"talon/host"
	"talon/internal/testkit"
)

// perEvent reports CPU time by event.
func perEvent(b *testing.B, began time.Duration, events int) {
	b.ReportMetric(float64((testkit.CPU()-began).Nanoseconds())/float64(events)/1e3, "cpu-µs/event")
}

// BenchmarkPut stores events on top of others, with several numbers of events in a
// commit. The log is copied back in the time, as it is in service.
func BenchmarkPut(b *testing.B) {
	for _, base := range []int{0, 100_000} {
		for _, batch := range []int{64, 256} {
			b.Run(fmt.Sprintf("base=%d/batch=%d", base, batch), func(b *testing.B) {
				s, l := open(b), newLoad(1)
				fill(b, s, l, base)
				b.ResetTimer()
				var spent time.Duration
				events := make([]*host.Event, batch)
				done := 0
				for done < b.N {
					n := min(batch, b.N-done)
					b.StopTimer()
					for i := range n {
						events[i] = l.event()
					}
					b.StartTimer()
					began := testkit.CPU()
					put(b, s, 0, events[:n]...)
					spent += testkit.CPU() - began
					done += n
				}
				perEvent(b, testkit.CPU()-spent, done)
			})
		}
	}
}

func fill(b testing.TB, s *Store, l *load, n int) {
	b.Helper()
	for n > 0 {
		events := make([]*host.Event, min(n, 512))
		for i := range events {
			events[i] = l.event()
		}
		put(b, s, 0, events...)
		n -= len(events)
	}
}

// filledStore is a store of 100,000 events for the benchmarks that read.
type filledStore struct {
	*Store
	events []*host.Event
}

func newFilledStore(b *testing.B) *filledStore {
	sh := &filledStore{Store: open(b)}
	l := newLoad(2)
	for range 100_000 / 500 {
		part := make([]*host.Event, 500)
		for i := range part {
			part[i] = l.event()
		}
		put(b, sh.Store, 0, part...)
		// Events in memory make the collector's work longer, so the benchmark keeps few.
		sh.events = append(sh.events, part[:20]...)
	}
	return sh
}

// values returns n values of the tag, from events spread over the filledStore.
func (sh *filledStore) values(tag string, n int) []string {
	var out []string
	for i := 0; len(out) < n; i += len(sh.events)/(3*n) | 1 {
		for _, t := range sh.events[i%len(sh.events)].Tags {
			if t[0] == tag && !slices.Contains(out, t[1]) {
				out = append(out, t[1])
			}
		}
	}
	return out
}

func BenchmarkSelect(b *testing.B) {
	sh := newFilledStore(b)
	tag := func(name byte, n int) host.Filter {
		return host.Filter{Tags: []host.TagFilter{{Name: name, Values: sh.values(string(name), n)}}, Limit: 500}
	}
	with := func(f host.Filter, change func(*host.Filter)) host.Filter {
		change(&f)
		return f
	}
	l := newLoad(2)
	authors := l.authors[:20]
	middle := sh.events[len(sh.events)/2].CreatedAt
	for _, c := range []struct {
		name   string
		filter host.Filter
	}{
		{"a=100", tag('a', 100)},
		{"a=100 kinds=2", with(tag('a', 100), func(f *host.Filter) { f.Kinds = []host.Kind{1, 1621} })},
		{"e=100", tag('e', 100)},
		{"p=100 limit=50", with(tag('p', 100), func(f *host.Filter) { f.Limit = 50 })},
		{"p=100 limit=500", tag('p', 100)},
		{"t hot limit=50", with(tag('t', 1), func(f *host.Filter) { f.Limit = 50 })},
		{"t hot kinds=1 until limit=50", with(tag('t', 1), func(f *host.Filter) {
			f.Kinds, f.Limit, f.Until = []host.Kind{1}, 50, &middle
		})},
		{"t=50 limit=500", tag('t', 50)},
		{"authors=20 kinds=4", host.Filter{Authors: authors, Kinds: []host.Kind{0, 1, 3, 30617}, Limit: 500}},
		{"authors=20", host.Filter{Authors: authors, Limit: 500}},
		{"authors=1000 kinds=2", host.Filter{Authors: l.authors, Kinds: []host.Kind{1, 7}, Limit: 500}},
		{"author t", host.Filter{Authors: authors[:1], Tags: tag('t', 1).Tags, Limit: 500}},
		{"authors=20 t=50", host.Filter{Authors: authors, Tags: tag('t', 50).Tags, Limit: 500}},
		{"kinds=1 limit=50", host.Filter{Kinds: []host.Kind{1}, Limit: 50}},
		{"kinds=3 since until", host.Filter{Kinds: []host.Kind{1, 7, 1618}, Limit: 500, Until: &middle, Since: ptr(middle - 5000)}},
		{"everything limit=500", host.Filter{Limit: 500}},
	} {
		b.Run(c.name, func(b *testing.B) {
			filters := []host.Filter{c.filter}
			var times []time.Duration
			rows := 0
			began := testkit.CPU()
			for b.Loop() {
				t := time.Now()
				sel, err := sh.Select(context.Background(), filters, 0)
				if err != nil {
					b.Fatal(err)
				}
				times = append(times, time.Since(t))
				rows = len(sel.Rows)
			}
			spent := testkit.CPU() - began
			slices.Sort(times)
			b.ReportMetric(float64(times[len(times)/2].Microseconds())/1e3, "median-ms")
			b.ReportMetric(float64(spent.Microseconds())/1e3/float64(len(times)), "cpu-ms/op")
			b.ReportMetric(float64(rows), "rows")
		})
	}
}

// BenchmarkAnswer selects and fetches 500 events.
func BenchmarkAnswer(b *testing.B) {
	sh := newFilledStore(b)
	for _, c := range []struct {
		name   string
		filter host.Filter
	}{
		{"everything", host.Filter{Limit: 500}},
		{"kinds=1", host.Filter{Kinds: []host.Kind{1}, Limit: 500}},
		{"t", host.Filter{Tags: []host.TagFilter{{Name: 't', Values: []string{"topic1"}}}, Limit: 500}},
	} {
		b.Run(c.name, func(b *testing.B) {
			events := 0
			began := testkit.CPU()
			for b.Loop() {
				sel, err := sh.Select(context.Background(), []host.Filter{c.filter}, 0)
				if err != nil {
					b.Fatal(err)
				}
				err = sh.Fetch(context.Background(), sel.Rows, func(int64, []byte) error { events++; return nil })
				if err != nil {
					b.Fatal(err)
				}
			}
			perEvent(b, began, events)
		})
	}
}

func BenchmarkCount(b *testing.B) {
	sh := newFilledStore(b)
	for _, c := range []struct {
		name   string
		filter host.Filter
	}{
		{"everything", host.Filter{}},
		{"kinds=2", host.Filter{Kinds: []host.Kind{1, 7}}},
		{"t=5", host.Filter{Tags: []host.TagFilter{{Name: 't', Values: sh.values("t", 5)}}}},
	} {
		b.Run(c.name, func(b *testing.B) {
			for b.Loop() {
				if _, err := sh.Count(context.Background(), []host.Filter{c.filter}, 0); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkScan goes through a million events.
func BenchmarkScan(b *testing.B) {
	s := open(b)
	const total = 1_000_000
	for i := 0; i < total; {
		var part []*host.Event
		for range 2000 {
			part = append(part, fake(i, byte(i), host.Kind(1+i%3/2), int64(1_700_000_000+i/2)))
			i++
		}
		put(b, s, 0, part...)
	}
	for _, c := range []struct {
		name   string
		filter host.Filter
	}{
		{"everything", host.Filter{Limit: -1}},
		{"kinds=2", host.Filter{Limit: -1, Kinds: []host.Kind{1, 2}}},
		{"authors=250", host.Filter{Limit: -1, Authors: func() (all []host.PubKey) {
			for i := range 250 {
				all = append(all, host.PubKey{byte(i)})
			}
			return all
		}()}},
	} {
		b.Run(c.name, func(b *testing.B) {
			events := 0
			began := testkit.CPU()
			for b.Loop() {
				_, n, err := s.Scan(context.Background(), c.filter, 2*total, 0, func(int64, host.ID) {})
				if err != nil {
					b.Fatal(err)
				}
				events += n
			}
			perEvent(b, began, events)
		})
	}
}
