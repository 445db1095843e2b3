// Package textcache keeps the JSON of events that were written or read lately, so that what
// many ask for is read once. Row numbers are never used twice.
//
// A text may outlive its row. Only a caller whose Select saw the row asks for it,
// and gets the answer as it was then: without it, a REQ that meets the replacement
// of an event could find neither the old version nor the new one.
package textcache

import "sync"

// Cache holds texts of one store. It is safe for concurrent use.
type Cache struct {
	shards [shards]shard
}

const (
	shards = 16

	// textCost is what a text costs beside its bytes.
	textCost = 96
)

// shard holds two generations. What is asked for moves to the younger one;
// when that is full, the older one is forgotten.
type shard struct {
	mu         sync.Mutex // guards the fields below
	young, old map[int64][]byte
	size       int64 // of young
	max        int64
	all        int64 // most, if nothing is lent
}

// New returns a cache of the given number of bytes; 0 keeps nothing.
func New(limit int64) *Cache {
	t := new(Cache)
	for i := range t.shards {
		t.shards[i].young = map[int64][]byte{}
		t.shards[i].all = limit / (2 * shards)
		t.shards[i].max = t.shards[i].all
	}
	return t
}

// Lend reserves n bytes of the cache for memory used elsewhere, at most three quarters of
// it.
func (t *Cache) Lend(n int64) {
	n /= 2 * shards
	for i := range t.shards {
		s := &t.shards[i]
		s.mu.Lock()
		s.max = s.all - min(n, s.all/4*3)
		s.mu.Unlock()
	}
}

func (t *Cache) shard(seq int64) *shard { return &t.shards[uint64(seq)%shards] }

// Get returns the text of the row, nil if it is not in the cache.
func (t *Cache) Get(seq int64) []byte {
	s := t.shard(seq)
	s.mu.Lock()
	defer s.mu.Unlock()
	if json := s.young[seq]; json != nil {
		return json
	}
	json := s.old[seq]
	if json != nil {
		s.add(seq, json)
	}
	return json
}

// Add stores a text, which must not change afterwards.
func (t *Cache) Add(seq int64, json []byte) {
	s := t.shard(seq)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.young[seq] == nil {
		s.add(seq, json)
	}
}

// add is for a text that is not in the younger generation. REQUIRES: s.mu.
func (s *shard) add(seq int64, json []byte) {
	cost := int64(len(json)) + textCost
	if s.size+cost > s.max {
		if cost > s.max/8 {
			return // one giant must not push out everything else
		}
		s.old, s.young, s.size = s.young, make(map[int64][]byte, len(s.young)), 0
	}
	s.young[seq] = json
	s.size += cost
}
