// Package textcache keeps the JSON of events that were written or read lately, so that what
// many ask for is read once. Row numbers are never used twice.
//
// A text may outlive its row. Only a caller whose Select saw the row asks for it,
// and gets the answer as it was then: without it, a REQ that meets the replacement
// of an event could find neither the old version nor the new one.
package textcache

import (
	"math/bits"
	"sync"
)

// Cache holds texts of one store. It is safe for concurrent use.
type Cache struct {
	shards [shards]shard
}

const (
	shards = 16

	// run is how many neighbouring rows are in one shard, and ways how many are in one set.
	// Answers are full of neighbours, which so are found in memory that is near.
	run  = 64
	ways = 4

	// setSize is how many bytes a set has.
	setSize = ways * 24

	// perText is how many bytes of the cache there are for each place in the sets. Texts are
	// mostly longer, so few are forgotten because a set is full.
	perText = 384

	// pieceSize is the size of the pieces of memory that texts lie in, one behind the other:
	// one by one, they and what points to them would be most of the work of each garbage
	// collection. A text that is longer than a quarter of it has a piece of its own.
	pieceSize = 16 << 10
)

// shard is a log of texts. The oldest pieces are forgotten first; what is asked for in the older
// half moves to the end. Its places are in sets, each with the rows of some numbers: that takes
// one look at memory that is probably cold, where a map takes several.
type shard struct {
	mu     sync.Mutex // guards the fields below
	sets   [][ways]place
	pieces [][]byte // the oldest first; one that is short takes further texts
	first  uint64   // the number of the oldest, from 1 on
	open   uint64   // of the one that takes the next text, 0 for none
	size   int64    // of all pieces
	max    int64    // most of it
	all    int64    // most, if nothing is lent
}

// place is where the text of a row lies. It has no pointers.
type place struct {
	seq    int64
	piece  uint64
	length uint32
	start  uint16
}

// New returns a cache of the given number of bytes; 0 keeps nothing.
func New(limit int64) *Cache {
	t := new(Cache)
	for i := range t.shards {
		t.shards[i].all = max(limit, 0) / shards
		t.shards[i].first = 1
	}
	t.Lend(0)
	return t
}

// Lend reserves n bytes of the cache for memory used elsewhere, at most three quarters of
// it.
func (t *Cache) Lend(n int64) {
	n /= shards
	for i := range t.shards {
		s := &t.shards[i]
		s.mu.Lock()
		s.max = s.all - min(n, s.all/4*3) - int64(s.numSets())*setSize
		s.mu.Unlock()
	}
}

// numSets is how many sets the shard has from its first text on.
func (s *shard) numSets() int { return int(s.all / (ways * perText)) }

func (t *Cache) shard(seq int64) *shard { return &t.shards[uint64(seq)/run%shards] }

// set returns the places in which that of a row may be. REQUIRES: s.sets is not empty.
func (s *shard) set(seq int64) *[ways]place {
	row := uint64(seq)
	number := row / (run * shards) * run / ways // of the set, if there were one for all rows
	number += row % run / ways
	// Hashed, so that rows at equal distances do not share sets.
	i, _ := bits.Mul64(number*0x9E3779B97F4A7C15, uint64(len(s.sets)))
	return &s.sets[i]
}

// Get returns the text of the row, nil if it is not in the cache.
func (t *Cache) Get(seq int64) []byte {
	s := t.shard(seq)
	s.mu.Lock()
	defer s.mu.Unlock()
	json, old := s.get(seq)
	if old {
		s.add(seq, json)
	}
	return json
}

// Add keeps a copy of a text and returns it, nil if it is not kept. Who keeps that for long
// copies it, since it is a part of something larger.
func (t *Cache) Add(seq int64, json []byte) []byte {
	s := t.shard(seq)
	s.mu.Lock()
	defer s.mu.Unlock()
	if kept, _ := s.get(seq); kept != nil {
		return kept
	}
	return s.add(seq, json)
}

// get returns a text, and whether it is in the older half. REQUIRES: s.mu.
func (s *shard) get(seq int64) (json []byte, old bool) {
	if len(s.sets) == 0 {
		return nil, false
	}
	set := s.set(seq)
	for i := range set {
		if p := &set[i]; p.seq == seq && p.piece >= s.first {
			n := p.piece - s.first
			end := int(p.start) + int(p.length)
			return s.pieces[n][p.start:end:end], n < uint64(len(s.pieces))/2
		}
	}
	return nil, false
}

// add puts a text at the end of the log. REQUIRES: s.mu.
func (s *shard) add(seq int64, json []byte) []byte {
	piece := min(pieceSize, int(s.all/8))
	cost := int64(piece)
	switch fits := s.open >= s.first && len(json) <= piece-len(s.pieces[s.open-s.first]); {
	case len(json) > piece/4:
		cost = int64(len(json))
	case fits:
		cost = 0
	}
	if s.size+cost > s.max && int64(len(json)) > s.max/8 {
		return nil // one giant must not push out everything else
	}
	if s.sets == nil {
		if s.numSets() == 0 {
			return nil
		}
		s.sets = make([][ways]place, s.numSets())
	}
	at := s.open
	if cost > 0 {
		at = s.first + uint64(len(s.pieces))
		s.pieces = append(s.pieces, make([]byte, 0, cost))
		if len(json) <= piece/4 {
			s.open = at
		}
	}
	for s.size += cost; s.size > s.max; s.first++ {
		s.size -= int64(cap(s.pieces[0]))
		s.pieces[0] = nil
		s.pieces = s.pieces[1:]
	}
	text := &s.pieces[at-s.first]
	start := len(*text)
	*text = append(*text, json...)
	*s.placeFor(seq) = place{seq, at, uint32(len(json)), uint16(start)}
	return (*text)[start:len(*text):len(*text)]
}

// placeFor returns the place that the row has already, or else the oldest of its set.
func (s *shard) placeFor(seq int64) *place {
	set := s.set(seq)
	oldest := &set[0]
	for i := range set {
		p := &set[i]
		if p.seq == seq {
			return p
		}
		if p.piece < oldest.piece {
			oldest = p
		}
	}
	return oldest
}
