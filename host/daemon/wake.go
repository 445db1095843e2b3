package daemon

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"talon/host"
	"talon/host/wake"
)

// wakeRole has policies decide again about events that wait for others, on whichever node it is.
type wakeRole struct{ *role[*wake.Waker] }

func (w wakeRole) Publish(events []host.Published) {
	if p := w.part(); p != nil {
		p.Publish(events)
	}
}

func (w wakeRole) Follow(removed []*host.Event, held []host.HeldChange) {
	if p := w.part(); p != nil {
		p.Follow(removed, held)
	}
}

func (w wakeRole) Missed() {
	if p := w.part(); p != nil {
		p.Missed()
	}
}

// Collectors returns the metrics. Panics count as those of the daemon's parts.
func (w wakeRole) Collectors() []prometheus.Collector {
	return []prometheus.Collector{w.termCollector()}
}

// openWake sets up what submits events to the pipeline again that a module has had wait for others.
func (d *Daemon) openWake(ctx context.Context, core *Core) (*wakeRole, error) {
	r, err := openRole(ctx, "wake", core.node, d.parts, d.log, func(context.Context) (*wake.Waker, error) {
		return wake.New(wake.Config{
			Store: facts{core.Store}, Submit: core.Pipeline.Submit, Settings: core.Plugins.Active,
			Panics: d.parts, Log: d.log, Now: time.Now,
		}), nil
	})
	if err != nil {
		return nil, err
	}
	return &wakeRole{r}, nil
}
