package state

import (
	"context"
	"fmt"
	"time"

	"talon/host"
)

const (
	// What one transaction of the disk writes: events wait for it.
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
// What changes after that is saved by [Memory.Save] only.
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

const (
	// overhead is what an item costs beside its key and value: the item, its
	// places in the map, the queue and the list of changes, and what the
	// allocator rounds up. Measured, see TestOverhead.
	overhead = 176

	// attempts are how often room is made for one item: others may take it away.
	attempts = 3

	// sweepBatch is how many items expire while a shard is locked.
	sweepBatch = 1000
)

func sizeOf(key, value int) int64 { return int64(key) + int64(value) + overhead }

// SetQuota bounds what the plugin may remember, in bytes; 0 is the default of
// [Options]. What is there stays, though it may be more.
func (p *Plugin) SetQuota(bytes int64) {
	if bytes <= 0 {
		bytes = p.memory.opts.Quota
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.quota = bytes
}

// Bytes returns how much of its quota the plugin uses.
func (p *Plugin) Bytes() int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.used[keys] + p.used[buckets]
}

// charge counts delta bytes more, and reports false if there is no room for
// them. Giving back always succeeds.
func (p *Plugin) charge(space uint8, delta int64) bool {
	if delta == 0 {
		return true
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if delta > 0 && !p.fits(space, delta) {
		return false
	}
	p.used[space] += delta
	return true
}

// fits reports whether there is room. REQUIRES: p.mu.
func (p *Plugin) fits(space uint8, delta int64) bool {
	return p.allows(space, delta) && p.used[keys]+p.used[buckets]+delta <= p.quota
}

// allows reports whether there would be room if buckets gave way. REQUIRES: p.mu.
func (p *Plugin) allows(space uint8, delta int64) bool {
	return space == buckets || p.used[keys]+delta <= p.quota-p.quota/4
}

// makeRoom drops what has expired, then buckets, until there is room. It reports
// false if there is none. REQUIRES: no shard is locked.
func (p *Plugin) makeRoom(space uint8, delta, now int64) bool {
	// One at a time: two would forget a bucket each where one is enough.
	p.clearing.Lock()
	defer p.clearing.Unlock()
	if now != p.swept {
		p.sweep(now)
		p.swept = now
	}
	for {
		p.mu.Lock()
		fits, allows := p.fits(space, delta), p.allows(space, delta)
		p.mu.Unlock()
		if fits {
			return true
		}
		if !allows || !p.forgetBucket() {
			return false
		}
	}
}

// forgetBucket forgets the bucket that is full again soonest. It reports false if
// there is no bucket. REQUIRES: p.clearing.
func (p *Plugin) forgetBucket() bool {
	var from *shard
	var soonest int64
	for i := range p.shards {
		s := &p.shards[i]
		if at := s.firstBucket(); at != 0 && (from == nil || at < soonest) {
			from, soonest = s, at
		}
	}
	if from == nil {
		return false
	}
	from.mu.Lock()
	defer from.mu.Unlock()
	if it := from.space[buckets].first(); it != nil {
		p.remove(from, it)
	}
	return true
}

// firstBucket returns when a bucket of the shard is full again first, 0 if it has
// none.
func (s *shard) firstBucket() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	if it := s.space[buckets].first(); it != nil {
		return it.until
	}
	return 0
}

// sweep drops what has expired by now.
func (p *Plugin) sweep(now int64) {
	for i := range p.shards {
		for p.sweepSome(&p.shards[i], now*1000) {
		}
	}
}

// sweepSome reports whether there may be more to do.
func (p *Plugin) sweepSome(s *shard, at int64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := 0
	for sp := range s.space {
		for ; n < sweepBatch; n++ {
			it := s.space[sp].first()
			if it == nil || it.until > at {
				break
			}
			p.expire(s, it)
		}
	}
	return n == sweepBatch
}

// expire drops an item that has expired. The disk does so by itself, unless it
// has a version of a key that lives longer. REQUIRES: s.mu.
func (p *Plugin) expire(s *shard, it *item) {
	if it.stored && (it.listed != 0 || it.saving) && (it.set || p.memory.many == nil) {
		p.remove(s, it)
		return
	}
	if it.stored {
		p.memory.lapsed.Store(true)
	}
	p.charge(it.space, -it.size())
	s.remove(it)
}
