//go:build linux

package main_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"talon/internal/testkit"
)

// BenchmarkServerNodes publishes 30,000 events at the nodes of one relay at once. At the
// same time somebody publishes at the first, one event after the other, for a subscriber at
// the last. PostgreSQL is on the same processors, and waits for no disk.
func BenchmarkServerNodes(b *testing.B) {
	const n, probes = 30_000, 300
	for _, nodes := range []int{1, 3} {
		b.Run(fmt.Sprint("nodes=", nodes), func(b *testing.B) {
			for b.Loop() {
				servers, database := serveNodes(b, nodes)
				cpu := func() (sum time.Duration) {
					for _, s := range servers {
						sum += s.cpu()
					}
					return sum
				}
				events := sign(b, 1_000_000, 1_000_000+n+probes)
				probe, load := events[:probes], events[probes:]
				before, beforeDatabase := cpu(), treeCPU(b, database.PID())
				began := time.Now()
				var all sync.WaitGroup
				for i, s := range servers {
					all.Go(func() { publish(b, s, load[i*n/nodes:(i+1)*n/nodes], 6/nodes, inFlight) })
				}
				done := make(chan struct{})
				go func() {
					all.Wait()
					close(done)
				}()
				var times []time.Duration
				all.Go(func() { times = fanOut(b, servers[0], servers[nodes-1], probe, done) })
				<-done
				wall := time.Since(began)
				used, usedDatabase := cpu()-before, treeCPU(b, database.PID())-beforeDatabase
				all.Wait()
				b.ReportMetric(0, "ns/op")
				b.ReportMetric(n/wall.Seconds(), "events/s")
				b.ReportMetric(micros(used)/n, "cpu-µs/event")
				b.ReportMetric(micros(usedDatabase)/n, "database-cpu-µs/event")
				commits, committed := 0., 0.
				for _, s := range servers {
					m := s.metrics()
					commits += m.total("talon_store_commit_events_count", "")
					committed += m.total("talon_store_commit_events_sum", "")
				}
				b.ReportMetric(committed/commits, "events/commit")
				b.ReportMetric(float64(len(times)), "probes")
				reportTimes(b, "", times)
				stopNodes(servers, database)
			}
		})
	}
}

// BenchmarkServerNodesIdle opens 20,000 subscriptions that do not match at each of three nodes,
// on 400 connections each: a process may not open a file for each subscription.
// Then it publishes at the first, so that the others read what they have no subscriber for.
func BenchmarkServerNodesIdle(b *testing.B) {
	const nodes, conns, each, n, idle = 3, 400, 50, 4000, 20 * time.Second
	raiseFileLimit(b, nodes*conns+1000)
	for b.Loop() {
		servers, database := serveNodes(b, nodes)
		use := func() (cpu [nodes + 1]time.Duration) {
			for i, s := range servers {
				cpu[i] = s.cpu()
			}
			cpu[nodes] = treeCPU(b, database.PID())
			return cpu
		}
		events := sign(b, 1_000_000, 1_000_000+2*n)
		for range 2 { // without subscriptions, and with them
			before := use()
			publish(b, servers[0], events[:n], 6, inFlight)
			events = events[n:]
			after := use()
			b.Log("published: first node", micros(after[0]-before[0])/n, "µs/event, another", micros(after[1]-before[1])/n)
			if len(events) == 0 {
				break
			}
			var rss, heap float64
			for _, s := range servers {
				r, h := s.memory()
				rss, heap = rss-r, heap-h
				for i := range conns {
					var open strings.Builder
					for k := range each {
						fmt.Fprintf(&open, "%s", appendFrame(nil, fmt.Sprintf(`["REQ","%d",{"limit":0,%s]`, k, strange(i*each + k)[1:])))
					}
					p := dial(b, s, false)
					defer p.Close()
					expectEOSE(b, p, open.String(), each)
				}
				if got := s.metrics().total("talon_relay_subscriptions{", ""); got != conns*each {
					b.Fatalf("%v subscriptions are open", got)
				}
				r, h = s.memory()
				rss, heap = rss+r, heap+h
			}
			before = use()
			<-time.After(idle)
			after = use()
			b.ReportMetric(0, "ns/op")
			b.ReportMetric(rss/nodes/1e6, "MB/node")
			b.ReportMetric(heap/nodes/1e6, "heap-MB/node")
			b.ReportMetric(100*(after[1]-before[1]).Seconds()/idle.Seconds(), "idle-cpu-%/node")
			b.ReportMetric(100*(after[nodes]-before[nodes]).Seconds()/idle.Seconds(), "idle-database-cpu-%")
		}
		stopNodes(servers, database)
	}
}

// serveNodes starts the nodes of one relay, on a PostgreSQL of their own.
func serveNodes(b *testing.B, nodes int) (servers []*server, database *testkit.Postgres) {
	b.Helper()
	database = new(testkit.Postgres)
	url := database.URL(b)
	for i := range nodes {
		servers = append(servers, serve(b, b.TempDir(), "--store", url, "--node", fmt.Sprint("node", i), "--sync", "false", "--hunt", "false"))
	}
	return servers, database
}

func stopNodes(servers []*server, database *testkit.Postgres) {
	for _, s := range servers {
		s.stop()
	}
	database.Stop()
}

// fanOut publishes events at one server until there are no more, or done. It returns the
// times from OK there to EVENT at another.
func fanOut(b *testing.B, from, to *server, events []signed, done <-chan struct{}) (times []time.Duration) {
	publisher, subscriber := dial(b, from, false), dial(b, to, false)
	defer publisher.Close()
	defer subscriber.Close()
	list := make([]string, len(events))
	for i, e := range events {
		list[i] = `"` + e.id + `"`
	}
	subscriber.send(b, `["REQ","live",{"limit":0,"ids":[`+strings.Join(list, ",")+`]}]`)
	subscriber.expect(b, eosePrefix)
	for _, e := range events {
		select {
		case <-done:
			return times
		default:
		}
		arrived := make(chan time.Time, 1)
		go func() {
			subscriber.expect(b, eventPrefix)
			arrived <- time.Now()
		}()
		publisher.send(b, `["EVENT",`+string(e.json)+`]`)
		publisher.expect(b, okPrefix)
		answered := time.Now()
		times = append(times, max(0, (<-arrived).Sub(answered)))
	}
	return times
}

// treeCPU returns the processor time of a process and of all that it has started.
func treeCPU(b *testing.B, pid int) (sum time.Duration) {
	files, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		b.Fatal(err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			continue // it has ended
		}
		at := strings.LastIndexByte(string(text), ')')
		fields := strings.Fields(string(text[at+1:])) // from the third on, see proc(5)
		ticks := fields[11:13]                        // utime, stime
		if file == fmt.Sprintf("/proc/%d/stat", pid) {
			ticks = fields[11:15] // and those of children that have ended
		} else if fields[1] != strconv.Itoa(pid) {
			continue
		}
		for _, f := range ticks {
			n, err := strconv.ParseInt(f, 10, 64)
			if err != nil {
				b.Fatal(err)
			}
			sum += time.Duration(n) * 10 * time.Millisecond
		}
	}
	return sum
}
