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
)

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
