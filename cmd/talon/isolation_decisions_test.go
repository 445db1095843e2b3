//go:build linux

package main_test

import (
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nbd-wtf/go-nostr"

	"talon/host/plugin/plugintest"
)

// saying makes notes whose content begins with a word, which tells the policy of
// testdata/isolation what to do.
func saying(tb testing.TB, word string, from, n int) []signed {
	tb.Helper()
	list := make([]signed, n)
	secret := numbered('s', from%authors)
	for i := range list {
		e := nostr.Event{CreatedAt: nostr.Now(), Kind: 1, Tags: nostr.Tags{}, Content: fmt.Sprintf("%s %d", word, from+i)}
		if err := e.Sign(hex.EncodeToString(secret[:])); err != nil {
			tb.Fatal(err)
		}
		list[i] = signed{e.ID, []byte(e.String())}
	}
	return list
}

// isolationRelay starts a relay whose first policy is that of testdata/isolation.
func isolationRelay(b *testing.B, flags ...string) *server {
	b.Helper()
	path, err := filepath.Abs(*program)
	if err != nil {
		b.Fatal(err)
	}
	dir := generalRelay(b, path)
	built := plugintest.Build(b, "cmd/talon/testdata/isolation")
	if err := os.Rename(filepath.Join(built, "isolation.wasm"), filepath.Join(dir, "isolation.wasm")); err != nil {
		b.Fatal(err)
	}
	return serve(b, b.TempDir(), append([]string{"--plugins", dir, "--policy", "isolation,lists,open"}, flags...)...)
}

// BenchmarkIsolationContention publishes events about which a policy decides by what all
// others have published, and plain ones.
func BenchmarkIsolationContention(b *testing.B) {
	const n = 400
	for _, word := range []string{"repeats", "plain"} {
		for _, load := range []struct{ conns, window int }{{1, 1}, {1, 16}, {8, 8}} {
			b.Run(fmt.Sprintf("%s/%dx%d", word, load.conns, load.window), func(b *testing.B) {
				for b.Loop() {
					s := isolationRelay(b)
					events := saying(b, word, 1, n)
					used := s.cpu()
					got := publish(b, s, events, load.conns, load.window)
					used = s.cpu() - used
					m := s.metrics()
					b.ReportMetric(0, "ns/op")
					b.ReportMetric(n/got.wall.Seconds(), "events/s")
					b.ReportMetric(millis(quantile(got.times, 0.5)), "p50-ms")
					b.ReportMetric(millis(quantile(got.times, 0.99)), "p99-ms")
					b.ReportMetric(m["talon_redecided_total"]/n, "again/event")
					b.ReportMetric(micros(used)/n, "cpu-µs/event")
					s.stop()
				}
			})
		}
	}
}

// BenchmarkIsolationBystander publishes plain notes, one at a time, beside clients whose
// events make decisions slow or fail.
func BenchmarkIsolationBystander(b *testing.B) {
	const notes = 300
	for _, word := range []string{"", "broad", "loop", "repeats"} {
		name := word
		if name == "" {
			name = "alone"
		}
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				s := isolationRelay(b)
				publish(b, s, saying(b, "before", 7, 2000), 4, 16)
				var stop atomic.Bool
				var attackers sync.WaitGroup
				if word != "" {
					for c := range 4 {
						p := dial(b, s, false)
						events := saying(b, word, 100_000*(c+1)+c, 2000)
						attackers.Go(func() { storm(p, events, &stop) })
					}
				}
				time.Sleep(200 * time.Millisecond)
				p := dial(b, s, false)
				var times []time.Duration
				refused := 0
				for _, e := range saying(b, "plain", 5_000_123, notes) {
					began := time.Now()
					p.send(b, `["EVENT",`+string(e.json)+`]`)
					f, err := p.next()
					if err != nil {
						b.Fatal(err)
					}
					times = append(times, time.Since(began))
					if string(f.text[72:77]) != ",true" {
						refused++
					}
					time.Sleep(2 * time.Millisecond)
				}
				stop.Store(true)
				attackers.Wait()
				b.ReportMetric(0, "ns/op")
				b.ReportMetric(millis(quantile(times, 0.5)), "p50-ms")
				b.ReportMetric(millis(quantile(times, 0.99)), "p99-ms")
				b.ReportMetric(millis(quantile(times, 1)), "max-ms")
				b.ReportMetric(100*float64(refused)/notes, "%refused")
				s.stop()
			}
		})
	}
}

// storm sends events, some at a time, until it is to stop.
func storm(p *peer, events []signed, stop *atomic.Bool) {
	const window = 8
	flying := 0
	for _, e := range events {
		if stop.Load() {
			break
		}
		if _, err := p.Write(appendFrame(nil, `["EVENT",`+string(e.json)+`]`)); err != nil {
			return
		}
		if flying++; flying == window {
			if _, err := p.next(); err != nil {
				return
			}
			flying--
		}
	}
	_ = p.Close()
}
