//go:build linux

package main_test

import (
	"bytes"
	"encoding/hex"
	"testing"
	"time"

	"talon/host/negentropy"
)

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
