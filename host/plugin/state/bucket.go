package state

// mostMillis bounds the time in which a bucket fills, and how many tokens it
// holds: sums of it do not overflow.
const mostMillis = 1 << 52

// Take takes n tokens from a bucket that holds up to burst, and gets one back
// every perMillis milliseconds. It returns 0 if they were taken, and otherwise the
// milliseconds until they will be there, or -1 if they never will: n is more than
// burst, or the key is too long. A bucket that nobody took from is full.
//
// Who takes with another burst or perMillis than before finds the bucket to be
// full again at the same time, but at the most empty. That also heals a clock that
// went back.
func (p *Plugin) Take(key []byte, n, burst, perMillis, now int64) int64 {
	burst = min(burst, mostMillis)
	switch {
	case n <= 0:
		return 0
	case n > burst || len(key) > MaxKey:
		return -1
	case perMillis <= 0:
		return 0
	}
	perMillis = min(perMillis, mostMillis/burst)
	at, window, cost := now*1000, burst*perMillis, n*perMillis
	s := p.shard(key)
	for range attempts {
		s.mu.Lock()
		it := s.space[buckets].items[string(key)]
		if it != nil {
			full := max(it.until, at)
			full = min(full, at+window) + cost
			if wait := full - at - window; wait > 0 {
				s.mu.Unlock()
				return wait
			}
			s.expires(it, full)
			p.changed(s, it)
			s.mu.Unlock()
			return 0
		}
		need := sizeOf(len(key), 0)
		ok := p.charge(buckets, need)
		if ok {
			it = &item{key: string(key), space: buckets}
			s.space[buckets].items[it.key] = it
			s.expires(it, at+cost)
			p.changed(s, it)
		}
		s.mu.Unlock()
		if ok || !p.makeRoom(buckets, need, now) {
			break
		}
	}
	return 0
}
