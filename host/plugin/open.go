package plugin

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"golang.org/x/sync/errgroup"

	"talon/host"
	"talon/host/contain"
	"talon/host/plugin/folder"
	"talon/host/plugin/guest"
	"talon/host/plugin/state"
)

// Open loads every plugin of the folder. A plugin that cannot be loaded is
// replaced by its last good generation. If there is none, and the plugin has not
// been refused before, Open fails: nothing has been decided without it so far.
func Open(ctx context.Context, o Options) (_ *Registry, err error) {
	o.setDefaults()
	r := &Registry{
		o:        o,
		journal:  newJournal(o.Decisions),
		slots:    make(map[string]*slot),
		watchers: make(map[watcher]struct{}),
		panics:   contain.New(contain.Plugins, o.Log),
		busy:     waves{log: o.Log, now: o.Now},
	}
	if r.cacheDir, err = filepath.Abs(o.CacheDir); err != nil {
		return nil, err
	}
	if r.state, err = state.Open(ctx, o.Disk, state.Options{Quota: o.StateQuota, Log: o.Log, Now: o.Now}); err != nil {
		return nil, fmt.Errorf("read what plugins remember: %w", err)
	}
	if o.History != "" {
		if r.history, err = folder.OpenHistory(o.History); err != nil {
			return nil, fmt.Errorf("open the last good plugins: %w", err)
		}
		for _, problem := range r.history.Problems() {
			o.Log.Warn("a last good plugin is lost", "problem", problem)
		}
	}
	r.metrics, r.events, r.others = newMetrics(), guest.NewEventCache(), none{r}
	if o.Nodes != nil {
		r.others = newShared(r, o.Nodes)
	}
	r.closing.Add(1)
	r.current.Store(newActiveSet(nil, nil, r.closeSet))
	defer func() {
		if err != nil {
			err = errors.Join(err, r.Close(context.WithoutCancel(ctx)))
		}
	}()
	return r, r.others.startFirst(ctx)
}

// Run saves what plugins remember and follows the files that they depend on,
// until ctx ends.
func (r *Registry) Run(ctx context.Context) error {
	var g errgroup.Group
	run := func(f func() error) { g.Go(func() error { return r.panics.Run(f) }) }
	run(func() error { return r.state.Run(ctx) })
	if r.o.Watch {
		run(func() error {
			return folder.Watch(ctx, r.o.Dir, folder.WatchOptions{Log: r.o.Log}, func() { r.contain(func() { r.reconcile(ctx) }) })
		})
	}
	run(func() error { return r.others.followOthers(ctx) })
	run(func() error {
		tick := time.NewTicker(refreshEvery)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				r.contain(func() { r.refresh(ctx) })
			case <-ctx.Done():
				return nil
			}
		}
	})
	return g.Wait()
}

// refreshEvery is how soon a change of a set's file is seen.
const refreshEvery = 2 * time.Second

func (r *Registry) refresh(ctx context.Context) {
	l := r.acquireSet()
	defer l.release()
	for _, s := range l.followers {
		if err := s.Refresh(ctx); err != nil && ctx.Err() == nil {
			r.o.Log.Warn("read a set again", "err", err)
		}
	}
}

// Published follows the nostr lists that sets are made of. It is called with
// every commit.
func (r *Registry) Published(ctx context.Context, events []host.Published) {
	l := r.acquireSet()
	defer l.release()
	for _, s := range l.followers {
		s.Published(ctx, events)
	}
}

// Close ends everything. It waits until ctx is done for calls under way. No
// method may be called afterwards.
func (r *Registry) Close(ctx context.Context) error {
	r.changing.Lock()
	defer r.changing.Unlock()
	r.refs.Lock()
	watchers := r.watchers
	r.watchers = nil
	r.refs.Unlock()
	for x := range watchers {
		x.close()
	}
	r.others.dropPrepared()
	r.current.Load().release()
	if r.fallback != nil {
		r.release(r.fallback)
	}
	closed := make(chan struct{})
	go func() {
		r.closing.Wait()
		close(closed)
	}()
	select {
	case <-closed:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("wait for plugins: %w", ctx.Err())
	}
}
