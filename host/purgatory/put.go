package purgatory

import (
	"talon/host"
	"talon/host/store/semantics"
)

// Put stores an event as [semantics.Put] does, and takes out of purgatory what would never be
// stored after it: the event itself, older versions at its address, and what a deletion
// removes. Events that depend on a held one that is stored now are stored with it.
func Put(rows Rows, e *host.Event, now int64) (host.Outcome, error) {
	out, k, err := semantics.Put(rows, e, now)
	if err != nil || out.Code != host.Stored {
		return out, err
	}
	if e.Kind == host.KindDeletion {
		if err := removeDeleted(rows, e, &out.Held); err != nil {
			return out, err
		}
	}
	if !k.MayBeHeld {
		return out, nil
	}
	superseded, err := supersede(rows, e, &out.Held)
	if err != nil || !superseded {
		return out, err
	}
	more, err := releaseDependents(rows, e, now)
	out.Released = more.Events
	out.Removed = append(out.Removed, more.Removed...)
	out.Held = append(out.Held, more.Held...)
	return out, err
}

// supersede removes the held copy of a stored event, and the older versions at its address. It
// reports whether there were any: then events may depend on them.
func supersede(rows Rows, e *host.Event, changes *[]host.HeldChange) (bool, error) {
	r, err := rows.Held(e.ID)
	if err != nil {
		return false, err
	}
	if r != nil {
		if err := remove(rows, []*Row{r}, host.StatusReleased, changes); err != nil {
			return false, err
		}
	}
	a, ok := e.Address()
	if !ok {
		return r != nil, nil
	}
	held, err := rows.HeldAt([]host.Address{a}, e.CreatedAt)
	if err != nil {
		return false, err
	}
	var older []*Row
	for _, r := range held {
		if semantics.Wins(e.CreatedAt, e.ID, r.CreatedAt, r.ID) {
			older = append(older, r)
		}
	}
	return r != nil || len(older) > 0, remove(rows, older, host.StatusReplaced, changes)
}

// removeDeleted removes the held events that a deletion names: by id those that its author may delete, by
// address all versions that are not newer than the deletion.
func removeDeleted(rows Rows, deletion *host.Event, changes *[]host.HeldChange) error {
	if events, _ := rows.HeldTotal(); events == 0 {
		return nil
	}
	ids, addresses := semantics.Targets(deletion)
	if len(ids) > 0 {
		held, err := rows.HeldByID(ids)
		if err != nil {
			return err
		}
		var deleted []*Row
		for _, r := range held {
			deletes, err := semantics.Deletes(deletion.PubKey, r.PubKey, r.Kind, func() (*host.Event, error) { return r.Event(), nil })
			if err != nil {
				return err
			}
			if deletes {
				deleted = append(deleted, r)
			}
		}
		if err := remove(rows, deleted, host.StatusDeleted, changes); err != nil {
			return err
		}
	}
	if len(addresses) == 0 {
		return nil
	}
	held, err := rows.HeldAt(addresses, deletion.CreatedAt)
	if err != nil {
		return err
	}
	return remove(rows, held, host.StatusDeleted, changes)
}
