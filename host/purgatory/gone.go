package purgatory

import "talon/host"

// An announcement that waited for its git data in vain is gone: only its id is kept, for
// [RefuseFor]. Until then copies that sync brings are refused, or two relays would bring it
// back to each other for ever. Its author may send it again, and that ends the memory.

// refusedFromSync reports whether an announcement is not taken, because sync brings it and it
// is gone.
func refusedFromSync(rows Rows, e *host.Event, synced bool, now int64) (bool, error) {
	if !synced {
		return false, nil
	}
	until, ok, err := rows.Gone(e.ID)
	return ok && until > now, err
}

// recordGone keeps the id of an announcement that has just gone.
func recordGone(rows Rows, e *host.Event, t Term, now int64) error {
	until, ok := t.Next(now)
	if !ok {
		return nil
	}
	return rows.AddGone(e.ID, until)
}

// removeGone ends the memory of an announcement that is held again.
func removeGone(rows Rows, e *host.Event) error {
	if e.Kind != host.KindAnnouncement {
		return nil
	}
	return rows.RemoveGone(e.ID)
}
