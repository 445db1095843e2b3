package gitread

import (
	"context"
	"errors"
	"sync"
	"time"

	"talon/host/bound"
	"talon/host/gitrepo"
)

const (
	// maxLater is how much work waits in the background.
	maxLater = 64

	// laterTime bounds one piece of it.
	laterTime = 20 * time.Second
)

// background knows the work that requests have left for later, by keys. It is safe for concurrent use.
type background struct {
	mu      sync.Mutex // guards waiting
	waiting map[string]bool
	all     sync.WaitGroup // for tests: the work that was started
}

// start notes a key. It reports false if work of that key waits already, or too much waits.
func (b *background) start(key string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.waiting[key] || len(b.waiting) >= maxLater {
		return false
	}
	if b.waiting == nil {
		b.waiting = make(map[string]bool)
	}
	b.waiting[key] = true
	return true
}

func (b *background) end(key string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.waiting, key)
}

// later does work about a repository in the background, one piece at a time for all repositories. It
// does nothing if work of that key waits already, or too much waits: a later request asks again.
func (r *Reader) later(repo *gitrepo.Repo, by bound.Holder, key string, work func(repository *Repository) error) {
	r.laterOf(func(context.Context) (*gitrepo.Repo, error) { return repo, nil }, by, key, work)
}

// laterOf is later for a repository that find finds then, nil if it is not here any more.
func (r *Reader) laterOf(find Finder, by bound.Holder, key string, work func(repository *Repository) error) {
	if !r.background.start(key) {
		return
	}
	r.background.all.Go(func() {
		defer r.background.end(key)
		err := r.panics.Run(func() error { return r.inTurn(find, by, work) })
		if err != nil && !errors.Is(err, bound.ErrFull) && !errors.Is(err, bound.ErrShare) && !errors.Is(err, gitrepo.ErrNotFound) {
			r.log.Error("prepare a page in the background", "work", key, "err", err)
		}
	})
}

// inTurn opens a repository and does work about it when it has its turn.
func (r *Reader) inTurn(find Finder, by bound.Holder, work func(repository *Repository) error) error {
	ctx, cancel := context.WithTimeout(context.Background(), maxLater*laterTime)
	defer cancel()
	if err := r.costly.Acquire(ctx, by); err != nil {
		return err
	}
	defer r.costly.Release()
	ctx, end := context.WithTimeout(ctx, laterTime)
	defer end()
	repo, err := find(ctx)
	if err != nil || repo == nil {
		return err
	}
	repository, err := r.Open(ctx, repo, by)
	if err != nil {
		return err
	}
	defer repository.Close()
	return work(repository)
}

// maxFilled is how many folders of a repository are filled after a push.
const maxFilled = 4

// Finder returns a repository that may be seen, nil if there is none.
type Finder func(ctx context.Context) (*gitrepo.Repo, error)

// Fill prepares what the pages of a repository show of its default branch, in the background: the
// last changes in its root and in folders that somebody looked at lately, and its [Repository.ByteCounts].
// It does nothing about a repository whose pages nobody looked at lately. Name names the repository.
func (r *Reader) Fill(name string, find Finder, classify func(path string) string) {
	r.laterOf(find, bound.Holder{}, "fill "+name, func(repository *Repository) error {
		folders := r.changes.folders(repository.repo.Dir(), maxFilled)
		head, ok := repository.HEAD()
		if !ok || len(folders) == 0 {
			return nil
		}
		for _, folder := range folders {
			// A folder may have gone.
			if err := repository.findChanges(head.Commit, folder); err != nil && !errors.Is(err, ErrNotFound) {
				return err
			}
		}
		return repository.countBytes(head, classify)
	})
}
