// Package heap is a priority queue: the item that comes before all others is on top.
package heap

// Heap is a priority queue. Make one with [New].
type Heap[T any] struct {
	items  []T
	before func(a, b T) bool
	moved  func(item T, place int)
}

// New returns an empty heap. Before says which of two items comes first. Moved is called with
// an item and its place when that has changed, for Fix and Remove; -1: it has left. A nil one
// is not called.
func New[T any](before func(a, b T) bool, moved func(item T, place int)) Heap[T] {
	if moved == nil {
		moved = func(T, int) {}
	}
	return Heap[T]{before: before, moved: moved}
}

// Len returns how many items there are.
func (h *Heap[T]) Len() int { return len(h.items) }

// Top returns the first item. REQUIRES: there is one.
func (h *Heap[T]) Top() T { return h.items[0] }

// Items returns all items in no order. They are valid until the next change.
func (h *Heap[T]) Items() []T { return h.items }

// Push adds an item.
func (h *Heap[T]) Push(item T) {
	h.items = append(h.items, item)
	h.moved(item, len(h.items)-1)
	h.up(len(h.items) - 1)
}

// Pop takes out the first item. REQUIRES: there is one.
func (h *Heap[T]) Pop() T { return h.Remove(0) }

// Remove takes out the item at a place.
func (h *Heap[T]) Remove(place int) T {
	item, last := h.items[place], len(h.items)-1
	if place != last {
		h.swap(place, last)
	}
	var none T
	h.items[last], h.items = none, h.items[:last]
	if place != last {
		h.Fix(place)
	}
	h.moved(item, -1)
	return item
}

// Fix puts the item at a place, of which the order has changed, where it belongs.
func (h *Heap[T]) Fix(place int) {
	if !h.down(place) {
		h.up(place)
	}
}

func (h *Heap[T]) up(i int) {
	for i > 0 {
		parent := (i - 1) / 2
		if !h.before(h.items[i], h.items[parent]) {
			return
		}
		h.swap(i, parent)
		i = parent
	}
}

// down reports whether the item has moved.
func (h *Heap[T]) down(from int) bool {
	i := from
	for {
		child := 2*i + 1
		if child >= len(h.items) {
			return i > from
		}
		if right := child + 1; right < len(h.items) && h.before(h.items[right], h.items[child]) {
			child = right
		}
		if !h.before(h.items[child], h.items[i]) {
			return i > from
		}
		h.swap(i, child)
		i = child
	}
}

func (h *Heap[T]) swap(i, j int) {
	h.items[i], h.items[j] = h.items[j], h.items[i]
	h.moved(h.items[i], i)
	h.moved(h.items[j], j)
}
