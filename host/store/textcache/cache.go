// Package textcache keeps the JSON of events that were written or read lately, so that what
// many ask for is read once. Row numbers are never used twice.
//
// A text may outlive its row. Only a caller whose Select saw the row asks for it,
// and gets the answer as it was then: without it, a REQ that meets the replacement
// of an event could find neither the old version nor the new one.
package textcache

import "sync"

// Cache is for the texts of one store. Many goroutines may use it at once.
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
	most       int64
	all        int64 // most, if nothing is lent
}

// New returns a cache of so many bytes, or of nothing.
func New(most int64) *Cache {
	t := new(Cache)
	for i := range t.shards {
		t.shards[i].young = map[int64][]byte{}
		t.shards[i].all = most / (2 * shards)
		t.shards[i].most = t.shards[i].all
	}
	return t
}

// Lend leaves room for n bytes that are kept elsewhere and count as a part of the cache, at
// most three quarters of it.
func (t *Cache) Lend(n int64) {
	n /= 2 * shards
	for i := range t.shards {
		s := &t.shards[i]
		s.mu.Lock()
		s.most = s.all - min(n, s.all/4*3)
		s.mu.Unlock()
	}
}

func (t *Cache) shard(seq int64) *shard { return &t.shards[uint64(seq)%shards] }

// Get returns the text of the row, nil if it is not remembered.
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

// Add remembers a text, which nobody may change any more.
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
	if s.size+cost > s.most {
		if cost > s.most/8 {
			return // one giant must not push out everything else
		}
		s.old, s.young, s.size = s.young, make(map[int64][]byte, len(s.young)), 0
	}
	s.young[seq] = json
	s.size += cost
}
