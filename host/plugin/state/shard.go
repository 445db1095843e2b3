package state

import (
	"cmp"
	"context"
	"fmt"
	"hash/maphash"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"talon/host"
	"talon/internal/heap"
)

// The spaces of a plugin. The numbers are on disks.
const (
	keys    = 0
	buckets = 1
	spaces  = 2
)

// shard is a part of a plugin's state: what is said about one key waits only for
// its shard.
type shard struct {
	mu    sync.RWMutex
	space [spaces]space
	dirty []*item // what the disk does not have yet

	_ [64]byte // shards are on cache lines of their own
}

type space struct {
	items map[string]*item
	due   heap.Heap[*item] // those of items that expire, the first on top
}

// item is a key with its value, or a bucket.
type item struct {
	key   string
	value []byte // of a key; nil for one that was deleted; replaced, never changed

	// until is when the item expires, in unix milliseconds, 0 for never. For
	// a bucket that is when it is full again, and all there is to know.
	until int64

	// due is what the queue sorts by. It may be earlier than until, so that
	// taking from a bucket does not move it in the queue.
	due int64

	// added is what a counter has gained since the last save, or what was taken from a bucket,
	// in milliseconds. It says nothing if set is true.
	added int64

	queued int32 // its place in the queue, from 1; 0 if it is not there
	listed int32 // its place among the dirty, from 1; 0 if it is not there
	space  uint8
	stored bool // the disk may have a version of it
	set    bool // the change is a value of its own, whatever the disk has
	saving bool // a save is under way that has it
}

// gone reports whether the key has been deleted, and waits for the disk to know.
func (it *item) gone() bool { return it.space == keys && it.value == nil }

func (it *item) expired(at int64) bool { return it.until != 0 && it.until <= at }

// live reports whether the item is there at a time, in unix milliseconds.
func (it *item) live(at int64) bool { return it != nil && !it.gone() && !it.expired(at) }

// size is what the item counts for.
func (it *item) size() int64 { return sizeOf(len(it.key), len(it.value)) }

// REQUIRES: s.mu is held for writing, in all methods from here on.

// expires sets when the item expires.
func (s *shard) expires(it *item, until int64) {
	it.until = until
	q := &s.space[it.space].due
	switch {
	case until == 0 && it.queued != 0:
		q.Remove(int(it.queued - 1))
	case until == 0:
	case it.queued == 0:
		it.due = until
		q.Push(it)
	case until < it.due:
		it.due = until
		q.Fix(int(it.queued - 1))
	}
}

func newSpace() space {
	before := func(a, b *item) bool { return a.due < b.due }
	return space{map[string]*item{}, heap.New(before, func(it *item, place int) { it.queued = int32(place + 1) })}
}

// first returns the item that expires first, nil if none does.
func (sp *space) first() *item {
	for sp.due.Len() > 0 {
		it := sp.due.Top()
		if it.due == it.until {
			return it
		}
		it.due = it.until
		sp.due.Fix(0)
	}
	return nil
}

// changed notes that the disk must hear of the item.
func (s *shard) changed(it *item) {
	if it.listed == 0 {
		s.dirty = append(s.dirty, it)
		it.listed = int32(len(s.dirty))
	}
}

// unlist takes the item out of the dirty.
func (s *shard) unlist(it *item) {
	if it.listed == 0 {
		return
	}
	last := s.dirty[len(s.dirty)-1]
	s.dirty[it.listed-1] = last
	last.listed = it.listed
	s.dirty[len(s.dirty)-1] = nil
	s.dirty = s.dirty[:len(s.dirty)-1]
	it.listed = 0
}

// remove forgets the item, here and now.
func (s *shard) remove(it *item) {
	if it.queued != 0 {
		s.space[it.space].due.Remove(int(it.queued - 1))
	}
	s.unlist(it)
	delete(s.space[it.space].items, it.key)
}

// entry is what the disk is to know of the item.
func (it *item) entry(module string) host.StateEntry {
	e := host.StateEntry{Module: module, Space: it.space, Key: it.key, Value: it.value, Expires: it.until / 1000, Merged: !it.set}
	if it.space == buckets {
		e.Value, e.Expires = bucketEntry(it.until)
	}
	return e
}

// bucketEntry is what the disk is to know of a bucket that is full at a time.
func bucketEntry(until int64) (value []byte, expires int64) {
	return putInt(until), (until-1)/1000 + 1 // not before it is full
}

// Disk is where state outlives the process.
type Disk interface {
	// LoadState yields everything that is stored, also what has expired. The
	// error of yield ends it.
	LoadState(ctx context.Context, yield func(host.StateEntry) error) error

	// SaveState writes all entries or none. It does not keep the slice.
	SaveState(ctx context.Context, entries []host.StateEntry) error

	// SweepState removes what has expired by now, in unix seconds.
	SweepState(ctx context.Context, now int64) error
}

// SharedDisk is a [Disk] that several processes write to.
type SharedDisk interface {
	Disk

	// MergeState writes all entries or none, as SaveState does. Before that it calls merge
	// for each that is Merged, with what is stored under its key, whose value is nil if
	// nothing is: merge changes the entry. It may be called twice.
	MergeState(ctx context.Context, entries []host.StateEntry, merge func(i int, stored host.StateEntry)) error

	// ReadState yields what was saved after the save with a number, with no value if it was
	// forgotten, and returns the number of the last one. 0 is before the first.
	ReadState(ctx context.Context, after int64, yield func(host.StateEntry) error) (last int64, err error)

	// StateChanged receives after something was saved.
	StateChanged() <-chan struct{}

	// Writers returns how many processes write, at least 1.
	Writers() int
}

// Options tune a memory. The zero value means the defaults.
type Options struct {
	Quota int64         // bytes of each plugin that has no quota of its own; default 8 MiB
	Every time.Duration // between saves; default 1 s, and 200 ms on a [SharedDisk]
	Log   *slog.Logger
	Now   func() time.Time
}

func (o *Options) setDefaults(shared bool) {
	if o.Quota <= 0 {
		o.Quota = 8 << 20
	}
	if o.Every <= 0 {
		if o.Every = saveEvery; shared {
			o.Every = shareEvery
		}
	}
	o.Log = cmp.Or(o.Log, slog.New(slog.DiscardHandler))
	if o.Now == nil {
		o.Now = time.Now
	}
}

// Memory is the state of all plugins. Its methods, and those of its plugins, may
// be called by many goroutines.
type Memory struct {
	disk Disk       // nil: in memory only
	many SharedDisk // disk, if others may write to it
	opts Options
	seed maphash.Seed

	mu      sync.RWMutex // guards the map
	plugins map[string]*Plugin

	saving sync.Mutex  // held by Save and Read; guards swept and read
	read   int64       // the number of the last save that is known, on a shared disk
	swept  int64       // when the disk was, in unix seconds
	lapsed atomic.Bool // something expired that the disk may have
}

// Open loads what the disk has. Without a disk, state ends with the process.
func Open(ctx context.Context, disk Disk, o Options) (*Memory, error) {
	many, shared := disk.(SharedDisk)
	o.setDefaults(shared)
	m := &Memory{disk: disk, many: many, opts: o, seed: maphash.MakeSeed(), plugins: map[string]*Plugin{}}
	if disk == nil {
		return m, nil
	}
	now := m.opts.Now().Unix()
	load := func(e host.StateEntry) error {
		if e.Expires != 0 && e.Expires <= now {
			m.lapsed.Store(true)
		} else if e.Value != nil {
			m.Of(e.Module).load(e)
		}
		return nil
	}
	var err error
	if m.many != nil {
		m.read, err = m.many.ReadState(ctx, 0, load)
	} else {
		err = disk.LoadState(ctx, load)
	}
	if err != nil {
		return nil, fmt.Errorf("load what plugins remember: %w", err)
	}
	return m, nil
}

// Of returns what the plugin remembers: the same value for the same name.
func (m *Memory) Of(plugin string) *Plugin {
	if p := m.find(plugin); p != nil {
		return p
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	p := m.plugins[plugin]
	if p == nil {
		p = newPlugin(m, plugin)
		m.plugins[plugin] = p
	}
	return p
}

func (m *Memory) find(plugin string) *Plugin {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return m.plugins[plugin]
}

// Bytes returns how much of its quota the plugin uses.
func (m *Memory) Bytes(plugin string) int64 {
	if p := m.find(plugin); p != nil {
		return p.Bytes()
	}
	return 0
}

// Sizes returns Bytes of every plugin that has been asked for, or has state on
// the disk.
func (m *Memory) Sizes() map[string]int64 {
	sizes := map[string]int64{}
	for _, p := range m.all() {
		sizes[p.name] = p.Bytes()
	}
	return sizes
}

func (m *Memory) all() []*Plugin {
	m.mu.RLock()
	defer m.mu.RUnlock()
	list := make([]*Plugin, 0, len(m.plugins))
	for _, p := range m.plugins {
		list = append(list, p)
	}
	slices.SortFunc(list, func(a, b *Plugin) int { return strings.Compare(a.name, b.name) })
	return list
}
