package recent

import (
	"math/rand/v2"
	"testing"
)

// runOperations carries out operations, three bytes each, on a map and on one that forgets nothing.
func runOperations(t *testing.T, size int, program []byte) {
	m := Map[int, int]{Size: size}
	last := make(map[int]int)  // the values that were added last
	since := make(map[int]int) // what was added after a key, its own cost included
	for ; len(program) >= 3; program = program[3:] {
		key, cost := int(program[1])%40, int(program[2])%(size+2)
		switch program[0] % 8 {
		case 0:
			m.Remove(key)
			delete(last, key)
		case 1:
			if program[2]%16 == 0 {
				m.Clear()
				clear(last)
			}
		case 2, 3, 4, 5:
			for other := range since {
				since[other] += cost
			}
			last[key], since[key] = int(program[2]), cost
			m.Add(key, int(program[2]), cost)
			if !m.Has(key) {
				t.Fatalf("%d is forgotten as soon as it is added", key)
			}
		}
		for key := range 40 {
			value, aging, ok := m.Get(key)
			want, known := last[key]
			switch {
			case ok != m.Has(key) || aging && !ok:
				t.Fatalf("%d: Has and Get do not agree", key)
			case ok && (!known || value != want):
				t.Fatalf("%d is %d, want %d, %v", key, value, want, known)
			case known && !ok && since[key] <= size:
				t.Fatalf("%d is forgotten after %d of %d", key, since[key], size)
			}
		}
		if m.used > size && len(m.young) > 1 {
			t.Fatalf("%d are used of %d", m.used, size)
		}
	}
}

func FuzzMap(f *testing.F) {
	f.Add(uint8(4), []byte{2, 1, 1, 2, 2, 4, 0, 1, 0, 3, 1, 9, 1, 0, 16})
	r := rand.New(rand.NewPCG(1, 1))
	for n := range 20 {
		program := make([]byte, 900)
		for i := range program {
			program[i] = byte(r.Uint32())
		}
		f.Add(uint8(n), program)
	}
	f.Fuzz(func(t *testing.T, size uint8, program []byte) {
		runOperations(t, int(size), program[:min(len(program), 2000)])
	})
}
