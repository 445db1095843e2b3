package repos

import (
	"context"
	"errors"
	"time"

	"golang.org/x/sync/errgroup"

	"talon/host"
	"talon/host/gitrepo"
	"talon/host/wire"
)

// start finds out what happened while nobody followed: first what purgatory waits
// for, then every repository, one after the other.
func (f *Reconciler) start(ctx context.Context) error {
	before := f.cfg.Now()
	err := f.cfg.Store.EachHeld(ctx, func(h host.HeldEvent) error {
		e, err := wire.ParseEvent(h.JSON)
		if err != nil {
			return err
		}
		t := task{all: true}
		if h.Dormant {
			t = removalTask(e)
		}
		err = f.panics.Run(func() error {
			f.onEvent(e, t)
			return nil
		})
		if err != nil {
			f.log.Error("ask for the job of a held event", "event", e.ID.String(), "err", err)
		}
		return f.repositoriesLeft(ctx)
	})
	if err != nil {
		return err
	}
	seen := make(map[string]struct{})
	return f.eachRepository(ctx, func(p location, repo *gitrepo.Repo) error {
		unlock, err := repo.Lock(ctx)
		if err != nil {
			return err
		}
		err = f.panics.Run(func() error { return errors.Join(repo.Recover(before), f.settleUsage(ctx, repo, seen)) })
		unlock()
		if err != nil {
			f.log.Error("clean up after git", "repository", p, "err", err)
		}
		return f.await(ctx, f.jobs.enqueue(p, task{all: true}))
	})
}

// lookAfterAll does, for all nodes, what time asks for, and what a lost node has left
// undone: it was about to, and nobody else follows what it has committed.
func (f *Reconciler) lookAfterAll(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	run := func(part func() error) { g.Go(func() error { return f.panics.Run(part) }) }
	run(func() error { return f.maintain(ctx) })
	run(func() error {
		return f.cfg.Nodes.EachLoss(ctx, func(ctx context.Context) error {
			if err := f.waiting.load(ctx); err != nil {
				return err
			}
			f.removeLost(ctx)
			return f.start(ctx)
		})
	})
	return g.Wait()
}

// removeLost removes the quarantines of lost nodes.
func (f *Reconciler) removeLost(ctx context.Context) {
	alive, err := f.cfg.Nodes.Alive(ctx)
	for _, root := range []*gitrepo.Root{f.disk.Announced, f.disk.PRs, f.disk.none} {
		if root != nil && err == nil {
			err = root.RemoveLost(alive)
		}
	}
	if err != nil && ctx.Err() == nil {
		f.log.Error("remove what lost nodes have left", "err", err)
	}
}

// repositoriesLeft waits while too many jobs wait.
func (f *Reconciler) repositoriesLeft(ctx context.Context) error {
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for f.jobs.len() > maxJobs && ctx.Err() == nil {
		select {
		case <-tick.C:
		case <-ctx.Done():
		}
	}
	return ctx.Err()
}

// maxJobs is how many jobs the start enqueues at a time.
const maxJobs = 1000

// eachRepository calls yield with every repository on disk.
func (f *Reconciler) eachRepository(ctx context.Context, yield func(location, *gitrepo.Repo) error) error {
	for _, prs := range []bool{false, true} {
		root := f.disk.root(prs)
		if root == nil {
			continue
		}
		var failed error
		err := root.List(func(name gitrepo.Name) bool {
			p, ok := locationOf(name, prs)
			if !ok {
				return true
			}
			if failed = ctx.Err(); failed == nil {
				failed = yield(p, root.Repo(name))
			}
			return failed == nil
		})
		if err := errors.Join(err, failed); err != nil {
			return err
		}
	}
	return nil
}

// keepUnreached is how long objects stay that no ref reaches: a fetch, or a push that
// is under way, may be about to name them.
const keepUnreached = 14 * 24 * time.Hour

// maintain does for every repository, now and then, what git maintenance does.
func (f *Reconciler) maintain(ctx context.Context) error {
	if f.cfg.Maintain == 0 {
		<-ctx.Done()
		return ctx.Err()
	}
	tick := time.NewTicker(f.cfg.Maintain)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return ctx.Err()
		}
		if err := f.maintainAll(ctx); err != nil {
			return err
		}
	}
}

// maintainAll goes through all repositories, one at a time, and then through what
// they share. A failure is logged, and the others go on.
func (f *Reconciler) maintainAll(ctx context.Context) error {
	began := time.Now()
	type store struct {
		identifier string
		prs        bool
	}
	stores := make(map[store]bool)
	n := 0
	err := f.eachRepository(ctx, func(p location, repo *gitrepo.Repo) error {
		if err := f.panics.Run(func() error { return f.maintainOne(ctx, repo) }); err != nil && ctx.Err() == nil {
			f.log.Error("maintain a repository", "repository", p, "err", err)
		}
		stores[store{p.Identifier, p.prs}] = true
		n++
		return nil
	})
	for s := range stores {
		for _, format := range []gitrepo.Format{gitrepo.SHA1, gitrepo.SHA256} {
			err := f.disk.root(s.prs).Collect(ctx, s.identifier, format, keepUnreached)
			if err != nil && ctx.Err() == nil {
				f.log.Error("drop objects that nothing reaches", "identifier", s.identifier, "prs", s.prs, "err", err)
			}
		}
	}
	if failed := f.eachRepository(ctx, func(p location, _ *gitrepo.Repo) error {
		f.jobs.enqueue(measuring(p.Repo), task{})
		return f.repositoriesLeft(ctx)
	}); failed != nil {
		err = errors.Join(err, failed)
	}
	f.removeLost(ctx)
	f.log.Info("repositories maintained", "repositories", n, "took", time.Since(began).Round(time.Millisecond))
	return err
}

func (f *Reconciler) maintainOne(ctx context.Context, repo *gitrepo.Repo) error {
	unlock, err := repo.Lock(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	if there, err := repo.Exists(); err != nil || !there {
		return err
	}
	return repo.Maintain(ctx)
}

// repack removes the copies that git appended to thin packs. One store at a time is repacked:
// nobody waits for it.
func (f *Reconciler) repack(ctx context.Context, p location) error {
	select {
	case f.repacks <- struct{}{}:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	defer func() { <-f.repacks }()
	repo, err := f.disk.repo(p)
	if err != nil || !repo.NeedsRepack() {
		return err // another repository of the identifier has had it done
	}
	began := time.Now()
	unlock, err := repo.Lock(ctx)
	if err != nil {
		return err
	}
	err = repo.Share(ctx)
	unlock()
	if err != nil {
		return err
	}
	if err := repo.Repack(ctx); err != nil {
		return err
	}
	f.log.Info("objects repacked", "repository", p, "took", time.Since(began).Round(time.Millisecond))
	return nil
}
