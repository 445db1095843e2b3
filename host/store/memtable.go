package store

import (
	"bytes"
	"cmp"
	"slices"
	"sync"

	"talon/host"
)

// memtable holds the index rows of the latest events, those under hashed keys, until they
// are merged into table posting: see [merge]. A row that is written directly to the table
// makes a page dirty for itself. Rows that are merged in the order of keys share pages.
//
// A lost memtable loses nothing: the rows follow from the events. A row in it does not mean
// that its event is visible. Readers leave out rows of events that their snapshot does not
// have, or whose rows it has in the table.
type memtable struct {
	mu      sync.RWMutex // guards the fields below
	last    int64        // highest row number
	events  []memEvent   // by row number
	shards  [memShards]map[[keySize]byte]memKey
	removed map[int64]struct{} // row numbers of which a snapshot may not have the event any more
	keys    int                // that have rows
	rows    int
}

// The memory that an event, a key and a row of a memtable take, with the room that is left in
// maps and lists. TestMemtableBytes measures it.
const (
	memEventBytes = 60
	memKeyBytes   = 62
	memRowBytes   = 19
)

// bytes is about how much memory the memtable takes.
func (t *memtable) bytes() int64 {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return int64(len(t.events))*memEventBytes + int64(t.keys)*memKeyBytes + int64(t.rows)*memRowBytes
}

// memShards is how many pieces a memtable is merged in: one for each first byte of a key.
const memShards = 256

// memEvent is what sort keys are made of.
type memEvent struct {
	seq int64
	at  int64
	id  host.ID
}

// memKey has the rows of a key, by kind, and then as in the table, but the last first: new
// ones are mostly newest.
type memKey struct {
	width int // of its sort keys
	rows  []memRow
}

// memRow is a row under a key.
type memRow struct {
	kind  uint32
	event uint32 // in events
}

func newMemtable() *memtable {
	return &memtable{removed: map[int64]struct{}{}}
}

// add adds rows of an event that have hashed keys. It skips the others.
func (t *memtable) add(e *host.Event, seq int64, rows []posting) {
	t.mu.Lock()
	defer t.mu.Unlock()
	n := uint32(len(t.events))
	t.events = append(t.events, memEvent{seq, e.CreatedAt, e.ID})
	t.last = seq
	for _, r := range rows {
		if len(r.key) != keySize {
			continue
		}
		shard := &t.shards[r.key[0]]
		if *shard == nil {
			*shard = make(map[[keySize]byte]memKey)
		}
		key := [keySize]byte(r.key)
		list := (*shard)[key].rows
		if t.rows++; len(list) == 0 {
			t.keys++
		}
		row := memRow{uint32(r.kind), n}
		width := len(r.sortKey)
		i := len(list)
		if i > 0 && t.compare(row, list[i-1], width) < 0 {
			i, _ = slices.BinarySearchFunc(list, row, func(a, b memRow) int { return t.compare(a, b, width) })
		}
		(*shard)[key] = memKey{width, slices.Insert(list, i, row)}
	}
}

// compare orders rows of one key. REQUIRES: t.mu.
func (t *memtable) compare(a, b memRow, width int) int {
	if a.kind != b.kind {
		return cmp.Compare(a.kind, b.kind)
	}
	x, y := &t.events[a.event], &t.events[b.event]
	if x.at != y.at {
		return cmp.Compare(x.at, y.at)
	}
	n := idBytes(width)
	return cmp.Or(bytes.Compare(y.id[:n], x.id[:n]), cmp.Compare(y.seq, x.seq))
}

// idBytes is how many bytes of an id a sort key of that width has.
func idBytes(width int) int { return width - 16 }

func (e *memEvent) appendSortKey(b []byte, width int) []byte {
	return appendSortKey(b, e.at, e.id[:idBytes(width)], e.seq)
}

// truncate forgets events after the row number seq. It is for a transaction that is
// rolled back.
func (t *memtable) truncate(seq int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	n, _ := slices.BinarySearchFunc(t.events, seq+1, func(e memEvent, seq int64) int { return cmp.Compare(e.seq, seq) })
	if n == len(t.events) {
		return
	}
	t.keys, t.rows = 0, 0
	for _, shard := range t.shards {
		for key, k := range shard {
			k.rows = slices.DeleteFunc(k.rows, func(r memRow) bool { return int(r.event) >= n })
			if shard[key] = k; len(k.rows) == 0 {
				delete(shard, key)
				continue
			}
			t.keys++
			t.rows += len(k.rows)
		}
	}
	t.events = t.events[:n]
}

// remove notes that the event may be gone.
func (t *memtable) remove(seq int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.removed[seq] = struct{}{}
}

// lastSeq is the highest row number that it has had.
func (t *memtable) lastSeq() int64 {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.last
}

func (t *memtable) len() int {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return len(t.events)
}

// kinds calls yield with each kind that the key has rows of, and how many.
func (t *memtable) kinds(key []byte, yield func(kind int64, rows int)) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	for list := t.key(key).rows; len(list) > 0; {
		kind := int64(list[0].kind)
		n := len(ofKind(list, kind))
		yield(kind, n)
		list = list[n:]
	}
}

// key returns what there is under a key. REQUIRES: t.mu.
func (t *memtable) key(key []byte) memKey {
	if len(key) != keySize {
		return memKey{}
	}
	return t.shards[key[0]][[keySize]byte(key)]
}

func ofKind(list []memRow, kind int64) []memRow {
	find := func(kind int64) int {
		i, _ := slices.BinarySearchFunc(list, kind, func(r memRow, kind int64) int { return cmp.Compare(int64(r.kind), kind) })
		return i
	}
	return list[find(kind):find(kind+1)]
}

// sortKeys appends the sort keys of a key and a kind between above and under, both excluded, in
// the order of the table, limit at most: of events with row numbers after from, up to to.
// Row numbers of which the event may be gone are appended to unverified.
func (t *memtable) sortKeys(b, key []byte, kind int64, above, under []byte, from, to int64, limit int, unverified []int64) ([]byte, []int64) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	k := t.key(key)
	list := ofKind(k.rows, kind)
	var sortKey [longSortKey]byte
	end, _ := slices.BinarySearchFunc(list, above, func(r memRow, above []byte) int {
		if bytes.Compare(t.events[r.event].appendSortKey(sortKey[:0], k.width), above) > 0 {
			return -1 // it comes later in the table, so earlier here
		}
		return 1
	})
	for ; end > 0 && limit > 0; end-- {
		e := &t.events[list[end-1].event]
		if e.seq <= from || e.seq > to {
			continue
		}
		start := len(b)
		b = e.appendSortKey(b, k.width)
		if bytes.Compare(b[start:], under) >= 0 {
			return b[:start], unverified
		}
		if _, ok := t.removed[e.seq]; ok {
			unverified = append(unverified, e.seq)
		}
		limit--
	}
	return b, unverified
}

// shard appends the rows whose keys begin with a byte, of events with row numbers after
// from, up to to. Of those for which gone is true the event may be gone.
func (t *memtable) shard(rows []posting, gone map[int64]bool, first int64, from, to int64) []posting {
	t.mu.RLock()
	defer t.mu.RUnlock()
	for key, k := range t.shards[first] {
		own := bytes.Clone(key[:])
		for _, r := range k.rows {
			e := &t.events[r.event]
			if e.seq <= from || e.seq > to {
				continue
			}
			if _, ok := t.removed[e.seq]; ok {
				gone[e.seq] = true
			}
			rows = append(rows, posting{own, int64(r.kind), e.appendSortKey(make([]byte, 0, k.width), k.width)})
		}
	}
	return rows
}
