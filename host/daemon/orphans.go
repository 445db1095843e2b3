package daemon

import (
	"context"
	"time"

	"talon/host"
	"talon/host/orphans"
)

// orphanRole removes events of announcements that are gone, on whichever node it is.
type orphanRole struct{ *role[*orphans.Sweeper] }

func (o orphanRole) Publish(events []host.Published) {
	if p := o.part(); p != nil {
		p.Publish(events)
	}
}

func (o orphanRole) Follow(removed []*host.Event, held []host.HeldChange) {
	if p := o.part(); p != nil {
		p.Follow(removed, held)
	}
}

// openOrphans sets up the removal of events that only an announcement justified which is gone.
func (d *Daemon) openOrphans(ctx context.Context, core *Core) (*orphanRole, error) {
	r, err := openRole(ctx, "orphans", core.Node, d.parts, d.log, func(context.Context) (*orphans.Sweeper, error) {
		return orphans.New(orphans.Config{
			Store: facts{core.Store}, Policy: core.Plugins, Remove: core.Pipeline.Remove, Panics: d.parts, Log: d.log, Now: time.Now,
		}), nil
	})
	if err != nil {
		return nil, err
	}
	return &orphanRole{r}, nil
}
