package daemon

import (
	"errors"
	"log/slog"
	"sync"

	"talon/host/config"
	"talon/host/diskspace"
)

// reloading is what a daemon needs to take over a changed configuration.
type reloading struct {
	load  func() (*config.Config, error) // reads the configuration again
	level *slog.LevelVar                 // of the log

	mu      sync.Mutex       // guards what follows
	running *config.Config   // as applied so far
	space   *diskspace.Watch // nil until the daemon serves
}

var errNoReload = errors.New("this process cannot read its configuration again: restart it")

// Reloads lets Reload read the configuration again, and set the level of the log. Call it before
// Run.
func (d *Daemon) Reloads(load func() (*config.Config, error), level *slog.LevelVar) {
	running := *d.cfg
	d.reload.load, d.reload.level, d.reload.running = load, level, &running
}

// Reload reads the configuration again. It applies what a running server can take over, and
// returns all that differs. If the configuration is wrong nothing changes.
func (d *Daemon) Reload() ([]config.Change, error) {
	r := &d.reload
	if r.load == nil {
		return nil, errNoReload
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	notifyReloading(d.log)
	defer notifyReady(d.log)
	next, err := r.load()
	if err != nil {
		d.log.Error("the configuration is wrong and was not applied", "err", err)
		return nil, err
	}
	changes := r.running.Changes(next)
	r.running.LogLevel, r.running.MinFree, r.running.MinFreePercent = next.LogLevel, next.MinFree, next.MinFreePercent
	var level slog.Level
	_ = level.UnmarshalText([]byte(next.LogLevel)) // the configuration has checked the name
	r.level.Set(level)
	if r.space != nil {
		r.space.SetMin(minFree(next))
	}
	for _, c := range changes {
		if c.Applied {
			d.log.Info("option applied", "option", c.Option, "from", c.From, "to", c.To)
		} else {
			d.log.Warn("option needs a restart", "option", c.Option, "from", c.From, "to", c.To)
		}
	}
	d.log.Info("configuration read", "changes", len(changes))
	return changes, nil
}

// watchSpace makes the bound of free space follow reloads.
func (r *reloading) watchSpace(space *diskspace.Watch) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.space = space
	if r.running != nil {
		space.SetMin(minFree(r.running)) // a reload may have come while the server started
	}
}

func minFree(cfg *config.Config) diskspace.Min {
	return diskspace.Min{Bytes: cfg.MinFree, Percent: cfg.MinFreePercent}
}
