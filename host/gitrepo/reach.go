package gitrepo

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash/maphash"
	"slices"
	"strings"
	"sync"
	"time"

	"talon/host/bound"
	"talon/internal/recent"
)

const (
	hashBytes = 8

	// maxReached is how many objects are remembered of one set of tips. It takes the share
	// that one network has of listBytes.
	maxReached = 2 << 20

	// reachedBytes is the size of the sets that a Root remembers; twice as much for those that
	// were used last.
	reachedBytes = maxReached * hashBytes

	// listBytes is the memory of the lists that are being made.
	listBytes = 8 * maxReached * hashBytes

	// fillPatience is how long a request waits for another one that makes the same list. The
	// other one may be of a network that has to wait.
	fillPatience = 2 * time.Second
)

// tipsKey is a hash of the objects that refs point to. All that they reach follows from them, so
// that it is the same in every repository and for ever.
type tipsKey [sha256.Size]byte

// keyOf returns the key of sorted ids.
func keyOf(tips []string) tipsKey { return sha256.Sum256([]byte(strings.Join(tips, "\n"))) }

// reached are the objects that tips reach, by their hashes. The hash is keyed: nobody can make an
// object that has the hash of another one.
type reached struct {
	seed    maphash.Seed
	hashes  []uint64 // sorted
	tooMany bool     // there are more than maxReached, and hashes is empty
}

func (s *reached) has(id string) bool {
	_, ok := slices.BinarySearch(s.hashes, maphash.String(s.seed, id))
	return ok
}

// reachedSets remembers what the tips of repositories reach.
type reachedSets struct {
	mu      sync.Mutex // guards what follows
	sets    recent.Map[tipsKey, *reached]
	filling map[tipsKey]chan struct{} // closed when the list has been made, or has failed
}

func newReachedSets() *reachedSets {
	return &reachedSets{
		sets: recent.Map[tipsKey, *reached]{Size: reachedBytes}, filling: make(map[tipsKey]chan struct{}),
	}
}

// get returns what tips reach, nil if that is not known.
func (s *reachedSets) get(key tipsKey) *reached {
	s.mu.Lock()
	defer s.mu.Unlock()
	set, aging, ok := s.sets.Get(key)
	if ok && aging {
		s.sets.Add(key, set, set.cost())
	}
	return set
}

func (s *reached) cost() int { return hashBytes*len(s.hashes) + sha256.Size }

// begin returns what tips reach, or a channel that closes when another request has listed that.
// It returns neither if the caller must make the list, and call end.
func (s *reachedSets) begin(key tipsKey) (*reached, <-chan struct{}) {
	if set := s.get(key); set != nil {
		return set, nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if other := s.filling[key]; other != nil {
		return nil, other
	}
	s.filling[key] = make(chan struct{})
	return nil, nil
}

// end wakes those who wait for a list. It remembers the set, if it is not nil.
func (s *reachedSets) end(key tipsKey, set *reached) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if set != nil {
		s.sets.Add(key, set, set.cost())
	}
	close(s.filling[key])
	delete(s.filling, key)
}

// fill looks for the wants among what the refs reach, and remembers that for other requests. If
// another request is about to do so, fill waits for it. It returns the processor time that git took.
func (s *reachedSets) fill(t *Task, w *Wants) (took time.Duration, err error) {
	set, other := s.begin(w.tips)
	if other != nil {
		if err := t.Await(func() { awaitEnd(t.Context(), other) }); err != nil {
			return 0, err
		}
		set, other = s.begin(w.tips)
	}
	switch {
	case set != nil && !set.tooMany:
		return 0, w.lookUp(set)
	case set != nil, other != nil: // it is not remembered, or takes another one long
		return w.list(t, nil)
	}
	l := newList(t)
	defer func() { s.end(w.tips, l.end(err)) }()
	return w.list(t, l)
}

func awaitEnd(ctx context.Context, other <-chan struct{}) {
	timer := time.NewTimer(fillPatience)
	defer timer.Stop()
	select {
	case <-other:
	case <-timer.C:
	case <-ctx.Done():
	}
}

// list walks over all that the refs reach, by a bitmap where the store has one. It adds each object
// to l, which may be nil. It fails with a *NotOurs if one of the wants is not among them.
func (w *Wants) list(t *Task, l *list) (time.Duration, error) {
	missing := make(map[string]struct{}, len(w.open))
	for _, id := range w.open {
		missing[id] = struct{}{}
	}
	took, err := w.repo.walk(t, "", func(id string) bool {
		delete(missing, id)
		return l.add(id) || len(missing) > 0
	}, "rev-list", "--objects", "--no-object-names", "--use-bitmap-index", "--all")
	if err != nil {
		return took, fmt.Errorf("list the objects that the refs reach: %w", err)
	}
	for _, id := range w.open {
		if _, ok := missing[id]; ok {
			return took, &NotOurs{ID: id}
		}
	}
	return took, nil
}

// list is a reached in the making.
type list struct {
	set  reached
	hold *bound.Hold // nil if there is no memory for it, now or any more
}

func newList(t *Task) *list {
	l := &list{set: reached{seed: maphash.MakeSeed()}}
	hold, err := t.scheduler.lists.Acquire(t.by, firstList*hashBytes, nil)
	if err == nil {
		l.hold, l.set.hashes = hold, make([]uint64, 0, firstList)
	}
	return l
}

// add adds an object. It reports false if the list takes no more.
func (l *list) add(id string) bool {
	if l == nil || l.hold == nil || len(l.set.hashes) == cap(l.set.hashes) && !l.grow() {
		return false
	}
	l.set.hashes = append(l.set.hashes, maphash.String(l.set.seed, id))
	return true
}

// grow doubles the room of the list. If there is no more, the list ends.
func (l *list) grow() bool {
	room := 2 * cap(l.set.hashes)
	if room <= maxReached && l.hold.Grow(int64(room-cap(l.set.hashes))*hashBytes) == nil {
		l.set.hashes = append(make([]uint64, 0, room), l.set.hashes...)
		return true
	}
	l.set.tooMany, l.set.hashes = room > maxReached, nil
	l.hold.Release()
	l.hold = nil
	return false
}

// end gives the memory back. It returns the set to remember, nil for none: err says how the walk
// ended.
func (l *list) end(err error) *reached {
	if err != nil && !errors.As(err, new(*NotOurs)) {
		l.set.tooMany, l.set.hashes = false, nil
	}
	complete := l.hold != nil && l.set.hashes != nil
	if l.hold != nil {
		l.hold.Release()
	}
	switch {
	case complete:
		slices.Sort(l.set.hashes)
		l.set.hashes = slices.Clip(slices.Clone(l.set.hashes))
		return &l.set
	case l.set.tooMany:
		return &l.set
	}
	return nil
}

// firstList is how many objects a list has room for at first.
const firstList = 4 << 10
