package main

import (
	"encoding/binary"

	"talon/sdk/policy"
)

// Bounds of the reads of one decision, because a tag takes up to 5,000 fuel. So the hostile list of
// a followed author cannot use up the budget of a decision.
const (
	listsPerQuery   = 16
	queriesPerEvent = 4
	tagsPerEvent    = 1500
	tagsPerList     = 2 * tagsPerEvent // those that count
)

const kindFollows = 3

// circle is the set of keys within some hops of the anchors: the anchors, the keys that they
// follow, and so on. It is read from the store piece by piece, a few lists with each event that is
// judged. The previous circle answers until the new one is complete.
//
// The lists are read breadth-first. So if there are more keys than it may hold, it has the nearest.
type circle struct {
	anchors []policy.PubKey
	hops    int
	refresh int64 // seconds

	sets  [2]keySet // one that answers, one that is read
	read  int       // which of them is being read
	ready bool      // the other one is complete

	reading  bool
	next     int64           // unix seconds: when to begin to read
	queue    []policy.PubKey // whose lists are read, from the anchors outward
	at       int             // of the queue: the first that is not in batch
	levelEnd int             // of the queue: those before are of this level
	level    int             // hops of the keys that the lists read now add
	batch    []policy.PubKey // whose lists the next query is for
	alone    bool            // the next query is for the first of the batch only
	partEnd  int             // how many tags of his list are read
	lists    uint32          // number of the list that is read
}

func newCircle(anchors []policy.PubKey, hops, limit, followers int, refresh int64) circle {
	c := circle{anchors: anchors, hops: hops, refresh: refresh}
	if len(anchors) > 0 {
		c.sets = [2]keySet{newKeySet(limit, followers), newKeySet(limit, followers)}
		c.batch = make([]policy.PubKey, 0, listsPerQuery)
	}
	return c
}

// has reports whether the circle has the key, as far as it has been read.
func (c *circle) has(key *policy.PubKey) bool {
	return c.ready && c.sets[1-c.read].has(key) || (c.reading || !c.ready) && c.sets[c.read].has(key)
}

// size is the number of keys in the circle that answers.
func (c *circle) size() int { return c.sets[1-c.read].members }

// advance reads more of the circle, if it is time. It reports whether a new one is
// complete.
func (c *circle) advance(in policy.Input) bool {
	if !c.reading {
		// The clock may be set back.
		if now := in.Now(); c.ready && now < c.next && now >= c.next-c.refresh {
			return false
		}
		// To empty a large set takes as much as to read lists.
		if c.begin(in.Event().ID()) {
			return false
		}
	}
	left := tagsPerEvent
	for range queriesPerEvent {
		if len(c.batch) == 0 && !c.fill() {
			c.reading, c.ready, c.read = false, true, 1-c.read
			c.next = in.Now() + c.refresh
			return true
		}
		if left = c.query(in.Facts, left); left <= 0 {
			break
		}
	}
	return false
}

// begin starts to read. The id of a recent event seeds the hash table, so nobody can choose keys
// that collide. It reports whether clearing the set took long.
func (c *circle) begin(id policy.ID) (long bool) {
	set := &c.sets[c.read]
	long = set.n > 0
	set.empty(binary.LittleEndian.Uint64(id[:]) ^ c.sets[1-c.read].seed<<1)
	c.queue, c.batch = c.queue[:0], c.batch[:0]
	for i := range c.anchors {
		if set.add(&c.anchors[i]) {
			c.queue = append(c.queue, c.anchors[i])
		}
	}
	c.reading, c.at, c.levelEnd, c.level, c.alone = true, 0, len(c.queue), 1, false
	c.partEnd = 0
	return long
}

// fill makes the next batch. It reports false if all lists are read.
func (c *circle) fill() bool {
	if c.at == c.levelEnd {
		c.level++
		c.levelEnd = len(c.queue)
	}
	n := min(listsPerQuery, c.levelEnd-c.at)
	c.batch = append(c.batch, c.queue[c.at:c.at+n]...)
	c.at += n
	return n > 0
}

// query reads lists of the batch, and takes out of it whose lists it has read. It
// returns how many tags may still be looked at, at most left.
func (c *circle) query(facts policy.Facts, left int) int {
	authors := c.batch
	if c.alone {
		authors = authors[:1]
	}
	asked := len(authors)
	found := facts.Query(policy.Filter{Kinds: []int{kindFollows}, Authors: authors})
	before := len(c.batch)
	for found.Next() {
		list := found.Event()
		n, all := c.add(list, c.partEnd, min(left, tagsPerList-c.partEnd))
		left -= n
		rest := c.partEnd > 0
		if c.partEnd += n; !all && c.partEnd < tagsPerList {
			c.first(list.Author())
			return 0 // the rest with the next event
		}
		if c.drop(list.Author()); rest && list.TagBytes() > 64<<10 {
			return 0 // one list that takes long is enough
		}
	}
	switch {
	case found.Failed():
		return 0
	case !found.More():
		// Keys that are still in the batch have no list here.
		for asked -= before - len(c.batch); asked > 0; asked-- {
			c.drop(&c.batch[0])
		}
	case before > len(c.batch):
	case c.alone:
		c.drop(&c.batch[0]) // his list is too large for an answer
	default:
		c.alone = true
	}
	return left
}

// first makes the next query one for this author of the batch only.
func (c *circle) first(author *policy.PubKey) {
	c.alone = true
	for i := range c.batch {
		if c.batch[i] == *author {
			c.batch[0], c.batch[i] = c.batch[i], c.batch[0]
		}
	}
}

// drop takes an author out of the batch.
func (c *circle) drop(author *policy.PubKey) {
	c.alone, c.partEnd = false, 0
	for i := range c.batch {
		if c.batch[i] == *author {
			c.batch = append(c.batch[:i], c.batch[i+1:]...)
			return
		}
	}
}

// add adds the keys of up to n tags of a list, after the first ones, which are read already. It
// returns the number of tags, and whether they are all.
func (c *circle) add(list policy.Event, first, n int) (seen int, all bool) {
	set, last := &c.sets[c.read], c.level == c.hops
	if first == 0 {
		c.lists++
	}
	it := list.Tags()
	for ; first > 0 && it.Next(); first-- {
	}
	for ; seen < n; seen++ {
		if !it.Next() {
			return seen, true
		}
		if it.Name() != "p" || len(it.Value()) != 64 {
			continue
		}
		var key policy.PubKey
		decode(key[:half], it.Value())
		if !set.follow(&key, c.lists) || last {
			continue
		}
		decode(key[half:], it.Value()[2*half:])
		c.queue = append(c.queue, key)
	}
	return seen, false
}

// decode reads hex digits. Other text gives some key as well. That is harmless: its author could
// have named that key.
func decode(to []byte, text string) {
	for i := range to {
		to[i] = values[text[2*i]]<<4 | values[text[2*i+1]]
	}
}

// values maps a hex digit to its value.
var values = func() (table [256]byte) {
	for i := range byte(16) {
		table["0123456789abcdef"[i]] = i
		table["0123456789ABCDEF"[i]] = i
	}
	return table
}()

// half of a public key, its first 16 bytes, tells keys apart as well as all of it.
const half = 16

// slot has half of a key. The zero half is nobody's.
type slot [2]uint64

func slotOf(key *policy.PubKey) slot {
	return slot{binary.LittleEndian.Uint64(key[:]), binary.LittleEndian.Uint64(key[8:])}
}

// maxProbe bounds the distance of a key from its place. In a table that is at most half full of
// random keys, no distance comes near. Keys that are made to collide are left out, and slow nobody
// down.
const maxProbe = 256

// keySet is a set of at most `most` public keys: a table with open addressing.
// A key is a member once enough lists name it.
type keySet struct {
	slots   []slot
	n, max  int
	members int
	seed    uint64 // of the places of keys: whoever makes keys does not know it

	followers int     // how many lists must name a key
	counts    []count // by slot; nil if one list is enough
}

// count is the number of lists that name a key, and the index of the last one.
type count struct {
	last uint32
	n    uint8
}

func newKeySet(limit, followers int) keySet {
	size := 16
	for size < 2*limit {
		size *= 2
	}
	s := keySet{slots: make([]slot, size), max: limit, followers: followers}
	if followers > 1 {
		s.counts = make([]count, size)
	}
	return s
}

// empty removes all keys.
func (s *keySet) empty(seed uint64) {
	if s.n > 0 {
		clear(s.slots)
		clear(s.counts)
	}
	s.n, s.members, s.seed = 0, 0, seed
}

func (s *keySet) place(h slot) uint64 {
	x := (h[0] ^ s.seed) * 0x9e3779b97f4a7c15
	x ^= x>>32 ^ h[1]
	x = (x ^ x>>32) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>29) * 0x94d049bb133111eb
	return x ^ x>>32
}

func (s *keySet) has(key *policy.PubKey) bool {
	want := slotOf(key)
	at, found := s.find(want)
	return found && s.slots[at] == want && want != slot{} && (s.counts == nil || int(s.counts[at].n) >= s.followers)
}

// add makes the key a member, and reports whether it is new and there was room for it.
func (s *keySet) add(key *policy.PubKey) bool {
	at, isNew, ok := s.enter(key)
	if !ok || !isNew {
		return false
	}
	if s.counts != nil {
		s.counts[at].n = uint8(s.followers)
	}
	s.members++
	return true
}

// follow counts that a list names the key, and reports whether that makes it a member.
func (s *keySet) follow(key *policy.PubKey, list uint32) bool {
	if s.counts == nil {
		return s.add(key)
	}
	at, isNew, ok := s.enter(key)
	if !ok || !isNew && s.counts[at].last == list {
		return false
	}
	c := &s.counts[at]
	if c.last = list; int(c.n) >= s.followers {
		return false
	}
	if c.n++; int(c.n) < s.followers {
		return false
	}
	s.members++
	return true
}

// enter returns the slot of a key, and whether the key is new there. It reports false if there is
// no room.
func (s *keySet) enter(key *policy.PubKey) (at uint64, isNew, ok bool) {
	want := slotOf(key)
	if want == (slot{}) {
		return 0, false, false
	}
	at, found := s.find(want)
	if !found {
		return 0, false, false
	}
	if s.slots[at] == want {
		return at, false, true
	}
	if s.n == s.max {
		return 0, false, false
	}
	s.slots[at] = want
	s.n++
	return at, true, true
}

// find returns where the key is, or the empty slot where it belongs. It is a small
// function of its own: a guest pays for each round of a loop by the size of the
// function.
//
//go:noinline
func (s *keySet) find(want slot) (at uint64, found bool) {
	at = s.place(want)
	for last := at + maxProbe; at < last; at++ {
		i := at & uint64(len(s.slots)-1)
		if there := s.slots[i]; there == want || there == (slot{}) {
			return i, true
		}
	}
	return 0, false
}
