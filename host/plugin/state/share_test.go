package state

import (
	"context"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"testing"

	"talon/host"
	"talon/internal/testkit"
)

// sharedDisk is a table in memory that several processes write to.
type sharedDisk struct {
	*fakeDisk
	n       map[string]int64 // of the last save of a row
	saved   int64
	writers int
}

func newSharedDisk(writers int) *sharedDisk {
	return &sharedDisk{fakeDisk: newDisk(), n: map[string]int64{}, writers: writers}
}

func (d *sharedDisk) MergeState(ctx context.Context, entries []host.StateEntry, merge func(int, host.StateEntry)) error {
	if d.fails != nil {
		return d.fails
	}
	for range 2 { // the connection was lost after the first time
		for i := range entries {
			if entries[i].Merged {
				merge(i, d.rows[rowKey(entries[i])])
			}
		}
	}
	d.saved++
	for _, e := range entries {
		d.rows[rowKey(e)], d.n[rowKey(e)] = e, d.saved
	}
	return nil
}

func (d *sharedDisk) ReadState(_ context.Context, after int64, yield func(host.StateEntry) error) (int64, error) {
	if d.fails != nil {
		return after, d.fails
	}
	for key, n := range d.n {
		if n > after {
			if err := yield(d.rows[key]); err != nil {
				return after, err
			}
		}
	}
	return d.saved, nil
}

func (d *sharedDisk) StateChanged() <-chan struct{} { return nil }
func (d *sharedDisk) Writers() int                  { return d.writers }

// TestShared changes keys and counters in three processes at random, which save and read at
// random: a counter is the sum of what all have added since it was set, and in the end all
// remember the same.
func TestShared(t *testing.T) {
	for seed := range uint64(50) {
		r := rand.New(rand.NewPCG(seed, 0))
		disk, now := newSharedDisk(3), int64(start)
		var all []*Memory
		for range 3 {
			all = append(all, memory(t, disk, &now, Options{}))
		}
		var sum int64
		read := func(m *Memory) {
			t.Helper()
			if err := m.Read(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		for range 400 {
			m := all[r.IntN(3)]
			p, key := m.Of("p"), fmt.Sprint("key ", r.IntN(4))
			switch r.IntN(10) {
			case 0:
				set(t, p, key, fmt.Sprint(r.IntN(1000)), int64(r.IntN(3)*5), now)
			case 1:
				p.Delete([]byte(key))
			case 2:
				p.Incr([]byte(key), int64(r.IntN(10)), int64(r.IntN(3)*5), now)
			case 3, 4:
				n := int64(r.IntN(10))
				sum += n
				p.Incr([]byte("sum"), n, 0, now)
			case 5, 6:
				if r.IntN(4) == 0 {
					disk.fails = errFull
					_ = m.Save(t.Context())
					disk.fails = nil
				}
				save(t, m)
			case 7:
				read(m)
			case 8:
				p.sweep(now)
			case 9:
				now += int64(r.IntN(2))
			}
			account(t, p)
		}
		for _, m := range all {
			save(t, m)
		}
		for _, m := range all {
			read(m)
			account(t, m.Of("p"))
		}
		fresh := memory(t, disk, &now, Options{})
		for i, m := range append(all, fresh) {
			p := m.Of("p")
			if got := p.Incr([]byte("sum"), 0, 0, now); got != sum {
				t.Fatalf("seed %d: process %d has counted %d, want %d", seed, i, got, sum)
			}
			for k := range 4 {
				key := fmt.Sprint("key ", k)
				if got, want := get(p, key, now), get(all[0].Of("p"), key, now); got != want {
					t.Fatalf("seed %d: process %d has %s = %x, process 0 %x", seed, i, key, got, want)
				}
			}
		}
	}
}

// flood takes as much as it gets from a bucket at several processes, which save every 200 ms,
// each at a time of its own, and read 100 ms after that. It returns what they have got, as a
// share of what one process gives: at most, at any time, and in the end.
func flood(t *testing.T, r *rand.Rand, processes int, burst, perMillis, seconds int64, away bool) (most, end float64) {
	disk, now := newSharedDisk(processes), int64(start)
	var all []*Plugin
	offset := make([]int64, processes)
	for i := range processes {
		all = append(all, memory(t, disk, &now, Options{}).Of("p"))
		offset[i] = r.Int64N(40) * 5
	}
	key := binary.BigEndian.AppendUint64(nil, r.Uint64())
	var got float64
	for ms := int64(0); ms < seconds*1000; ms += 5 {
		now = start + ms/1000
		if away && ms == 200 {
			disk.fails = errFull
		}
		for i, p := range all {
			switch (ms + 200 - offset[i]) % 200 {
			case 0:
				_ = p.memory.Save(context.Background())
			case 100:
				_ = p.memory.Read(context.Background())
			}
		}
		for _, i := range r.Perm(processes) {
			for range 1 + r.IntN(20) {
				if all[i].Take(key, 1, burst, perMillis, now) == 0 {
					got++
				}
			}
		}
		end = got / float64(burst+ms/1000*1000/perMillis)
		most = max(most, end)
	}
	return most, end
}

// TestSharedBuckets: at three processes a client gets no more than at one, within ten
// percent, at any time from the first burst on, and not much less; also while nothing can be saved.
func TestSharedBuckets(t *testing.T) {
	testkit.SkipRace(t)
	for _, b := range []struct{ burst, perMillis int64 }{{60, 1000}, {10, 1000}, {100, 10}, {600, 100}, {5, 1000}} {
		for seed := range uint64(6) {
			for _, away := range []bool{false, true} {
				r := rand.New(rand.NewPCG(seed, 0))
				most, end := flood(t, r, 3, b.burst, b.perMillis, 30, away)
				if seed == 0 {
					t.Logf("burst %d, one each %d ms, database away %t: %.0f %% at most, %.0f %% in the end", b.burst, b.perMillis, away, 100*most, 100*end)
				}
				if most > 1.10 {
					t.Errorf("burst %d, one each %d ms, seed %d, database away %t: %.0f %% of what one process gives", b.burst, b.perMillis, seed, away, 100*most)
				}
				if end < 0.60 {
					t.Errorf("burst %d, one each %d ms, seed %d, database away %t: only %.0f %% of what one process gives", b.burst, b.perMillis, seed, away, 100*end)
				}
			}
		}
	}
	// A bucket that holds less than what processes can divide gives each one token at once,
	// and takes that back.
	for seed := range uint64(12) {
		if _, end := flood(t, rand.New(rand.NewPCG(seed, 0)), 3, 1, 1000, 60, false); end > 1.10 {
			t.Errorf("burst 1, seed %d: %.0f %% after a minute", seed, 100*end)
		}
	}
	// One process alone divides nothing.
	if most, end := flood(t, rand.New(rand.NewPCG(1, 0)), 1, 60, 1000, 30, false); most > 1 || end < 0.97 {
		t.Errorf("alone: %.3f, %.3f", most, end)
	}
}
