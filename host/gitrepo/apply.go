package gitrepo

import (
	"context"
	"errors"
	"path/filepath"
	"time"

	"talon/host"
)

// undoTime is how long git may take to put refs back.
const undoTime = time.Minute

// ApplyRefs moves the objects of the push to the repository and changes its refs: all of
// them or none. A *Refused has the reason if not. First the objects go to where all
// repositories of the identifier see them, which are nobody's until a ref reaches them;
// then the refs change. A crash leaves the first, or both. It returns the updates that it
// had nothing to do for, as their refs were in place whatever they say was there.
// REQUIRES: the lock, and a Check that found all.
func (q *Incoming) ApplyRefs(ctx context.Context) (inPlace []host.RefUpdate, err error) {
	r := q.repo
	if err := r.mustExist(); err != nil {
		return nil, err
	}
	format, err := r.Format(ctx)
	if err != nil {
		return nil, err
	}
	if format != q.format {
		return nil, &Refused{Reason: "the repository was made anew meanwhile: push again"}
	}
	refs, err := r.tips(ctx)
	if err != nil {
		return nil, err
	}
	var updates []host.RefUpdate
	for _, u := range q.updates {
		if id, there := refs[u.Ref]; there && id == u.New || !there && IsZero(u.New) {
			inPlace = append(inPlace, u)
		} else {
			updates = append(updates, u)
		}
	}
	if err := compare(refs, updates); err != nil {
		return nil, err
	}
	if q.gcEpoch != r.gcEpoch() {
		// What it lacks may have been here, and gone since.
		if err := q.Check(ctx); err != nil {
			return nil, err
		}
	}
	if err := q.move(ctx); err != nil {
		return nil, err
	}
	if err := r.ChangeRefs(ctx, updates); err != nil {
		if errors.Is(err, ErrOvertaken) {
			return nil, &Refused{Reason: ErrOvertaken.Error()}
		}
		if reason := complaint(err, r.dir+"/"); reason != "" && ctx.Err() == nil {
			return nil, &Refused{Reason: reason}
		}
		return nil, err
	}
	return inPlace, nil
}

// move moves the packs to the shared store, or to the repository if it shares nothing.
func (q *Incoming) move(ctx context.Context) error {
	if q.dir == "" {
		return nil
	}
	to := q.repo.dir
	s, borrows, err := q.repo.shared()
	if err != nil {
		return err
	}
	if borrows {
		unlock, err := q.repo.locks.lock(ctx, s.dir)
		if err != nil {
			return err
		}
		defer unlock()
		to = s.dir
	}
	return movePacks(filepath.Join(q.dir, "objects", "pack"), filepath.Join(to, "objects", "pack"))
}

// compare finds the refs that are not what updates say that they are, and those that
// would be in the way of each other: a ref is a file, and refs/heads/a a folder for
// refs/heads/a/b.
func compare(refs map[string]string, updates []host.RefUpdate) error {
	wrong := make(map[string]string)
	made := false
	for _, u := range updates {
		id, there := refs[u.Ref]
		switch {
		case IsZero(u.Old) && there:
			wrong[u.Ref] = "it is there already: fetch, and push again"
		case !IsZero(u.Old) && !there:
			wrong[u.Ref] = "it is not there any more: fetch, and push again"
		case there && id != u.Old:
			wrong[u.Ref] = "it has moved meanwhile: fetch, and push again"
		}
		made = made || !there
	}
	if made && len(wrong) == 0 {
		inTheWay(refs, updates, wrong)
	}
	if len(wrong) == 0 {
		return nil
	}
	return &Refused{Reason: "nothing of the push is done, as some of its refs cannot change", Refs: wrong}
}

// inTheWay adds the refs that cannot be beside others, once all updates are done.
func inTheWay(refs map[string]string, updates []host.RefUpdate, wrong map[string]string) {
	for _, u := range updates {
		if refs[u.Ref] = u.New; IsZero(u.New) {
			delete(refs, u.Ref)
		}
	}
	folders := make(map[string]string, len(refs)) // and a ref in each
	for name := range refs {
		for folder := range parents(name) {
			folders[folder] = name
		}
	}
	for _, u := range updates {
		if _, is := refs[u.Ref]; !is {
			continue
		}
		if other, is := folders[u.Ref]; is {
			wrong[u.Ref] = "it cannot be beside " + other
		}
		for folder := range parents(u.Ref) {
			if _, is := refs[folder]; is {
				wrong[u.Ref] = "it cannot be beside " + folder
			}
		}
	}
}

// parents calls yield with each folder that the name of a ref is in.
func parents(name string) func(yield func(string) bool) {
	return func(yield func(string) bool) {
		for i := range name {
			if name[i] == '/' && !yield(name[:i]) {
				return
			}
		}
	}
}

// ChangeRefs is UpdateRefs for updates that all say what was there. Git takes a deletion
// and what it makes room for in two transactions only: if the second fails, the first is
// undone. A crash between them leaves the first. REQUIRES: the lock.
func (r *Repo) ChangeRefs(ctx context.Context, updates []host.RefUpdate) error {
	var deletions, others []host.RefUpdate
	gone, folders := make(map[string]bool), make(map[string]bool)
	for _, u := range updates {
		if !IsZero(u.New) {
			others = append(others, u)
			continue
		}
		deletions = append(deletions, u)
		gone[u.Ref] = true
		for folder := range parents(u.Ref) {
			folders[folder] = true
		}
	}
	room := false
	for _, u := range others {
		room = room || folders[u.Ref]
		for folder := range parents(u.Ref) {
			room = room || gone[folder]
		}
	}
	if !room {
		return r.UpdateRefs(ctx, updates)
	}
	if err := r.UpdateRefs(ctx, deletions); err != nil {
		return err
	}
	err := r.UpdateRefs(ctx, others)
	if err == nil {
		return nil
	}
	for i, u := range deletions {
		deletions[i] = host.RefUpdate{Ref: u.Ref, Old: u.New, New: u.Old}
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), undoTime)
	defer cancel()
	return errors.Join(err, r.UpdateRefs(ctx, deletions))
}
