package repos

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"talon/host"
	"talon/host/gitrepo"
	"talon/host/maintainers"
	"talon/sdk/grasp"
)

// reconcile brings one repository in line with the events, and releases those whose
// data is here.
func (f *Reconciler) reconcile(ctx context.Context, p location, t task) error {
	repo, err := f.disk.repo(p)
	if err != nil {
		return nil // no repository can have the name
	}
	if idle, err := f.hasNoGit(p, repo); idle || err != nil {
		return err
	}
	unlock, release, err := f.lockInSlot(ctx, repo, t.overtake)
	if err != nil {
		return err
	}
	defer unlock()
	defer release()
	w := &run{f: f, location: p, repo: repo, task: t}
	err = w.reconcile(ctx)
	release()
	unlock()
	// Complete events are released also if something else failed.
	if len(w.release) > 0 {
		err = errors.Join(err, f.release(ctx, p, w.release))
	}
	for key, next := range w.followUps {
		f.jobs.enqueue(key, next)
	}
	return err
}

// hasNoGit reports whether a repository has no folder, and no repository of its identifier has
// objects. Then a job has nothing to do.
func (f *Reconciler) hasNoGit(p location, repo *gitrepo.Repo) (bool, error) {
	there, err := repo.Exists()
	if there || err != nil || p.prs {
		return !there && p.prs, err
	}
	return !f.disk.Announced.Shares(p.Identifier) && (f.disk.PRs == nil || !f.disk.PRs.Shares(p.Identifier)), nil
}

// lockTime is how long a job waits for the lock of its repository in a slot.
const lockTime = 100 * time.Millisecond

// lockInSlot takes a slot and then the lock of a repository. A job does not wait for a slot with
// the lock, which a push may need, nor long for the lock in a slot, which other jobs need.
func (f *Reconciler) lockInSlot(ctx context.Context, repo *gitrepo.Repo, overtake <-chan struct{}) (unlock, release func(), err error) {
	for {
		if release, err = f.slot(ctx, overtake); err != nil {
			return nil, nil, err
		}
		soon, cancel := context.WithTimeout(ctx, lockTime)
		unlock, err = repo.Lock(soon)
		late := soon.Err() != nil && ctx.Err() == nil
		cancel()
		if err == nil {
			return unlock, release, nil
		}
		release()
		if !late {
			return nil, nil, err
		}
		if unlock, err = repo.Lock(ctx); err != nil {
			return nil, nil, err
		}
		unlock()
	}
}

// slot returns a slot of the jobs, or a place outside of them if a push waits for the job: there
// are few pushes, and what strangers announce must not delay them.
func (f *Reconciler) slot(ctx context.Context, overtake <-chan struct{}) (release func(), err error) {
	select {
	case <-overtake:
		return func() {}, nil
	default:
	}
	select {
	case f.slots <- struct{}{}:
		return sync.OnceFunc(func() { <-f.slots }), nil
	case <-overtake:
		return func() {}, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// reconcile does the round.
func (w *run) reconcile(ctx context.Context) error {
	if w.location.prs {
		return w.reconcilePRs(ctx)
	}
	return w.reconcileAnnounced(ctx)
}

// run is one round of a place's job, under the lock of its repository.
type run struct {
	f        *Reconciler
	location location
	repo     *gitrepo.Repo
	task     task
	refs     gitrepo.Refs

	refsChanged bool // heads or tags were not in line
	release     []host.ID
	followUps   map[any]task // jobs to ask for once the lock is given back
}

func (w *run) followUp(key any, t task) {
	if w.followUps == nil {
		w.followUps = make(map[any]task)
	}
	if have, ok := w.followUps[key]; ok {
		have.merge(t)
		t = have
	}
	w.followUps[key] = t
}

// reconcileAnnounced brings the repository of an announcement in line.
func (w *run) reconcileAnnounced(ctx context.Context) error {
	f := w.f
	list, err := maintainers.Below(ctx, f.cfg.Store, w.location.Identifier, w.location.PubKey)
	if err != nil {
		return err
	}
	there, err := w.repo.Exists()
	if err != nil {
		return err
	}
	mine := own(list, w.location.PubKey)
	waits := false
	if mine != nil && mine.Held {
		e, ok, err := f.cfg.Store.HeldEvent(ctx, mine.ID)
		if err != nil {
			return err
		}
		// It may have been released, or have gone, a moment ago: then there is another
		// round for that. One that waits for another event has no repository.
		waits = ok && !e.Dormant && !e.Dependent
		if !waits {
			mine = stored(list, w.location.PubKey)
		}
	}
	if there && mine != nil && !waits && w.task.removed {
		// One that is served, but never got a repository, has this one only from the
		// announcement that waited in vain.
		refs, err := w.repo.Refs(ctx)
		if err != nil {
			return err
		}
		if len(refs.List) == 0 {
			mine = nil
		}
	}
	if mine == nil {
		if !there {
			return nil
		}
		return w.removeOrphan(ctx)
	}
	if !there {
		if !waits {
			return nil // it only tells who maintains what others have
		}
		if made, err := w.makeOfShared(ctx, maintainers.Graph(list).Maintainers(w.location.PubKey)); !made || err != nil {
			return err
		}
	}
	if w.task.newObjects {
		w.task.all = w.task.all || waits // pull requests may have come before the folder
		if err := w.repo.Share(ctx); err != nil {
			return err
		}
	}
	if w.refs, err = w.repo.Refs(ctx); err != nil {
		return err
	}
	maintainers := maintainers.Graph(list).Maintainers(w.location.PubKey)
	state, err := w.reconcileRefs(ctx, maintainers, waits)
	if err != nil {
		return err
	}
	if waits && state != nil {
		may, err := w.mayRelease(ctx, state, list)
		if err != nil {
			return err
		}
		if may {
			w.release = append(w.release, mine.ID)
		}
	}
	if err := w.pullRequests(ctx); err != nil || !waits {
		return err
	}
	return w.removeUnused(ctx)
}

// makeOfShared makes the folder of a repository that waits for git data, if data is here: other
// repositories of the identifier have the objects of a state, or a pull request for it was
// pushed under /prs/.
func (w *run) makeOfShared(ctx context.Context, maintainers []grasp.PubKey) (made bool, err error) {
	states, err := w.f.trackedStates(ctx, w.location.Identifier, maintainers)
	if err != nil {
		return false, err
	}
	format, found, err := w.f.findShared(ctx, w.location, w.repo, states)
	if err != nil || !found {
		return false, err
	}
	if err := w.repo.Init(ctx, format); err != nil {
		return false, err
	}
	w.f.metrics.made.Inc()
	w.task.all = true // for the pull requests
	return true, nil
}

// sharedState returns the format of a state whose data may be here, in another repository of the
// identifier. States are the newest first.
func sharedState(repo *gitrepo.Repo, states []grasp.Candidate) (format gitrepo.Format, found bool) {
	for i := range states[:min(len(states), maxChecks)] {
		s := &states[i]
		format, _ := formatOf(states[i:])
		var objects []string
		for _, ref := range s.Refs {
			objects = append(objects, ref.Object)
		}
		if len(s.Faults) == 0 && len(objects) > 0 && repo.MayHave(format, objects...) {
			return format, true
		}
	}
	return 0, false
}

// findShared returns the format of data that is here for a repository without a folder. States
// are those of its maintainers that name refs, the newest first.
func (f *Reconciler) findShared(
	ctx context.Context, at location, repo *gitrepo.Repo, states []grasp.Candidate,
) (format gitrepo.Format, found bool, err error) {
	if format, found = sharedState(repo, states); found {
		return format, true, nil
	}
	if f.disk.PRs == nil || !f.disk.PRs.Shares(at.Identifier) {
		return 0, false, nil
	}
	pulls, err := f.pulls(ctx, at.Repo)
	for _, p := range pulls {
		from, ok := p.PRsRepo(f.cfg.Service)
		if !ok {
			continue
		}
		repo, err := f.disk.repo(location{Repo: from, prs: true})
		if err != nil {
			continue // no repository can have the name
		}
		format := gitrepo.SHA1
		if len(p.Commit) == sha256Digits {
			format = gitrepo.SHA256
		}
		if repo.MayHave(format, p.Commit) {
			return format, true, nil
		}
	}
	return 0, false, err
}

// removeUnused removes the folder of a repository that waits for git data and has none: its
// push failed, or an older Talon made it.
func (w *run) removeUnused(ctx context.Context) error {
	if len(w.refs.List) > 0 || len(w.release) > 0 || w.f.pushing.any(w.location) || w.f.cfg.Nodes.Others() {
		return nil // another node may have a push under way
	}
	has, err := w.repo.HasObjects()
	if has || err != nil {
		return err
	}
	return w.repo.Remove(ctx)
}

// mayRelease reports whether a state releases the announcement of the place. A held one does if
// its data came to this repository. Any other does if it is the owner's own, or if its author
// counts the owner as a maintainer too. Otherwise an owner could name a busy maintainer in an
// announcement, and that person's next push would have it served. Objects that are here prove
// nothing if others announce the identifier: their repositories share them.
func (w *run) mayRelease(ctx context.Context, state *grasp.Candidate, list []maintainers.Announced) (bool, error) {
	if state.PubKey == w.location.PubKey || !state.Served && w.gotObjects() || slices.Contains(maintainers.Graph(list).Maintainers(state.PubKey), w.location.PubKey) {
		return true, nil
	}
	return w.f.isOnlyOwner(ctx, w.location.Repo)
}

// gotObjects reports whether data came to this very repository: just now, or before a
// crash, after which its refs are in line and the events still wait.
func (w *run) gotObjects() bool { return w.task.newObjects || w.task.all && !w.refsChanged }

// removeOrphan removes a repository without an announcement, if an event took that away, or
// if nothing was ever pushed to it.
func (w *run) removeOrphan(ctx context.Context) error {
	refs, err := w.repo.Refs(ctx)
	if err != nil {
		return err
	}
	deleted := false
	if len(refs.List) > 0 && !w.task.removed && !w.f.purged(w.location) {
		if deleted, err = w.f.cfg.Store.DeletedAddress(ctx, w.location.address(), 0); err != nil {
			return err
		}
		if !deleted {
			w.f.log.Warn("a repository has no announcement", "repository", w.location)
			return nil
		}
	}
	if err := w.repo.Remove(ctx); err != nil {
		return err
	}
	w.f.metrics.removed.Inc()
	w.f.log.Info("repository removed", "repository", w.location)
	return w.f.waiting.removeRepo(ctx, w.location.String())
}

// reconcileRefs brings heads, tags and HEAD in line with the newest state in effect, and returns
// it. It returns nil if there is none or its data is not here. It marks held states whose data
// is here for release.
func (w *run) reconcileRefs(ctx context.Context, maintainers []grasp.PubKey, waits bool) (*grasp.Candidate, error) {
	states, err := w.f.trackedStates(ctx, w.location.Identifier, maintainers)
	if err != nil {
		return nil, err
	}
	if err := w.chooseFormat(ctx, states); err != nil {
		return nil, err
	}
	if len(states) > 0 && !states[0].Served {
		// Its HEAD counts as soon as the branch is there, before the rest is.
		if err := w.setHEAD(ctx, states[0].State); err != nil {
			return nil, err
		}
	}
	var effective *grasp.Candidate
	checks := 0
	for i := range states {
		s := &states[i]
		if s.Served && effective != nil || !s.Served && checks == maxChecks {
			continue
		}
		checks++
		there, err := w.isComplete(ctx, s.State)
		if err != nil {
			return nil, err
		}
		if there && effective == nil {
			if err := w.moveRefs(ctx, s.State, waiting(states[:i])); err != nil {
				// Git does not want it: a branch that is no commit, say.
				w.f.log.Warn("a state cannot be met", "repository", w.location, "state", host.ID(s.ID).String(), "err", err)
				there = false
			}
		}
		if there && !s.Served {
			w.release = append(w.release, s.ID)
		}
		if effective == nil && there {
			effective = s
		}
		if s.Served && !there {
			return nil, nil // older ones must not take effect again
		}
	}
	if effective == nil && waits {
		// Nothing says what these are, but for those that are pushed one by one: the state
		// that they were pushed for has gone.
		return nil, w.removeStaleRefs(ctx, waiting(states))
	}
	return effective, nil
}

// maxChecks bounds how many held states one round looks for the data of, the newest first.
const maxChecks = 32

// chooseFormat replaces an empty repository if the newest state names objects by the
// other hash.
func (w *run) chooseFormat(ctx context.Context, states []grasp.Candidate) error {
	want, known := formatOf(states)
	if len(w.refs.List) > 0 || !known {
		return nil
	}
	have, err := w.repo.Format(ctx)
	if err != nil || have == want {
		return err
	}
	if err := w.repo.Remove(ctx); err != nil {
		return err
	}
	return w.repo.Init(ctx, want)
}

const sha256Digits = 64

// formatOf returns the hash by which the first of some states names its objects, and whether it
// names any.
func formatOf(states []grasp.Candidate) (format gitrepo.Format, known bool) {
	if len(states) == 0 || len(states[0].Refs) == 0 {
		return gitrepo.SHA1, false
	}
	if len(states[0].Refs[0].Object) == sha256Digits {
		return gitrepo.SHA256, true
	}
	return gitrepo.SHA1, true
}

// isComplete reports whether all that a state names is here, whole.
func (w *run) isComplete(ctx context.Context, s *grasp.State) (bool, error) {
	if len(s.Faults) > 0 {
		return false, nil
	}
	have := make(map[string]bool, len(w.refs.List))
	for _, ref := range w.refs.List {
		have[ref.ID] = true
	}
	var ask []string
	for _, ref := range s.Refs {
		if !have[ref.Object] {
			have[ref.Object] = true
			ask = append(ask, ref.Object)
		}
	}
	return w.repo.Connected(ctx, ask...)
}

// waiting returns those of the states that wait for data.
func waiting(states []grasp.Candidate) (list []*grasp.State) {
	for _, s := range states {
		if !s.Served {
			list = append(list, s.State)
		}
	}
	return list
}

// moveRefs makes heads and tags those of a state whose objects are all here, but for what
// was pushed of newer ones.
func (w *run) moveRefs(ctx context.Context, s *grasp.State, newer []*grasp.State) error {
	al := grasp.Align(tracked(w.refs), w.refs.HEAD, s, func(grasp.Ref) bool { return true })
	al.KeepPushed(s, newer)
	if len(al.Updates) > 0 {
		w.refsChanged = true
		if err := w.applyUpdates(ctx, al.Updates); err != nil {
			return err
		}
		w.f.metrics.aligned.Inc()
	}
	if al.Head == "" && s.Object(w.refs.HEAD) == "" {
		al.Head = likelyHEAD(s)
	}
	if al.Head == "" {
		return nil
	}
	w.refs.HEAD = al.Head
	return w.repo.SetHEAD(ctx, al.Head)
}

// likelyHEAD is the branch for HEAD if the state lacks both the branch that it names as HEAD and
// the one that HEAD names now. With it, a clone checks something out.
func likelyHEAD(s *grasp.State) string {
	for _, branch := range []string{"refs/heads/main", "refs/heads/master"} {
		if s.Object(branch) != "" {
			return branch
		}
	}
	for _, ref := range s.Refs {
		if strings.HasPrefix(ref.Name, "refs/heads/") {
			return ref.Name
		}
	}
	return ""
}

func (w *run) setHEAD(ctx context.Context, s *grasp.State) error {
	al := grasp.Align(tracked(w.refs), w.refs.HEAD, s, func(grasp.Ref) bool { return false })
	if al.Head == "" {
		return nil
	}
	w.refs.HEAD = al.Head
	return w.repo.SetHEAD(ctx, al.Head)
}

// removeStaleRefs deletes all heads and tags but what was pushed of the states that wait.
func (w *run) removeStaleRefs(ctx context.Context, waiting []*grasp.State) error {
	var al grasp.Alignment
	for _, ref := range w.refs.List {
		if !strings.HasPrefix(ref.Name, nostrRefs) {
			al.Updates = append(al.Updates, grasp.Update{Ref: ref.Name, Old: ref.ID, New: zeros(ref.ID)})
		}
	}
	al.KeepPushed(nil, waiting)
	return w.applyUpdates(ctx, al.Updates)
}

// applyUpdates changes all of the refs or none: a state that git rejects removes no branch.
func (w *run) applyUpdates(ctx context.Context, list []grasp.Update) error {
	updates := make([]host.RefUpdate, len(list))
	for i, u := range list {
		updates[i] = host.RefUpdate(u)
	}
	err := w.repo.ChangeRefs(ctx, updates)
	refs, failed := w.repo.Refs(ctx)
	if failed == nil {
		w.refs = refs
	}
	return errors.Join(err, failed)
}

const nostrRefs = "refs/nostr/"

// tracked returns the refs as the rules have them.
func tracked(refs gitrepo.Refs) []grasp.Ref {
	list := make([]grasp.Ref, len(refs.List))
	for i, ref := range refs.List {
		list[i] = grasp.Ref{Name: ref.Name, Object: ref.ID}
	}
	return list
}

func zeros(object string) string { return strings.Repeat("0", len(object)) }

// release has the pipeline store what is complete, and waits for the commit.
func (f *Reconciler) release(ctx context.Context, p location, ids []host.ID) error {
	for _, id := range ids {
		f.inFlightReleases.Store(id, p)
	}
	defer func() {
		for _, id := range ids {
			f.inFlightReleases.Delete(id)
		}
	}()
	type result struct {
		released []host.Released
		err      error
	}
	done := make(chan result, 1)
	err := f.cfg.Pipeline.SubmitRelease(ctx, &host.ReleaseRequest{
		Plan: host.ReleaseOf(ids...),
		Done: func(r []host.Released, err error) { done <- result{r, err} },
	})
	if err != nil {
		return fmt.Errorf("release events: %w", err)
	}
	got := <-done
	if got.err != nil {
		return fmt.Errorf("release events: %w", got.err)
	}
	lost := false
	for _, r := range got.released {
		switch r.Status {
		case host.StatusReleased:
			f.metrics.released.Inc()
			f.log.Info("event released", "repository", p, "event", r.ID.String())
		case host.StatusDeleted, host.StatusExpired, host.StatusAbsent:
			lost = true
		}
	}
	if lost {
		// Its refs have no event any more.
		f.jobs.enqueue(p, task{all: true})
	}
	return nil
}
