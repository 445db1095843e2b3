package repos

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"talon/host"
	"talon/host/maintainers"
	"talon/sdk/grasp"
)

// task is what a job has to look at beyond the state of things.
type task struct {
	all          bool                 // every pull request, not only those of ids
	ids          map[host.ID]struct{} // pull requests, or refs that wait for one
	removedPulls map[host.ID]struct{} // of them, those that were removed

	// removed says that an event, or its end, took the announcement away. A repository without
	// an announcement goes.
	removed bool

	newObjects bool // objects have come
	urgent     bool // a push waits for the round

	overtake <-chan struct{} // of the job: closed when a push waits for it

	// authors are maintainers whose events changed: of a task for an identifier.
	authors map[grasp.PubKey]struct{}
	except  map[location]struct{} // repositories that are in line with that already
}

func (t *task) merge(other task) {
	t.all = t.all || other.all
	t.removed = t.removed || other.removed
	t.newObjects = t.newObjects || other.newObjects
	t.urgent = t.urgent || other.urgent
	mergeSet(&t.ids, other.ids)
	mergeSet(&t.removedPulls, other.removedPulls)
	mergeSet(&t.authors, other.authors)
	// Only what all of them have done is done.
	if t.except == nil || other.except == nil {
		t.except = nil
		return
	}
	maps.DeleteFunc(t.except, func(p location, _ struct{}) bool {
		_, both := other.except[p]
		return !both
	})
}

func mergeSet[K comparable](set *map[K]struct{}, more map[K]struct{}) {
	if *set == nil {
		*set = maps.Clone(more)
		return
	}
	maps.Copy(*set, more)
}

func setOf[K comparable](list ...K) map[K]struct{} {
	set := make(map[K]struct{}, len(list))
	for _, k := range list {
		set[k] = struct{}{}
	}
	return set
}

// identifier is the key of the job that finds the repositories of an identifier which an
// event concerns.
type identifier string

// withdrawn is the key of the job that finds out whether an author has no state of an identifier
// any more.
type withdrawn grasp.Repo

// LogValue returns the address of the author's repository, for log lines of every format.
func (w withdrawn) LogValue() slog.Value { return slog.StringValue(grasp.Repo(w).Address()) }

// repacking is the key of the job that repacks the objects of a repository.
type repacking location

// LogValue returns the path, for log lines of every format.
func (r repacking) LogValue() slog.Value { return location(r).LogValue() }

// jobs are those that run or wait to run: one for each key, which is a location, an
// identifier, a withdrawn, a repacking or a measuring.
type jobs struct {
	mu      sync.Mutex // guards what follows
	pending map[any]*job
	failed  map[any]*failedRound
	closed  bool

	start   func(key any, j *job) // runs a job that is new; it must not block
	running sync.WaitGroup
}

// job is a place at work. A task that is added while it works makes another round.
type job struct {
	next task
	due  bool          // another round is asked for
	done chan struct{} // closed when the rounds that were asked for so far have ended

	overtake   chan struct{} // closed when a push waits for a round
	overtaking bool          // it is closed
}

// enqueue asks for a round of a key's job. It does not block. The channel is closed when
// that round has ended, or is closed already if there are no more rounds.
func (js *jobs) enqueue(key any, t task) <-chan struct{} {
	js.mu.Lock()
	defer js.mu.Unlock()
	if js.closed {
		done := make(chan struct{})
		close(done)
		return done
	}
	if r := js.failed[key]; r != nil && r.waiting {
		r.waiting = false
		r.timer.Stop()
		t.merge(r.task)
	}
	j := js.pending[key]
	if j == nil {
		j = &job{overtake: make(chan struct{})}
		if js.pending == nil {
			js.pending = make(map[any]*job)
		}
		js.pending[key] = j
		js.running.Add(1)
		js.start(key, j)
	}
	if t.urgent && !j.overtaking {
		j.overtaking = true
		close(j.overtake)
	}
	if j.due {
		j.next.merge(t)
		return j.done
	}
	j.next, j.due, j.done = t, true, make(chan struct{})
	return j.done
}

// dequeue returns the task of a job's next round and what to close after it. It
// reports false, and the job has ended, if there is none.
func (js *jobs) dequeue(key any, j *job) (t task, done chan struct{}, ok bool) {
	js.mu.Lock()
	defer js.mu.Unlock()
	if !j.due {
		delete(js.pending, key)
		js.running.Done()
		return task{}, nil, false
	}
	j.due = false
	if j.overtaking && !j.next.urgent {
		j.overtake, j.overtaking = make(chan struct{}), false
	}
	j.next.overtake = j.overtake
	return j.next, j.done, true
}

// failedRound is the task of a round that failed. The key's next round does it too.
type failedRound struct {
	task    task
	waiting bool        // no round has taken the task yet
	timer   *time.Timer // asks for a round
	times   int         // that rounds of the key failed in a row
}

// Pauses before a failed round is made again: each is twice as long as the one before. An event
// that waits for it loses the time, so the first is short. A repository that cannot be brought in
// line costs one round an hour.
const (
	minRetryPause = time.Second
	maxRetryPause = time.Hour
)

// retry has a failed task done again: with the next round if one is asked for, else after a pause.
func (js *jobs) retry(key any, t task) {
	t.urgent, t.overtake = false, nil // the push that waited has its answer
	js.mu.Lock()
	defer js.mu.Unlock()
	if j := js.pending[key]; j.due {
		j.next.merge(t)
		return
	}
	r := js.failed[key]
	if r == nil {
		r = new(failedRound)
		if js.failed == nil {
			js.failed = make(map[any]*failedRound)
		}
		js.failed[key] = r
	}
	r.task, r.waiting = t, true
	pause := min(minRetryPause<<min(r.times, 20), maxRetryPause)
	r.times++
	r.timer = time.AfterFunc(pause, func() { js.enqueue(key, task{}) })
}

// succeeded forgets the failures of a key: its round did what they left.
func (js *jobs) succeeded(key any) {
	js.mu.Lock()
	defer js.mu.Unlock()
	if r := js.failed[key]; r != nil && !r.waiting {
		delete(js.failed, key)
	}
}

// waitIdle waits until the rounds that were asked for before have ended, or ctx ends.
func (js *jobs) waitIdle(ctx context.Context, key any) {
	js.mu.Lock()
	j := js.pending[key]
	var done chan struct{}
	if j != nil {
		done = j.done
	}
	js.mu.Unlock()
	if done == nil {
		return
	}
	select {
	case <-done:
	case <-ctx.Done():
	}
}

// len is the number of jobs.
func (js *jobs) len() int {
	js.mu.Lock()
	defer js.mu.Unlock()
	return len(js.pending)
}

// close makes no more rounds than those that were asked for, and waits for them.
func (js *jobs) close() {
	js.mu.Lock()
	js.closed = true
	js.mu.Unlock()
	js.running.Wait()
}

// runJob runs the rounds of a job.
func (f *Reconciler) runJob(key any, j *job) {
	for {
		t, done, ok := f.jobs.dequeue(key, j)
		if !ok {
			return
		}
		began := time.Now()
		// A panic fails this round. Each round begins with what is on the disk and in the store, so
		// one that failed can be made again.
		err := f.panics.Run(func() error { return f.round(key, t) })
		f.metrics.ran(began, err)
		switch {
		case err == nil:
			f.jobs.succeeded(key)
		case f.ctx.Err() == nil:
			f.log.Error("bring a repository in line", "repository", key, "err", err)
			f.jobs.retry(key, t)
		}
		close(done)
	}
}

// round does a task.
func (f *Reconciler) round(key any, t task) error {
	if err := f.ctx.Err(); err != nil {
		return err
	}
	switch key := key.(type) {
	case location:
		err := f.reconcile(f.ctx, key, t)
		if t.newObjects || t.all || t.removed {
			f.jobs.enqueue(measuring(key.Repo), task{})
		}
		return err
	case identifier:
		return f.fanOut(f.ctx, string(key), t)
	case withdrawn:
		return f.followRemaining(f.ctx, key)
	case repacking:
		return f.repack(f.ctx, location(key))
	case measuring:
		return f.measure(f.ctx, grasp.Repo(key))
	}
	return nil
}

// Publish enqueues the jobs of events that are served now.
func (f *Reconciler) Publish(events []host.Published) {
	for _, p := range events {
		f.onEvent(p.Event, task{})
	}
}

// Follow enqueues the jobs of removed events, and of those in purgatory. An event that
// was answered has its jobs already.
func (f *Reconciler) Follow(removed []*host.Event, held []host.HeldChange) {
	for _, e := range removed {
		if e.Kind == grasp.KindState {
			if s, err := e.State(); err == nil && s.Tracks() {
				f.jobs.enqueue(withdrawn{PubKey: s.PubKey, Identifier: s.Identifier}, task{})
			}
			continue
		}
		f.onEvent(e, removalTask(e))
	}
	for _, c := range held {
		switch c.Status {
		case host.StatusHeld, host.StatusRevived:
			f.onEvent(c.Event, task{})
		case host.StatusDormant, host.StatusExpired, host.StatusDeleted:
			f.onEvent(c.Event, removalTask(c.Event))
		}
	}
}

func removalTask(e *host.Event) task {
	if e.Kind == grasp.KindAnnouncement {
		return task{removed: true}
	}
	return task{removedPulls: setOf(e.ID)}
}

// onEvent asks for the jobs of an event that came or went.
func (f *Reconciler) onEvent(e *host.Event, t task) {
	switch e.Kind {
	case grasp.KindAnnouncement:
		a, err := e.Announcement()
		if err != nil {
			return
		}
		if _, done := f.alreadyReconciled(e); !done {
			f.jobs.enqueue(location{Repo: a.Repo()}, t)
		}
		f.jobs.enqueue(identifier(a.Identifier), task{all: t.all, authors: setOf(a.PubKey), except: setOf(location{Repo: a.Repo()})})
	case grasp.KindState:
		s, err := e.State()
		if err != nil || !s.Tracks() {
			return
		}
		next := task{all: t.all, authors: setOf(s.PubKey)}
		if p, done := f.alreadyReconciled(e); done {
			next.except = setOf(p)
		}
		f.jobs.enqueue(identifier(s.Identifier), next)
	case grasp.KindPullRequest, grasp.KindPRUpdate:
		pr, err := e.PullRequest()
		if err != nil {
			return
		}
		from, done := f.alreadyReconciled(e)
		t.ids = setOf(e.ID)
		for _, repo := range pr.Repos {
			if p := (location{Repo: repo}); !done || p != from {
				f.jobs.enqueue(p, t)
			}
		}
		if repo, ok := pr.PRsRepo(f.cfg.Service); ok && f.disk.PRs != nil {
			if p := (location{Repo: repo, prs: true}); !done || p != from {
				f.jobs.enqueue(p, t)
			}
		}
	}
}

// alreadyReconciled returns the place whose own job releases an event.
func (f *Reconciler) alreadyReconciled(e *host.Event) (location, bool) {
	p, ok := f.inFlightReleases.Load(e.ID)
	if !ok {
		return location{}, false
	}
	return p.(location), true
}

// followRemaining asks for the jobs of the repositories that an author maintains, after a state
// of that author was removed: their refs follow the newest state that remains. A state that was
// replaced leaves nothing to do, since its successor asks for the same jobs.
func (f *Reconciler) followRemaining(ctx context.Context, of withdrawn) error {
	left, err := f.states(ctx, of.Identifier, []grasp.PubKey{of.PubKey})
	if err != nil || slices.ContainsFunc(left, func(c grasp.Candidate) bool { return c.Served }) {
		return err
	}
	f.jobs.enqueue(identifier(of.Identifier), task{authors: setOf(of.PubKey)})
	return nil
}

// fanOut asks for the jobs of all repositories of an identifier that some authors
// maintain.
func (f *Reconciler) fanOut(ctx context.Context, identifier string, t task) error {
	if !f.disk.Announced.Shares(identifier) {
		return nil // none of them has a folder, and none has objects to make one for
	}
	for author := range t.authors {
		// This finds each owner whom the author counts as a maintainer, however many others name
		// the author.
		list, err := maintainers.Below(ctx, f.cfg.Store, identifier, author)
		if err != nil {
			return err
		}
		g := maintainers.Graph(list)
		counts, owners := g.Maintainers(author), g.Owners(author)
		named, err := maintainers.Owners(ctx, f.cfg.Store, identifier, author)
		if err != nil {
			return err
		}
		served := make(map[grasp.PubKey]bool)
		for _, a := range list {
			served[a.PubKey] = served[a.PubKey] || !a.Held
		}
		for _, owner := range named {
			served[owner.PubKey] = served[owner.PubKey] || !owner.Held
			if !slices.Contains(owners, owner.PubKey) {
				owners = append(owners, owner.PubKey)
			}
		}
		shared, err := f.hasShared(ctx, identifier, append(slices.Clone(counts), author))
		if err != nil {
			return err
		}
		unserved := make(map[bool]int) // by whether the author counts the owner
		for _, owner := range owners {
			p := location{Repo: grasp.Repo{PubKey: owner, Identifier: identifier}}
			if _, done := t.except[p]; done {
				continue
			}
			if !served[owner] {
				mutual := slices.Contains(counts, owner)
				if unserved[mutual]++; unserved[mutual] > maxUnserved || !shared && !f.disk.hasFolder(p) {
					continue
				}
			}
			f.jobs.enqueue(p, task{all: t.all})
		}
	}
	return nil
}

// hasShared reports whether the data of a state by these authors may be here, in a repository of
// the identifier. Without such data, a job does nothing for a repository that has no folder.
func (f *Reconciler) hasShared(ctx context.Context, identifier string, authors []grasp.PubKey) (bool, error) {
	states, err := f.trackedStates(ctx, identifier, authors)
	if err != nil {
		return false, err
	}
	repo, err := f.disk.repo(location{Repo: grasp.Repo{PubKey: authors[0], Identifier: identifier}})
	if err != nil {
		return false, nil // no repository can have the name
	}
	_, found := sharedState(repo, states)
	return found, nil
}

// maxUnserved bounds the repositories that follow an author and whose announcements nobody serves:
// those whose owners the author counts as maintainers, and as many others. Without it, one event
// makes a thousand jobs if a thousand announcements name its author, or one another.
const maxUnserved = 32
