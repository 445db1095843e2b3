//go:build linux

package main_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"
)

// BenchmarkServerBackup backs up a relay with 100,000 events while it is idle, and while four clients
// publish 2,000 events a second. Each is the median of three backups.
func BenchmarkServerBackup(b *testing.B) {
	const (
		perSecond, writers, every = 2000, 4, 50 * time.Millisecond
		chunk                     = perSecond / writers * int(every) / int(time.Second)
		most                      = 60 * perSecond
	)
	data := warm(b)
	s := serve(b, data)
	backup := func() float64 {
		b.Helper()
		to := filepath.Join(b.TempDir(), "backup")
		began := time.Now()
		out, err := exec.Command(programPath(b), "backup", "--data", data, "--to", to).CombinedOutput()
		if err != nil {
			b.Fatalf("%v\n%s", err, out)
		}
		took := time.Since(began).Seconds()
		if err := os.RemoveAll(to); err != nil {
			b.Fatal(err)
		}
		return took
	}
	median := func() float64 {
		list := []float64{backup(), backup(), backup()}
		slices.Sort(list)
		return list[1]
	}
	idle := median()

	all := loads(sign(b, 1_000_000, 1_000_000+most), most/chunk)
	stop := make(chan struct{})
	counts := make([]int, writers)
	var publishing sync.WaitGroup
	for w := range writers {
		p := dial(b, s, false)
		publishing.Go(func() {
			tick := time.NewTicker(every)
			defer tick.Stop()
			for i := w; i < len(all); i += writers {
				select {
				case <-stop:
					return
				case <-tick.C:
				}
				if _, err := p.publish(&all[i], chunk, nil); err != nil {
					b.Error(err)
					return
				}
				counts[w] += chunk
			}
		})
	}
	began := time.Now()
	busy := median()
	rate := 0.0
	close(stop)
	publishing.Wait()
	for _, n := range counts {
		rate += float64(n)
	}
	b.ReportMetric(idle, "idle-s")
	b.ReportMetric(busy, "busy-s")
	b.ReportMetric(busy/idle, "busy/idle")
	b.ReportMetric(rate/time.Since(began).Seconds(), "events/s")
	b.ReportMetric(0, "ns/op")
}
