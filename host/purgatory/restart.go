package purgatory

import (
	"math"

	"talon/host"
)

// The 30 minutes of an announcement start again in four cases:
//
//   - Its author sends it again ([Hold]).
//   - A newer version replaces it ([Hold]): the new row starts now.
//   - A state event comes for it ([Hold], ExtendDeadline).
//   - A push to it is authorised ([Release], ExtendDeadline).

// restartAt restarts the held announcements at these addresses.
func restartAt(rows Rows, addresses []host.Address, now int64, changes *[]host.HeldChange) error {
	var announcements []host.Address
	seen := map[host.Address]bool{}
	for _, a := range addresses {
		if a.Kind == host.KindAnnouncement && !seen[a] {
			seen[a] = true
			announcements = append(announcements, a)
		}
	}
	if len(announcements) == 0 || !rows.MayHold(host.KindAnnouncement) {
		return nil
	}
	held, err := rows.HeldAt(announcements, math.MaxInt64)
	if err != nil {
		return err
	}
	for _, r := range held {
		if err := restart(rows, r, now, changes); err != nil {
			return err
		}
	}
	return nil
}

// restart restarts one announcement, if it is not too late. A dormant one is revived.
func restart(rows Rows, r *Row, now int64, changes *[]host.HeldChange) error {
	t, ok := Term{Announcement: true, Since: r.Since}.Restart(now)
	if !ok || t.Since == r.Since && !r.Dormant {
		return nil
	}
	e := r.Event()
	if e == nil {
		return rows.RemoveHeld([]*Row{r})
	}
	if r.Dormant {
		*changes = append(*changes, host.HeldChange{Event: e, Status: host.StatusRevived})
	}
	r.Since, r.Dormant = t.Since, false
	r.Due = Due(e, r.Since, r.Dormant)
	return rows.UpdateHeld(r)
}
