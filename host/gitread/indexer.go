package gitread

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"talon/host/contain"
	"talon/host/gitrepo"
)

const (
	// maxIndexing is how many repositories wait for their history to be indexed.
	maxIndexing = 64

	// indexPause is how long a repository is not indexed again.
	indexPause = time.Minute
)

// indexer writes the commit-graphs of repositories that pages need, one at a time. Maintenance
// writes those of all.
type indexer struct {
	log    *slog.Logger
	panics *contain.Guard

	mu      sync.Mutex // guards the fields below
	queue   []indexing
	running bool
	done    map[string]time.Time // when a repository was indexed, by its folder
}

type indexing struct {
	repo  *gitrepo.Repo
	paths bool
}

func newIndexer(log *slog.Logger, panics *contain.Guard) *indexer {
	return &indexer{log: log, panics: panics, done: make(map[string]time.Time)}
}

// enqueue has the history of a repository indexed. It does nothing if that waits or was done a
// moment ago.
func (x *indexer) enqueue(repo *gitrepo.Repo, paths bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	now := time.Now()
	for dir, at := range x.done {
		if now.Sub(at) > indexPause {
			delete(x.done, dir)
		}
	}
	if _, lately := x.done[repo.Dir()]; lately || len(x.queue) >= maxIndexing {
		return
	}
	x.done[repo.Dir()] = now
	x.queue = append(x.queue, indexing{repo, paths})
	if !x.running {
		x.running = true
		go x.run()
	}
}

// run indexes what waits.
func (x *indexer) run() {
	for {
		x.mu.Lock()
		if len(x.queue) == 0 {
			x.running = false
			x.mu.Unlock()
			return
		}
		next := x.queue[0]
		x.queue = x.queue[1:]
		x.mu.Unlock()
		x.write(next)
	}
}

// write indexes a repository. Pages wait for the parents of commits, so that those come first.
func (x *indexer) write(next indexing) {
	ctx, cancel := context.WithTimeout(context.Background(), 15*time.Minute)
	defer cancel()
	err := x.panics.Run(func() error {
		if !next.paths {
			if err := next.repo.WriteCommitGraph(ctx, false); err != nil {
				return err
			}
		}
		return next.repo.WriteCommitGraph(ctx, true)
	})
	if err != nil {
		x.log.Error("index the history of a repository", "folder", next.repo.Dir(), "err", err)
	}
}
