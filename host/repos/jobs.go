package repos

import (
	"context"
	"maps"
	"sync"
	"time"

	"talon/host"
	rules "talon/sdk/grasp"
)

// task is what a job has to look at beyond the state of things.
type task struct {
	all          bool                 // every pull request, not only those of ids
	ids          map[host.ID]struct{} // pull requests, or refs that wait for one
	removedPulls map[host.ID]struct{} // of them, those that were removed

	// removed says that an event, or its end, took the announcement away: a
	// repository without one is to go.
	removed bool

	newObjects bool // objects have come

	// authors are maintainers whose events changed: of a task for an identifier.
	authors map[rules.PubKey]struct{}
	except  map[location]struct{} // repositories that are in line with that already
}

func (t *task) merge(other task) {
	t.all = t.all || other.all
	t.removed = t.removed || other.removed
	t.newObjects = t.newObjects || other.newObjects
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

// identifier is the key of the job that finds out whose repositories an event is
// about.
type identifier string

// jobs are those that run or wait to run: one for each key, which is a place or an
// identifier.
type jobs struct {
	mu      sync.Mutex // guards what follows
	pending map[any]*job
	closed  bool

	start   func(key any, j *job) // runs a job that is new; it must not block
	running sync.WaitGroup
}

// job is a place at work. What is added while it works makes another round.
type job struct {
	next task
	due  bool          // another round is asked for
	done chan struct{} // closed when the rounds that were asked for so far have ended
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
	j := js.pending[key]
	if j == nil {
		j = new(job)
		if js.pending == nil {
			js.pending = make(map[any]*job)
		}
		js.pending[key] = j
		js.running.Add(1)
		js.start(key, j)
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
	return j.next, j.done, true
}

// waitIdle waits until the rounds that were asked for before have ended, for so long
// at most.
func (js *jobs) waitIdle(ctx context.Context, key any, limit time.Duration) {
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
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-done:
	case <-ctx.Done():
	case <-timer.C:
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
		err := f.ctx.Err()
		if err == nil {
			switch key := key.(type) {
			case location:
				err = f.reconcile(f.ctx, key, t)
			case identifier:
				err = f.fanOut(f.ctx, string(key), t)
			}
		}
		f.metrics.ran(began, err)
		if err != nil && f.ctx.Err() == nil {
			f.log.Error("bring a repository in line", "repository", key, "err", err)
		}
		close(done)
	}
}
