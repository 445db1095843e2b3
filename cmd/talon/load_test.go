//go:build linux

package main_test

import (
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// The benchmarks of this file and of its neighbours measure the whole server from
// outside: the processor time and the memory of a talon process, per event, while
// the load runs on the same processors. Run one with
//
//	make build && go test -run '^$' -bench ServerAccept -benchtime 1x ./cmd/talon
//
// and all of them, with their targets, with make bench.

const (
	publishers = 8  // connections
	inFlight   = 64 // events of each
)

// BenchmarkServerAccept publishes 30,000 events, into an empty database and into
// one that has 100,000.
func BenchmarkServerAccept(b *testing.B) {
	const n = 30_000
	for _, bb := range []struct {
		name string
		data func(testing.TB) string
	}{
		{"fresh", func(tb testing.TB) string { return tb.TempDir() }},
		{"warm", warm},
	} {
		b.Run(bb.name, func(b *testing.B) {
			for b.Loop() {
				events := sign(b, 1_000_000, 1_000_000+n)
				s := serve(b, bb.data(b))
				before, written, own := s.metrics(), s.written(), ownCPU()
				r := publish(b, s, events, publishers, inFlight)
				own = ownCPU() - own
				written = s.written() - written
				after := s.metrics()
				if stored := delta(before, after, `talon_relay_ok_total{code="stored"}`, ""); stored != n {
					b.Fatalf("%v events were stored, want %d", stored, n)
				}
				b.ReportMetric(0, "ns/op")
				b.ReportMetric(micros(r.cpu)/n, "cpu-µs/event")
				b.ReportMetric(n/r.wall.Seconds(), "events/s")
				reportTimes(b, "", r.times)
				b.ReportMetric(micros(own)/n, "load-cpu-µs/event")
				b.ReportMetric(written/n/1000, "written-kB/event")
				b.ReportMetric(n/delta(before, after, "talon_store_commit_events_count", ""), "events/commit")
				// Time, not processor time: on busy processors it includes waiting.
				b.ReportMetric(delta(before, after, "talon_plugin_decision_seconds_sum", "")*1e6/n, "policy-µs/event")
			}
		})
	}
}

// BenchmarkServerAnswer asks for 500 of 100,000 events: all concurrently over eight
// connections, for the processor time of an event, then one query after the other; both
// for what a client waits for the whole answer.
func BenchmarkServerAnswer(b *testing.B) {
	s := serve(b, warm(b), "--compress-from", "1KiB")
	for _, bb := range []struct {
		name    string
		deflate bool
		filter  func(rnd *rand.Rand) string
	}{
		{"newest", false, func(rnd *rand.Rand) string {
			return fmt.Sprintf(`{"limit":500,"until":%d}`, created(10_000+rnd.IntN(90_000)))
		}},
		{"kinds", false, func(rnd *rand.Rand) string {
			return fmt.Sprintf(`{"kinds":[1,7],"limit":500,"until":%d}`, created(10_000+rnd.IntN(90_000)))
		}},
		{"authors=20,kinds", false, func(rnd *rand.Rand) string {
			return `{"authors":` + some(rnd, 20, authors, authorHex) + `,"kinds":[1,7],"limit":500}`
		}},
		{"authors=20,kinds,limit=50", false, func(rnd *rand.Rand) string {
			return `{"authors":` + some(rnd, 20, authors, authorHex) + `,"kinds":[1,7],"limit":50}`
		}},
		{"e=100", false, func(rnd *rand.Rand) string {
			return `{"#e":` + some(rnd, 100, named, namedEvent) + `,"limit":500}`
		}},
		{"a=100", false, func(rnd *rand.Rand) string {
			return `{"#a":` + some(rnd, 100, named, namedAddress) + `,"limit":500}`
		}},
		{"ids=500", false, func(rnd *rand.Rand) string {
			return `{"ids":` + some(rnd, 500, 100_000, idHex) + `,"limit":500}`
		}},
		{"kinds,deflate", true, func(rnd *rand.Rand) string {
			return fmt.Sprintf(`{"kinds":[1,7],"limit":500,"until":%d}`, created(10_000+rnd.IntN(90_000)))
		}},
	} {
		b.Run(bb.name, func(b *testing.B) {
			const peers, each = 8, 30
			var reqs [peers][]string
			for i := range reqs {
				rnd := rand.New(rand.NewPCG(2, uint64(i)))
				for range each {
					reqs[i] = append(reqs[i], string(appendFrame(nil, `["REQ","s",`+bb.filter(rnd)+`]`)))
				}
			}
			conns := make([]*peer, peers)
			for i := range conns {
				conns[i] = dial(b, s, bb.deflate)
				ask(b, conns[i], reqs[i][:1])
			}
			for b.Loop() {
				events := make([]int, peers)
				for _, p := range conns {
					p.got = 0
				}
				began := s.cpu()
				var wg sync.WaitGroup
				var together [peers][]time.Duration
				for i, p := range conns {
					wg.Go(func() { events[i], together[i] = ask(b, p, reqs[i]) })
				}
				wg.Wait()
				used := s.cpu() - began
				total, got := 0, 0
				for i, n := range events {
					total += n
					got += conns[i].got
				}
				_, times := ask(b, conns[0], slices.Concat(reqs[:]...))
				if b.Failed() {
					b.FailNow()
				}

				b.ReportMetric(0, "ns/op")
				b.ReportMetric(micros(used)/float64(total), "cpu-µs/event")
				b.ReportMetric(micros(used)/peers/each, "cpu-µs/query")
				b.ReportMetric(float64(total)/peers/each, "events/query")
				b.ReportMetric(float64(got)/float64(total), "B/event")
				b.ReportMetric(millis(quantile(slices.Concat(together[:]...), 0.5)), "p50-of-8-ms")
				reportTimes(b, "", times)
			}
		})
	}
}

// BenchmarkServerSubscriptions publishes with and without 20,000 subscriptions that
// do not match, in turns.
func BenchmarkServerSubscriptions(b *testing.B) {
	const conns, each, turns, n = 400, 50, 4, 4000
	var open, shut strings.Builder
	for b.Loop() {
		s := serve(b, warm(b))
		subscribers := make([]*peer, conns)
		for i := range subscribers {
			subscribers[i] = dial(b, s, false)
		}
		events := sign(b, 2_000_000, 2_000_000+(2*turns+1)*n)
		publish(b, s, events[:n], publishers, inFlight)
		events = events[n:]
		var with, without time.Duration
		for turn := range 2 * turns {
			subscribe := turn%2 == 0
			for i, p := range subscribers {
				open.Reset()
				shut.Reset()
				for j := range each {
					fmt.Fprintf(&open, "%s", appendFrame(nil, fmt.Sprintf(`["REQ","%d",%s]`, j, strange(i*each+j))))
					fmt.Fprintf(&shut, "%s", appendFrame(nil, fmt.Sprintf(`["CLOSE","%d"]`, j)))
				}
				if subscribe {
					expectEOSE(b, p, open.String(), each)
				} else {
					// The messages of a connection are handled in order.
					expectEOSE(b, p, shut.String()+string(appendFrame(nil, `["REQ","0",{"ids":[],"limit":0}]`)), 1)
				}
			}
			if got := s.metrics()["talon_relay_subscriptions"]; subscribe && got != conns*each || !subscribe && got > conns {
				b.Fatalf("%v subscriptions are open", got)
			}
			used := publish(b, s, events[:n], publishers, inFlight).cpu
			events = events[n:]
			if subscribe {
				with += used
			} else {
				without += used
			}
		}
		b.ReportMetric(0, "ns/op")
		b.ReportMetric(micros(with)/turns/n, "with-cpu-µs/event")
		b.ReportMetric(micros(without)/turns/n, "without-cpu-µs/event")
		b.ReportMetric(micros(with-without)/turns/n, "added-cpu-µs/event")
	}
}

// strange returns a filter that shares something with the events of the load, but
// matches none of them.
func strange(i int) string {
	value := numbered('x', i)
	switch i % 5 {
	case 0:
		return fmt.Sprintf(`{"authors":["%x"],"kinds":[1]}`, value)
	case 1:
		return fmt.Sprintf(`{"#e":["%x"],"kinds":[1,7]}`, value)
	case 2:
		return fmt.Sprintf(`{"#p":["%x"],"#t":["topic%d"]}`, value, i%100)
	case 3:
		return fmt.Sprintf(`{"#a":["30617:%x:repository"]}`, value)
	}
	return fmt.Sprintf(`{"kinds":[%d]}`, 2000+i%8000)
}

// BenchmarkServerIdle opens 4,000 connections that do nothing, then lets each
// subscribe.
func BenchmarkServerIdle(b *testing.B) {
	const n = 4000
	raiseFileLimit(b, n+1000)
	for b.Loop() {
		// A first start compiles the modules, and leaves memory for the connections
		// to live in.
		data := b.TempDir()
		serve(b, data).stop()
		s := serve(b, data)
		warmUp := make([]*peer, 100)
		for i := range warmUp {
			warmUp[i] = dial(b, s, true)
			expectEOSE(b, warmUp[i], string(appendFrame(nil, `["REQ","s",{"limit":1}]`)), 1)
		}
		rss, heap := s.memory()
		conns := make([]*peer, n)
		for i := range conns {
			conns[i] = dial(b, s, true)
		}
		idleRSS, idleHeap := s.memory()
		for i, p := range conns {
			expectEOSE(b, p, string(appendFrame(nil, fmt.Sprintf(`["REQ","s",{"kinds":[1],"authors":["%s"],"limit":10}]`, authorHex(i)))), 1)
		}
		subRSS, subHeap := s.memory()
		b.ReportMetric(0, "ns/op")
		b.ReportMetric((idleRSS-rss)/n/1000, "kB/connection")
		b.ReportMetric((idleHeap-heap)/n/1000, "heap-kB/connection")
		b.ReportMetric((subRSS-rss)/n/1000, "kB/subscriber")
		b.ReportMetric((subHeap-heap)/n/1000, "heap-kB/subscriber")
		if got := int(s.metrics()["talon_relay_connections"]); got != n+len(warmUp) {
			b.Fatalf("%v connections are open, want %d", got, n+len(warmUp))
		}
	}
}

// BenchmarkServerStalled publishes one event at a time over each connection, with
// and without subscribers to everything that do not read, in turns.
func BenchmarkServerStalled(b *testing.B) {
	const turns, n, stalled = 4, 4000, 8
	for b.Loop() {
		s := serve(b, b.TempDir(), "--send-queue", "2MiB", "--max-message", "512KiB")
		events := sign(b, 3_000_000, 3_000_000+(2*turns+1)*n)
		publish(b, s, events[:n], publishers, 1)
		events = events[n:]
		var times [2][]time.Duration
		for turn := range 2 * turns {
			var deaf []*peer
			for range stalled * (turn % 2) {
				p := dial(b, s, false)
				expectEOSE(b, p, string(appendFrame(nil, `["REQ","s",{"limit":0}]`)), 1)
				deaf = append(deaf, p)
			}
			times[turn%2] = append(times[turn%2], publish(b, s, events[:n], publishers, 1).times...)
			events = events[n:]
			for _, p := range deaf {
				_ = p.Close()
			}
		}
		b.ReportMetric(0, "ns/op")
		reportTimes(b, "without-", times[0])
		reportTimes(b, "with-", times[1])
	}
}

// run is what publishing took.
type run struct {
	cpu, wall time.Duration
	times     []time.Duration // from each event to its OK
}

// publish sends the events over new connections, a number of them in flight on
// each.
func publish(tb testing.TB, s *server, events []signed, conns, window int) run {
	tb.Helper()
	list := loads(events, conns)
	peers := make([]*peer, conns)
	for i := range peers {
		peers[i] = dial(tb, s, false)
	}
	var mu sync.Mutex
	var r run
	var wg sync.WaitGroup
	cpu, began := s.cpu(), time.Now()
	for i, p := range peers {
		wg.Go(func() {
			times, err := p.publish(&list[i], window, make([]time.Duration, 0, len(list[i].ends)))
			if err != nil {
				tb.Error(err)
			}
			mu.Lock()
			defer mu.Unlock()
			r.times = append(r.times, times...)
		})
	}
	wg.Wait()
	r.wall, r.cpu = time.Since(began), s.cpu()-cpu
	for _, p := range peers {
		_ = p.Close()
	}
	if tb.Failed() {
		tb.FailNow()
	}
	return r
}

// ask sends one REQ after the other and returns the number of events and the time
// that each took.
func ask(tb testing.TB, p *peer, reqs []string) (events int, times []time.Duration) {
	for _, req := range reqs {
		began := time.Now()
		n, err := p.query([]byte(req))
		if err != nil {
			tb.Error(err)
			return events, times
		}
		times = append(times, time.Since(began))
		events += n
	}
	return events, times
}

// expectEOSE sends frames and waits for n EOSE.
func expectEOSE(tb testing.TB, p *peer, frames string, n int) {
	tb.Helper()
	if _, err := p.Write([]byte(frames)); err != nil {
		tb.Fatal(err)
	}
	for range n {
		p.expect(tb, eosePrefix)
	}
}

func some(rnd *rand.Rand, n, of int, value func(int) string) string {
	list := make([]string, n)
	for i, v := range rnd.Perm(of)[:n] {
		list[i] = `"` + value(v) + `"`
	}
	return "[" + strings.Join(list, ",") + "]"
}

func authorHex(i int) string { return author(i).String() }

func idHex(i int) string {
	id := numbered('i', i)
	return hex.EncodeToString(id[:])
}

func delta(before, after metrics, prefix, part string) float64 {
	return after.total(prefix, part) - before.total(prefix, part)
}

// ownCPU returns the processor time of the load.
func ownCPU() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func quantile(times []time.Duration, q float64) time.Duration {
	slices.Sort(times)
	return times[int(q*float64(len(times)-1))]
}

// reportTimes reports the median of times and the one that a hundredth exceeds.
func reportTimes(b *testing.B, what string, times []time.Duration) {
	b.ReportMetric(millis(quantile(times, 0.5)), what+"p50-ms")
	b.ReportMetric(millis(quantile(times, 0.99)), what+"p99-ms")
}

func micros(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1e3 }
func millis(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1e6 }
