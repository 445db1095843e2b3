package purgatory

import (
	"fmt"

	"talon/host"
	"talon/host/store/semantics"
)

// MaxEvicted is how many held events give way to one.
const MaxEvicted = 100

// makeRoom makes sure that an event fits, and returns why it does not. Three bounds hold: rows
// of its author, rows of all, and bytes of all. Two more hold for an event that depends on
// another: rows that depend on the same one, and on any.
//
// Events that depend on others give way to those that wait for git data, and to nobody else.
// Dormant announcements, whose git data did not come in time, give way next. In both cases
// those that are due first go first. The author's bound takes the author's own dormant ones.
// The older version that the event replaces counts as removed.
func makeRoom(rows Rows, limits *semantics.HeldLimits, e *host.Event, row, older *Row, changes *[]host.HeldChange) (reason string, err error) {
	var olderNumber, olderSize int64
	if older != nil {
		olderNumber, olderSize = older.Number, int64(len(older.JSON))
	}
	evicted := 0
	evict := func(r *Row, err error) (bool, error) {
		if err != nil || r == nil || evicted == MaxEvicted {
			return false, err
		}
		evicted++
		return true, remove(rows, []*Row{r}, host.StatusExpired, changes)
	}
	if older == nil {
		// With an older one, the author has as many rows as before.
		n, err := rows.HeldByAuthor(e.PubKey)
		if err != nil {
			return "", err
		}
		if n >= limits.ByAuthor {
			if ok, err := evict(rows.FirstDormant(&e.PubKey, olderNumber)); err != nil || !ok {
				return fmt.Sprintf(semantics.ReasonOwnFull, n), err
			}
		}
	}
	if row.Cause == CauseParent {
		n, all, err := rows.CountDependents(row.Parent)
		if err != nil || n >= limits.ByParent || all >= limits.Dependents {
			return semantics.ReasonParentFull, err
		}
	}
	for {
		events, bytes := rows.HeldTotal()
		full := older == nil && events >= limits.Events
		if !full && bytes-olderSize+int64(len(e.JSON)) <= limits.Bytes {
			return "", nil
		}
		if row.Cause == CauseParent {
			return semantics.ReasonFull, nil
		}
		ok, err := evict(rows.FirstDependent(olderNumber))
		if err == nil && !ok {
			ok, err = evict(rows.FirstDormant(nil, olderNumber))
		}
		if err != nil || !ok {
			return semantics.ReasonFull, err
		}
	}
}
