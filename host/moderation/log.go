package moderation

import (
	"slices"
	"sync"
	"sync/atomic"

	"talon/host"
)

// Log is the log in memory. The zero value is an empty log. It is safe for concurrent use.
type Log struct {
	any    atomic.Bool // false while no row refuses or hides anything
	number atomic.Int64

	objectNumber atomic.Int64 // of the last row about a git object
	objectTexts  atomic.Pointer[objectTexts]

	mu       sync.RWMutex // guards the fields below
	rows     []Row        // in the order of numbers
	byTarget map[key]*rules
	filters  []*rules // of targets of class Filter
	objects  []*rules // of targets of class Object
	lengths  lengths  // of targets of class Network
	changed  chan struct{}
}

// key names a target. It has no pointers, so that a lookup allocates nothing but a repository's name.
type key struct {
	class Class
	id    [32]byte
	name  string
}

func keyOf(t *Target) key {
	switch t.class {
	case Event:
		return key{class: Event, id: t.id}
	case Author:
		return key{class: Author, id: t.pubkey}
	case Repository:
		return key{class: Repository, id: t.pubkey, name: t.Address().D}
	case Kind:
		return key{class: Kind, id: [32]byte{byte(t.kind >> 8), byte(t.kind)}}
	case Network:
		return networkKey(t.prefix)
	}
	return key{class: t.class, name: t.value}
}

// rules are the last rows about one target, by what they do.
type rules struct {
	target Target
	latest map[Action]*Row // of ban, hide, purge, allow: the last row, or the one that ended it
}

// later reports whether a row counts after another.
func (r *Row) later(other *Row) bool {
	if r.At != other.At {
		return r.At > other.At
	}
	return r.Number > other.Number
}

func (t *rules) apply(r *Row) {
	actions := ends[r.Action]
	if actions == nil {
		actions = []Action{r.Action}
	}
	for _, a := range actions {
		if have := t.latest[a]; have == nil || r.later(have) {
			t.latest[a] = r
		}
	}
}

// row returns the row of an action that is in force, nil for none.
func (t *rules) row(a Action, now int64) *Row {
	if t == nil {
		return nil
	}
	if r := t.latest[a]; r != nil && r.Action == a && r.inForce(now) {
		return r
	}
	return nil
}

// Apply adds rows of the store, in the order of their numbers. Rows that are known are left
// out.
func (l *Log) Apply(list []Row) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.byTarget == nil {
		l.byTarget = make(map[key]*rules)
	}
	for i := range list {
		r := &list[i]
		if r.Number <= l.number.Load() {
			continue
		}
		l.rows = append(l.rows, *r)
		k := keyOf(&r.Target)
		t := l.byTarget[k]
		if t == nil {
			t = &rules{target: r.Target, latest: make(map[Action]*Row, 1)}
			l.byTarget[k] = t
			switch r.Target.class {
			case Filter:
				l.filters = append(l.filters, t)
			case Object:
				l.objects = append(l.objects, t)
			case Network:
				l.lengths.add(r.Target.prefix)
			}
		}
		one := *r
		t.apply(&one)
		l.number.Store(r.Number)
		if r.Target.class == Object {
			l.objectNumber.Store(r.Number)
		}
		l.any.Store(true)
	}
	if l.changed != nil {
		close(l.changed)
		l.changed = nil
	}
}

// Number returns the number of the last row, 0 for an empty log.
func (l *Log) Number() int64 { return l.number.Load() }

// Changed returns a channel that is closed when rows come.
func (l *Log) Changed() <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.changed == nil {
		l.changed = make(chan struct{})
	}
	return l.changed
}

// Rows returns the rows after a number, in the order of numbers.
func (l *Log) Rows(after int64) []Row {
	l.mu.RLock()
	defer l.mu.RUnlock()
	i, _ := slices.BinarySearchFunc(l.rows, after+1, func(r Row, n int64) int { return int(r.Number - n) })
	return slices.Clone(l.rows[i:])
}

// InForce returns the rows that are in force, in the order of numbers.
func (l *Log) InForce(now int64, actions ...Action) (list []Row) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	for _, t := range l.byTarget {
		for _, a := range actions {
			if r := t.row(a, now); r != nil {
				list = append(list, *r)
			}
		}
	}
	slices.SortFunc(list, func(a, b Row) int { return int(a.Number - b.Number) })
	return list
}

// NextEnd returns the first time after now at which a row ends by itself, 0 for never.
func (l *Log) NextEnd(now int64) (at int64) {
	for _, r := range l.InForce(now, Ban, Hide, Purge) {
		if r.Until > 0 && (at == 0 || r.Until < at) {
			at = r.Until
		}
	}
	return at
}

// Lifts returns a number that grows when something is no longer barred: by a row up to a number that
// ends another or excepts something from the rules of modules, or since a row has ended by itself.
func (l *Log) Lifts(upTo, now int64) (n int) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	for i := range l.rows {
		r := &l.rows[i]
		switch {
		case r.Number > upTo:
			return n
		case r.Action == Unban, r.Action == Unhide, r.Action == Allow, !r.inForce(now):
			n++
		}
	}
	return n
}

// Find returns the row of an action about a target that is in force, nil for none.
func (l *Log) Find(t *Target, a Action, now int64) *Row {
	if !l.any.Load() {
		return nil
	}
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.byTarget[keyOf(t)].row(a, now)
}

// Decided reports whether an operator has decided about a target since a time, or takes it down
// already. Any row about the target is a decision.
func (l *Log) Decided(t *Target, since, now int64) bool {
	if !l.any.Load() {
		return false
	}
	l.mu.RLock()
	defer l.mu.RUnlock()
	rules := l.byTarget[keyOf(t)]
	if rules == nil {
		return false
	}
	for _, a := range []Action{Ban, Hide, Purge} {
		if rules.row(a, now) != nil {
			return true
		}
	}
	for _, r := range rules.latest {
		if r.At >= since {
			return true
		}
	}
	return false
}

// author returns the rules about an author, nil for none. REQUIRES: l.mu.
func (l *Log) author(pubkey host.PubKey) *rules { return l.byTarget[key{class: Author, id: pubkey}] }

// repository returns the rules about a repository, nil for none. REQUIRES: l.mu.
func (l *Log) repository(owner host.PubKey, identifier string) *rules {
	return l.byTarget[key{class: Repository, id: owner, name: identifier}]
}

// Of returns a log with one row.
func Of(r Row) *Log {
	r.Number = max(r.Number, 1)
	l := new(Log)
	l.Apply([]Row{r})
	return l
}
