package wake

import (
	"slices"

	"talon/host"
)

// index finds the waiting events whose filter an event matches. Each filter is registered under the
// values of the one condition of ids, authors and tags that has the fewest.
type index struct {
	rows map[host.ID]*row
	keys map[key]map[*row]struct{}
	last int // number of the row that came last
}

// row is a waiting event.
type row struct {
	id     host.ID
	number int // in the order in which rows came
	wake   string
	filter host.Filter
	keys   []key

	woken bool
	tries int   // how often it was submitted again
	after int64 // unix seconds: it is not submitted before
}

// key is one value of a condition.
type key struct {
	by    byte   // 'i' for an id, 'a' for an author, 't' for a tag
	tag   byte   // its name
	value string // bytes of an id or a key; value of a tag
}

func newIndex() *index {
	return &index{rows: make(map[host.ID]*row), keys: make(map[key]map[*row]struct{})}
}

// add adds a row, in place of the one with its id. The filter may be another one then; the rest of
// the row stays.
func (x *index) add(r *row) *row {
	if old := x.rows[r.id]; old != nil {
		x.remove(r.id)
		r.number, r.woken, r.tries, r.after = old.number, old.woken, old.tries, old.after
	} else {
		x.last++
		r.number = x.last
	}
	r.keys = keysOf(&r.filter)
	x.rows[r.id] = r
	for _, k := range r.keys {
		if x.keys[k] == nil {
			x.keys[k] = make(map[*row]struct{})
		}
		x.keys[k][r] = struct{}{}
	}
	return r
}

func (x *index) remove(id host.ID) {
	r := x.rows[id]
	if r == nil {
		return
	}
	delete(x.rows, id)
	for _, k := range r.keys {
		if delete(x.keys[k], r); len(x.keys[k]) == 0 {
			delete(x.keys, k)
		}
	}
}

// match calls yield for each row whose filter an event matches. It looks at the rows of a value once,
// however often the event has the value: anybody may repeat a tag. No event wakes itself.
func (x *index) match(e *host.Event, yield func(*row)) {
	if len(x.rows) == 0 {
		return
	}
	at := func(k key) {
		for r := range x.keys[k] {
			if r.id != e.ID && r.filter.Matches(e) {
				yield(r)
			}
		}
	}
	at(key{by: 'i', value: string(e.ID[:])})
	at(key{by: 'a', value: string(e.PubKey[:])})
	var seen map[key]bool
	for _, tag := range e.Tags {
		if len(tag) < 2 || len(tag[0]) != 1 {
			continue
		}
		k := key{by: 't', tag: tag[0][0], value: tag[1]}
		if x.keys[k] == nil || seen[k] {
			continue
		}
		if seen == nil {
			seen = make(map[key]bool)
		}
		seen[k] = true
		at(k)
	}
}

// keysOf returns the values of the condition of a filter that has the fewest. Of conditions with as
// many it is that of a tag: an author may send many events that name others.
func keysOf(f *host.Filter) (list []key) {
	choose := func(n int, keyOf func(i int) key) {
		if n == 0 || list != nil && n >= len(list) {
			return
		}
		list = slices.Grow(list[:0:0], n)
		for i := range n {
			list = append(list, keyOf(i))
		}
	}
	for i := range f.Tags {
		t := &f.Tags[i]
		choose(len(t.Values), func(j int) key { return key{by: 't', tag: t.Name, value: t.Values[j]} })
	}
	choose(len(f.IDs), func(i int) key { return key{by: 'i', value: string(f.IDs[i][:])} })
	choose(len(f.Authors), func(i int) key { return key{by: 'a', value: string(f.Authors[i][:])} })
	return list
}
