package store

import (
	"database/sql/driver"
	"math"
)

// mergePoint says which rows under hashed keys are in table posting: those of events up to
// indexed, and for keys whose first byte is less than next those of events up to target.
// All others are in a [memtable]. It is a row of table merge, so that each snapshot has
// its own.
//
// From time to time all that is in memory becomes the target, and each commit then moves
// some keys, in their order.
type mergePoint struct{ indexed, target, next int64 }

// through is the last event whose rows under the key are in the table.
func (m mergePoint) through(key []byte) int64 {
	switch {
	case len(key) != keySize:
		return math.MaxInt64
	case int64(key[0]) < m.next:
		return m.target
	}
	return m.indexed
}

const mergeColumns = `(SELECT indexed FROM merge), (SELECT target FROM merge), (SELECT next FROM merge)`

func scanMerge(row []driver.Value) (m mergePoint) {
	m.indexed, _ = row[0].(int64)
	m.target, _ = row[1].(int64)
	m.next, _ = row[2].(int64)
	return m
}
