package store

import (
	"bytes"
	"context"
	"database/sql/driver"
	"slices"
)

// recentSortKeys returns sort keys of a span that are not in the table, at most limit of those
// between above and under, both excluded, and whether there may be more behind the last
// that was looked at.
func (v *snapshot) recentSortKeys(key []byte, kind int64, above, under []byte, limit, width int) (packed []byte, last []byte, more bool, err error) {
	var unverified []int64
	for _, t := range v.recent {
		before := len(packed)
		packed, unverified = t.sortKeys(packed, key, kind, above, under, v.merged.through(key), v.seq, limit, unverified)
		more = more || (len(packed)-before)/width == limit
		if before > 0 && len(packed) > before {
			packed = mergeSortKeys(packed[:before], packed[before:], width)
		}
	}
	if n := limit * width; len(packed) > n {
		packed, more = packed[:n], true
	}
	if len(packed) > 0 {
		last = packed[len(packed)-width:]
	}
	if len(unverified) > 0 {
		packed, err = v.verified(packed, unverified, width)
	}
	return packed, last, more, err
}

// mergeSortKeys merges two lists of sort keys in order.
func mergeSortKeys(a, b []byte, width int) []byte {
	out := make([]byte, 0, len(a)+len(b))
	for len(a) > 0 && len(b) > 0 {
		if bytes.Compare(a[:width], b[:width]) <= 0 {
			out, a = append(out, a[:width]...), a[width:]
		} else {
			out, b = append(out, b[:width]...), b[width:]
		}
	}
	return append(append(out, a...), b...)
}

// verified leaves out the sort keys of events that the snapshot does not have.
func (v *snapshot) verified(packed []byte, unverified []int64, width int) ([]byte, error) {
	gone := make(map[int64]bool, len(unverified))
	for _, seq := range unverified {
		gone[seq] = true
	}
	const sql = `SELECT e.seq FROM json_each(?) r CROSS JOIN event e ON e.seq = r.value`
	err := v.each(context.Background(), sql, list(jsonInts(unverified)), func(row []driver.Value) error {
		delete(gone, row[0].(int64))
		return nil
	})
	if err != nil {
		return nil, err
	}
	out := packed[:0:0]
	for ; len(packed) > 0; packed = packed[width:] {
		if !gone[parseSortKey(packed[:width]).seq] {
			out = append(out, packed[:width]...)
		}
	}
	return out, nil
}

// recentSpans calls yield for the spans of a plan that have rows in memory, and with how
// many at most.
func (v *snapshot) recentSpans(p *plan, yield func(key []byte, kind int64, rows int)) {
	for _, key := range p.keys {
		if len(key) != keySize {
			continue
		}
		kinds := map[int64]int{}
		for _, t := range v.recent {
			t.kinds(key, func(kind int64, rows int) { kinds[kind] += rows })
		}
		for kind, rows := range kinds {
			if p.kinds == nil && p.low <= kind && kind < p.high || slices.Contains(p.kinds, kind) {
				yield(key, kind, rows)
			}
		}
	}
}

// recentHas reports whether a row is in memory and not in the table.
func (v *snapshot) recentHas(r posting) (bool, error) {
	sortKey := parseSortKey(r.sortKey)
	packed, _, _, err := v.recentSortKeys(r.key, r.kind, above(sortKey.at), under(sortKey.at), 1<<20, len(r.sortKey))
	for ; err == nil && len(packed) > 0; packed = packed[len(r.sortKey):] {
		if parseSortKey(packed[:len(r.sortKey)]) == sortKey {
			return true, nil
		}
	}
	return false, err
}
