package gitrepo

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"talon/host"
)

// ManyRefs is how many refs may change at once before they are packed again: git
// answers from one file much faster than from a file for each, and makes it durable
// with one sync.
const ManyRefs = 64

// Ref is a ref and what it points to.
type Ref struct {
	Name   string // in full
	ID     string
	Peeled string // what an annotated tag is of; empty for others
}

// Refs are the refs of a repository at one moment.
type Refs struct {
	HEAD string // the ref that HEAD names, which need not exist
	List []Ref  // sorted by name, without HEAD
}

// Refs reads all refs. What they point to may be damaged: it does not look at the
// objects, but at those that might be tags.
func (r *Repo) Refs(ctx context.Context) (Refs, error) {
	list, head, err := r.refFiles(ctx)
	if errors.Is(err, errUnusual) {
		return r.askRefs(ctx)
	}
	if err == nil {
		err = r.peel(ctx, list)
	}
	if err != nil {
		return Refs{}, fmt.Errorf("read the refs: %w", err)
	}
	refs := Refs{HEAD: head, List: make([]Ref, 0, len(list))}
	for _, ref := range list {
		refs.List = append(refs.List, ref.Ref)
	}
	return refs, nil
}

func (r *Repo) refFiles(ctx context.Context) (list []fileRef, head string, err error) {
	if ctx.Err() != nil {
		return nil, "", context.Cause(ctx)
	}
	if err := r.mustExist(); err != nil {
		return nil, "", err
	}
	if head, err = r.readHEAD(); err != nil {
		return nil, "", err
	}
	list, err = r.readRefs()
	return list, head, err
}

// askRefs has git read all refs.
func (r *Repo) askRefs(ctx context.Context) (Refs, error) {
	out, err := r.run(ctx, nil, "show-ref", "--dereference")
	if err != nil && exitCode(err) != 1 { // 1: there are none
		return Refs{}, fmt.Errorf("read the refs: %w", err)
	}
	var refs Refs
	for line := range strings.Lines(string(out)) {
		id, name, ok := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		tag, peeled := strings.CutSuffix(name, "^{}")
		last := len(refs.List) - 1
		switch {
		case ok && !strings.HasPrefix(name, "refs/"): // somebody wrote HEAD to packed-refs
		case !ok || !IsID(id) || peeled && (last < 0 || refs.List[last].Name != tag):
			return Refs{}, fmt.Errorf("read the refs: git says %.100q", line)
		case peeled:
			refs.List[last].Peeled = id
		default:
			refs.List = append(refs.List, Ref{Name: name, ID: id})
		}
	}
	out, err = r.run(ctx, nil, "symbolic-ref", "--quiet", "HEAD")
	if err != nil && exitCode(err) != 1 { // 1: it names an object
		return Refs{}, fmt.Errorf("read HEAD: %w", err)
	}
	refs.HEAD = strings.TrimSuffix(string(out), "\n")
	return refs, nil
}

// Ref returns the object that a ref points to, and false if there is no such ref.
func (r *Repo) Ref(ctx context.Context, name string) (id string, found bool, err error) {
	if !IsRef(name) {
		return "", false, nil
	}
	if ctx.Err() != nil {
		return "", false, fmt.Errorf("read a ref: %w", context.Cause(ctx))
	}
	if err := r.mustExist(); err != nil {
		return "", false, fmt.Errorf("read a ref: %w", err)
	}
	id, err = r.readRef(name)
	if errors.Is(err, errUnusual) {
		return r.askRef(ctx, name)
	}
	if err != nil {
		return "", false, fmt.Errorf("read a ref: %w", err)
	}
	return id, id != "", nil
}

// askRef has git read a ref.
func (r *Repo) askRef(ctx context.Context, name string) (id string, found bool, err error) {
	out, err := r.run(ctx, nil, "show-ref", "--verify", "--hash", "--", name)
	if err != nil {
		if code := exitCode(err); code == 1 || code == 128 { // 128: not a valid ref
			return "", false, nil
		}
		return "", false, fmt.Errorf("read a ref: %w", err)
	}
	id = strings.TrimSpace(string(out))
	return id, IsID(id), nil
}

// UpdateRefs changes refs in one transaction: all or none. An update whose Old is
// empty does not ask what was there, one whose New is zeros deletes. Git refuses
// objects that are absent. REQUIRES: the lock.
func (r *Repo) UpdateRefs(ctx context.Context, updates []host.RefUpdate) error {
	if len(updates) == 0 {
		return nil
	}
	var in strings.Builder
	in.WriteString("start\x00")
	for _, u := range updates {
		switch {
		case !IsRef(u.Ref):
			return fmt.Errorf("update refs: %.100q is not the name of a ref", u.Ref)
		case !IsID(u.New) || u.Old != "" && !IsID(u.Old):
			return fmt.Errorf("update %s: not an object id", u.Ref)
		case IsZero(u.New):
			// Old as zeros would ask git to delete what must not exist.
			old := u.Old
			if old != "" && IsZero(old) {
				return fmt.Errorf("update %s: it would be deleted and must not exist", u.Ref)
			}
			fmt.Fprintf(&in, "delete %s\x00%s\x00", u.Ref, old)
		default:
			fmt.Fprintf(&in, "update %s\x00%s\x00%s\x00", u.Ref, u.New, u.Old)
		}
	}
	in.WriteString("prepare\x00commit\x00")
	if r.root != nil && len(updates) >= ManyRefs {
		if err := r.mustExist(); err != nil {
			return fmt.Errorf("update refs: %w", err)
		}
		if done, err := r.updatePacked(ctx, updates); done || err != nil {
			return err
		}
	}
	args := append(syncing(len(updates)), "update-ref", "--no-deref", "-z", "--stdin")
	_, err := r.run(ctx, []byte(in.String()), args...)
	if r.root != nil && leftLocked(err) {
		// Nobody else changes refs here: it is of a git that was killed.
		if err := r.removeLocks(func(fs.DirEntry) bool { return true }); err != nil {
			return fmt.Errorf("update refs: %w", err)
		}
		_, err = r.run(ctx, []byte(in.String()), args...)
	}
	if err != nil {
		return fmt.Errorf("update refs: %w", err)
	}
	if len(updates) >= ManyRefs {
		return r.PackRefs(ctx)
	}
	return nil
}

// leftLocked reports whether git found a lock file that stayed where it was.
func leftLocked(err error) bool {
	failure := new(Failure)
	return errors.As(err, &failure) && strings.Contains(failure.Stderr, ".lock': File exists")
}

// syncing are the options of a git that changes so many refs. A sync for each file
// of 10,000 takes minutes, and PackRefs makes one do.
func syncing(refs int) []string {
	if refs < ManyRefs {
		return nil
	}
	return []string{"-c", "core.fsync=objects,derived-metadata"}
}

// SetHEAD makes HEAD name a branch, which need not exist. REQUIRES: the lock.
func (r *Repo) SetHEAD(ctx context.Context, branch string) error {
	if !IsRef(branch) || !strings.HasPrefix(branch, "refs/heads/") {
		return errors.New("set HEAD: not the full name of a branch")
	}
	if err := r.mustExist(); err != nil {
		return fmt.Errorf("set HEAD: %w", err)
	}
	if now, err := r.readHEAD(); err == nil && now == branch {
		return nil
	}
	if _, err := r.run(ctx, nil, "symbolic-ref", "HEAD", branch); err != nil {
		return fmt.Errorf("set HEAD: %w", err)
	}
	return nil
}

// PackRefs writes all refs to one file. REQUIRES: the lock.
func (r *Repo) PackRefs(ctx context.Context) error {
	if _, err := r.run(ctx, nil, "pack-refs", "--all", "--prune"); err != nil {
		return fmt.Errorf("pack the refs: %w", err)
	}
	return nil
}
