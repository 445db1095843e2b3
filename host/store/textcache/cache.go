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
	textCost = 40

	// pieceSize is the size of the pieces of memory that texts lie in, one behind the other:
	// one by one, they and what points to them would be most of the work of each garbage
	// collection. A text that is longer than a quarter of it has a piece of its own.
	pieceSize = 16 << 10
)

// shard holds two generations. What is asked for moves to the younger one;
// when that is full, the older one is forgotten.
type shard struct {
	mu         sync.Mutex // guards the fields below
	young, old generation
	max        int64 // bytes of a generation
	all        int64 // most, if nothing is lent
}

type generation struct {
	places map[int64]place
	pieces [][]byte
	open   int // the piece that takes the next text
	size   int64
}

// place is where a text lies. It has no pointers.
type place struct{ piece, start, end uint32 }

// New returns a cache of the given number of bytes; 0 keeps nothing.
func New(limit int64) *Cache {
	t := new(Cache)
	for i := range t.shards {
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
	if json := s.young.get(seq); json != nil {
		return json
	}
	json := s.old.get(seq)
	if json != nil {
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
	if kept := s.young.get(seq); kept != nil {
		return kept
	}
	return s.add(seq, json)
}

// add is for a text that is not in the younger generation. REQUIRES: s.mu.
func (s *shard) add(seq int64, json []byte) []byte {
	piece := min(pieceSize, int(s.all/8))
	if s.young.size+s.young.cost(len(json), piece) > s.max {
		if int64(len(json)+textCost) > s.max/8 {
			return nil // one giant must not push out everything else
		}
		s.old, s.young = s.young, generation{places: make(map[int64]place, len(s.young.places))}
	}
	return s.young.add(seq, json, piece)
}

func (g *generation) get(seq int64) []byte {
	p, ok := g.places[seq]
	if !ok {
		return nil
	}
	return g.pieces[p.piece][p.start:p.end:p.end]
}

// fits reports whether the open piece has room for n bytes.
func (g *generation) fits(n int) bool {
	return len(g.pieces) > 0 && n <= cap(g.pieces[g.open])-len(g.pieces[g.open])
}

// cost is by how much a text of n bytes makes the generation larger.
func (g *generation) cost(n, piece int) int64 {
	switch {
	case n > piece/4:
		return int64(n + textCost)
	case g.fits(n):
		return textCost
	}
	return int64(piece + textCost)
}

func (g *generation) add(seq int64, json []byte, piece int) []byte {
	if g.places == nil {
		g.places = map[int64]place{}
	}
	g.size += g.cost(len(json), piece)
	at := g.open
	switch {
	case len(json) > piece/4:
		at = len(g.pieces)
		g.pieces = append(g.pieces, make([]byte, 0, len(json)))
	case !g.fits(len(json)):
		g.open = len(g.pieces)
		at = g.open
		g.pieces = append(g.pieces, make([]byte, 0, piece))
	}
	start := len(g.pieces[at])
	g.pieces[at] = append(g.pieces[at], json...)
	g.places[seq] = place{uint32(at), uint32(start), uint32(len(g.pieces[at]))}
	return g.get(seq)
}
