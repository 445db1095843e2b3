package state

import (
	"encoding/binary"
	"fmt"
	"runtime"
	"testing"

	"talon/internal/testkit"
)

func TestQuota(t *testing.T) {
	p := memory(t, nil, nil, Options{Quota: 4 * 10 * (overhead + 10)}).Of("p") // 30 keys of 10 bytes
	fits := func(want int) {
		t.Helper()
		n := 0
		for i := range 100 {
			if p.Set(fmt.Appendf(nil, "k%03d", i), make([]byte, 6), 10, start) {
				n++
			}
		}
		if n != want {
			t.Errorf("%d keys fit, want %d", n, want)
		}
		account(t, p)
	}
	fits(30)
	if p.Set([]byte("k000"), make([]byte, 7), 0, start) || !p.Set([]byte("k000"), make([]byte, 5), 10, start) || !p.Set([]byte("k001"), make([]byte, 7), 10, start) {
		t.Error("a value may become longer only where another became shorter")
	}
	if got := p.Incr([]byte("n"), 7, 0, start); got != 7 || get(p, "n", start) != "-" {
		t.Errorf("without room: got %d, stored %q", got, get(p, "n", start))
	}
	p.Set([]byte("k002"), putInt(5)[:2], 10, start)
	if got := p.Incr([]byte("k002"), 7, 0, start); got != 7 || len(get(p, "k002", start)) != 2 {
		t.Errorf("without room to grow: got %d, stored %q", got, get(p, "k002", start))
	}

	p.SetQuota(1000)
	if get(p, "k029", start) == "-" || p.Set([]byte("new"), nil, 0, start) {
		t.Error("with a lower quota: a key was lost, or a new one was taken")
	}
	if !p.Set([]byte("new"), nil, 0, start+10) {
		t.Error("what has expired still takes room")
	}
	account(t, p)
	p.SetQuota(0)
	p.Delete([]byte("new"))
	fits(30)
}

// TestBucketsBorrow: buckets use what keys leave, and give it back.
func TestBucketsBorrow(t *testing.T) {
	const quota = 400 * (overhead + 10)
	p := memory(t, nil, nil, Options{Quota: quota}).Of("p")
	take := func(n int) {
		for i := range n {
			if wait := p.Take(fmt.Appendf(nil, "bucket%04d", i), 1, 5, 1000, start); wait != 0 {
				t.Fatalf("a new bucket is refused: %d", wait)
			}
		}
	}
	take(1000)
	account(t, p)
	if used := p.used[buckets]; used != quota {
		t.Errorf("buckets take %d bytes of %d", used, quota)
	}
	for i := range 1000 {
		p.Set(fmt.Appendf(nil, "k%04d", i), make([]byte, 5), 0, start)
	}
	account(t, p)
	if p.used[keys] != quota*3/4 || p.used[buckets] != quota/4 {
		t.Errorf("keys take %d bytes and buckets %d, of %d", p.used[keys], p.used[buckets], quota)
	}
	take(1000)
	if p.used[buckets] != quota/4 {
		t.Errorf("buckets take %d bytes, a quarter is %d", p.used[buckets], quota/4)
	}
	p.SetQuota(1000) // less than keys have: buckets go, and what is new is not remembered
	take(1000)
	if p.used[buckets] != 0 {
		t.Errorf("buckets take %d bytes though there are none", p.used[buckets])
	}
	account(t, p)
}

// TestDrainedBucketsStay: an attacker with many names cannot wash his empty
// buckets away with fresh ones.
func TestDrainedBucketsStay(t *testing.T) {
	p := memory(t, nil, nil, Options{Quota: 2000 * (overhead + 10)}).Of("p")
	for i := range 500 {
		p.Take(fmt.Appendf(nil, "drained%d", i), 10, 10, 1000, start)
	}
	for i := range 50_000 {
		p.Take(fmt.Appendf(nil, "fresh%d", i), 1, 10, 1000, start)
	}
	for i := range 500 {
		if p.Take(fmt.Appendf(nil, "drained%d", i), 1, 10, 1000, start) == 0 {
			t.Fatalf("bucket %d was forgotten", i)
		}
	}
}

// TestOverhead measures what small items cost beside key and value.
func TestOverhead(t *testing.T) {
	testkit.SkipRace(t)
	for _, tt := range []struct {
		name string
		put  func(p *Plugin, key []byte)
	}{
		{"keys", func(p *Plugin, key []byte) { p.Set(key, key, 0, start) }},
		{"keys that expire", func(p *Plugin, key []byte) { p.Set(key, key, 100, start) }},
		{"counters", func(p *Plugin, key []byte) { p.Incr(key, 1, 100, start) }},
		{"buckets", func(p *Plugin, key []byte) { p.Take(key, 1, 10, 1000, start) }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			worst := 0.0
			for _, n := range []int{30_000, 45_000, 60_000, 120_000, 180_000}[:testkit.Sized(2, 5)] {
				before := allocated()
				m := memory(t, newDisk(), nil, Options{Quota: 1 << 30})
				p := m.Of("p")
				var key [8]byte
				for i := range n {
					binary.LittleEndian.PutUint64(key[:], uint64(i))
					tt.put(p, key[:])
				}
				worst = max(worst, float64(allocated()-before)/float64(p.Bytes()))
				runtime.KeepAlive(m)
			}
			t.Logf("%.2f bytes of memory for each that counts", worst)
			if worst > 1 {
				t.Errorf("small items take %.2f times what they count for", worst)
			}
		})
	}
}

func allocated() int64 {
	runtime.GC()
	runtime.GC()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return int64(stats.HeapAlloc)
}
