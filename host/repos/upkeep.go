package repos

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"talon/host"
	"talon/host/gitrepo"
	"talon/host/purgatory"
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
	return f.eachRepository(ctx, func(p location, repo *gitrepo.Repo) error {
		unlock, err := repo.Lock(ctx)
		if err != nil {
			return err
		}
		err = f.panics.Run(func() error { return repo.Recover(before) })
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
	if f.cfg.Nodes == nil {
		return
	}
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

// placeholders are the refs under refs/nostr/ whose event has not come. The rows in
// the store are the truth; this is what is asked all the time.
type placeholders struct {
	store Placeholders

	mu   sync.Mutex // guards what follows
	rows map[placeholder]int64
}

type placeholder struct {
	repo string
	id   host.ID
}

// load reads what is in the store, beside what is known already.
func (ps *placeholders) load(ctx context.Context) error {
	return ps.store.Placeholders(ctx, func(repo string, id host.ID, since int64) error {
		ps.mu.Lock()
		defer ps.mu.Unlock()
		ps.rows[placeholder{repo, id}] = since
		return nil
	})
}

// add notes a ref that waits for its event, and returns since when it does.
func (ps *placeholders) add(ctx context.Context, repo string, id host.ID, now int64) (since int64, err error) {
	key := placeholder{repo, id}
	ps.mu.Lock()
	since, ok := ps.rows[key]
	ps.mu.Unlock()
	if ok {
		return since, nil
	}
	if err := ps.store.AddPlaceholder(ctx, repo, id, now); err != nil {
		return 0, fmt.Errorf("note a ref that waits for its event: %w", err)
	}
	ps.mu.Lock()
	defer ps.mu.Unlock()
	ps.rows[key] = now
	return now, nil
}

// has reports whether a ref waits.
func (ps *placeholders) has(repo string, id host.ID) bool {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	_, ok := ps.rows[placeholder{repo, id}]
	return ok
}

// remove forgets refs that wait no longer.
func (ps *placeholders) remove(ctx context.Context, repo string, ids ...host.ID) error {
	var list []host.ID
	ps.mu.Lock()
	for _, id := range ids {
		if _, ok := ps.rows[placeholder{repo, id}]; ok {
			list = append(list, id)
		}
	}
	ps.mu.Unlock()
	for part := range slices.Chunk(list, dropAtOnce) {
		if err := ps.store.DropPlaceholder(ctx, repo, part...); err != nil {
			return fmt.Errorf("forget refs that waited for their event: %w", err)
		}
		ps.mu.Lock()
		for _, id := range part {
			delete(ps.rows, placeholder{repo, id})
		}
		ps.mu.Unlock()
	}
	return nil
}

// dropAtOnce bounds how many rows go in one transaction: events wait for it.
const dropAtOnce = 500

// removeRepo forgets all of a repository.
func (ps *placeholders) removeRepo(ctx context.Context, repo string) error {
	var list []host.ID
	ps.mu.Lock()
	for key := range ps.rows {
		if key.repo == repo {
			list = append(list, key.id)
		}
	}
	ps.mu.Unlock()
	return ps.remove(ctx, repo, list...)
}

// expired returns those whose time is up, by repository, and when the next one's is: zero
// if there is none.
func (ps *placeholders) expired(now int64) (list map[string][]host.ID, next int64) {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	for key, since := range ps.rows {
		if purgatory.PlaceholderExpired(since, now) {
			if list == nil {
				list = make(map[string][]host.ID)
			}
			list[key.repo] = append(list[key.repo], key.id)
		} else if at := since + purgatory.GitFirst; next == 0 || at < next {
			next = at
		}
	}
	return list, next
}

// len is the number of refs that wait.
func (ps *placeholders) len() int {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	return len(ps.rows)
}

// lookAgain is how long expirePlaceholders waits at most. What comes meanwhile has more
// time than that, and jobs that failed are asked for again.
const lookAgain = time.Minute

// expirePlaceholders asks for the jobs of those whose time is up, until ctx ends.
func (f *Reconciler) expirePlaceholders(ctx context.Context) error {
	for {
		wait, err := f.askForDue(ctx)
		if err != nil {
			return err
		}
		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
			timer.Stop()
			return ctx.Err()
		case <-timer.C:
		}
	}
}

// askForDue asks for the jobs of those whose time is up, and returns when to do it again.
func (f *Reconciler) askForDue(ctx context.Context) (wait time.Duration, err error) {
	now := f.cfg.Now()
	list, next := f.waiting.expired(now.Unix())
	for repo, ids := range list {
		p, ok := parseLocation(repo)
		if !ok {
			// The rows of a repository that cannot be are for nothing.
			if err := f.waiting.remove(ctx, repo, ids...); err != nil {
				return 0, err
			}
			continue
		}
		f.jobs.enqueue(p, task{ids: setOf(ids...)})
	}
	wait = lookAgain
	if next != 0 {
		wait = min(wait, time.Unix(next, 0).Sub(now)+time.Second)
	}
	return max(wait, time.Second), nil
}
