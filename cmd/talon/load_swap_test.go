//go:build linux

package main_test

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

// BenchmarkServerSwap publishes with and without swaps of a policy, in turns, at
// a rate that the server keeps up with, and measures what a client waits for its
// OK. Each swap compiles nothing new: the cache has both modules, as it has after
// a rollback. BenchmarkServerFirstSwap is the other case.
func BenchmarkServerSwap(b *testing.B) {
	const turns, n = 4, 6000
	for b.Loop() {
		dir := generalRelay(b)
		data := b.TempDir()
		s := serve(b, data, "--plugins", dir)
		swap := swapper(b, data, dir)
		for range 2 {
			swap()
		}
		events := sign(b, 4_000_000, 4_000_000+(2*turns+1)*n)
		publish(b, s, events[:n], publishers, 1)
		events = events[n:]
		var times [2][]time.Duration
		swaps := 0
		for turn := range 2 * turns {
			stop, stopped := make(chan struct{}), make(chan int)
			if turn%2 == 1 {
				go func() {
					count := 0
					for {
						select {
						case <-stop:
							stopped <- count
							return
						default:
							swap()
							count++
						}
					}
				}()
			}
			times[turn%2] = append(times[turn%2], publish(b, s, events[:n], publishers, 1).times...)
			events = events[n:]
			if turn%2 == 1 {
				close(stop)
				swaps += <-stopped
			}
		}
		b.ReportMetric(0, "ns/op")
		b.ReportMetric(float64(swaps), "swaps")
		reportTimes(b, "without-", times[0])
		reportTimes(b, "with-", times[1])
	}
}

// BenchmarkServerFirstSwap drops a module that has never been compiled, under load:
// metering, compiling and the self-test run while the relay works.
func BenchmarkServerFirstSwap(b *testing.B) {
	const n = 20_000
	for b.Loop() {
		dir := generalRelay(b)
		data := b.TempDir()
		s := serve(b, data, "--plugins", dir)
		events := sign(b, 5_000_000, 5_000_000+2*n)
		without := publish(b, s, events[:n], publishers, 1).times
		done := make(chan time.Duration)
		go func() {
			began := time.Now()
			// Another version makes it another module, whose code no cache has.
			fresh, err := os.ReadFile(filepath.Join(dir, "rate.wasm"))
			if err != nil {
				b.Error(err)
			}
			dropFile(b, filepath.Join(dir, "second.wasm"), bytes.Replace(fresh, []byte(`"version": "1.0.0"`), []byte(`"version": "9.0.0"`), 1))
			for s.metrics().total(`talon_plugin_generation{`, `module="second"`) != 1 {
				time.Sleep(10 * time.Millisecond)
			}
			done <- time.Since(began)
		}()
		with := publish(b, s, events[n:], publishers, 1).times
		b.ReportMetric(0, "ns/op")
		b.ReportMetric(millis(<-done), "swap-ms")
		b.ReportMetric(millis(quantile(without, 0.99)), "without-p99-ms")
		b.ReportMetric(millis(quantile(with, 0.99)), "with-p99-ms")
	}
}

// BenchmarkServerThousandSwaps swaps a thousand times and compares the server's
// memory after the first hundred and at the end.
func BenchmarkServerThousandSwaps(b *testing.B) {
	const first, swaps = 100, 1000
	for b.Loop() {
		dir := generalRelay(b)
		data := b.TempDir()
		s := serve(b, data, "--plugins", dir)
		swap := swapper(b, data, dir)
		for range first {
			swap()
		}
		early, _ := s.memory()
		began, cpu := time.Now(), s.cpu()
		for range swaps - first {
			swap()
		}
		wall, used := time.Since(began), s.cpu()-cpu
		late, _ := s.memory()
		b.ReportMetric(0, "ns/op")
		b.ReportMetric(millis(wall)/(swaps-first), "ms/swap")
		b.ReportMetric(millis(used)/(swaps-first), "cpu-ms/swap")
		b.ReportMetric(early/1e6, "early-MB")
		b.ReportMetric(late/1e6, "late-MB")
		b.ReportMetric(folderSize(b, filepath.Join(data, "wasm-cache"))/1e6, "cache-MB")
		b.ReportMetric(folderSize(b, filepath.Join(data, "generations"))/1e6, "generations-MB")
	}
}

// swapper returns a function that puts one of two modules in the place of
// "swapped", in turns, and waits until it runs.
func swapper(b *testing.B, data, dir string) func() {
	path, turn := programPath(b), 0
	return func() {
		turn++
		name := []string{"lists", "rate"}[turn%2] + ".wasm"
		module := filepath.Join(dir, name)
		if _, err := os.Stat(module); err != nil { // it is inside the program
			module = filepath.Join("../../build/wasm", name)
		}
		if out, err := exec.Command(path, "plugin", "swap", "swapped", module, "--data", data).CombinedOutput(); err != nil {
			b.Errorf("swap: %v: %s", err, out)
		}
	}
}

// dropFile puts a file into a folder as mv does.
func dropFile(b *testing.B, path string, data []byte) {
	hidden := filepath.Join(filepath.Dir(path), "."+filepath.Base(path))
	err := os.WriteFile(hidden, data, 0o644)
	if err == nil {
		err = os.Rename(hidden, path)
	}
	if err != nil {
		b.Error(fmt.Errorf("drop a module: %w", err))
	}
}

func folderSize(b *testing.B, dir string) (sum float64) {
	err := filepath.WalkDir(dir, func(_ string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		if err == nil {
			sum += float64(info.Size())
		}
		return err
	})
	if err != nil {
		b.Fatal(err)
	}
	return sum
}
