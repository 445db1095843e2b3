package gitcheck

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"talon/host"
	"talon/host/gitrepo"
	"talon/host/maintainers"
	"talon/sdk/grasp"
)

const nostrRefs = "refs/nostr/"

// maxLines bounds what is said of the objects of one repository.
const maxLines = 10

// repository looks at one repository.
func (l *looker) repository(ctx context.Context, folder *gitrepo.Folder, p *location) error {
	l.leftovers(p.where, p.dir)
	repo, err := folder.Find(p.parts)
	if err != nil {
		l.problem(p.where, true, "not a whole bare repository: restore it from a backup, or move it away")
		return nil
	}
	refs, err := repo.Refs(ctx)
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err != nil {
		l.problem(p.where, true, "%v", err)
	} else if err := l.compare(ctx, p, repo, refs); err != nil {
		return err
	}
	broken := len(l.list)
	if err := l.objects(ctx, p.where, p.dir, l.cfg.Connected); err != nil {
		return err
	}
	if ownObjects(p.dir) { // those of the shared store are looked at once
		if err := l.objects(ctx, p.where, p.dir, l.cfg.Intact); err != nil {
			return err
		}
	}
	if !p.prs {
		for i := range l.list[broken:] {
			l.list[broken+i].Lost = p.Repo
		}
	}
	return nil
}

// ownObjects reports whether a repository has objects that it does not share.
func ownObjects(dir string) bool {
	entries, err := os.ReadDir(filepath.Join(dir, "objects"))
	if err != nil {
		return true // git says what is wrong
	}
	for _, e := range entries {
		if name := e.Name(); len(name) == 2 {
			return true // loose ones
		}
	}
	packs, err := os.ReadDir(filepath.Join(dir, "objects", "pack"))
	return err != nil && !errors.Is(err, fs.ErrNotExist) || len(packs) > 0
}

func (l *looker) compare(ctx context.Context, p *location, repo *gitrepo.Repo, refs gitrepo.Refs) error {
	for _, ref := range refs.List {
		if !gitrepo.IsPushable(ref.Name) || p.prs && !strings.HasPrefix(ref.Name, nostrRefs) {
			l.problem(p.where, false, "%s is not a ref that a push can make: delete it", ref.Name)
		}
	}
	if err := l.compareTips(ctx, p, refs); err != nil {
		return err
	}
	if p.prs {
		if len(refs.List) == 0 {
			l.problem(p.where, true, "it has no ref: the next start of the server takes it away")
		}
		return nil
	}
	if err := l.pullRequests(ctx, p, refs); err != nil {
		return err
	}
	all, stored, err := l.announced(ctx, p)
	if err != nil {
		return err
	}
	held, waits := l.held[key(p.Repo, false)]
	switch {
	case stored:
		waits = false
	case waits && !held.dormant:
	case waits:
		l.problem(p.where, true, "its announcement has waited in vain: the server takes the repository away")
		return nil
	default:
		l.problem(p.where, true, "orphan: no announcement of it is stored or held")
		return nil
	}
	return l.compareState(ctx, p, repo, refs, all, waits)
}

// compareState compares heads, tags and HEAD with the newest state of the
// maintainers. waits is true if the announcement is in purgatory.
func (l *looker) compareState(ctx context.Context, p *location, repo *gitrepo.Repo, refs gitrepo.Refs, maintainers []grasp.PubKey, waits bool) error {
	newest, held, err := l.states(ctx, p.Identifier, maintainers)
	if err != nil {
		return err
	}
	have := make([]grasp.Ref, len(refs.List))
	for i, ref := range refs.List {
		have[i] = grasp.Ref{Name: ref.Name, Object: ref.ID}
	}
	there := func(grasp.Ref) bool { return true }
	for _, s := range held {
		// Refs land first, the event is released second: after a crash in between, the
		// next start goes on from here.
		if al := grasp.Align(have, refs.HEAD, s, there); !al.Impossible && len(al.Updates) == 0 {
			return nil
		}
	}
	if newest == nil {
		// The state of a repository that is served can be deleted: its refs stay.
		for _, ref := range refs.List {
			pushed := slices.ContainsFunc(held, func(s *grasp.State) bool { return s.Object(ref.Name) == ref.ID })
			if waits && !pushed && !strings.HasPrefix(ref.Name, nostrRefs) {
				l.problem(p.where, true, "%s is at %s, and no state of a maintainer is here", ref.Name, ref.ID)
			}
		}
		return nil
	}
	id := host.ID(newest.ID).String()
	if len(newest.Faults) > 0 {
		fault := newest.Faults[0]
		l.problem(p.where, false, "the newest state, %s, can never be met: %s: %s", id, fault.Ref, fault.Reason)
		return nil
	}
	al := grasp.Align(have, refs.HEAD, newest, there)
	al.KeepPushed(newest, slices.DeleteFunc(slices.Clone(held), func(s *grasp.State) bool { return !s.Newer(&newest.Stamp) }))
	absent, err := l.missing(ctx, repo, al.Updates)
	if err != nil {
		l.problem(p.where, true, "%v", err)
	}
	if waits && len(absent) > 0 {
		// It was deleted and announced again: the state stayed, and its data will come.
		return nil
	}
	for _, u := range al.Updates {
		switch {
		case grasp.IsZero(u.New):
			l.problem(p.where, true, "%s is at %s, and the newest state, %s, does not have it", u.Ref, u.Old, id)
		case absent[u.New]:
			l.lost(p, "%s: the newest state, %s, has it at %s, and that object is not here", u.Ref, id, u.New)
		case grasp.IsZero(u.Old):
			l.problem(p.where, true, "%s is not here, and the newest state, %s, has it at %s", u.Ref, id, u.New)
		default:
			l.problem(p.where, true, "%s is at %s, and the newest state, %s, has it at %s", u.Ref, u.Old, id, u.New)
		}
	}
	if al.Head != "" && !slices.ContainsFunc(held, func(s *grasp.State) bool { return s.Head != "" && s.Head == refs.HEAD }) {
		l.problem(p.where, true, "HEAD names %s, and the newest state, %s, has it at %s", cmp.Or(refs.HEAD, "no branch"), id, al.Head)
	}
	return nil
}

// missing returns those of the objects of updates that the repository does not have.
func (l *looker) missing(ctx context.Context, repo *gitrepo.Repo, updates []grasp.Update) (map[string]bool, error) {
	ask := make(map[string]bool)
	for _, u := range updates {
		if !grasp.IsZero(u.New) {
			ask[u.New] = true
		}
	}
	ids := slices.Collect(maps.Keys(ask))
	if len(ids) == 0 {
		return nil, nil
	}
	found, err := repo.Has(ctx, ids...)
	if err != nil {
		return nil, err
	}
	for i, id := range ids {
		ask[id] = !found[i]
	}
	return ask, nil
}

// compareTips compares the refs under refs/nostr/ with their events.
func (l *looker) compareTips(ctx context.Context, p *location, refs gitrepo.Refs) error {
	at := make(map[host.ID]gitrepo.Ref)
	for _, ref := range refs.List {
		if digits, ok := strings.CutPrefix(ref.Name, nostrRefs); ok {
			if id, ok := grasp.ParseID(digits); ok {
				at[id] = ref
			}
		}
	}
	known, err := l.tips(ctx, slices.Collect(maps.Keys(at)))
	if err != nil {
		return err
	}
	for _, ref := range refs.List {
		id, ok := grasp.ParseID(strings.TrimPrefix(ref.Name, nostrRefs))
		if _, nostr := at[id]; !ok || !nostr {
			continue
		}
		event, here := known[id]
		switch {
		case !here && !l.waits[placeholder{key(p.Repo, p.prs), id}]:
			l.problem(p.where, true, "%s: no event with this id is stored or held, and the ref does not wait for one", ref.Name)
		case !here:
		case event.PullRequest == nil:
			l.problem(p.where, true, "%s: the event with this id is not a pull request", ref.Name)
		case p.prs:
			if reason := grasp.CheckPRs(p.Repo, event.PullRequest, ref.ID); reason != "" {
				l.problem(p.where, true, "%s: %s", ref.Name, reason)
			}
		case event.Commit != ref.ID:
			l.problem(p.where, true, "%s is at %s, and its event has %s", ref.Name, ref.ID, event.Commit)
		}
	}
	return nil
}

// pullRequests looks for the ref of each stored pull request to a repository.
func (l *looker) pullRequests(ctx context.Context, p *location, refs gitrepo.Refs) error {
	filter := host.Filter{
		Kinds: []host.Kind{grasp.KindPullRequest, grasp.KindPRUpdate},
		Tags:  []host.TagFilter{{Name: 'a', Values: []string{p.Address()}}},
		Limit: maxPullRequests,
	}
	there := make(map[string]bool, len(refs.List))
	for _, ref := range refs.List {
		there[ref.Name] = true
	}
	return maintainers.Read(ctx, l.Query, filter, func(e *host.Event) {
		if pr, err := e.PullRequest(); err == nil && !there[nostrRefs+e.ID.String()] {
			l.problem(p.where, true, "the pull request %s is served, and its ref for the commit %s is not here: its author pushes again", e.ID, pr.Commit)
		}
	})
}

// objects has git look at the objects of a repository.
func (l *looker) objects(ctx context.Context, where, dir string, verify func(context.Context, string) ([]string, error)) error {
	if verify == nil {
		return nil
	}
	bounded, cancel := context.WithTimeout(ctx, l.cfg.Limit)
	defer cancel()
	lines, err := verify(bounded, dir)
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case errors.Is(bounded.Err(), context.DeadlineExceeded):
		l.problem(where, false, "its objects could not be checked within %s: allow more time", l.cfg.Limit)
		return nil
	case err != nil:
		l.problem(where, true, "its objects could not be checked: %v", err)
		return nil
	}
	for i, line := range lines {
		if i == maxLines {
			l.problem(where, false, "%d more lines are not shown", len(lines)-i)
			break
		}
		l.problem(where, false, "%s", line)
	}
	return nil
}
