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
	count := func(list []*host.Event) error {
		for _, event := range list {
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
		err = e.eachHidden(ctx, e.hiddenOf(&row.Target), func(list []*host.Event) error {
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
		s := e.scopeOf(&row)
		if err = e.each(ctx, s, count, true); err == nil && row.Action == moderation.Purge {
			err = e.eachConcernedHidden(ctx, s, count)
		}
	}
	return sum, err
}
