package relay

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"talon/host"
	"talon/host/negentropy"
	"talon/internal/testkit"
)

// benchEvent is of 1 kB with 4 tags.
func benchEvent(i int) *host.Event {
	id := strings.Repeat(fmt.Sprintf("%08x", i), 8)
	return event(byte(i), 1, int64(i), strings.Repeat("x", 420),
		host.Tag{"e", id}, host.Tag{"p", id}, host.Tag{"t", "topic"}, host.Tag{"client", "bench"})
}

// BenchmarkStoredAnswer is the processor time of an event of an answer of 500, the
// client's reading included, the store's left out.
func BenchmarkStoredAnswer(b *testing.B) {
	const n = 500
	w := newWorld(b, ticking)
	rows := &fixedRows{}
	for i := range n {
		rows.json = append(rows.json, benchEvent(i).JSON)
		rows.rows = append(rows.rows, int64(i))
	}
	w.relay.deps.Store = rows
	c := w.dial()
	buf := make([]byte, 1<<20)
	began := testkit.CPU()
	for b.Loop() {
		c.send(`["REQ","s",{}]`)
		readUntil(b, c, buf, `["EOSE","s"]`)
	}
	b.ReportMetric(float64(testkit.CPU()-began)/float64(b.N)/n, "cpu-ns/event")
}

// fixedRows is a store that answers every query with the same rows.
type fixedRows struct {
	fakeStore
	rows []int64
	json [][]byte
}

func (s *fixedRows) Select(context.Context, []host.Filter, int64) (host.Selection, error) {
	return host.Selection{Rows: s.rows}, nil
}

func (s *fixedRows) Fetch(_ context.Context, rows []int64, yield func(int64, []byte) error) error {
	for _, row := range rows {
		if err := yield(row, s.json[row]); err != nil {
			return err
		}
	}
	return nil
}

// readUntil reads frames without looking at them, until one ends a read.
func readUntil(b *testing.B, c *client, buf []byte, last string) {
	for {
		n, err := c.in.Read(buf)
		if err != nil {
			b.Fatal(err)
		}
		if bytes.HasSuffix(buf[:n], []byte(last)) {
			return
		}
	}
}

// BenchmarkFanout is the time to publish an event that matches nothing, by how
// many subscriptions there are.
func BenchmarkFanout(b *testing.B) {
	for _, n := range []int{0, 20_000} {
		b.Run(fmt.Sprintf("subscriptions=%d", n), func(b *testing.B) {
			w := newWorld(b, ticking, limit(func(l *Limits) { l.Connections = 1 << 20 }))
			for i := range n {
				id := strings.Repeat(fmt.Sprintf("%08x", 1_000_000+i), 8)
				filter := [...]string{
					`{"authors":["` + id + `"],"kinds":[1]}`,
					`{"#e":["` + id + `"],"kinds":[1]}`,
					`{"#p":["` + id + `"],"#t":["topic"]}`,
					fmt.Sprintf(`{"kinds":[%d]}`, 2+i%60_000),
				}[i%4]
				c := w.relay.newConn(host.Source{}.Addr)
				if refused := w.relay.takeParts(c); refused != admitted {
					b.Fatal(refused)
				}
				if _, refused := c.subscribe("s", parseFilters(b, "["+filter+"]")); refused != "" {
					b.Fatal(refused)
				}
			}
			events := make([]host.Published, 1000)
			for i := range events {
				events[i] = host.Published{Event: benchEvent(i), Seq: int64(i)}
			}
			for i := 0; b.Loop(); i++ {
				w.relay.Publish(events[i%1000 : i%1000+1])
			}
		})
	}
}

// fewReaders are the audiences of a relay with a set of ten members, and of one with a large set.
type fewReaders struct{ members []host.PubKey }

func (f fewReaders) Reader(keys []host.PubKey) *host.Reader { return &host.Reader{Keys: keys} }

func (f fewReaders) InAudienceSet(_ string, key host.PubKey) bool {
	return slices.Contains(f.members, key)
}

func (f fewReaders) AudienceSet(_ string, limit int, yield func(host.PubKey)) int {
	if len(f.members) <= limit {
		for _, key := range f.members {
			yield(key)
		}
	}
	return len(f.members)
}

// BenchmarkWithheld is the time to publish an event that one of many subscribers receives, all of
// whom have proven a key, and ask for its kind: by a list of keys, and by a set of ten members.
func BenchmarkWithheld(b *testing.B) {
	reader := func(i int) host.PubKey { return host.PubKey{1, byte(i >> 16), byte(i >> 8), byte(i)} }
	few := fewReaders{members: []host.PubKey{reader(0)}}
	for i := range 9 {
		few.members = append(few.members, host.PubKey{2, byte(i)})
	}
	for name, a := range map[string]*host.Audience{"keys": {Keys: []host.PubKey{reader(0)}}, "set": {Set: "readers/readers"}} {
		for _, n := range []int{1, 20_000} {
			b.Run(fmt.Sprintf("audience=%s/subscribers=%d", name, n), func(b *testing.B) {
				w := newWorld(b, ticking, limit(func(l *Limits) { l.Connections = 1 << 20 }))
				w.relay.deps.Audiences = few
				for i := range n {
					c := w.relay.newConn(host.Source{}.Addr)
					if refused := w.relay.takeParts(c); refused != admitted {
						b.Fatal(refused)
					}
					c.authed = []host.PubKey{reader(i)}
					if _, refused := c.subscribe("s", parseFilters(b, `[{"kinds":[1059],"limit":0}]`)); refused != "" {
						b.Fatal(refused)
					}
					w.relay.index.prove(c)
				}
				events := make([]host.Published, 1000)
				for i := range events {
					e := *benchEvent(i)
					e.Kind = 1059
					events[i] = host.Published{Event: e.For(a), Seq: int64(i)}
				}
				for i := 0; b.Loop(); i++ {
					w.relay.Publish(events[i%1000 : i%1000+1])
				}
			})
		}
	}
}

// BenchmarkLive is the processor time of a live event for each of 100 connections
// that want it, the clients' reading included.
func BenchmarkLive(b *testing.B) {
	const readers = 100
	w := newWorld(b, ticking)
	for range readers {
		c := w.dial()
		c.ask(`["REQ","s",{"limit":0,"kinds":[1]}]`, `["EOSE","s"]`)
		go io.Copy(io.Discard, c.net)
	}
	batch := make([]host.Published, 16)
	for i := range batch {
		batch[i] = host.Published{Event: benchEvent(i)}
	}
	began := testkit.CPU()
	for b.Loop() {
		w.relay.Publish(batch)
		for w.relay.index.subs == readers && testutil.ToFloat64(w.relay.metrics.live) < float64(readers*len(batch)*b.N) && pendingBytes(w) > 1<<20 {
			runtime.Gosched()
		}
	}
	b.ReportMetric(float64(testkit.CPU()-began)/float64(b.N)/readers/float64(len(batch)), "cpu-ns/delivery")
	if n := value(b, w.relay, "talon_relay_connections", ""); n != readers {
		b.Fatalf("%v connections are left", n)
	}
}

func pendingBytes(w *world) (limit int) {
	for _, c := range w.relay.all() {
		c.mu.Lock()
		limit = max(limit, c.out.bytes())
		c.mu.Unlock()
	}
	return limit
}

// BenchmarkIdleConnection is the memory of a connection that has subscribed and is
// silent; the client's side of it, in the same process, is counted too.
func BenchmarkIdleConnection(b *testing.B) {
	const n = 3000
	for b.Loop() {
		w := newWorld(b, ticking)
		e := event(1, 1, 1000, "x")
		used := func() uint64 {
			runtime.GC()
			runtime.GC()
			runtime.GC()
			var m runtime.MemStats
			runtime.ReadMemStats(&m)
			return m.HeapInuse + m.StackInuse
		}
		before := used()
		clients := make([]*client, n)
		for i := range clients {
			c := w.dial()
			c.ask(`["REQ","s",{"kinds":[7],"limit":10}]`, `["EOSE","s"]`)
			c.send(eventMessage(e))
			c.in = nil
			clients[i] = c
		}
		wait(b, func() bool { return value(b, w.relay, "talon_relay_events_in_flight", "") == 0 })
		b.ReportMetric(float64(used()-before)/n, "B/connection")
		w.stop()
		for _, c := range clients {
			c.net.Close()
		}
	}
}

// BenchmarkStalledSubscriber is the time from an event to its OK at the 99th
// percentile, without and with subscribers that read nothing.
func BenchmarkStalledSubscriber(b *testing.B) {
	for _, stalled := range []int{0, 20} {
		b.Run(fmt.Sprintf("stalled=%d", stalled), func(b *testing.B) {
			w := newWorld(b, ticking, limit(func(l *Limits) { l.MessagesPerSecond = 1e9 }))
			for range stalled {
				c := w.dial()
				c.ask(`["REQ","s",{"limit":0}]`, `["EOSE","s"]`)
			}
			c := w.dial()
			var times []time.Duration
			for i := 0; b.Loop(); i++ {
				e := benchEvent(i)
				began := time.Now()
				c.send(eventMessage(e))
				c.recv()
				times = append(times, time.Since(began))
			}
			slices.Sort(times)
			b.ReportMetric(float64(times[len(times)*99/100].Microseconds()), "p99-µs")
			b.ReportMetric(float64(times[len(times)/2].Microseconds()), "p50-µs")
		})
	}
}

// BenchmarkDeflate is the cost and the yield of compressing real events one by one.
func BenchmarkDeflate(b *testing.B) {
	file, err := os.ReadFile("../../../shared/data/events.jsonl")
	if err != nil {
		b.Skip("no ../shared/data/events.jsonl: ", err)
	}
	lines := bytes.Split(bytes.TrimSpace(file), []byte("\n"))
	for _, class := range [][2]int{{0, 1 << 10}, {1 << 10, 2 << 10}, {2 << 10, 4 << 10}, {4 << 10, 1 << 20}} {
		b.Run(fmt.Sprintf("bytes=%d-%d", class[0], class[1]), func(b *testing.B) {
			var some [][]byte
			for _, l := range lines {
				if len(l) >= class[0] && len(l) < class[1] {
					some = append(some, l)
				}
			}
			buf := getBuffer()
			plain, packed := 0, 0
			for i := 0; b.Loop(); i++ {
				buf.b = buf.b[:0]
				appendDeflated(buf, some[i%len(some)])
				plain += len(some[i%len(some)])
				packed += len(buf.b)
			}
			b.ReportMetric(float64(packed)/float64(plain), "ratio")
			b.ReportMetric(float64(plain)/float64(b.N), "B/event")
		})
	}
}

// BenchmarkNegentropy measures the processor time of all rounds of a session over a million events,
// of which the client lacks one in a hundred. One session reads the snapshot. One shares it. One
// shares it and has it checked. One comes after ten more events. The store's part is left out, and
// the client sends recorded messages.
func BenchmarkNegentropy(b *testing.B) {
	const n = 1_000_000
	store := &manyItems{items: make([]negentropy.Item, n)}
	var builder negentropy.Builder
	for i := range store.items {
		it := negentropy.Item{CreatedAt: uint64(1_600_000_000 + i), ID: sha256.Sum256(binary.BigEndian.AppendUint64(nil, uint64(i)))}
		store.items[n-1-i] = it
		if i%100 != 0 {
			builder.Add(it)
		}
	}
	have := builder.Build()
	var sent []string
	for b.Loop() {
		w := newWorld(b, ticking, limit(func(l *Limits) { l.NegRecords = 2 * n }))
		w.relay.deps.Store = store
		if sent == nil {
			if _, sent = w.dial().syncSet("n", `{}`, have); len(sent) < 2 {
				b.Fatal("one round")
			}
			w.relay.sweep(w.now().Add(time.Hour)) // forget the snapshot
			have = nil
		}
		for _, name := range []string{"first", "shared", "checked", "extended"} {
			switch name {
			case "checked":
				store.drop(-1) // something else has gone
			case "extended":
				for i := range 10 {
					e := event(1, 1, int64(1_600_000_000+n+i), "")
					w.relay.Publish([]host.Published{{Event: e, Seq: store.put(e)}})
				}
			}
			c := w.dial()
			began := testkit.CPU()
			for _, text := range sent {
				c.send(text)
				c.recv()
			}
			b.ReportMetric(float64((testkit.CPU() - began).Milliseconds()), name+"-cpu-ms")
			c.net.Close()
		}
		if extended := testutil.ToFloat64(w.relay.metrics.negExtended); extended != 1 {
			b.Fatalf("%v snapshots were extended", extended)
		}
		w.stop()
	}
}

// manyItems is a store that has nothing but times and ids.
type manyItems struct {
	fakeStore
	items []negentropy.Item
}

func (s *manyItems) Scan(_ context.Context, _ host.Filter, limit int, _ int64, yield func(int64, host.ID)) (int64, int, error) {
	for i := range s.items {
		yield(int64(s.items[i].CreatedAt), s.items[i].ID)
	}
	return int64(len(s.events)), len(s.items), nil
}

func (s *manyItems) Count(context.Context, []host.Filter, int64) (int64, error) {
	return int64(len(s.items)), nil
}
