package state

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"talon/host"
)

// fakeDisk is a table in memory.
type fakeDisk struct {
	mu     sync.Mutex
	rows   map[string]host.StateEntry
	saves  [][]host.StateEntry
	fails  error
	during func() // called while a save is under way
}

func newDisk() *fakeDisk { return &fakeDisk{rows: map[string]host.StateEntry{}} }

var errFull = errors.New("disk is full")

func rowKey(e host.StateEntry) string { return fmt.Sprintf("%s %d %s", e.Module, e.Space, e.Key) }

// fail makes the disk fail from now on, until err is nil.
func (d *fakeDisk) fail(err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.fails = err
}

func (d *fakeDisk) LoadState(ctx context.Context, yield func(host.StateEntry) error) error {
	if d.fails != nil {
		return d.fails
	}
	for _, e := range d.rows {
		if err := yield(e); err != nil {
			return err
		}
	}
	return nil
}

func (d *fakeDisk) SaveState(ctx context.Context, entries []host.StateEntry) error {
	if d.during != nil {
		d.during()
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := errors.Join(d.fails, ctx.Err()); err != nil {
		return err
	}
	d.saves = append(d.saves, slices.Clone(entries))
	for _, e := range entries {
		if e.Value == nil {
			delete(d.rows, rowKey(e))
		} else {
			d.rows[rowKey(e)] = e
		}
	}
	return nil
}

func (d *fakeDisk) SweepState(ctx context.Context, now int64) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := errors.Join(d.fails, ctx.Err()); err != nil {
		return err
	}
	for key, e := range d.rows {
		if e.Expires != 0 && e.Expires <= now {
			delete(d.rows, key)
		}
	}
	return nil
}

// start is a time at which tests begin.
const start = 1_700_000_000

// memory opens a memory whose clock is *now.
func memory(t testing.TB, disk Disk, now *int64, o Options) *Memory {
	t.Helper()
	if now != nil {
		o.Now = func() time.Time { return time.Unix(*now, 0) }
	}
	m, err := Open(context.Background(), disk, o)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func save(t testing.TB, m *Memory) {
	t.Helper()
	if err := m.Save(context.Background()); err != nil {
		t.Fatal(err)
	}
}

func get(p *Plugin, key string, now int64) string {
	value, ok := p.Get([]byte(key), now)
	if !ok {
		return "-"
	}
	return string(value)
}

func set(t testing.TB, p *Plugin, key, value string, ttl, now int64) {
	t.Helper()
	if !p.Set([]byte(key), []byte(value), ttl, now) {
		t.Fatalf("no room for %q", key)
	}
}

// account fails the test unless the plugin counts exactly what it has.
func account(t testing.TB, p *Plugin) {
	t.Helper()
	var bytes int64
	for i := range p.shards {
		s := &p.shards[i]
		for sp := range s.space {
			queued := 0
			for key, it := range s.space[sp].items {
				bytes += it.size()
				if it.key != key || int(it.space) != sp {
					t.Errorf("item %q lies under %q", it.key, key)
				}
				if it.until != 0 {
					queued++
				}
				if it.queued != 0 && s.space[sp].due.Items()[it.queued-1] != it {
					t.Errorf("item %q is not where it says in the queue", key)
				}
			}
			if queued != s.space[sp].due.Len() {
				t.Errorf("%d items expire, %d are in the queue", queued, s.space[sp].due.Len())
			}
		}
		for n, it := range s.dirty {
			if int(it.listed) != n+1 || s.space[it.space].items[it.key] != it {
				t.Errorf("item %q among the dirty does not belong there", it.key)
			}
		}
	}
	if bytes != p.Bytes() {
		t.Errorf("%d bytes are counted, %d are there", p.Bytes(), bytes)
	}
}
