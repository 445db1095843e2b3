package gitread

import (
	"sync"

	"talon/internal/recent"
)

const (
	// noteBytes is the size of the commits that are remembered, and of the tags; twice as much for
	// those used last.
	noteBytes = 4 << 20

	// noteCost is about how much memory a commit or tag takes without its texts.
	noteCost = 400
)

// notes remembers commits or tags by their ids. It is safe for concurrent use.
type notes[T any] struct {
	mu   sync.Mutex // guards kept
	kept recent.Map[string, note[T]]
}

type note[T any] struct {
	value *T // does not change
	cost  int
}

func newNotes[T any]() *notes[T] {
	return &notes[T]{kept: recent.Map[string, note[T]]{Size: noteBytes}}
}

// get returns what is remembered of an object, or what read returns with the size of the object.
// Large objects are not remembered. REQUIRES: the caller may see the object.
func (n *notes[T]) get(id string, read func() (*T, int, error)) (*T, error) {
	n.mu.Lock()
	known, aging, ok := n.kept.Get(id)
	if ok && aging {
		n.kept.Add(id, known, known.cost)
	}
	n.mu.Unlock()
	if ok {
		return known.value, nil
	}
	value, size, err := read()
	if err != nil {
		return nil, err
	}
	if cost := noteCost + 2*size; cost < noteBytes/64 { // a text may double in UTF-8
		n.mu.Lock()
		n.kept.Add(id, note[T]{value, cost}, cost)
		n.mu.Unlock()
	}
	return value, nil
}
