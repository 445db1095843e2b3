package daemon

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"talon/host"
	"talon/host/orphans"
)

// orphanRole removes events of announcements that are gone, on whichever node it is.
type orphanRole struct{ *role[orphanPart] }

// orphanPart is the sweeper of one term. It has no metrics: an event that goes counts where it is
// removed.
type orphanPart struct{ *orphans.Sweeper }

func (orphanPart) Collectors() []prometheus.Collector { return nil }

func (o orphanRole) Publish(events []host.Published) {
	if p := o.part(); p.Sweeper != nil {
		p.Publish(events)
	}
}

func (o orphanRole) Follow(removed []*host.Event, held []host.HeldChange) {
	if p := o.part(); p.Sweeper != nil {
		p.Follow(removed, held)
	}
}

// openOrphans sets up the removal of events that only an announcement justified which is gone.
func (d *Daemon) openOrphans(ctx context.Context, core *Core) (*orphanRole, error) {
	r, err := openRole(ctx, "orphans", core.node, d.parts, d.log, func(context.Context) (orphanPart, error) {
		return orphanPart{orphans.New(orphans.Config{
			Store: facts{core.Store}, Policy: core.Plugins, Panics: d.parts, Log: d.log, Now: time.Now,
			Remove: func(ctx context.Context, ids []host.ID) (int, error) {
				out, err := core.Pipeline.TakeDown(ctx, host.Takedown{Drop: ids})
				return len(out.Removed), err
			},
		})}, nil
	})
	if err != nil {
		return nil, err
	}
	return &orphanRole{r}, nil
}
