package enforce

import (
	"context"

	"talon/host"
	"talon/host/moderation"
)

// Count returns what a row would concern: events and repositories that are stored or held. The
// row need not be in the log.
func (e *Enforcer) Count(ctx context.Context, r *moderation.Row) (sum Progress, err error) {
	row := *r
	if row.At == 0 {
		row.At = e.cfg.Now().Unix()
	}
	seen := make(map[host.ID]struct{})
	count := func(list []*host.Event) error {
		for _, event := range list {
			if _, twice := seen[event.ID]; twice {
				continue
			}
			seen[event.ID] = struct{}{}
			sum.Events++
			sum.Bytes += int64(len(event.JSON))
			if event.Kind == host.KindAnnouncement {
				sum.Repositories++
			}
		}
		return nil
	}
	switch row.Action {
	case moderation.Unban, moderation.Unhide:
		one := moderation.Of(moderation.Row{Number: 1, UID: row.UID, At: row.At, Action: moderation.Ban, Target: row.Target})
		err = e.eachHidden(ctx, func(list []*host.Event) error {
			for _, event := range list {
				if one.Event(event, row.At) != nil {
					if err := count([]*host.Event{event}); err != nil {
						return err
					}
				}
			}
			return nil
		})
	case moderation.Ban, moderation.Hide, moderation.Purge:
		if err = e.eachBarred(ctx, &row, count, true); err == nil && row.Action == moderation.Purge {
			err = e.purgeHidden(ctx, &row, count)
		}
	}
	return sum, err
}
