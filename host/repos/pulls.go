package repos

import (
	"context"
	"fmt"
	"maps"
	"strings"

	"talon/host"
	"talon/host/maintainers"
	"talon/host/purgatory"
	"talon/host/wire"
	"talon/sdk/grasp"
)

// pull is a pull request or an update of one.
type pull struct {
	*grasp.PullRequest
	held bool
}

// pulls returns all pull requests that name a repository.
func (f *Reconciler) pulls(ctx context.Context, repo grasp.Repo) ([]pull, error) {
	filter := host.Filter{
		Kinds: []host.Kind{grasp.KindPullRequest, grasp.KindPRUpdate},
		Tags:  []host.TagFilter{{Name: 'a', Values: []string{repo.Address()}}},
		Limit: maxPullRequests,
	}
	var list []pull
	err := maintainers.ReadAll(ctx, f.cfg.Store, filter, func(e *host.Event, held bool) {
		if pr, err := e.PullRequest(); err == nil {
			list = append(list, pull{pr, held})
		}
	})
	if err != nil {
		return nil, fmt.Errorf("look for pull requests: %w", err)
	}
	return list, nil
}

// pull returns the event with this id, and whether one is here. Of another event than
// a pull request the pull is empty.
func (f *Reconciler) pull(ctx context.Context, id host.ID) (p pull, known bool, err error) {
	text, err := f.cfg.Store.Get(ctx, id)
	if err == nil && text == nil {
		p.held = true
		text, err = f.cfg.Store.Held(ctx, id)
	}
	if err != nil {
		return pull{}, false, fmt.Errorf("look for a pull request: %w", err)
	}
	if text == nil {
		return pull{}, false, nil
	}
	e, err := wire.ParseEvent(text)
	if err != nil {
		return pull{}, false, fmt.Errorf("an event that is here does not parse: %w", err)
	}
	if pr, err := e.PullRequest(); err == nil {
		p.PullRequest = pr
	}
	return p, true, nil
}

// heldPulls returns the pull requests that wait for their commit.
func (f *Reconciler) heldPulls(ctx context.Context, repo grasp.Repo) ([]*grasp.PullRequest, error) {
	var list []*grasp.PullRequest
	filter := host.Filter{
		Kinds: []host.Kind{grasp.KindPullRequest, grasp.KindPRUpdate},
		Tags:  []host.TagFilter{{Name: 'a', Values: []string{repo.Address()}}},
		Limit: maxHunted,
	}
	err := maintainers.Read(ctx, f.cfg.Store.HeldBy, filter, func(e *host.Event) {
		if pr, err := e.PullRequest(); err == nil {
			list = append(list, pr)
		}
	})
	if err != nil {
		return nil, fmt.Errorf("look for pull requests: %w", err)
	}
	return list, nil
}

// maxHunted bounds how many pull requests of one repository are looked for at a time:
// anybody may send them.
const maxHunted = 100

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
		if list, err = w.f.pulls(ctx, w.location.Repo); err != nil {
			return err
		}
		ids = setOf[host.ID]()
		for id := range tips {
			ids[id] = struct{}{}
		}
		maps.Copy(ids, w.task.ids)
		for _, p := range list {
			delete(ids, p.ID) // git refuses a second update of a ref
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
	held, err := w.f.heldPulls(ctx, w.location.Repo)
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
	updates  []grasp.Update
	unneeded []host.ID // that wait for their event no longer
}

func (c *changes) remove(id host.ID) {
	if tip := c.tips[id]; tip != "" {
		c.updates = append(c.updates, grasp.Update{Ref: nostrRefs + id.String(), Old: tip, New: zeros(tip)})
	}
	c.unneeded = append(c.unneeded, id)
}

// pull looks after the ref of one pull request.
func (c *changes) pull(ctx context.Context, p pull) error {
	tip := c.tips[p.ID]
	if p.held {
		e, ok, err := c.f.cfg.Store.HeldEvent(ctx, p.ID)
		if err != nil {
			return fmt.Errorf("look for a pull request: %w", err)
		}
		if ok && e.Wake != nil {
			// A module holds it: it gets no ref, and one that was pushed waits with it.
			if tip != "" && tip != p.Commit {
				c.remove(p.ID)
				return nil
			}
			c.unneeded = append(c.unneeded, p.ID)
			return nil
		}
	}
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
		c.updates = append(c.updates, grasp.Update{Ref: nostrRefs + host.ID(p.ID).String(), Old: old, New: p.Commit})
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
		names = names || repo == c.location.Repo
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
		if repo != c.location.Repo && len(places) < maxSources {
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
			c.f.log.Warn("copy a pull request", "from", from, "to", c.location, "err", err)
			continue
		}
		if c.repo.NeedsRepack() {
			c.followUp(repacking(c.location), task{})
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
	since, err := c.f.waiting.add(ctx, c.location.String(), id, now)
	if err != nil {
		return err
	}
	if purgatory.PlaceholderExpired(since, now) {
		c.f.metrics.placeholders.Inc()
		c.remove(id)
	}
	return nil
}

// apply moves the refs. If that fails, it withholds the release of their pull requests.
func (c *changes) apply(ctx context.Context) error {
	if len(c.updates) > 0 {
		if err := c.applyUpdates(ctx, c.updates); err != nil {
			c.run.release = withoutPulls(c.run.release, c.unneeded)
			return fmt.Errorf("set refs of pull requests: %w", err)
		}
	}
	return c.f.waiting.remove(ctx, c.location.String(), c.unneeded...)
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
	return grasp.ParseID(digits)
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
		case p.PullRequest == nil || grasp.CheckPRs(w.location.Repo, p.PullRequest, ref.ID) != "":
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
	if err := c.apply(ctx); err != nil || left > 0 || w.f.pushing.any(w.location) {
		return err
	}
	if err := w.repo.Remove(ctx); err != nil {
		return err
	}
	return w.f.waiting.removeRepo(ctx, w.location.String())
}
