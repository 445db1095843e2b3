// Package textcache keeps the JSON of events that were written or read lately, so that
// popular events are read once. Row numbers are never used twice.
//
// A text may outlive its row. Only a caller whose Select saw the row asks for it, and gets the
// answer as it was then. Without it, a REQ that meets the replacement of an event could find
// neither version.
//
// Invariants, which hold whenever a shard is unlocked:
//
//  1. The pieces take no more bytes than the shard has. Add and Lend evict until that is so.
//  2. A piece is found by its number only, in shard.find, which knows whether it was evicted.
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

	// pieceSize is the size of the pieces of memory that hold texts. Texts of their own, and the
	// pointers to them, would be most of the work of each garbage collection. A text that is longer than a quarter of it has a piece of its own.
	pieceSize = 16 << 10
)

// shard is a log of texts. The oldest pieces are evicted first; what is asked for in the older
// half moves to the end. Its places are in sets, each with the rows of some numbers: that takes
// one look at memory that is probably cold, where a map takes several.
type shard struct {
	mu     sync.Mutex // guards the fields below
	sets   [][ways]place
	pieces [][]byte // the oldest first
	first  uint64   // the number of the oldest, from 1 on
	open   uint64   // the number of the piece that takes short texts; it may be evicted
	size   int64    // of all pieces
	max    int64    // most of it
	all    int64    // most, if nothing is lent
}

// place says in which bytes of which piece the text of a row is. It has no pointers.
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
// it. The cache evicts what has no room any more.
func (t *Cache) Lend(n int64) {
	n = max(n, 0) / shards
	for i := range t.shards {
		t.shards[i].lend(n)
	}
}

func (s *shard) lend(n int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.max = s.all - min(n, s.all/4*3) - int64(s.numSets())*setSize
	s.makeRoom(0)
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

// Add keeps a copy of a text and returns it, nil if it is not kept. A caller that keeps the
// result for long copies it, since it is a part of something larger.
func (t *Cache) Add(seq int64, json []byte) []byte {
	s := t.shard(seq)
	s.mu.Lock()
	defer s.mu.Unlock()
	if kept, _ := s.get(seq); kept != nil {
		return kept
	}
	return s.add(seq, json)
}

// Clear evicts everything.
func (t *Cache) Clear() {
	for i := range t.shards {
		t.shards[i].clear()
	}
}

func (s *shard) clear() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sets, s.pieces = nil, nil
	s.first, s.open, s.size = 1, 0, 0
}

// find returns the piece with a number and its index, nil if it was evicted. A number that is
// lower than first wraps around and is no index either. REQUIRES: s.mu.
func (s *shard) find(number uint64) (piece *[]byte, index uint64) {
	if index = number - s.first; index < uint64(len(s.pieces)) {
		return &s.pieces[index], index
	}
	return nil, 0
}

// get returns a text, and whether it is in the older half. REQUIRES: s.mu.
func (s *shard) get(seq int64) (json []byte, old bool) {
	if len(s.sets) == 0 {
		return nil, false
	}
	set := s.set(seq)
	for i := range set {
		p := &set[i]
		if p.seq != seq {
			continue
		}
		if piece, index := s.find(p.piece); piece != nil {
			end := int(p.start) + int(p.length)
			return (*piece)[p.start:end:end], index < uint64(len(s.pieces))/2
		}
	}
	return nil, false
}

// add puts a text at the end of the log. REQUIRES: s.mu.
func (s *shard) add(seq int64, json []byte) []byte {
	if s.numSets() == 0 || int64(len(json)) > s.max/8 {
		return nil // one giant must not push out everything else
	}
	if s.sets == nil {
		s.sets = make([][ways]place, s.numSets())
	}
	number, piece := s.pieceFor(len(json))
	start := len(*piece)
	*piece = append(*piece, json...)
	*s.placeFor(seq) = place{seq, number, uint32(len(json)), uint16(start)}
	return (*piece)[start:len(*piece):len(*piece)]
}

// pieceFor returns a piece that has room for a text: the open one, or else a new one at the end
// of the log. REQUIRES: s.mu, and n is at most an eighth of s.max.
func (s *shard) pieceFor(n int) (number uint64, piece *[]byte) {
	size := min(pieceSize, int(s.max/8))
	short := n <= size/4
	if open, _ := s.find(s.open); short && open != nil && n <= cap(*open)-len(*open) {
		return s.open, open
	}
	if !short {
		size = n
	}
	s.makeRoom(int64(size))
	number = s.first + uint64(len(s.pieces))
	s.pieces = append(s.pieces, make([]byte, 0, size))
	s.size += int64(size)
	if short {
		s.open = number
	}
	return number, &s.pieces[len(s.pieces)-1]
}

// makeRoom evicts the oldest pieces until there is room for one of n bytes. REQUIRES: s.mu.
func (s *shard) makeRoom(n int64) {
	for len(s.pieces) > 0 && s.size+n > s.max {
		s.size -= int64(cap(s.pieces[0]))
		s.pieces[0] = nil
		s.pieces = s.pieces[1:]
		s.first++
	}
}

// placeFor returns the place that the row has already, or else the oldest of its set.
// REQUIRES: s.mu, and s.sets is not empty.
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
