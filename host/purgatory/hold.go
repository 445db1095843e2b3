package purgatory

import (
	"math"

	"talon/host"
	"talon/host/store/semantics"
)

// Hold puts an event into purgatory, or returns why it does not:
//
//   - It has expired, is stored, is deleted, or a newer version is stored: as for [Put].
//   - It is held already. The answer is the one of the first time, and there is no second row.
//   - It is an announcement that is gone, and comes from sync.
//   - It is an announcement, and a newer one of its address is held. Of other kinds with an
//     address all versions are held.
//   - It depends on an event that is not held.
//   - It is an announcement or a state, and a module wants it to wait for another event.
//   - There is no room.
func Hold(rows Rows, limits *semantics.HeldLimits, e *host.Event, h *host.HoldOptions, now int64) (out host.Outcome, err error) {
	if semantics.Expired(e, now) {
		out.Code, out.Reason = host.Rejected, semantics.ReasonExpired
		return out, nil
	}
	k, err := rows.Known(e, true)
	if err != nil {
		return out, err
	}
	var waited *Row // until now, for another event
	if k.MayBeHeld {
		var again bool
		if waited, again, err = holdAgain(rows, e, h, now, &out); err != nil || again {
			return out, err
		}
	}
	if out.Code, out.Reason, err = semantics.EarlyRefusal(rows, k, e); err != nil || out.Reason != "" {
		return out, err
	}
	if out.Code, out.Reason = k.Refusal(e); out.Reason != "" {
		return out, nil
	}
	var older *Row
	if e.Kind == host.KindAnnouncement {
		if out.Code, out.Reason, older, err = holdAnnouncement(rows, k, e, h, now); err != nil || out.Reason != "" {
			return out, err
		}
	}
	row := &Row{Since: now, Reason: h.Reason, Known: h.Known, Synced: h.Synced}
	if h.Network != "" {
		row.Network = []byte(h.Network)
	}
	if waited != nil {
		// Where it came from counts, and not who submitted it again.
		row.Network, row.Known, row.Synced = waited.Network, waited.Known, waited.Synced
	}
	if h.Parent != "" {
		ok, err := depend(rows, row, h.Parent, now)
		if err != nil {
			return out, err
		}
		if !ok {
			out.Code, out.Reason = host.Rejected, semantics.ReasonNoParent
			return out, nil
		}
	}
	if row.Due = Due(e, row.Cause, now, false); h.Wake != nil {
		if !MayAwait(e.Kind) {
			out.Code, out.Reason = host.Rejected, semantics.ReasonMayNotAwait
			return out, nil
		}
		waitFor(row, e, h, now)
	}
	if out.Reason, err = makeRoom(rows, limits, e, row, older, &out.Held); err != nil || out.Reason != "" {
		out.Code = host.Rejected
		return out, err
	}
	if older != nil {
		// It may have gone with a row that gave way.
		if older, err = rows.Held(older.ID); err != nil {
			return out, err
		}
	}
	if older != nil {
		if err := remove(rows, []*Row{older}, host.StatusReplaced, &out.Held); err != nil {
			return out, err
		}
	}
	if waited != nil {
		if err := remove(rows, []*Row{waited}, host.StatusReplaced, &out.Held); err != nil {
			return out, err
		}
	}
	if err := rows.InsertHeld(e, k, row); err != nil {
		return out, err
	}
	if err := removeGone(rows, e); err != nil {
		return out, err
	}
	out.Code, out.Reason = host.Held, h.Reason
	out.Held = append(out.Held, host.HeldChange{Event: e, Status: host.StatusHeld, Synced: row.Synced, Awaits: row.Cause == CauseVerdict})
	return out, restartAt(rows, h.ExtendDeadline, now, &out.Held)
}

// holdAgain answers an event that is held, and reports whether it still is. It returns the row of one
// that waited for another event, and that has another cause now.
func holdAgain(rows Rows, e *host.Event, h *host.HoldOptions, now int64, out *host.Outcome) (waited *Row, again bool, err error) {
	r, err := rows.Held(e.ID)
	if err != nil || r == nil {
		return nil, false, err
	}
	// Its time may be up, and the sweep late.
	if gone, err := age(rows, r, now, &out.Held); err != nil || gone {
		return nil, false, err
	}
	if r.Cause == CauseVerdict {
		again, err := holdAwaiting(rows, r, h, out)
		return r, again, err
	}
	out.Code, out.Reason = host.Held, r.Reason
	if e.Kind == host.KindAnnouncement && !h.Synced {
		if err := restart(rows, r, now, &out.Held); err != nil {
			return nil, false, err
		}
	}
	return nil, true, restartAt(rows, h.ExtendDeadline, now, &out.Held)
}

// holdAnnouncement returns why an announcement is not held, or the older one that it replaces.
func holdAnnouncement(rows Rows, k *semantics.Known, e *host.Event, h *host.HoldOptions, now int64) (host.Code, string, *Row, error) {
	refused, err := refusedFromSync(rows, e, h.Synced, now)
	switch {
	case err != nil:
		return 0, "", nil, err
	case refused:
		return host.Rejected, semantics.ReasonGone, nil, nil
	case !k.MayBeHeld:
		return 0, "", nil, nil
	}
	a, _ := e.Address()
	held, err := rows.HeldAt([]host.Address{a}, math.MaxInt64)
	if err != nil || len(held) == 0 {
		return 0, "", nil, err
	}
	older := held[0]
	if semantics.Wins(older.CreatedAt, older.ID, e.CreatedAt, e.ID) {
		return host.Replaced, semantics.ReasonNewer, nil, nil
	}
	return 0, "", older, nil
}
