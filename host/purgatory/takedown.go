package purgatory

import (
	"talon/host"
	"talon/host/store/semantics"
)

// TakeDown takes events out of sight, removes them, or shows hidden ones again. Held events go
// in the first two cases: their authors may send them again when nothing bars them any more.
func TakeDown(rows Rows, t *host.Takedown, now int64) (out host.TakedownOutcome, err error) {
	for _, id := range append(t.Hide[:len(t.Hide):len(t.Hide)], t.Purge...) {
		r, err := rows.Held(id)
		if err != nil {
			return out, err
		}
		if r != nil {
			if err := remove(rows, []*Row{r}, host.StatusExpired, &out.Held); err != nil {
				return out, err
			}
		}
	}
	if err := hide(rows, t.Hide, &out); err != nil {
		return out, err
	}
	if err := purge(rows, t.Purge, &out); err != nil {
		return out, err
	}
	if err := drop(rows, t.Drop, &out); err != nil {
		return out, err
	}
	if t.Forget {
		if err := rows.ClearRefused(); err != nil {
			return out, err
		}
	}
	return out, show(rows, t, now, &out)
}

// drop removes stored events.
func drop(rows Rows, ids []host.ID, out *host.TakedownOutcome) error {
	stored, err := rows.StoredByID(ids)
	if err != nil || len(stored) == 0 {
		return err
	}
	removed, err := rows.Remove(stored)
	out.Removed = append(out.Removed, removed...)
	return err
}

// hide moves stored events to the hidden ones.
func hide(rows Rows, ids []host.ID, out *host.TakedownOutcome) error {
	stored, err := rows.StoredByID(ids)
	if err != nil || len(stored) == 0 {
		return err
	}
	removed, err := rows.Remove(stored)
	if err != nil {
		return err
	}
	for _, e := range removed {
		if err := rows.InsertHidden(e); err != nil {
			return err
		}
	}
	out.Removed = append(out.Removed, removed...)
	return nil
}

// purge removes stored and hidden events, and notes their ids.
func purge(rows Rows, ids []host.ID, out *host.TakedownOutcome) error {
	if len(ids) == 0 {
		return nil
	}
	refused := make([]semantics.RefusedID, 0, len(ids))
	hidden, err := rows.HiddenByID(ids)
	if err != nil {
		return err
	}
	for _, h := range hidden {
		refused = append(refused, semantics.RefusedID{ID: h.ID, CreatedAt: h.CreatedAt})
		// It counted for the refs of repositories until now.
		if e := (&Row{JSON: h.JSON}).Event(); e != nil {
			out.Removed = append(out.Removed, e)
		}
	}
	if err := rows.RemoveHidden(hidden); err != nil {
		return err
	}
	out.Purged += int64(len(hidden))
	stored, err := rows.StoredByID(ids)
	if err != nil {
		return err
	}
	for _, e := range stored {
		refused = append(refused, semantics.RefusedID{ID: e.ID, CreatedAt: e.CreatedAt})
	}
	removed, err := rows.Remove(stored)
	if err != nil {
		return err
	}
	out.Purged += int64(len(removed))
	out.Removed = append(out.Removed, removed...)
	return rows.AddRefused(refused)
}

// show stores hidden events again.
func show(rows Rows, t *host.Takedown, now int64, out *host.TakedownOutcome) error {
	hidden, err := rows.HiddenByID(t.Show)
	if err != nil {
		return err
	}
	for _, h := range hidden {
		e := (&Row{JSON: h.JSON, Audience: h.Audience}).Event()
		if e != nil && t.Barred != nil && t.Barred(e) {
			continue
		}
		if err := rows.RemoveHidden([]semantics.Hidden{h}); err != nil {
			return err
		}
		if e == nil {
			continue
		}
		put, err := Put(rows, e, now)
		if err != nil {
			return err
		}
		if put.Code == host.Stored {
			out.Published = append(out.Published, host.Published{Event: e, Seq: put.Seq})
		}
		for _, r := range put.Released {
			if r.Status == host.StatusReleased {
				out.Published = append(out.Published, host.Published{Event: r.Event, Seq: r.Seq})
			}
		}
		out.Removed = append(out.Removed, put.Removed...)
		out.Held = append(out.Held, put.Held...)
	}
	return nil
}
