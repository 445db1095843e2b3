//go:build linux

package main_test

import (
	"bytes"
	"encoding/hex"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"talon/host"
	"talon/host/negentropy"
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
				reportTimes(b, "", times)
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

// BenchmarkServerNegentropy reconciles 1,000,000 events with a client that lacks
// every hundredth: the first session on a filter, which reads the database, and
// one behind it, which shares what was read. BenchmarkNegentropy in host/relay has
// the sessions after something has come or gone.
func BenchmarkServerNegentropy(b *testing.B) {
	const n = 1_000_000
	data := fixture(b, "neg", n, small)
	var lacking negentropy.Builder
	for i := range n {
		if i%100 != 50 {
			lacking.Add(negentropy.Item{CreatedAt: epoch + uint64(i), ID: numbered('i', i)})
		}
	}
	set := lacking.Build()
	for b.Loop() {
		// A first start compiles the modules, and leaves memory for a set to live in.
		serve(b, data).stop()
		s := serve(b, data)
		p := dial(b, s, false)
		_, before := s.memory()
		first := reconcile(b, s, p, set, n/100)
		second := reconcile(b, s, p, set, n/100)
		_, after := s.memory() // the set is still kept for others

		b.ReportMetric(0, "ns/op")
		b.ReportMetric(millis(first.cpu), "first-cpu-ms")
		b.ReportMetric(millis(first.wall), "first-ms")
		b.ReportMetric(millis(second.cpu), "second-cpu-ms")
		b.ReportMetric(float64(first.rounds), "rounds")
		b.ReportMetric((after-before)/n, "heap-B/item")
	}
}

type session struct {
	cpu, wall time.Duration
	rounds    int
}

// reconcile carries out one session over everything, and checks what it found.
func reconcile(tb testing.TB, s *server, p *peer, set *negentropy.Set, missing int) session {
	tb.Helper()
	c, err := negentropy.NewClient(set, negentropy.ClientLimits{Frame: 64 << 10, IDs: set.Len(), Rounds: 10_000})
	if err != nil {
		tb.Fatal(err)
	}
	cpu, began := s.cpu(), time.Now()
	msg, err := c.Initiate()
	if err != nil {
		tb.Fatal(err)
	}
	p.send(tb, `["NEG-OPEN","n",{},"`+hex.EncodeToString(msg)+`"]`)
	for done := false; !done; {
		f, err := p.next()
		if err != nil {
			tb.Fatal(err)
		}
		text, ok := bytes.CutPrefix(f.text, negMsgPrefix)
		if !ok {
			tb.Fatalf("no NEG-MSG, but %.200s", f.text)
		}
		reply, err := hex.AppendDecode(nil, bytes.TrimSuffix(text, []byte(`"]`)))
		if err != nil {
			tb.Fatal(err)
		}
		if msg, done, err = c.Reconcile(reply); err != nil {
			tb.Fatal(err)
		}
		if !done {
			p.send(tb, `["NEG-MSG","n","`+hex.EncodeToString(msg)+`"]`)
		}
	}
	p.send(tb, `["NEG-CLOSE","n"]`)
	expectEOSE(tb, p, string(appendFrame(nil, `["REQ","n",{"ids":[],"limit":0}]`)), 1)
	r := session{s.cpu() - cpu, time.Since(began), c.Rounds()}
	if len(c.Need()) != missing || len(c.Have()) != 0 {
		tb.Fatalf("found %d ids missing here and %d there, want %d and 0", len(c.Need()), len(c.Have()), missing)
	}
	return r
}

// crowd are the broad questions of clients who ask for everything, each valid and within
// the default limits.
func crowd() (frames []string) {
	all := func(name string, n int, value func(int) string) string {
		list := make([]string, n)
		for i := range list {
			list[i] = `"` + value(i) + `"`
		}
		return `"` + name + `":[` + strings.Join(list, ",") + `]`
	}
	topics := all("#t", 100, func(i int) string { return fmt.Sprintf("topic%d", i) })
	people := all("authors", authors, authorHex)
	pubkeys := all("#p", 1500, namedEvent)
	var pages []string
	for i := range 10 {
		pages = append(pages, fmt.Sprintf(`{"limit":5000,"until":%d}`, created(10_000*(i+1))))
	}
	for _, message := range []string{
		`["REQ","s",{"limit":5000}]`,
		`["REQ","s",{"kinds":[1,7,1111],"limit":5000}]`,
		`["REQ","s",{` + people + `,"limit":5000}]`,
		`["REQ","s",{` + topics + `,"limit":5000}]`,
		`["REQ","s",{` + topics + `,` + people + `,"limit":5000}]`,
		`["REQ","s",{` + topics + `,` + pubkeys + `,"limit":5000}]`,
		`["REQ","s",` + strings.Join(pages, ",") + `]`,
		`["COUNT","s",{` + topics + `}]`,
		`["COUNT","s",{` + topics + `,` + people + `}]`,
		`["COUNT","s",{` + people + `,"#t":["topic1","topic2","topic3"],` + pubkeys + `}]`,
	} {
		frames = append(frames, string(appendFrame(nil, message)))
	}
	return frames
}

// BenchmarkServerCrowd asks a small question again and again, alone and while 30
// connections ask broad ones without a pause, or ask for events that are in memory.
func BenchmarkServerCrowd(b *testing.B) {
	b.Run("broad", func(b *testing.B) { besideCrowd(b, crowd()) })
	b.Run("newest", func(b *testing.B) {
		besideCrowd(b, []string{string(appendFrame(nil, `["REQ","s",{"limit":5000}]`))})
	})
}

func besideCrowd(b *testing.B, frames []string) {
	const conns, asked = 30, 200
	s := serve(b, warm(b), "--max-values", "4000")
	bystander := dial(b, s, false)
	rnd := rand.New(rand.NewPCG(4, 4))
	small := func() []string {
		reqs := make([]string, asked)
		for i := range reqs {
			reqs[i] = string(appendFrame(nil, fmt.Sprintf(`["REQ","b",{"authors":["%s"],"kinds":[1],"limit":20}]`, authorHex(rnd.IntN(authors)))))
		}
		return reqs
	}
	for b.Loop() {
		_, alone := ask(b, bystander, small())

		var stop atomic.Bool
		var events, answers, refused atomic.Int64
		var wg sync.WaitGroup
		ready := make(chan struct{})
		for i := range conns {
			p := dial(b, s, false)
			wg.Go(func() {
				for n := 0; !stop.Load(); n++ {
					got, err := p.query([]byte(frames[(i+n)%len(frames)]))
					if errors.Is(err, errRefused) {
						refused.Add(1)
					} else if err != nil {
						b.Error(err)
						return
					}
					events.Add(int64(got))
					if answers.Add(1) == conns {
						close(ready)
					}
				}
			})
		}
		<-ready
		began, used := time.Now(), s.cpu()
		events.Store(0)
		answers.Store(conns)
		// At a person's pace, so that the crowd is met at every moment of what it does.
		pace := time.NewTicker(50 * time.Millisecond)
		var beside []time.Duration
		for list := small(); len(list) > 0 && time.Since(began) < 20*time.Second; list = list[1:] {
			<-pace.C
			_, times := ask(b, bystander, list[:1])
			beside = append(beside, times...)
		}
		pace.Stop()
		wall := time.Since(began)
		used = s.cpu() - used
		e, a := float64(events.Load()), float64(answers.Load()-conns)
		stop.Store(true)
		wg.Wait()
		b.ReportMetric(0, "ns/op")
		reportTimes(b, "alone-", alone)
		reportTimes(b, "beside-", beside)
		b.ReportMetric(millis(quantile(beside, 1)), "beside-max-ms")
		b.ReportMetric(a/wall.Seconds(), "crowd-answers/s")
		b.ReportMetric(float64(refused.Load()), "crowd-refused")
		b.ReportMetric(e/wall.Seconds(), "crowd-events/s")
		b.ReportMetric(float64(len(beside)), "asked")
		b.ReportMetric(100*used.Seconds()/wall.Seconds(), "cpu-%")
	}
}
