package store

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"talon/host"
)

// modelTable is a memtable as a plain list of rows.
type modelTable struct {
	rows    []posting
	removed map[int64]bool
}

func (m *modelTable) span(key []byte, kind int64, above, under []byte, from, to int64, limit int) (packed []byte, unsure []int64) {
	var found [][]byte
	for _, r := range m.rows {
		seq := parseSortKey(r.sortKey).seq
		if bytes.Equal(r.key, key) && r.kind == kind && bytes.Compare(r.sortKey, above) > 0 && bytes.Compare(r.sortKey, under) < 0 && seq > from && seq <= to {
			found = append(found, r.sortKey)
		}
	}
	slices.SortFunc(found, bytes.Compare)
	for _, sortKey := range found[:min(len(found), limit)] {
		packed = append(packed, sortKey...)
		if seq := parseSortKey(sortKey).seq; m.removed[seq] {
			unsure = append(unsure, seq)
		}
	}
	return packed, unsure
}

// runMemtable carries out operations, four bytes each, on a memtable and on a plain list of rows.
func runMemtable(t *testing.T, program []byte) {
	var keys keyring
	m, model := newMemtable(), &modelTable{removed: map[int64]bool{}}
	kinds := []host.Kind{1, 7, 30000}
	seq := int64(0)
	for ; len(program) >= 4; program = program[4:] {
		a, b, c := int(program[1]), int(program[2]), int(program[3])
		switch program[0] % 8 {
		case 0, 1, 2, 3:
			seq += 1 + int64(c%2)
			e := fake(int(seq), byte(a%3), kinds[b%3], int64(c%20), host.Tag{"t", "x"}, host.Tag{"t", fmt.Sprint(b % 4)})
			rows := keys.postings(nil, e, seq)
			m.add(e, seq, rows)
			for _, r := range rows {
				if len(r.key) == keySize {
					model.rows = append(model.rows, r)
				}
			}
		case 4:
			if a%4 == 0 {
				last := max(seq-int64(b%8), 0)
				m.truncate(last)
				model.rows = slices.DeleteFunc(model.rows, func(r posting) bool { return parseSortKey(r.sortKey).seq > last })
			}
		case 5:
			gone := int64(a*256+b) % (seq + 1)
			m.remove(gone)
			model.removed[gone] = true
		default:
			key := [][]byte{keys.key('t', "x"), keys.key('t', fmt.Sprint(a%5)), keys.author(fake(1, byte(a%4), 1, 1).PubKey)}[b%3]
			width := shortSortKey
			if b%3 == 2 {
				width = longSortKey
			}
			over, below := above(int64(c%24)), under(int64(a%24))
			if c%3 == 0 {
				over, below = above(math.MaxInt64), under(math.MinInt64)
			}
			kind, from, limit := int64(kinds[c%3]), int64(a)%(seq+1), 1+b%40
			got, unsure := m.sortKeys(nil, key, kind, over, below, from, seq, limit, nil)
			want, wantUnsure := model.span(key, kind, over, below, from, seq, limit)
			if !bytes.Equal(got, want) || !slices.Equal(unsure, wantUnsure) {
				t.Fatalf("%d sort keys and %d in doubt, want %d and %d", len(got)/width, len(unsure), len(want)/width, len(wantUnsure))
			}
			// Two halves are merged into what one table has.
			middle := (from + seq) / 2
			x, _ := m.sortKeys(nil, key, kind, over, below, from, middle, math.MaxInt, nil)
			y, _ := m.sortKeys(nil, key, kind, over, below, middle, seq, math.MaxInt, nil)
			all, _ := model.span(key, kind, over, below, from, seq, math.MaxInt)
			if merged := mergeSortKeys(x, y, width); !bytes.Equal(merged, all) {
				t.Fatalf("%d and %d sort keys are merged into %d, want %d", len(x)/width, len(y)/width, len(merged)/width, len(all)/width)
			}
		}
		if m.rows != len(model.rows) {
			t.Fatalf("%d rows, want %d", m.rows, len(model.rows))
		}
	}
	// All rows, as they are merged into the table.
	var rows []posting
	gone := map[int64]bool{}
	for first := range int64(memShards) {
		rows = m.shard(rows, gone, first, 0, math.MaxInt64)
	}
	slices.SortFunc(rows, posting.compare)
	slices.SortFunc(model.rows, posting.compare)
	if !slices.EqualFunc(rows, model.rows, func(a, b posting) bool { return a.compare(b) == 0 }) {
		t.Fatalf("the shards have %d rows, want %d", len(rows), len(model.rows))
	}
	for seq := range gone {
		if !model.removed[seq] {
			t.Fatalf("event %d is in doubt", seq)
		}
	}
}

func FuzzMemtable(f *testing.F) {
	f.Add([]byte{0, 1, 1, 1, 0, 2, 1, 1, 6, 0, 0, 0, 4, 0, 1, 0, 6, 0, 0, 3})
	for seed := range uint64(12) {
		r := rand.New(rand.NewPCG(seed, 3))
		program := make([]byte, 0, 1600)
		for len(program) < cap(program) {
			program = binary.LittleEndian.AppendUint32(program, r.Uint32())
		}
		f.Add(program)
	}
	f.Fuzz(func(t *testing.T, program []byte) { runMemtable(t, program[:min(len(program), 2000)]) })
}
