//go:build linux

package main_test

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"syscall"
	"testing"

	"talon/host"
)

// million is a folder to take the large database from instead of making one in
// build/bench, for a comparison of two programs on one database.
var million = flag.String("million", "", "a data folder with 1,000,000 events, for BenchmarkServerMillion")

const millionEvents = 1_000_000

func millionFolder(tb testing.TB) string {
	if *million != "" {
		return *million
	}
	return fixture(tb, "million", millionEvents, func(i int) *host.Event { return draft(i, author(i)) })
}

// BenchmarkServerMillion asks a database of 1,000,000 events and then publishes 30,000
// more, into a copy: neither may cost much more than with few.
func BenchmarkServerMillion(b *testing.B) {
	dir := b.TempDir()
	if err := os.CopyFS(dir, os.DirFS(millionFolder(b))); err != nil {
		b.Fatal(err)
	}
	syscall.Sync() // or the server's first commit would write the copy to the disk, and be charged for it
	s := serve(b, dir)
	for _, bb := range []struct {
		name   string
		filter func(rnd *rand.Rand) string
	}{
		{"newest", func(rnd *rand.Rand) string {
			return fmt.Sprintf(`{"limit":500,"until":%d}`, created(rnd.IntN(millionEvents)))
		}},
		{"kinds", func(rnd *rand.Rand) string {
			return fmt.Sprintf(`{"kinds":[1,7],"limit":500,"until":%d}`, created(rnd.IntN(millionEvents)))
		}},
		{"authors=20,kinds,limit=50", func(rnd *rand.Rand) string {
			return `{"authors":` + some(rnd, 20, authors, authorHex) + `,"kinds":[1,7],"limit":50}`
		}},
		{"e=100", func(rnd *rand.Rand) string {
			return `{"#e":` + some(rnd, 100, named, namedEvent) + `,"limit":500}`
		}},
		{"a=100", func(rnd *rand.Rand) string {
			return `{"#a":` + some(rnd, 100, named, namedAddress) + `,"limit":500}`
		}},
		{"ids=500", func(rnd *rand.Rand) string {
			return `{"ids":` + some(rnd, 500, millionEvents, idHex) + `,"limit":500}`
		}},
	} {
		b.Run(bb.name, func(b *testing.B) {
			rnd := rand.New(rand.NewPCG(2, 2))
			var reqs []string
			for range 200 {
				reqs = append(reqs, string(appendFrame(nil, `["REQ","s",`+bb.filter(rnd)+`]`)))
			}
			p := dial(b, s, false)
			ask(b, p, reqs[:40])
			for b.Loop() {
				began := s.cpu()
				events, times := ask(b, p, reqs[40:])
				used := s.cpu() - began
				if b.Failed() {
					b.FailNow()
				}
				b.ReportMetric(0, "ns/op")
				b.ReportMetric(millis(used)/float64(len(times)), "cpu-ms/query")
				b.ReportMetric(float64(events)/float64(len(times)), "events/query")
				b.ReportMetric(millis(quantile(times, 0.5)), "p50-ms")
				b.ReportMetric(millis(quantile(times, 0.99)), "p99-ms")
			}
		})
	}
	b.Run("accept", func(b *testing.B) {
		const n = 30_000
		from := 2 * millionEvents
		for b.Loop() {
			events := sign(b, from, from+n)
			from += n
			before, written := s.metrics(), s.written()
			r := publish(b, s, slices.Clone(events), publishers, inFlight)
			if stored := delta(before, s.metrics(), `talon_relay_ok_total{code="stored"}`, ""); stored != n {
				b.Fatalf("%v events were stored, want %d", stored, n)
			}
			b.ReportMetric(0, "ns/op")
			b.ReportMetric(micros(r.cpu)/n, "cpu-µs/event")
			b.ReportMetric(n/r.wall.Seconds(), "events/s")
			b.ReportMetric(millis(quantile(r.times, 0.99)), "p99-ms")
			b.ReportMetric((s.written()-written)/n/1000, "written-kB/event")
			rss, _ := s.memory()
			b.ReportMetric(rss/1e6, "resident-MB")
			b.ReportMetric(s.metrics()["talon_store_database_bytes"]/1e9, "file-GB")
		}
	})
}
