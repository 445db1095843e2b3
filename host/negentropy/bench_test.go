package negentropy

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"runtime"
	"testing"
	"time"
)

const benchItems = 1_000_000

// benchList returns items in ascending order, about one a second.
func benchList() []Item {
	rnd := rand.NewChaCha8([32]byte{1})
	list := make([]Item, benchItems)
	for i := range list {
		list[i].CreatedAt = 1_700_000_000 + uint64(i)
		for j := 0; j < 32; j += 8 {
			binary.LittleEndian.PutUint64(list[i].ID[j:], rnd.Uint64())
		}
	}
	return list
}

func BenchmarkBuild(b *testing.B) {
	list := benchList()
	for _, bb := range []struct {
		name string
		at   func(i int) *Item
	}{
		{"ascending", func(i int) *Item { return &list[i] }},
		{"descending", func(i int) *Item { return &list[len(list)-1-i] }},
		{"shuffled", func(i int) *Item { return &list[i*7919%len(list)] }},
	} {
		b.Run(bb.name, func(b *testing.B) {
			var set *Set
			for b.Loop() {
				var builder Builder
				for i := range list {
					builder.Add(*bb.at(i))
				}
				set = builder.Build()
			}
			b.ReportMetric(float64(set.Bytes())/float64(set.Len()), "B/item")
		})
	}
}

// BenchmarkWith adds ten items to a set, by where they come.
func BenchmarkWith(b *testing.B) {
	set := setOf(benchList()...)
	for _, bb := range []struct {
		name string
		at   uint64
	}{{"newest", 1_700_000_000 + benchItems}, {"middle", 1_700_000_000 + benchItems/2}, {"oldest", 1}} {
		b.Run(bb.name, func(b *testing.B) {
			var add []Item
			for i := range 10 {
				add = append(add, item(i, bb.at))
			}
			b.ReportAllocs()
			for b.Loop() {
				if set.With(add...).Len() != set.Len()+len(add) {
					b.Fatal("wrong set")
				}
			}
		})
	}
}

// BenchmarkSetMemory reports the growth of the heap for a set, next to the size that the set
// reports.
func BenchmarkSetMemory(b *testing.B) {
	list := benchList()
	var heap float64
	for b.Loop() {
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		set := setOf(list...)
		runtime.GC()
		runtime.ReadMemStats(&after)
		heap = float64(after.HeapAlloc) - float64(before.HeapAlloc)
		runtime.KeepAlive(set)
	}
	runtime.KeepAlive(list)
	b.ReportMetric(heap/benchItems, "heap-B/item")
}

// BenchmarkReconcile carries out whole reconciliations in which the client lacks
// one item in a hundred. server-ms/op is the time in Server.Reconcile alone.
func BenchmarkReconcile(b *testing.B) {
	list := benchList()
	server := setOf(list...)
	rnd := rand.New(rand.NewPCG(1, 1))
	var lacking Builder
	for i := range list {
		if rnd.IntN(100) > 0 {
			lacking.Add(list[i])
		}
	}
	client := lacking.Build()

	for _, frame := range []int{0, 64 << 10} {
		b.Run(fmt.Sprintf("frame=%d", frame), func(b *testing.B) {
			var spent time.Duration
			var rounds, sent, received int
			for b.Loop() {
				s := mustServer(b, server, frame)
				c, err := NewClient(client, ClientLimits{Frame: frame, IDs: benchItems, Rounds: 10_000})
				if err != nil {
					b.Fatal(err)
				}
				rounds, sent, received = 0, 0, 0
				msg, err := c.Initiate()
				for done := false; !done; rounds++ {
					if err != nil {
						b.Fatal(err)
					}
					received += len(msg)
					start := time.Now()
					reply, serr := s.Reconcile(msg)
					spent += time.Since(start)
					if serr != nil {
						b.Fatal(serr)
					}
					sent += len(reply)
					msg, done, err = c.Reconcile(reply)
				}
				if got, want := len(c.Need()), server.Len()-client.Len(); got != want {
					b.Fatalf("need %d ids, want %d", got, want)
				}
			}
			b.ReportMetric(float64(spent.Microseconds())/1000/float64(b.N), "server-ms/op")
			b.ReportMetric(float64(rounds), "rounds")
			b.ReportMetric(float64(received), "B-in")
			b.ReportMetric(float64(sent), "B-out")
		})
	}
}

func BenchmarkFingerprint(b *testing.B) {
	server := setOf(benchList()...)
	for _, n := range []int{16, 64, 244, 62_500} {
		b.Run(fmt.Sprintf("items=%d", n), func(b *testing.B) {
			lo := 0
			for b.Loop() {
				server.fingerprint(lo, lo+n)
				if lo += n; lo+n > server.Len() {
					lo = 0
				}
			}
		})
	}
}
