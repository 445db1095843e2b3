package purgatory

import (
	"bytes"
	"cmp"
	"slices"

	"talon/host"
	"talon/host/store/semantics"
)

// Release stores held events as [Put] would, oldest first, so that a newer version takes effect
// after an older one. It reports an event that is not held any more, or must not be stored: a
// second call is harmless.
func Release(rows Rows, r *host.Release, now int64) (out host.ReleaseOutcome, err error) {
	ids, err := inOrder(rows, r.IDs)
	if err != nil {
		return out, err
	}
	done := make(map[host.ID]bool, len(ids))
	for _, id := range ids {
		if done[id] {
			continue // with the parent on which it depended
		}
		before := len(out.Events)
		if err := releaseOne(rows, id, now, &out); err != nil {
			return out, err
		}
		for _, r := range out.Events[before:] {
			done[r.ID] = true
		}
	}
	if err := refuse(rows, r.Refused, &out.Held); err != nil {
		return out, err
	}
	return out, restartAt(rows, r.ExtendDeadline, now, &out.Held)
}

// inOrder returns the ids, each once, by time, and within a second the highest first: the
// version that stays comes last. An event that is not held counts as the oldest.
func inOrder(rows Rows, ids []host.ID) ([]host.ID, error) {
	at := make(map[host.ID]int64, len(ids))
	var list []host.ID
	for _, id := range ids {
		if _, ok := at[id]; ok {
			continue
		}
		r, err := rows.Held(id)
		if err != nil {
			return nil, err
		}
		at[id] = 0
		if r != nil {
			at[id] = r.CreatedAt
		}
		list = append(list, id)
	}
	slices.SortFunc(list, func(a, b host.ID) int { return cmp.Or(cmp.Compare(at[a], at[b]), bytes.Compare(b[:], a[:])) })
	return list, nil
}

func releaseOne(rows Rows, id host.ID, now int64, out *host.ReleaseOutcome) error {
	// One that was released before it may have taken this one away.
	r, err := rows.Held(id)
	if err != nil {
		return err
	}
	if r != nil && r.Cause == CauseVerdict {
		out.Events = append(out.Events, host.Released{ID: id, Status: host.StatusHeld, Event: r.Event()})
		return nil
	}
	if r != nil && r.Event() != nil {
		return releaseRow(rows, r, now, out)
	}
	if r != nil {
		if err := rows.RemoveHeld([]*Row{r}); err != nil {
			return err
		}
	}
	traces, err := rows.Traces(id)
	out.Events = append(out.Events, host.Released{ID: id, Status: traces.status()})
	return err
}

// releaseRow stores the event of a row, and then what depends on it.
func releaseRow(rows Rows, r *Row, now int64, out *host.ReleaseOutcome) error {
	if err := rows.RemoveHeld([]*Row{r}); err != nil {
		return err
	}
	e := r.Event()
	if e == nil {
		return nil
	}
	put, err := Put(rows, e, now)
	if err != nil {
		return err
	}
	status := statusOf(put)
	out.Events = append(out.Events, host.Released{ID: e.ID, Status: status, Event: e, Seq: put.Seq})
	out.Events = append(out.Events, put.Released...)
	out.Removed = append(out.Removed, put.Removed...)
	out.Held = append(out.Held, host.HeldChange{Event: e, Status: status})
	out.Held = append(out.Held, put.Held...)
	if status == host.StatusDeleted || status == host.StatusExpired {
		return removeDependents(rows, r, &out.Held)
	}
	more, err := releaseDependents(rows, e, now)
	out.Add(more)
	return err
}

// statusOf returns what became of a held event that was put.
func statusOf(put host.Outcome) host.HeldStatus {
	switch {
	case put.Code == host.Stored:
		return host.StatusReleased
	case put.Reason == semantics.ReasonDeleted, put.Reason == semantics.ReasonUnwanted,
		put.Reason == semantics.ReasonVanished, put.Reason == semantics.ReasonRecipientVanished:
		return host.StatusDeleted
	case put.Reason == semantics.ReasonExpired:
		return host.StatusExpired
	case put.Reason == semantics.ReasonNewer:
		return host.StatusReplaced
	}
	return host.StatusStored
}

// status says, as far as it is known, why an event is not held. Anybody may have asked for the
// deletion of an id that is nowhere.
func (t Traces) status() host.HeldStatus {
	switch {
	case t.Stored:
		return host.StatusStored
	case t.Gone:
		return host.StatusExpired
	case t.Deleted:
		return host.StatusDeleted
	}
	return host.StatusAbsent
}
