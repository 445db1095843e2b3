package store

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"flag"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"

	"talon/host"
	"talon/host/wire"
	"talon/internal/testkit"
)

var million = flag.String("million", "", "a data folder, for BenchmarkLarge")

// BenchmarkLarge selects from a database that is there: see BenchmarkServerMillion in
// cmd/talon, which makes one of 1,000,000 events.
func BenchmarkLarge(b *testing.B) {
	if *million == "" {
		b.Skip("no -million")
	}
	s := openWith(b, *million, Options{EventCache: *largeTexts, Map: *largeMap})
	rnd := rand.New(rand.NewPCG(1, 2))
	ctx := context.Background()
	var events []*host.Event
	seqs := make([]int64, 5000)
	for i := range seqs {
		seqs[i] = 1 + rnd.Int64N(s.Stats().Seq)
	}
	if err := s.Fetch(ctx, seqs, func(_ int64, json []byte) error {
		e, err := wire.ParseEvent(json)
		events = append(events, e)
		return err
	}); err != nil {
		b.Fatal(err)
	}
	spread := make([]int64, 100_000)
	for i := range spread {
		spread[i] = 1 + rnd.Int64N(s.Stats().Seq)
	}
	var ids []host.ID // so large a set that the cache seldom has what is asked for
	for part := range slices.Chunk(spread, 1000) {
		headers, err := s.Headers(ctx, part)
		if err != nil {
			b.Fatal(err)
		}
		for _, text := range headers {
			var header struct{ ID string }
			if err := json.Unmarshal(text, &header); err != nil {
				b.Fatal(err)
			}
			id, err := hex.DecodeString(header.ID)
			if err != nil {
				b.Fatal(err)
			}
			ids = append(ids, host.ID(id))
		}
	}
	tag := func(name string, n int) host.Filter {
		var values []string
		for len(values) < n {
			for _, t := range events[rnd.IntN(len(events))].Tags {
				if t[0] == name && !slices.Contains(values, t[1]) {
					values = append(values, t[1])
				}
			}
		}
		return host.Filter{Tags: []host.TagFilter{{Name: name[0], Values: values}}, Limit: 500}
	}
	authors := func(n int) (all []host.PubKey) {
		for len(all) < n {
			if a := events[rnd.IntN(len(events))].PubKey; !slices.Contains(all, a) {
				all = append(all, a)
			}
		}
		return all
	}
	for _, c := range []struct {
		name   string
		filter func() host.Filter
	}{
		{"newest", func() host.Filter { return host.Filter{Limit: 500, Until: &events[rnd.IntN(len(events))].CreatedAt} }},
		{"kinds=2", func() host.Filter {
			return host.Filter{Kinds: []host.Kind{1, 7}, Limit: 500, Until: &events[rnd.IntN(len(events))].CreatedAt}
		}},
		{"authors=20 kinds=2 limit=50", func() host.Filter {
			return host.Filter{Authors: authors(20), Kinds: []host.Kind{1, 7}, Limit: 50}
		}},
		{"authors=20 kinds=2", func() host.Filter {
			return host.Filter{Authors: authors(20), Kinds: []host.Kind{1, 7}, Limit: 500}
		}},
		{"e=100", func() host.Filter { return tag("e", 100) }},
		{"a=100", func() host.Filter { return tag("a", 100) }},
		{"a=1", func() host.Filter { return tag("a", 1) }},
		{"t=20", func() host.Filter { return tag("t", 20) }},
		{"ids=500", func() host.Filter {
			f := host.Filter{Limit: 500}
			for range 500 {
				f.IDs = append(f.IDs, ids[rnd.IntN(len(ids))])
			}
			return f
		}},
	} {
		for _, fetch := range []bool{false, true} {
			b.Run(c.name+map[bool]string{false: "/select", true: "/answer"}[fetch], func(b *testing.B) {
				var filters []host.Filter
				for range 400 {
					filters = append(filters, c.filter())
				}
				rows, n := 0, 0
				began, faults := testkit.CPU(), minorFaults(b)
				for b.Loop() {
					sel, err := s.Select(ctx, filters[n%len(filters):][:1], 0)
					if err != nil {
						b.Fatal(err)
					}
					n++
					rows += len(sel.Rows)
					if !fetch {
						continue
					}
					if err := s.Fetch(ctx, sel.Rows, func(int64, []byte) error { return nil }); err != nil {
						b.Fatal(err)
					}
				}
				spent := testkit.CPU() - began
				b.ReportMetric(float64(spent)/float64(time.Millisecond)/float64(n), "cpu-ms/op")
				b.ReportMetric(float64(rows)/float64(n), "rows/op")
				b.ReportMetric(float64(minorFaults(b)-faults)/float64(n), "faults/op")
			})
		}
	}
}

// minorFaults is how many pages the process has met for the first time.
func minorFaults(b *testing.B) int64 {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return u.Minflt
}

var largeMap = flag.Int64("map", 0, "bytes that it maps")
var largeTexts = flag.Int64("texts", 0, "bytes of texts that BenchmarkLarge remembers")

// BenchmarkPutLarge stores events in a copy of it.
func BenchmarkPutLarge(b *testing.B) {
	if *million == "" {
		b.Skip("no -million")
	}
	dir := filepath.Join(b.TempDir(), "copy")
	if err := os.CopyFS(dir, os.DirFS(*million)); err != nil {
		b.Fatal(err)
	}
	s := openWith(b, dir, Options{})
	var values []host.Tags
	rnd := rand.New(rand.NewPCG(1, 2))
	seqs := make([]int64, 50000)
	for i := range seqs {
		seqs[i] = 1 + rnd.Int64N(s.Stats().Seq)
	}
	var authors []host.PubKey
	if err := s.Fetch(b.Context(), seqs, func(_ int64, json []byte) error {
		e, err := wire.ParseEvent(json)
		values = append(values, e.Tags)
		authors = append(authors, e.PubKey)
		return err
	}); err != nil {
		b.Fatal(err)
	}
	l := newLoad(9)
	l.at = 1_800_000_000
	for _, batch := range []int{64, 256} {
		b.Run(map[int]string{64: "batch=64", 256: "batch=256"}[batch], func(b *testing.B) {
			events := make([]*host.Event, batch)
			var spent time.Duration
			done := 0
			for b.Loop() {
				for i := range events {
					e := l.event()
					e.Tags = host.Tags{values[rnd.IntN(len(values))][0], values[rnd.IntN(len(values))][1], values[rnd.IntN(len(values))][2], values[rnd.IntN(len(values))][3]}
					e.PubKey = authors[rnd.IntN(len(authors))]
					e.Kind = 1
					e.JSON = e.AppendJSON(nil)
					events[i] = e
				}
				began := testkit.CPU()
				put(b, s, 0, events...)
				spent += testkit.CPU() - began
				done += batch
			}
			b.ReportMetric(float64(spent.Microseconds())/float64(done), "cpu-µs/event")
		})
	}
}
