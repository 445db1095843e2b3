package store

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"talon/host"
	"talon/host/store/metrics"
)

// TestMergeBesideReaders puts, replaces, deletes and rolls back while rows are merged all
// the time. In each snapshot, of this process and of one that only reads, the index by tag
// and by author says the same as that by time, which is never merged.
func TestMergeBesideReaders(t *testing.T) {
	dir := t.TempDir()
	tune := defaultTuning
	tune.mergeFrom, tune.minChunk, tune.maxChunk = 100, 1, 50
	opts := Options{Readers: 3, tune: &tune}
	s := openWith(t, dir, opts)
	other, err := OpenReadOnly(t.Context(), dir, opts)
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	var done atomic.Bool
	var wg sync.WaitGroup
	var reads atomic.Int64
	for i, of := range []*Store{s, s, other} {
		wg.Go(func() {
			rnd := rand.New(rand.NewPCG(7, uint64(i)))
			for !done.Load() && !t.Failed() {
				compareIndexes(t, of, rnd)
				reads.Add(1)
			}
		})
	}
	rnd := rand.New(rand.NewPCG(7, 7))
	merges, was := 0, int64(0)
	var ids []host.ID
	for n := 0; (n < 3000 || reads.Load() < 100) && !t.Failed(); {
		tx, err := s.Begin()
		if err != nil {
			t.Fatal(err)
		}
		for range 1 + rnd.IntN(20) {
			n++
			kind := []host.Kind{1, 7, 30000}[rnd.IntN(3)]
			e := fake(n, byte(rnd.IntN(3)), kind, rnd.Int64N(50), host.Tag{"t", "x"}, host.Tag{"d", fmt.Sprint(rnd.IntN(5))})
			if rnd.IntN(10) == 0 && len(ids) > 0 {
				e = fake(n, byte(rnd.IntN(3)), 5, rnd.Int64N(50), host.Tag{"t", "x"}, host.Tag{"e", ids[rnd.IntN(len(ids))].String()})
			}
			ids = append(ids, e.ID)
			if _, err := tx.Put(e, 0); err != nil {
				t.Fatal(err)
			}
		}
		end := tx.Commit
		if rnd.IntN(4) == 0 {
			end = tx.Rollback
		}
		if err := end(); err != nil {
			t.Fatal(err)
		}
		if m := s.writer.merge; m.indexed != was {
			merges, was = merges+1, m.indexed
		}
		if all := *s.recent.Load(); len(all) > 4 {
			t.Fatalf("%d memtables", len(all))
		}
	}
	done.Store(true)
	wg.Wait()
	if merges < 10 {
		t.Errorf("only %d merges", merges)
	}
	check(t, s)
	if _, err := other.Check(t.Context(), func(*host.Event) error { return nil }, func(p string) { t.Error("check beside the writer: " + p) }); err != nil {
		t.Error(err)
	}
	rnd = rand.New(rand.NewPCG(8, 8))
	compareIndexes(t, s, rnd)
	// The rows in memory are there again after a start.
	if err := errors.Join(other.Close(), s.Close()); err != nil {
		t.Fatal(err)
	}
	s = openWith(t, dir, opts)
	compareIndexes(t, s, rnd)
	check(t, s)
}

// compareIndexes compares, in one snapshot, what filters find that all events match.
func compareIndexes(t *testing.T, s *Store, rnd *rand.Rand) {
	t.Helper()
	ctx := context.Background()
	limit := []int{-1, 1, 5, 40, 500}[rnd.IntN(5)]
	all := []host.PubKey{{0}, {1}, {2}}
	err := s.view(ctx, metrics.Select, 0, func(v *snapshot) error {
		want, err := v.top(ctx, &host.Filter{Limit: limit}, limit)
		if err != nil {
			return err
		}
		every, err := v.count(ctx, []host.Filter{{Limit: -1}})
		if err != nil {
			return err
		}
		for name, f := range map[string]host.Filter{
			"tag":               {Tags: []host.TagFilter{{Name: 't', Values: []string{"x"}}}},
			"tag of kinds":      {Tags: []host.TagFilter{{Name: 't', Values: []string{"x", "y"}}}, Kinds: []host.Kind{1, 5, 7, 30000}},
			"authors":           {Authors: all},
			"authors of kinds":  {Authors: all, Kinds: []host.Kind{1, 5, 7, 30000}},
			"tags, and authors": {Authors: all, Tags: []host.TagFilter{{Name: 't', Values: []string{"x"}}}},
		} {
			f.Limit = limit
			got, err := v.top(ctx, &f, limit)
			if err != nil {
				return err
			}
			if !slices.Equal(got, want) {
				t.Errorf("by %s, limit %d: got %d events, by time %d", name, limit, len(got), len(want))
			}
			n, err := v.count(ctx, []host.Filter{f})
			if err != nil {
				return err
			}
			if n != every {
				t.Errorf("by %s: counted %d, by time %d", name, n, every)
			}
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

// TestMergeBySize puts few events with thousands of tags each. Their rows are merged long before
// there are as many events as usual, so that memory stays bounded, and are found afterwards.
func TestMergeBySize(t *testing.T) {
	tune := defaultTuning
	tune.mergeBytes = 1 << 20
	s := openWith(t, t.TempDir(), Options{Readers: 1, tune: &tune})
	const events, tags = 80, 1000 // 80 KB of rows each
	maxUsed := int64(0)
	for n := range events {
		e := fake(n, 0, 1, int64(n), host.Tag{"t", fmt.Sprint("event-", n)})
		for i := range tags {
			e.Tags = append(e.Tags, host.Tag{"t", fmt.Sprintf("%d-%d", n, i)})
		}
		e.JSON = e.AppendJSON(nil)
		tx, err := s.Begin()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := tx.Put(e, 0); err != nil {
			t.Fatal(err)
		}
		if err := tx.Commit(); err != nil {
			t.Fatal(err)
		}
		used := int64(0)
		for _, table := range *s.recent.Load() {
			used += table.bytes()
		}
		maxUsed = max(maxUsed, used)
	}
	if maxUsed > 3*tune.mergeBytes {
		t.Errorf("index rows took up to %d bytes of memory, want at most about twice %d", maxUsed, tune.mergeBytes)
	}
	if s.writer.merge.indexed == 0 {
		t.Error("nothing was merged")
	}
	for _, n := range []int{0, events / 2, events - 1} {
		f := host.Filter{Tags: []host.TagFilter{{Name: 't', Values: []string{fmt.Sprint("event-", n)}}}, Limit: 10}
		found, err := s.Select(t.Context(), []host.Filter{f}, 0)
		if err != nil || len(found.Rows) != 1 {
			t.Errorf("event %d: %d found, %v", n, len(found.Rows), err)
		}
	}
}

// TestMemtableBytes compares what a memtable says that it takes with what it takes, of
// events that have few keys in common, and of such that have many.
func TestMemtableBytes(t *testing.T) {
	s := openWith(t, t.TempDir(), Options{})
	for name, people := range map[string]int{"a hundred authors": 100, "all different": 1 << 30} {
		heap := func() int64 {
			var m runtime.MemStats
			runtime.GC()
			runtime.GC() // what the first one found is swept
			runtime.ReadMemStats(&m)
			return int64(m.HeapAlloc)
		}
		before, table := heap(), newMemtable()
		for n := range 16_384 {
			e := fake(n, 0, 1, int64(n), host.Tag{"e", fmt.Sprintf("%064x", n*n)}, host.Tag{"p", fmt.Sprintf("%064x", n%people)}, host.Tag{"t", "x"})
			binary.BigEndian.PutUint32(e.PubKey[:], uint32(n%people))
			table.add(e, int64(n+1), s.keys.postings(nil, e, int64(n+1)))
		}
		took, says := heap()-before, table.bytes()
		t.Logf("%s: %d bytes an event, it says %d; %d keys, %d rows", name, took/16_384, says/16_384, table.keys, table.rows)
		if off := float64(says)/float64(took) - 1; off < -0.2 || off > 0.2 {
			t.Errorf("%s: it takes %d bytes, and says %d", name, took, says)
		}
		keys, rows := table.keys, table.rows
		table.add(fake(20_000, 9, 1, 1, host.Tag{"t", "y"}), 20_000, s.keys.postings(nil, fake(20_000, 9, 1, 1, host.Tag{"t", "y"}), 20_000))
		if table.truncate(16_384); table.keys != keys || table.rows != rows {
			t.Errorf("%s: %d keys and %d rows after a rollback, %d and %d before", name, table.keys, table.rows, keys, rows)
		}
	}
}
