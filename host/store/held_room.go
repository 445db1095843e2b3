package store

import (
	"context"
	"fmt"

	"talon/host"
	"talon/host/store/semantics"
)

// HeldLimits bound purgatory.
type HeldLimits = semantics.HeldLimits

// maxEvicted is how many events give way to one.
const maxEvicted = semantics.MaxEvicted

// makeRoom makes sure that e fits, and returns why it does not. Announcements that
// are dormant, whose git data did not come in time, give way to it: first those
// that would go first. What e replaces counts as gone.
func (tx *Tx) makeRoom(e *host.Event, older *heldRow, out *host.Outcome) (reason string, err error) {
	most := tx.s.heldMost
	var gain heldRow
	if older != nil {
		gain = *older
	}
	c := tx.w.conn
	evicted := 0
	evict := func(number int64) (bool, error) {
		if number == 0 || evicted == maxEvicted {
			return false, nil
		}
		evicted++
		return true, tx.dropHeld(number, host.FateExpired, &out.Held)
	}
	if older == nil {
		// With an older one, there are as many of the author as before.
		n, err := c.number(context.Background(), `SELECT count(*) FROM held INDEXED BY held_author WHERE pubkey = ?`, e.PubKey[:])
		if err != nil {
			return "", err
		}
		if n >= most.ByAuthor {
			const sql = `SELECT number FROM held INDEXED BY held_author WHERE pubkey = ? AND dormant = 1 ORDER BY due LIMIT 1`
			number, err := c.number(context.Background(), sql, e.PubKey[:])
			if err != nil {
				return "", err
			}
			if ok, err := evict(number); err != nil || !ok {
				return fmt.Sprintf(semantics.ReasonOwnFull, n), err
			}
		}
	}
	for {
		full := older == nil && tx.total.Held >= most.Events
		if !full && tx.total.HeldBytes-gain.size+int64(len(e.JSON)) <= most.Bytes {
			return "", nil
		}
		const sql = `SELECT number FROM held INDEXED BY held_due WHERE dormant = 1 AND number <> ? ORDER BY due LIMIT 1`
		number, err := c.number(context.Background(), sql, gain.number)
		if err != nil {
			return "", err
		}
		if ok, err := evict(number); err != nil || !ok {
			return semantics.ReasonFull, err
		}
	}
}
