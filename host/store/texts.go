package store

import "sync"

// textCache keeps the JSON of events that were written or read lately, so that what
// many ask for is read once. Row numbers are never used twice.
//
// A text may outlive its row. Only a caller whose Select saw the row asks for it,
// and gets the answer as it was then: without it, a REQ that meets the replacement
// of an event could find neither the old version nor the new one.
type textCache struct {
	shards [textShards]textShard
}

const (
	textShards = 16

	// textCost is what a text costs beside its bytes.
	textCost = 96
)

// textShard holds two generations. What is asked for moves to the younger one;
// when that is full, the older one is forgotten.
type textShard struct {
	mu         sync.Mutex // guards the fields below
	young, old map[int64][]byte
	size       int64 // of young
	most       int64
	all        int64 // most, if nothing is lent
}

func newTexts(most int64) *textCache {
	t := new(textCache)
	for i := range t.shards {
		t.shards[i].young = map[int64][]byte{}
		t.shards[i].all = most / (2 * textShards)
		t.shards[i].most = t.shards[i].all
	}
	return t
}

// lend leaves room for n bytes that are kept elsewhere and count as a part of the cache, at
// most three quarters of it.
func (t *textCache) lend(n int64) {
	n /= 2 * textShards
	for i := range t.shards {
		s := &t.shards[i]
		s.mu.Lock()
		s.most = s.all - min(n, s.all/4*3)
		s.mu.Unlock()
	}
}

func (t *textCache) shard(seq int64) *textShard { return &t.shards[uint64(seq)%textShards] }

// get returns the text of the row, nil if it is not remembered.
func (t *textCache) get(seq int64) []byte {
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

// add remembers a text, which nobody may change any more.
func (t *textCache) add(seq int64, json []byte) {
	s := t.shard(seq)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.young[seq] == nil {
		s.add(seq, json)
	}
}

// add is for a text that is not in the younger generation. REQUIRES: s.mu.
func (s *textShard) add(seq int64, json []byte) {
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
