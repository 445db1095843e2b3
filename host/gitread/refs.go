package gitread

import (
	"errors"
	"fmt"
	"strings"

	"talon/host/gitrepo"
)

// Prefixes of refs.
const (
	branchPrefix = "refs/heads/"
	tagPrefix    = "refs/tags/"
)

// Target is a commit, and how it was named.
type Target struct {
	Commit string
	Ref    string // the full name of the ref; "" if it was named by its id
	Tag    string // the id of the annotated tag that names it, "" for none
	Short  bool   // it was named by the beginning of its id
}

// Name returns the name of the target in URLs.
func (t Target) Name() string {
	if t.Ref == "" {
		return t.Commit
	}
	return shortName(t.Ref)
}

// shortName returns a ref as people name it.
func shortName(ref string) string {
	if name, ok := strings.CutPrefix(ref, branchPrefix); ok {
		return name
	}
	if name, ok := strings.CutPrefix(ref, tagPrefix); ok {
		return name
	}
	return ref
}

// NameOf returns the name of a target in paths: a short name where that leads to the target.
func (r *Repository) NameOf(t Target) string {
	if t.Ref == "" {
		return t.Commit
	}
	short := shortName(t.Ref)
	for i := range len(short) {
		if short[i] == '/' {
			if _, other := r.named(short[:i]); other {
				return t.Ref
			}
		}
	}
	if found, ok := r.named(short); !ok || found.Ref != t.Ref {
		return t.Ref
	}
	return short
}

// HEAD returns the commit of the default branch. It reports false if there is none.
func (r *Repository) HEAD() (Target, bool) { return r.ref(r.refs.HEAD) }

// Refs returns all refs, sorted by name.
func (r *Repository) Refs() []gitrepo.Ref { return r.refs.List }

// HEADRef returns the full name of the default branch, which need not exist.
func (r *Repository) HEADRef() string { return r.refs.HEAD }

// ref returns the target of a full name.
func (r *Repository) ref(name string) (Target, bool) {
	i, ok := r.byName[name]
	if !ok {
		return Target{}, false
	}
	ref := r.refs.List[i]
	if ref.Peeled != "" {
		return Target{Commit: ref.Peeled, Ref: name, Tag: ref.ID}, true
	}
	return Target{Commit: ref.ID, Ref: name}, true
}

// named returns the target of a name without slashes before or behind it: a branch before a tag
// before a full name.
func (r *Repository) named(name string) (Target, bool) {
	if name == "HEAD" {
		return r.HEAD()
	}
	for _, full := range [...]string{branchPrefix + name, tagPrefix + name} {
		if t, ok := r.ref(full); ok {
			return t, true
		}
	}
	if strings.HasPrefix(name, "refs/") {
		return r.ref(name)
	}
	return Target{}, false
}

// Named returns the target of the full name of a ref.
func (r *Repository) Named(name string) (Target, error) {
	if t, ok := r.ref(name); ok {
		return t, nil
	}
	return Target{}, fmt.Errorf("%w: no ref %.200q", ErrNotFound, name)
}

// Resolve splits the segments of a path into a ref or the id of a commit, and the rest. The
// shortest name of a ref counts. It fails with ErrNotFound, or with a *TakenDown if the operator has
// taken the commit or the tag down.
func (r *Repository) Resolve(segments []string) (t Target, rest []string, err error) {
	t, rest, err = r.resolveUnchecked(segments)
	if err == nil {
		err = errors.Join(r.check(t.Commit), r.check(t.Tag))
	}
	return t, rest, err
}

// resolveUnchecked is Resolve, also of what the operator has taken down.
func (r *Repository) resolveUnchecked(segments []string) (t Target, rest []string, err error) {
	if len(segments) == 0 || segments[0] == "" {
		return Target{}, nil, fmt.Errorf("%w: no ref", ErrNotFound)
	}
	name := ""
	for i, segment := range segments[:min(len(segments), maxDepth)] {
		if i > 0 {
			name += "/"
		}
		name += segment
		if t, ok := r.named(name); ok {
			return t, segments[i+1:], nil
		}
	}
	if gitrepo.IsID(segments[0]) {
		t, err := r.Commitish(segments[0])
		return t, segments[1:], err
	}
	id, err := r.abbreviated(segments[0])
	return Target{Commit: id, Short: true}, segments[1:], err
}

// Commitish returns the commit of an id that the refs of the repository reach.
func (r *Repository) Commitish(id string) (Target, error) {
	reached, err := r.Reaches(id)
	if err != nil {
		return Target{}, err
	}
	if !reached {
		return Target{}, fmt.Errorf("%w: no ref reaches %s", ErrNotFound, id)
	}
	return Target{Commit: id}, nil
}
