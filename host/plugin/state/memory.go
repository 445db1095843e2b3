package state

import (
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

// Options tune a memory. The zero value means the defaults.
type Options struct {
	Quota int64         // bytes of each plugin that has no quota of its own; default 8 MiB
	Every time.Duration // between saves; default 1 s
	Log   *slog.Logger
	Now   func() time.Time
}

func (o Options) filled() Options {
	if o.Quota <= 0 {
		o.Quota = 8 << 20
	}
	if o.Every <= 0 {
		o.Every = time.Second
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	return o
}

// Memory is the state of all plugins. Its methods, and those of its plugins, may
// be called by many goroutines.
type Memory struct {
	disk Disk // nil: in memory only
	opts Options
	seed maphash.Seed

	mu      sync.RWMutex // guards the map
	plugins map[string]*Plugin

	saving sync.Mutex  // held by Save; guards swept
	swept  int64       // when the disk was, in unix seconds
	lapsed atomic.Bool // something expired that the disk may have
}

// Open loads what the disk has. Without a disk, state ends with the process.
func Open(ctx context.Context, disk Disk, o Options) (*Memory, error) {
	m := &Memory{disk: disk, opts: o.filled(), seed: maphash.MakeSeed(), plugins: map[string]*Plugin{}}
	if disk == nil {
		return m, nil
	}
	now := m.opts.Now().Unix()
	err := disk.LoadState(ctx, func(e host.StateEntry) error {
		if e.Expires != 0 && e.Expires <= now {
			m.lapsed.Store(true)
		} else {
			m.Of(e.Module).load(e)
		}
		return nil
	})
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
