package repos

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"talon/host"
	"talon/host/purgatory"
)

// placeholders are the refs under refs/nostr/ whose event has not come. The rows in
// the store are the truth; this is what is asked all the time.
type placeholders struct {
	store Placeholders

	mu   sync.Mutex // guards what follows
	rows map[placeholder]int64
}

// load adds the rows of the store to those that are known already.
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

type placeholder struct {
	repo string
	id   host.ID
}

// dropAtOnce bounds how many rows go in one transaction: events wait for it.
const dropAtOnce = 500

// lookAgain is how long expirePlaceholders waits at most. The time of a ref that comes during
// the wait is longer. Jobs that failed are asked for again.
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
