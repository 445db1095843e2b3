package state

import (
	"context"
	"fmt"
	"time"

	"talon/host"
)

// Several processes may remember the same things. Each answers from its memory, saves what
// it has changed, and reads what all have saved in between. A key is what was saved last, a
// counter the sum of what all have added.
//
// Each process may have taken from a bucket without the knowledge of the others. So a take
// that is not known to all counts as if all processes had taken as much. It counts once
// more because they do not begin at the same time. Until a process hears of the others, it
// may take its share of the rest, also while nothing can be saved.

// counted is what a take that others do not know yet counts for.
func (m *Memory) counted(cost int64) int64 {
	if m.many != nil {
		if n := int64(m.many.Writers()); n > 1 {
			return min(cost, maxMillis/(n+1)) * (n + 1)
		}
	}
	return cost
}

// readSoon reads what was saved, half of the time to the next save later: what was taken from
// a bucket here counts as known to all only when others have had the time to save as well.
func (m *Memory) readSoon(ctx context.Context, last *time.Time) {
	timer := time.NewTimer(m.opts.Every / 2)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return
	case <-timer.C:
	}
	select {
	case <-m.many.StateChanged():
	default:
		if time.Since(*last) < readEvery {
			return
		}
	}
	*last = time.Now()
	if err := m.Read(ctx); err != nil && ctx.Err() == nil {
		m.opts.Log.Warn("read what plugins of all processes remember", "err", err)
	}
}

// Read learns what was saved to a shared disk, by others and by this process.
func (m *Memory) Read(ctx context.Context) error {
	m.saving.Lock()
	defer m.saving.Unlock()
	now := m.opts.Now().Unix()
	last, err := m.many.ReadState(ctx, m.read, func(e host.StateEntry) error {
		m.Of(e.Module).learn(e, now)
		return nil
	})
	if err != nil {
		return fmt.Errorf("read what plugins remember: %w", err)
	}
	m.read = last
	return nil
}

// learn brings an item in line with what the disk has, and keeps what was changed here
// since. REQUIRES: nothing is being saved.
func (p *Plugin) learn(e host.StateEntry, now int64) {
	if e.Space >= spaces {
		return
	}
	if e.Expires != 0 && e.Expires <= now {
		e.Value = nil
	}
	s := p.shard([]byte(e.Key))
	s.mu.Lock()
	defer s.mu.Unlock()
	it := s.space[e.Space].items[e.Key]
	switch {
	case it == nil && e.Value != nil:
		p.insert(s, e)
	case it == nil:
	case it.listed == 0 && e.Value == nil:
		p.charge(it.space, -it.size())
		s.remove(it)
	case it.listed == 0 || !it.set:
		it.stored = true
		p.rebase(s, it, e, now)
	}
}

// rebase makes an item what is stored with what was added here since. REQUIRES: s.mu.
func (p *Plugin) rebase(s *shard, it *item, stored host.StateEntry, now int64) {
	added := it.added
	if it.listed == 0 {
		added = 0
	}
	if it.space == buckets {
		s.expires(it, max(getInt(stored.Value), now*1000)+p.memory.counted(added))
		return
	}
	value := own(stored.Value)
	if it.listed != 0 {
		value = putInt(addInt(getInt(stored.Value), added))
	}
	p.mu.Lock()
	p.used[keys] += int64(len(value) - len(it.value))
	p.mu.Unlock()
	it.value = value
	if stored.Value != nil {
		s.expires(it, stored.Expires*1000)
	}
}

// merge makes an entry of what is stored and what was added here.
func (b *batch) merge(i int, stored host.StateEntry) {
	e, added := &b.entries[i], b.from[i].added
	live := stored.Value != nil && (stored.Expires == 0 || stored.Expires > b.now)
	if e.Space == buckets {
		full := b.now * 1000
		if live {
			full = max(full, getInt(stored.Value))
		}
		e.Value, e.Expires = bucketEntry(full + added)
		return
	}
	if !live {
		e.Value = putInt(added)
		return
	}
	e.Value, e.Expires = putInt(addInt(getInt(stored.Value), added)), stored.Expires
}

// restore keeps for the next save what was not saved.
func (from *source) restore() {
	from.shard.mu.Lock()
	defer from.shard.mu.Unlock()
	if it := from.item; !it.set {
		it.set, it.added = from.set, addInt(from.added, it.added)
	}
}
