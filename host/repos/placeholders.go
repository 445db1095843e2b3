package repos

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"talon/host"
	"talon/host/grasp"
	rules "talon/sdk/grasp"
)

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
		if grasp.PlaceholderExpired(since, now) {
			if list == nil {
				list = make(map[string][]host.ID)
			}
			list[key.repo] = append(list[key.repo], key.id)
		} else if at := since + grasp.GitFirst; next == 0 || at < next {
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

// pullRequests gives each pull request that names the repository its ref, if its
// commit can be had, and takes refs away that are for nothing.
func (w *run) pullRequests(ctx context.Context) error {
	tips := make(map[host.ID]string)
	for _, ref := range w.refs.List {
		if id, ok := nostrRef(ref.Name); ok {
			tips[id] = ref.ID
		}
	}
	var list []pull
	ids := w.task.ids
	if w.task.all {
		var err error
		if list, err = w.f.pulls(ctx, w.place.Repo); err != nil {
			return err
		}
		ids = setOf[host.ID]()
		for id := range tips {
			ids[id] = struct{}{}
		}
		for _, p := range list {
			delete(ids, p.ID)
		}
		for id := range w.task.ids {
			ids[id] = struct{}{}
		}
	}
	if !w.task.all && (w.task.newObjects || w.refsChanged) {
		var err error
		if list, err = w.arrivedPulls(ctx, ids); err != nil {
			return err
		}
	}
	c := changes{run: w, tips: tips}
	for _, p := range list {
		if err := c.pull(ctx, p); err != nil {
			return err
		}
	}
	for id := range ids {
		p, known, err := w.f.pull(ctx, id)
		if err != nil {
			return err
		}
		switch {
		case p.PullRequest != nil:
			err = c.pull(ctx, p)
		case known:
			c.remove(id) // it is no pull request
		default:
			err = c.unknown(ctx, id)
		}
		if err != nil {
			return err
		}
	}
	return c.apply(ctx)
}

// arrivedPulls returns the pull requests that wait and whose commit is here, beyond those that
// are asked for: it may have come with a branch.
func (w *run) arrivedPulls(ctx context.Context, asked map[host.ID]struct{}) (list []pull, err error) {
	held, err := w.f.heldPulls(ctx, w.place.Repo)
	if err != nil || len(held) == 0 {
		return nil, err
	}
	commits := make([]string, len(held))
	for i, pr := range held {
		commits[i] = pr.Commit
	}
	found, err := w.repo.Has(ctx, commits...)
	if err != nil {
		return nil, err
	}
	for i, pr := range held {
		if _, ok := asked[pr.ID]; found[i] && !ok {
			list = append(list, pull{pr, true})
		}
	}
	return list, nil
}

// changes are what a run does to refs under refs/nostr/.
type changes struct {
	*run
	tips     map[host.ID]string
	updates  []rules.Update
	unneeded []host.ID // that wait for their event no longer
}

func (c *changes) remove(id host.ID) {
	if tip := c.tips[id]; tip != "" {
		c.updates = append(c.updates, rules.Update{Ref: nostrRefs + id.String(), Old: tip, New: zeros(tip)})
	}
	c.unneeded = append(c.unneeded, id)
}

// pull looks after the ref of one pull request.
func (c *changes) pull(ctx context.Context, p pull) error {
	tip := c.tips[p.ID]
	if tip != p.Commit {
		found, err := c.find(ctx, p)
		if err != nil {
			return err
		}
		if !found {
			if tip != "" {
				c.remove(p.ID)
			}
			return nil
		}
		old := tip
		if old == "" {
			old = zeros(p.Commit)
		}
		c.updates = append(c.updates, rules.Update{Ref: nostrRefs + host.ID(p.ID).String(), Old: old, New: p.Commit})
	}
	c.unneeded = append(c.unneeded, p.ID)
	if p.held {
		c.release = append(c.release, p.ID)
	}
	return nil
}

// find reports whether the repository has the commit of a pull request, after it has
// looked into the others that may have it.
func (c *changes) find(ctx context.Context, p pull) (bool, error) {
	names := false
	for _, repo := range p.Repos {
		names = names || repo == c.place.Repo
	}
	if !names {
		return false, nil
	}
	if there, err := c.repo.Connected(ctx, p.Commit); there || err != nil {
		return there, err
	}
	var places []location
	if repo, ok := p.PRsRepo(c.f.cfg.Service); ok {
		places = append(places, location{Repo: repo, prs: true})
	}
	for _, repo := range p.Repos {
		if repo != c.place.Repo && len(places) < maxSources {
			places = append(places, location{Repo: repo})
		}
	}
	for _, from := range places {
		other, err := c.f.disk.repo(from)
		if err != nil {
			continue
		}
		found, err := other.Has(ctx, p.Commit)
		if err != nil || !found[0] {
			continue // it is not there, or goes this very moment
		}
		if err := c.repo.Copy(ctx, other, p.Commit); err != nil {
			c.f.log.Warn("copy a pull request", "from", from, "to", c.place, "err", err)
			continue
		}
		return c.repo.Connected(ctx, p.Commit)
	}
	return false, nil
}

// maxSources bounds how many repositories are looked into for one pull request.
const maxSources = 16

// unknown looks after a ref whose event is not here.
func (c *changes) unknown(ctx context.Context, id host.ID) error {
	if _, gone := c.task.removedPulls[id]; gone {
		c.remove(id)
		return nil
	}
	if c.tips[id] == "" {
		c.unneeded = append(c.unneeded, id)
		return nil
	}
	now := c.f.cfg.Now().Unix()
	since, err := c.f.waiting.add(ctx, c.place.String(), id, now)
	if err != nil {
		return err
	}
	if grasp.PlaceholderExpired(since, now) {
		c.f.metrics.placeholders.Inc()
		c.remove(id)
	}
	return nil
}

// apply moves the refs. What cannot be moved is not released.
func (c *changes) apply(ctx context.Context) error {
	if len(c.updates) > 0 {
		if err := c.applyUpdates(ctx, c.updates); err != nil {
			c.run.release = withoutPulls(c.run.release, c.unneeded)
			return fmt.Errorf("set refs of pull requests: %w", err)
		}
	}
	return c.f.waiting.remove(ctx, c.place.String(), c.unneeded...)
}

func withoutPulls(ids, pulls []host.ID) []host.ID {
	gone := setOf(pulls...)
	var rest []host.ID
	for _, id := range ids {
		if _, ok := gone[id]; !ok {
			rest = append(rest, id)
		}
	}
	return rest
}

// nostrRef returns the event that a ref is for.
func nostrRef(name string) (host.ID, bool) {
	digits, ok := strings.CutPrefix(name, nostrRefs)
	if !ok {
		return host.ID{}, false
	}
	return rules.ParseID(digits)
}

// reconcilePRs brings a repository under /prs/ in line (GRASP-06): a ref stays if it is its
// event's, and the repository as long as it has one.
func (w *run) reconcilePRs(ctx context.Context) error {
	there, err := w.repo.Exists()
	if err != nil || !there {
		return err
	}
	if w.refs, err = w.repo.Refs(ctx); err != nil {
		return err
	}
	c := changes{run: w, tips: make(map[host.ID]string)}
	left := 0
	for _, ref := range w.refs.List {
		id, ok := nostrRef(ref.Name)
		if !ok {
			continue
		}
		c.tips[id] = ref.ID
		left++
		p, known, err := w.f.pull(ctx, id)
		switch {
		case err != nil:
			return err
		case !known:
			err = c.unknown(ctx, id)
		case p.PullRequest == nil || rules.CheckPRs(w.place.Repo, p.PullRequest, ref.ID) != "":
			c.remove(id)
		default:
			c.unneeded = append(c.unneeded, id)
			if p.held {
				c.run.release = append(c.run.release, id)
			}
			if _, asked := w.task.ids[id]; asked || w.task.all {
				for _, repo := range p.Repos {
					w.followUp(location{Repo: repo}, task{ids: setOf(id)})
				}
			}
		}
		if err != nil {
			return err
		}
	}
	left -= len(c.updates)
	if err := c.apply(ctx); err != nil || left > 0 {
		return err
	}
	if err := w.repo.Remove(ctx); err != nil {
		return err
	}
	return w.f.waiting.removeRepo(ctx, w.place.String())
}
