package repos

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"math/rand/v2"
	"slices"

	"talon/host"
	"talon/host/gitfetch"
	"talon/host/gitrepo"
	"talon/host/maintainers"
	"talon/sdk/grasp"
)

// Wanted returns what the repositories of an identifier lack, and where it may be
// (gitfetch.Repos).
//
// Anybody may announce the identifier. Repositories whose announcement is served come first, then
// those with few maintainers. When they have cost [maxWantedWork] and something is missing, the
// remaining held ones wait for a later call.
func (f *Reconciler) Wanted(ctx context.Context, identifier string) ([]gitfetch.Want, error) {
	list, err := f.announcements(ctx, identifier)
	if err != nil {
		return nil, err
	}
	s := newSearch(f, identifier, list)
	var wants []gitfetch.Want
	for _, a := range s.order {
		if a.held && s.work > maxWantedWork && len(wants) > 0 {
			break
		}
		more, err := s.repository(ctx, a)
		if err != nil {
			return nil, err
		}
		wants = append(wants, more...)
	}
	return wants, nil
}

// maxWantedWork is how many maintainers, states and objects one call of Wanted looks at before
// held announcements wait for a later one. A repository with one maintainer and one branch costs
// three.
const maxWantedWork = 20_000

// search finds out what the repositories of an identifier lack. It reads each event once, however
// many repositories the event counts for.
type search struct {
	f          *Reconciler
	identifier string
	announced  map[grasp.Repo][]maintainers.Announced
	states     map[grasp.Repo][]grasp.Candidate // by the repository of their author, if they were read
	order      []searched
	work       int
}

// searched is a repository that a search looks at.
type searched struct {
	owner       grasp.PubKey
	id          host.ID // of the announcement
	held        bool    // it waits in purgatory
	maintainers []grasp.PubKey
}

func newSearch(f *Reconciler, identifier string, list []maintainers.Announced) *search {
	s := &search{
		f: f, identifier: identifier, announced: make(map[grasp.Repo][]maintainers.Announced),
		states: make(map[grasp.Repo][]grasp.Candidate),
	}
	g := maintainers.Graph(list)
	for _, a := range list {
		if len(s.announced[a.Repo()]) == 0 {
			s.order = append(s.order, searched{a.PubKey, host.ID(a.ID), a.Held, g.Maintainers(a.PubKey)})
		}
		s.announced[a.Repo()] = append(s.announced[a.Repo()], a)
	}
	rand.Shuffle(len(s.order), func(i, j int) { s.order[i], s.order[j] = s.order[j], s.order[i] })
	slices.SortStableFunc(s.order, func(a, b searched) int {
		if a.held != b.held {
			if a.held {
				return 1
			}
			return -1
		}
		return cmp.Compare(len(a.maintainers), len(b.maintainers))
	})
	return s
}

// of returns the repository of an author.
func (s *search) of(author grasp.PubKey) grasp.Repo {
	return grasp.Repo{PubKey: author, Identifier: s.identifier}
}

// repository returns what one repository lacks.
func (s *search) repository(ctx context.Context, a searched) ([]gitfetch.Want, error) {
	f, p := s.f, location{Repo: s.of(a.owner)}
	if r, err := f.hidden(ctx, p); err != nil || r != nil {
		return nil, err
	}
	repo, err := f.disk.repo(p)
	if err != nil {
		return nil, nil // no repository can have the name
	}
	there, err := repo.Exists()
	if err != nil {
		return nil, err
	}
	if !there {
		if wanted, err := s.wantsFolder(ctx, a); err != nil || !wanted {
			return nil, err
		}
	}
	s.work += len(a.maintainers)
	states, err := s.statesOf(ctx, a.maintainers)
	if err != nil {
		return nil, err
	}
	if !there {
		newest := effectual(states)
		// Shared objects may be all that it needs.
		_, found, err := f.findShared(ctx, p, repo, newest)
		if err != nil {
			return nil, err
		}
		if found {
			if err := f.await(ctx, f.jobs.enqueue(p, task{})); err != nil {
				return nil, err
			}
		}
		format, _ := formatOf(newest)
		repo = repo.Planned(format)
	}
	return s.wantedBy(ctx, p, repo, a.maintainers, states)
}

// wantsFolder reports whether a repository without a folder should have one: it waits for git data,
// or it is served and its folder was lost.
func (s *search) wantsFolder(ctx context.Context, a searched) (bool, error) {
	if a.held {
		return s.f.disk.heldWaits(ctx, a.id)
	}
	return slices.ContainsFunc(s.announced[s.of(a.owner)], func(a maintainers.Announced) bool {
		return a.ListsService(s.f.cfg.Service)
	}), nil
}

// statesOf returns the states of maintainers.
func (s *search) statesOf(ctx context.Context, maintainers []grasp.PubKey) (list []grasp.Candidate, err error) {
	var unread []grasp.PubKey
	for _, key := range maintainers {
		if states, ok := s.states[s.of(key)]; ok {
			list = append(list, states...)
		} else {
			unread = append(unread, key)
		}
	}
	read, err := s.f.states(ctx, s.identifier, unread)
	if err != nil {
		return nil, err
	}
	// An answer may be cut off at its limit. The states of others took that room, and must not
	// hide an author's in the next repository.
	if len(read) < maxStates {
		for _, key := range unread {
			s.states[s.of(key)] = nil
		}
		for _, c := range read {
			s.states[s.of(c.PubKey)] = append(s.states[s.of(c.PubKey)], c)
		}
	}
	list = append(list, read...)
	s.work += len(list)
	return list, nil
}

// wantedBy returns what a repository of these maintainers lacks for their states, and for its
// pull requests.
func (s *search) wantedBy(
	ctx context.Context, p location, repo *gitrepo.Repo, maintainers []grasp.PubKey, states []grasp.Candidate,
) ([]gitfetch.Want, error) {
	var objects []string
	newest := grasp.Latest(served(states), maintainers)
	for i := range states {
		c := &states[i]
		// An older one takes no effect any more; of those that are served only the newest
		// does, and its data may be missing if it was imported.
		if newest != nil && c.ID != newest.ID && newest.Newer(&c.Stamp) || len(c.Faults) > 0 {
			continue
		}
		missing, err := missing(ctx, repo, c.State)
		if err != nil {
			return nil, err
		}
		objects = append(objects, missing...)
	}
	s.work += len(objects)
	var urls []string
	var strangers map[string][]gitfetch.Namer
	name := func() {
		if strangers == nil {
			urls, strangers = s.cloneURLs(s.naming(p, maintainers))
		}
	}
	var wants []gitfetch.Want
	if len(objects) > 0 {
		name()
		slices.Sort(objects)
		wants = append(wants, gitfetch.Want{Into: repo, Objects: slices.Compact(objects), URLs: urls, Strangers: strangers})
	}
	ofMaintainers := len(wants)
	pulls, err := s.f.heldPulls(ctx, p.Repo)
	if err != nil {
		return nil, err
	}
	s.work += len(pulls)
	for _, pr := range pulls {
		there, err := repo.Connected(ctx, pr.Commit)
		if err != nil && !errors.Is(err, gitrepo.ErrNotFound) {
			return nil, err
		}
		if !there {
			name()
			wants = append(wants, wantOfPull(repo, s.withoutOthers(p, pr, urls), urls, strangers))
		}
	}
	return wants, s.f.limitWants(ctx, p, maintainers, wants[:ofMaintainers], wants[ofMaintainers:])
}

// naming returns the maintainers whose announcements name the servers that have a repository: of a
// private one only its owner.
func (s *search) naming(p location, maintainers []grasp.PubKey) []grasp.PubKey {
	if !s.f.private(p) {
		return maintainers
	}
	return []grasp.PubKey{p.PubKey}
}

// withoutOthers returns a pull request of a private repository without URLs that the repository does
// not name: their servers would learn of it.
func (s *search) withoutOthers(p location, pr *grasp.PullRequest, urls []string) *grasp.PullRequest {
	if !s.f.private(p) {
		return pr
	}
	own := *pr
	own.Clone = slices.DeleteFunc(slices.Clone(pr.Clone), func(u string) bool { return !slices.Contains(urls, u) })
	return &own
}

// private reports whether a repository is not for everybody.
func (f *Reconciler) private(p location) bool {
	return f.cfg.Private != nil && f.cfg.Private(host.Address{Kind: grasp.KindAnnouncement, PubKey: host.PubKey(p.PubKey), D: p.Identifier})
}

// cloneURLs returns the URLs that announcements by the maintainers name. Strangers are those that
// only held announcements name.
func (s *search) cloneURLs(maintainers []grasp.PubKey) (urls []string, strangers map[string][]gitfetch.Namer) {
	strangers, stored := make(map[string][]gitfetch.Namer), make(map[string]bool)
	for _, key := range maintainers {
		for _, a := range s.announced[s.of(key)] {
			urls = append(urls, a.Clone...)
			for _, u := range a.Clone {
				if stored[u] = stored[u] || !a.Held; !stored[u] {
					strangers[u] = append(strangers[u], gitfetch.Namer{Event: host.ID(a.ID), Author: host.PubKey(a.PubKey)})
				}
			}
		}
	}
	for u := range stored {
		if stored[u] {
			delete(strangers, u)
		}
	}
	return urls, strangers
}

// wantOfPull returns what a held pull request lacks. The request names URLs too. They come
// before those of its repository.
func wantOfPull(into *gitrepo.Repo, pr *grasp.PullRequest, urls []string, strangers map[string][]gitfetch.Namer) gitfetch.Want {
	w := gitfetch.Want{Into: into, Objects: []string{pr.Commit}, URLs: slices.Concat(pr.Clone, urls), Strangers: maps.Clone(strangers)}
	for _, u := range pr.Clone {
		if slices.Contains(urls, u) && strangers[u] == nil {
			continue // a stored announcement names it
		}
		w.Strangers[u] = append(slices.Clone(w.Strangers[u]), gitfetch.Namer{Event: host.ID(pr.ID), Author: host.PubKey(pr.PubKey)})
	}
	return w
}

func served(states []grasp.Candidate) (list []*grasp.State) {
	for _, s := range states {
		if s.Served {
			list = append(list, s.State)
		}
	}
	return list
}

// missing returns the objects of a state that a repository lacks.
func missing(ctx context.Context, repo *gitrepo.Repo, s *grasp.State) ([]string, error) {
	var all []string
	for _, ref := range s.Refs {
		all = append(all, ref.Object)
	}
	whole, err := repo.Connected(ctx, all...)
	if errors.Is(err, gitrepo.ErrNotFound) {
		return all, nil // it has no folder yet
	}
	if whole || err != nil {
		return nil, err
	}
	found, err := repo.Has(ctx, all...)
	if err != nil {
		return nil, err
	}
	var list []string
	for i, object := range all {
		if !found[i] {
			list = append(list, object)
		}
	}
	if len(list) == 0 {
		return all, nil // they are here, and not all that they refer to
	}
	return list, nil
}
