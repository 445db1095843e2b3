package daemon

import (
	"context"
	"time"

	"talon/host/gitfetch"
	"talon/host/gitfetch/queue"
	"talon/host/plugin"
	"talon/host/repos"
	"talon/sdk/abi/manifest"
	"talon/sdk/grasp"
)

// hunting is the hunt for git data (GRASP-02) of one term.
type hunting struct {
	*gitfetch.Hunter
	module *plugin.Reducer
}

// Run hunts until ctx ends.
func (h *hunting) Run(ctx context.Context) error {
	defer h.module.Close()
	return h.Hunter.Run(ctx)
}

// huntRole is the hunt, on whichever node it is.
type huntRole struct{ *role[*hunting] }

func (h huntRole) Held(e gitfetch.Event) {
	if p := h.part(); p != nil {
		p.Held(e)
	}
}

func (h huntRole) NoLongerHeld(e gitfetch.Event, released bool) {
	if p := h.part(); p != nil {
		p.NoLongerHeld(e, released)
	}
}

func (h huntRole) Status(_ context.Context, limit int) (gitfetch.Status, error) {
	return askPart(h.role, func(p *hunting) (gitfetch.Status, error) { return p.Hunter.Status(limit), nil })
}

func (h huntRole) FetchNow(_ context.Context, repository, identifier string) error {
	_, err := askPart(h.role, func(p *hunting) (any, error) { return nil, p.Hunter.FetchNow(repository, identifier) })
	return err
}

// openHunt sets up the search for git data that other servers have, nil if the
// operator wants none.
func (d *Daemon) openHunt(ctx context.Context, core *Core, repositories *repos.Reconciler) (*huntRole, error) {
	if !d.cfg.Hunt {
		return nil, nil
	}
	var own []grasp.Service
	for _, name := range d.cfg.Names() {
		service, err := grasp.ParseService(name)
		if err != nil {
			return nil, err
		}
		own = append(own, service)
	}
	clamps := queue.DefaultClamps
	clamps.All, clamps.AtOnce, clamps.PerMinute = d.cfg.HuntRequests, d.cfg.HuntDomainRequests, d.cfg.HuntDomainRate
	limits := gitfetch.DefaultLimits
	limits.Bytes = d.cfg.PackSize
	r, err := openRole(ctx, "hunt", core.node, d.hunt, d.log, func(ctx context.Context) (*hunting, error) {
		reducer := core.Plugins.Reducer(manifest.WorldThrottle, nil)
		return &hunting{module: reducer, Hunter: gitfetch.New(ctx, gitfetch.Config{
			Repos:     repositories,
			Module:    module{reducer},
			Disk:      knownRelays{core.Store, knownGit},
			Addresses: gitfetch.Addresses{Own: own, Private: d.cfg.AllowPrivate},
			Clamps:    clamps,
			Limits:    limits,
			Log:       d.log,
			Now:       time.Now,
			Prefix:    d.cfg.MetricsPrefix,
			Namer:     core.namer,
			Panics:    d.hunt,
			Full:      core.Space.Full,
		})}, nil
	})
	if err != nil {
		return nil, err
	}
	return &huntRole{r}, nil
}
