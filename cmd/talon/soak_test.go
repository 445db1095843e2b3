//go:build linux

package main_test

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"
)

var soak = flag.Duration("soak", 2*time.Minute, "how long BenchmarkSoak lasts")

// BenchmarkSoak has a server work for a long time (scripts/soak): events, broad questions,
// clients that come and go, new repositories and pushes, and plugins whose side-cars change.
// It fails if the memory that belongs to no file is not level: what the last quarter of the
// time has must be no more than the second had, but for what the garbage collector moves.
func BenchmarkSoak(b *testing.B) {
	const (
		events, clients = 1000, 50 // of a round
		round           = 10 * time.Second
		seldom          = 6 // rounds
	)
	raiseFileLimit(b, 1000)
	for b.Loop() {
		plugins := generalRelay(b, *program)
		// The caches are full in a few minutes.
		s := serve(b, b.TempDir(), "--plugins", plugins, "--listen", freeAddress(b), "--cache", "16MiB", "--memory", "192MiB")
		frames := crowd()
		began := time.Now()
		var anonymous []float64
		rounds, refused, again := 0, 0, 0
		for ; time.Since(began) < *soak; rounds++ {
			next := time.Now().Add(round)
			publish(b, s, sign(b, rounds*events, (rounds+1)*events), publishers, 4)
			for i := range clients {
				p := dial(b, s, false)
				_, err := p.query([]byte(frames[(rounds+i)%len(frames)]))
				if errors.Is(err, errRefused) {
					refused++
				} else if err != nil {
					b.Fatal(err)
				}
				p.Close()
			}
			if rounds%seldom == 0 {
				again += pushTo(b, s, 2)
				side := fmt.Sprintf("[config]\ndeny_words = [\"word of round %d\"]\n", rounds)
				if err := os.WriteFile(filepath.Join(plugins, "lists.toml"), []byte(side), 0o600); err != nil {
					b.Fatal(err)
				}
			}
			time.Sleep(time.Until(next))
			anonymous = append(anonymous, s.proc("status", "RssAnon")*1024/1e6)
		}
		quarter := func(n int) float64 {
			part := slices.Clone(anonymous[len(anonymous)*(n-1)/4 : len(anonymous)*n/4])
			if len(part) == 0 {
				b.Fatalf("%d rounds are too few: give it more time", len(anonymous))
			}
			slices.Sort(part)
			return part[len(part)/2]
		}
		b.ReportMetric(0, "ns/op")
		b.ReportMetric(float64(rounds), "rounds")
		for n := 1; n <= 4; n++ {
			b.ReportMetric(quarter(n), fmt.Sprintf("quarter-%d-MB", n))
		}
		b.ReportMetric(slices.Max(anonymous), "most-MB")
		b.ReportMetric(float64(refused), "refused")
		b.ReportMetric(float64(again), "pushes-again")
		b.Logf("every %v, MB: %.0f", round, anonymous)
		if before, after := quarter(2), quarter(4); after > 1.1*before+8 {
			b.Errorf("%.1f MB in the second quarter, %.1f in the last", before, after)
		}
		s.stop()
	}
}
