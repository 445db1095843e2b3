package state

import (
	"context"
	"fmt"
	"time"

	"talon/host"
)

const (
	// Limits of one transaction of the disk, since events wait for it.
	saveEntries = 500
	saveBytes   = 1 << 20

	saveEvery  = time.Second      // see Options.Every
	shareEvery = saveEvery / 5    // likewise
	readEvery  = 5 * time.Second  // without a reason
	lastSave   = 10 * time.Second // for the save after the end
	logEvery   = time.Minute      // while saves fail
	sweepEvery = 60               // seconds, of the disk
)

// Run saves what changed and drops what expired until ctx ends. Then it saves for
// the last time, and returns the error of that.
//
// Only [Memory.Save] saves later changes.
func (m *Memory) Run(ctx context.Context) error {
	tick := time.NewTicker(m.opts.Every)
	defer tick.Stop()
	var failing, logged, read time.Time
	for {
		select {
		case <-ctx.Done():
			last, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastSave)
			defer cancel()
			return m.Save(last)
		case <-tick.C:
		}
		now := m.opts.Now()
		for _, p := range m.all() {
			p.sweep(now.Unix())
		}
		switch err := m.Save(ctx); {
		case ctx.Err() != nil:
		case err == nil && !failing.IsZero():
			m.opts.Log.Info("what plugins remember is saved again", "failed_for", now.Sub(failing))
			failing, logged = time.Time{}, time.Time{}
		case err != nil:
			if failing.IsZero() {
				failing = now
			}
			if logged.IsZero() || now.Sub(logged) >= logEvery {
				logged = now
				m.opts.Log.Error("what plugins remember is not saved; it is tried again, and lost only if talon ends before it succeeds", "err", err)
			}
		}
		if m.many != nil {
			m.readSoon(ctx, &read)
		}
	}
}

// Save writes what changed since the last save, each key once. After an error the
// next one writes it.
func (m *Memory) Save(ctx context.Context) error {
	if m.disk == nil {
		return nil
	}
	m.saving.Lock()
	defer m.saving.Unlock()
	b := batch{disk: m.disk, now: m.opts.Now().Unix()}
	for _, p := range m.all() {
		for i := range p.shards {
			s := &p.shards[i]
			for rest := s.dequeueDirty(); len(rest) > 0; {
				rest = b.add(p, s, rest)
				if !b.full() {
					continue
				}
				if err := b.write(ctx); err != nil {
					for _, it := range rest {
						p.saved(s, it, false)
					}
					return err
				}
			}
		}
	}
	if err := b.write(ctx); err != nil {
		return err
	}
	return m.sweepDisk(ctx)
}

// sweepDisk has the disk drop what expired, if there is something. REQUIRES:
// m.saving.
func (m *Memory) sweepDisk(ctx context.Context) error {
	now := m.opts.Now().Unix()
	// A clock that went back does not put it off.
	if since := now - m.swept; since >= 0 && since < sweepEvery || !m.lapsed.Swap(false) {
		return nil
	}
	if err := m.disk.SweepState(ctx, now); err != nil {
		m.lapsed.Store(true)
		return fmt.Errorf("remove what plugins no longer remember: %w", err)
	}
	m.swept = now
	return nil
}

// batch is what one transaction of the disk writes.
type batch struct {
	disk    Disk
	now     int64
	entries []host.StateEntry
	from    []source // of each entry
	bytes   int64
}

type source struct {
	plugin *Plugin
	shard  *shard
	item   *item
	added  int64 // what the entry has of it
	set    bool  // likewise
}

func (b *batch) full() bool { return len(b.entries) >= saveEntries || b.bytes >= saveBytes }

// dequeueDirty returns what changed, and counts it as being saved.
func (s *shard) dequeueDirty() []*item {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := s.dirty
	s.dirty = nil
	for _, it := range list {
		it.listed, it.saving, it.stored = 0, true, true
	}
	return list
}

// add takes items into the batch until it is full, and returns the rest.
func (b *batch) add(p *Plugin, s *shard, items []*item) (rest []*item) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, it := range items {
		if b.full() {
			return items[i:]
		}
		if s.space[it.space].items[it.key] != it {
			continue // a bucket that was forgotten since
		}
		s.unlist(it) // it goes as it is now
		b.entries = append(b.entries, it.entry(p.name))
		b.from = append(b.from, source{p, s, it, it.added, it.set})
		it.added, it.set = 0, false
		b.bytes += it.size()
	}
	return nil
}

// write saves what is in the batch, and empties it.
func (b *batch) write(ctx context.Context) error {
	if len(b.entries) == 0 {
		return nil
	}
	var err error
	if disk, ok := b.disk.(SharedDisk); ok {
		err = disk.MergeState(ctx, b.entries, b.merge)
	} else {
		err = b.disk.SaveState(ctx, b.entries)
	}
	if err != nil {
		err = fmt.Errorf("save what plugins remember: %w", err)
	}
	for _, from := range b.from {
		if err != nil {
			from.restore()
		}
		from.plugin.saved(from.shard, from.item, err == nil)
	}
	clear(b.entries)
	clear(b.from)
	b.entries, b.from, b.bytes = b.entries[:0], b.from[:0], 0
	return err
}

// saved ends the save of an item that take returned.
func (p *Plugin) saved(s *shard, it *item, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	it.saving = false
	switch {
	case it.listed != 0 || s.space[it.space].items[it.key] != it:
	case !ok:
		s.changed(it)
	case it.gone():
		p.charge(it.space, -it.size())
		s.remove(it)
	}
}
