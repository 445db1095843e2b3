package state

const (
	// overhead is the cost of an item in addition to its key and value: the item, its
	// places in the map, the queue and the list of changes, and the rounding of the
	// allocator. Measured, see TestOverhead.
	overhead = 176

	// attempts are how often room is made for one item: others may take it away.
	attempts = 3

	// sweepBatch is how many items expire while a shard is locked.
	sweepBatch = 1000
)

func sizeOf(key, value int) int64 { return int64(key) + int64(value) + overhead }

// SetQuota bounds what the plugin may remember, in bytes; 0 is the default of [Options].
// Existing data stays, even if it exceeds the quota.
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
