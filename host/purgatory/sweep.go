package purgatory

import "talon/host"

// Sweep expires held events: announcements become dormant, and events whose time is over are
// removed. It looks at the first limit rows of each phase that are due.
func Sweep(rows Rows, now int64, limit int) (changes []host.HeldChange, err error) {
	for _, dormant := range []bool{false, true} {
		due, err := rows.HeldDue(dormant, now, limit)
		if err != nil {
			return nil, err
		}
		for _, r := range due {
			if r.Cause == CauseParent {
				// It may have gone with its parent, which was due as well.
				if r, err = rows.Held(r.ID); err != nil {
					return nil, err
				}
				if r == nil {
					continue
				}
			}
			if _, err := age(rows, r, now, &changes); err != nil {
				return nil, err
			}
		}
	}
	return changes, rows.RemoveGoneBefore(now, limit)
}

// age brings a row to the phase in which it is now, and reports whether it was removed.
func age(rows Rows, r *Row, now int64, changes *[]host.HeldChange) (removed bool, err error) {
	if r.Due > now {
		return false, nil
	}
	e := r.Event()
	if e == nil {
		return true, rows.RemoveHeld([]*Row{r})
	}
	if r.Cause == CauseVerdict {
		return true, remove(rows, []*Row{r}, host.StatusExpired, changes)
	}
	if r.Cause == CauseParent {
		if err := followParent(rows, r, now); err != nil {
			return false, err
		}
	}
	t := termOf(e, r.Cause, r.Since)
	switch phase := phaseOf(e, t, now); phase {
	case Gone, Forgotten:
		if err := remove(rows, []*Row{r}, host.StatusExpired, changes); err != nil {
			return false, err
		}
		if phase == Gone {
			err = recordGone(rows, e, t, now)
		}
		return true, err
	case Dormant:
		if !r.Dormant {
			*changes = append(*changes, host.HeldChange{Event: e, Status: host.StatusDormant})
			if err := removeDependents(rows, r, changes); err != nil {
				return false, err
			}
		}
		r.Dormant = true
	}
	r.Due = Due(e, r.Cause, r.Since, r.Dormant)
	return false, rows.UpdateHeld(r)
}
