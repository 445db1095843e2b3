package purgatory

import (
	"math"

	"talon/host"
)

// An event depends on a held one if nothing stored justifies it. The policy says so, and names
// the parent. It is held with the parent: it goes when the parent goes or becomes dormant, and
// it is stored when the parent is.
//
// A parent waits for git data itself, or a module holds it. An event that names a dependent one depends on that one's
// parent, so there are no chains, and the bound of a parent counts all.

// depend makes a row depend on the parent with this id or address. It reports false if that is
// not held, or does not wait any more.
func depend(rows Rows, r *Row, parent string, now int64) (bool, error) {
	p, err := heldAs(rows, parent)
	if err != nil || p == nil {
		return false, err
	}
	if p.Cause == CauseParent {
		r.Cause, r.Parent = CauseParent, p.Parent
		p, err = rows.HeldParent(p.Parent)
		return p != nil && waits(p, now), err
	}
	e := p.Event()
	if e == nil || !waits(p, now) {
		return false, nil
	}
	r.Cause, r.Parent = CauseParent, rows.KeyOf(e)
	return true, nil
}

// heldAs returns a row by the id or the address of its event, nil for none.
func heldAs(rows Rows, reference string) (*Row, error) {
	var id host.ID
	if host.ParseHex(id[:], reference) {
		return rows.Held(id)
	}
	a, ok := host.ParseAddress(reference)
	if !ok {
		return nil, nil
	}
	held, err := rows.HeldAt([]host.Address{a}, math.MaxInt64)
	if err != nil || len(held) == 0 {
		return nil, err
	}
	return held[0], nil
}

// waits reports whether a parent still counts now.
func waits(p *Row, now int64) bool {
	e := p.Event()
	if p.Cause == CauseVerdict {
		return e != nil && p.Due > now
	}
	return e != nil && !p.Dormant && phaseOf(e, termOf(e, p.Cause, p.Since), now) == Waiting
}

// followParent gives a dependent row that is due the time of its parent, which may have been
// restarted. A module holds a parent for longer, so the time of the row starts now.
func followParent(rows Rows, r *Row, now int64) error {
	p, err := rows.HeldParent(r.Parent)
	switch {
	case err != nil || p == nil || !waits(p, now):
	case p.Cause == CauseVerdict:
		r.Since = now
	default:
		r.Since = max(r.Since, p.Since)
	}
	return err
}

// removeDependents removes what depends on a parent that has gone, or has become dormant.
func removeDependents(rows Rows, parent *Row, changes *[]host.HeldChange) error {
	e := parent.Event()
	if e == nil {
		return nil // what depends on a damaged row goes by its own time
	}
	list, err := rows.Dependents(rows.KeyOf(e))
	if err != nil || len(list) == 0 {
		return err
	}
	// Another version may be held at the same address.
	if p, err := rows.HeldParent(rows.KeyOf(e)); err != nil || p != nil && p.ID != e.ID {
		return err
	}
	return remove(rows, list, host.StatusExpired, changes)
}

// releaseDependents stores what depends on a parent that is stored now.
func releaseDependents(rows Rows, parent *host.Event, now int64) (out host.ReleaseOutcome, err error) {
	list, err := rows.Dependents(rows.KeyOf(parent))
	if err != nil {
		return out, err
	}
	ids := make([]host.ID, len(list))
	for i, r := range list {
		ids[i] = r.ID
	}
	if ids, err = inOrder(rows, ids); err != nil {
		return out, err
	}
	for _, id := range ids {
		// One that was stored before it may have taken this one away.
		r, err := rows.Held(id)
		if err != nil {
			return out, err
		}
		if r == nil {
			continue
		}
		if err := releaseRow(rows, r, now, &out); err != nil {
			return out, err
		}
	}
	return out, nil
}
