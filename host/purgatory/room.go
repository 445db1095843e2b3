package purgatory

import (
	"fmt"

	"talon/host"
	"talon/host/store/semantics"
)

// MaxEvicted is how many held events give way to one.
const MaxEvicted = 100

// makeRoom makes sure that an event fits, and returns why it does not. Three bounds hold: rows
// of its author, rows of all, and bytes of all.
//
// Dormant announcements, whose git data did not come in time, give way: those first that are
// due first. The author's bound takes the author's own. The older version that the event
// replaces counts as removed.
func makeRoom(rows Rows, limits *semantics.HeldLimits, e *host.Event, older *Row, changes *[]host.HeldChange) (reason string, err error) {
	var olderNumber, olderSize int64
	if older != nil {
		olderNumber, olderSize = older.Number, int64(len(older.JSON))
	}
	evicted := 0
	evict := func(author *host.PubKey) (bool, error) {
		if evicted == MaxEvicted {
			return false, nil
		}
		evicted++
		r, err := rows.FirstDormant(author, olderNumber)
		if err != nil || r == nil {
			return false, err
		}
		return true, remove(rows, []*Row{r}, host.StatusExpired, changes)
	}
	if older == nil {
		// With an older one, the author has as many rows as before.
		n, err := rows.HeldByAuthor(e.PubKey)
		if err != nil {
			return "", err
		}
		if n >= limits.ByAuthor {
			if ok, err := evict(&e.PubKey); err != nil || !ok {
				return fmt.Sprintf(semantics.ReasonOwnFull, n), err
			}
		}
	}
	for {
		events, bytes := rows.HeldTotal()
		full := older == nil && events >= limits.Events
		if !full && bytes-olderSize+int64(len(e.JSON)) <= limits.Bytes {
			return "", nil
		}
		if ok, err := evict(nil); err != nil || !ok {
			return semantics.ReasonFull, err
		}
	}
}
