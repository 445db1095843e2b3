package heap

import (
	"math/rand/v2"
	"slices"
	"testing"
)

type node struct {
	key   int
	place int
}

// runOperations carries out operations, two bytes each, on a heap and on a plain list.
func runOperations(t *testing.T, program []byte) {
	h := New(func(a, b *node) bool { return a.key < b.key }, func(n *node, place int) { n.place = place })
	var all []*node
	forget := func(n *node) {
		if n.place != -1 {
			t.Fatalf("an item that has left is at place %d", n.place)
		}
		all = slices.DeleteFunc(all, func(other *node) bool { return other == n })
	}
	for ; len(program) >= 2; program = program[2:] {
		value := int(program[1])
		switch op := program[0] % 5; {
		case op < 2 || len(all) == 0:
			n := &node{key: value % 16}
			all = append(all, n)
			h.Push(n)
		case op == 2:
			first := slices.MinFunc(all, func(a, b *node) int { return a.key - b.key })
			if got := h.Pop(); got.key != first.key {
				t.Fatalf("popped %d, want %d", got.key, first.key)
			} else {
				forget(got)
			}
		case op == 3:
			n := all[value%len(all)]
			if got := h.Remove(n.place); got != n {
				t.Fatalf("removed %d, want %d", got.key, n.key)
			}
			forget(n)
		case op == 4:
			n := all[value%len(all)]
			n.key = int(program[0]) % 16
			h.Fix(n.place)
		}
		if h.Len() != len(all) {
			t.Fatalf("%d items, want %d", h.Len(), len(all))
		}
		for i, n := range h.Items() {
			if n.place != i || i > 0 && n.key < h.Items()[(i-1)/2].key {
				t.Fatalf("item %d says that it is at %d, or comes before its parent", i, n.place)
			}
		}
	}
}

func FuzzHeap(f *testing.F) {
	f.Add([]byte{0, 3, 0, 1, 0, 2, 2, 0, 3, 1, 4, 0, 2, 0})
	r := rand.New(rand.NewPCG(1, 1))
	for range 20 {
		program := make([]byte, 600)
		for i := range program {
			program[i] = byte(r.Uint32())
		}
		f.Add(program)
	}
	f.Fuzz(func(t *testing.T, program []byte) { runOperations(t, program[:min(len(program), 2000)]) })
}
