package state

import (
	"encoding/binary"
	"hash/maphash"
	"math"
	"sync"

	"talon/host"
)

const (
	MaxKey   = 256      // bytes of a key
	MaxValue = 64 << 10 // bytes of a value

	shards = 16

	// A time to live of this many seconds or more is for ever: 30,000 years.
	foreverTTL = 1 << 40
)

// Plugin is what one plugin remembers. In all methods now is unix seconds, and
// keys are of any bytes.
type Plugin struct {
	memory *Memory
	name   string
	shards [shards]shard

	mu    sync.Mutex    // guards the fields below; taken while a shard is locked, never before it
	quota int64         // bytes
	used  [spaces]int64 // bytes

	clearing sync.Mutex // held by makeRoom, and taken before all other locks; guards swept
	swept    int64      // when makeRoom last dropped what had expired
}

func newPlugin(m *Memory, name string) *Plugin {
	p := &Plugin{memory: m, name: name, quota: m.opts.Quota}
	for i := range p.shards {
		for sp := range p.shards[i].space {
			p.shards[i].space[sp] = newSpace()
		}
	}
	return p
}

func (p *Plugin) shard(key []byte) *shard {
	return &p.shards[maphash.Bytes(p.memory.seed, key)%shards]
}

// Get returns the value of a key. The caller must not modify it.
func (p *Plugin) Get(key []byte, now int64) (value []byte, ok bool) {
	s := p.shard(key)
	s.mu.RLock()
	defer s.mu.RUnlock()
	it := s.space[keys].items[string(key)]
	if !it.live(now * 1000) {
		return nil, false
	}
	return it.value, true
}

// Set gives a key a value, for ttl seconds, or for ever if that is 0. It reports
// false if there is no room, or the key or value is too long: then the key has
// the value that it had. A negative ttl is over already: the key is deleted.
func (p *Plugin) Set(key, value []byte, ttl, now int64) bool {
	if len(key) > MaxKey || len(value) > MaxValue {
		return false
	}
	if ttl < 0 {
		p.Delete(key)
		return true
	}
	s := p.shard(key)
	for range attempts {
		set, need := p.trySet(s, key, value, ttl, now)
		if set {
			return true
		}
		if !p.makeRoom(keys, need, now) {
			return false
		}
	}
	return false
}

// trySet sets a key if there is room, or returns how many bytes are needed.
func (p *Plugin) trySet(s *shard, key, value []byte, ttl, now int64) (set bool, need int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	it, need := p.put(s, s.space[keys].items[string(key)], key, value)
	if it == nil {
		return false, need
	}
	it.set, it.added = true, 0
	s.expires(it, until(ttl, now))
	p.changed(s, it)
	return true, 0
}

// Delete forgets a key.
func (p *Plugin) Delete(key []byte) {
	s := p.shard(key)
	s.mu.Lock()
	defer s.mu.Unlock()
	if it := s.space[keys].items[string(key)]; it != nil && !it.gone() {
		p.remove(s, it)
	}
}

// Incr adds delta to the counter at key, and returns the sum, which stops at the
// ends of int64. A counter is a value of 8 bytes, little endian; any other value
// counts as 0. A key that is not there begins at 0 and lives for ttl seconds, or
// for ever if that is 0; one that is there keeps its time.
//
// When there is no room, the stored value stays and the result is what the sum
// would be.
func (p *Plugin) Incr(key []byte, delta, ttl, now int64) int64 {
	sum := delta
	s := p.shard(key)
	for range attempts {
		var need int64
		if sum, need = p.tryIncr(s, key, delta, ttl, now); need == 0 || !p.makeRoom(keys, need, now) {
			break
		}
	}
	return sum
}

// tryIncr returns the sum, and adds to the counter unless that needs more bytes than there are: then
// it also returns how many.
func (p *Plugin) tryIncr(s *shard, key []byte, delta, ttl, now int64) (sum, need int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	it := s.space[keys].items[string(key)]
	old := it.live(now * 1000)
	if sum = delta; old {
		sum = addInt(getInt(it.value), delta)
	}
	if len(key) > MaxKey || !old && ttl < 0 {
		return sum, 0
	}
	if it, need = p.put(s, it, key, putInt(sum)); it == nil {
		return sum, need
	}
	if !old {
		it.added = 0
		s.expires(it, until(ttl, now))
	}
	it.added = addInt(it.added, delta)
	p.changed(s, it)
	return sum, 0
}

// put makes a copy of value that of the key, whose item is it, nil if there is
// none yet, and leaves the time to the caller. It returns the item, or how many
// bytes are needed if there is no room. REQUIRES: s.mu.
func (p *Plugin) put(s *shard, it *item, key, value []byte) (_ *item, need int64) {
	if it == nil {
		need = sizeOf(len(key), len(value))
	} else {
		need = int64(len(value) - len(it.value))
	}
	if !p.charge(keys, need) {
		return nil, need
	}
	if it == nil {
		it = &item{key: string(key), space: keys}
		s.space[keys].items[it.key] = it
	}
	it.value = own(value)
	return it, 0
}

// changed notes a change for the disk, if there is one. REQUIRES: s.mu.
func (p *Plugin) changed(s *shard, it *item) {
	if p.memory.disk != nil {
		s.changed(it)
	}
}

// remove deletes the item. If the disk may hold the item, remove keeps a record of it until
// the deletion is saved. REQUIRES: s.mu.
func (p *Plugin) remove(s *shard, it *item) {
	if !it.stored || it.space == buckets {
		p.charge(it.space, -it.size())
		s.remove(it)
		return
	}
	p.charge(it.space, -int64(len(it.value)))
	it.value, it.set, it.added = nil, true, 0
	s.expires(it, 0)
	s.changed(it)
}

// load takes what the disk has, whatever the quota is. Entries of a space that
// only a newer version knows stay where they are.
func (p *Plugin) load(e host.StateEntry) {
	if e.Space >= spaces {
		return
	}
	s := p.shard([]byte(e.Key))
	s.mu.Lock()
	defer s.mu.Unlock()
	p.insert(s, e)
}

// insert makes an item of an entry. REQUIRES: s.mu, and there is none of its key.
func (p *Plugin) insert(s *shard, e host.StateEntry) {
	it := &item{key: e.Key, space: e.Space, stored: true}
	at := e.Expires * 1000
	if e.Space == keys {
		it.value = own(e.Value)
	} else if at = getInt(e.Value); at <= 0 {
		return // not written by us
	}
	s.space[it.space].items[it.key] = it
	s.expires(it, at)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.used[it.space] += it.size()
}

// own returns a copy that is not nil.
func own(value []byte) []byte { return append(make([]byte, 0, len(value)), value...) }

// until returns when something expires, in unix milliseconds, 0 for never.
func until(ttl, now int64) int64 {
	if ttl == 0 || ttl >= foreverTTL {
		return 0
	}
	return (now + ttl) * 1000
}

func putInt(n int64) []byte { return binary.LittleEndian.AppendUint64(make([]byte, 0, 8), uint64(n)) }

func getInt(b []byte) int64 {
	if len(b) != 8 {
		return 0
	}
	return int64(binary.LittleEndian.Uint64(b))
}

func addInt(a, b int64) int64 {
	sum := a + b
	switch {
	case a > 0 && b > 0 && sum < 0:
		return math.MaxInt64
	case a < 0 && b < 0 && sum >= 0:
		return math.MinInt64
	}
	return sum
}

// maxMillis bounds the time in which a bucket fills, and how many tokens it
// holds: sums of it do not overflow.
const maxMillis = 1 << 52

// Take takes n tokens from a bucket that holds up to burst, and gets one back
// every perMillis milliseconds. It returns 0 if they were taken, and otherwise the
// milliseconds until they will be there, or -1 if they never will: n is more than
// burst, or the key is too long. A bucket that nobody took from is full.
//
// If burst or perMillis changes, the bucket keeps the time at which it is full again, but
// is never below empty. That also repairs a clock that went back.
func (p *Plugin) Take(key []byte, n, burst, perMillis, now int64) int64 {
	burst = min(burst, maxMillis)
	switch {
	case n <= 0:
		return 0
	case n > burst || len(key) > MaxKey:
		return -1
	case perMillis <= 0:
		return 0
	}
	perMillis = min(perMillis, maxMillis/burst)
	at, window, cost := now*1000, burst*perMillis, n*perMillis
	counted := p.memory.counted(cost)
	need := counted
	if need > window {
		need = cost
	}
	s := p.shard(key)
	size := sizeOf(len(key), 0)
	for range attempts {
		wait, room := func() (wait int64, room bool) {
			s.mu.Lock()
			defer s.mu.Unlock()
			it := s.space[buckets].items[string(key)]
			if it != nil {
				full := min(max(it.until, at), at+window)
				if wait := full + need - at - window; wait > 0 {
					return wait, true
				}
				it.added += cost
				s.expires(it, full+counted)
				p.changed(s, it)
				return 0, true
			}
			if !p.charge(buckets, size) {
				return 0, false
			}
			it = &item{key: string(key), space: buckets, added: cost}
			s.space[buckets].items[it.key] = it
			s.expires(it, at+counted)
			p.changed(s, it)
			return 0, true
		}()
		if room {
			return wait
		}
		if !p.makeRoom(buckets, size, now) {
			break
		}
	}
	return 0
}
