package daemon

import (
	"context"
	"errors"
	"time"

	"talon/host/gitfetch"
	"talon/host/gitfetch/queue"
	"talon/host/plugin"
	"talon/host/plugin/guest"
	"talon/host/repos"
	"talon/sdk/abi/manifest"
	"talon/sdk/grasp"
)

// openHunt sets up the search for git data that other servers have, nil if the
// operator wants none.
func (d *Daemon) openHunt(ctx context.Context, core *Core, repositories *repos.Reconciler) (*gitfetch.Hunter, error) {
	if !d.cfg.Hunt {
		return nil, nil
	}
	own, err := grasp.ParseService(d.cfg.Service())
	if err != nil {
		return nil, err
	}
	clamps := queue.DefaultClamps
	clamps.All, clamps.AtOnce, clamps.PerMinute = d.cfg.HuntRequests, d.cfg.HuntDomainRequests, d.cfg.HuntDomainRate
	limits := gitfetch.DefaultLimits
	limits.Bytes = d.cfg.PackSize
	return gitfetch.New(ctx, gitfetch.Config{
		Forge:     repositories,
		Module:    throttle{core.Plugins.Reducer(manifest.WorldThrottle, nil)},
		Disk:      knownRelays{core.Store, knownGit},
		Addresses: gitfetch.Addresses{Own: own, Private: d.cfg.AllowPrivate},
		Clamps:    clamps,
		Limits:    limits,
		Log:       d.log,
		Now:       time.Now,
		Prefix:    d.cfg.MetricsPrefix,
	}), nil
}

// throttle is the plugin that says how hard to press on git servers.
type throttle struct{ plugin *plugin.Reducer }

func (t throttle) Ask(ctx context.Context, q gitfetch.Question, request []byte, now int64) ([]byte, error) {
	f := [gitfetch.Questions]guest.Func{
		gitfetch.Delay: guest.ThrottleDelay,
		gitfetch.Admit: guest.ThrottleAdmit,
		gitfetch.After: guest.ThrottleAfter,
		gitfetch.Pick:  guest.ThrottlePick,
	}[q]
	answer, _, err := t.plugin.Call(ctx, f, request, now)
	if errors.Is(err, plugin.ErrNoPlugin) {
		err = gitfetch.ErrNoModule
	}
	return answer, err
}
