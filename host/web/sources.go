package web

import (
	"context"
	"reflect"
	"slices"

	"talon/host"
	"talon/sdk/grasp"
)

// sources is all that a page was made from. It belongs to the goroutine that makes the page, and
// does not change afterwards.
type sources struct {
	changes uint64 // number of the first change that the page may not show
	filters []host.Filter
	refs    map[host.Address]refsRead
	here    map[host.Address]bool
	hunts   map[string]huntRead
	about   *[]host.Description // nil: not read
	objects int64               // number of the last row of the operator about a git object
}

type refsRead struct {
	refs []grasp.Ref
	head string
	here bool
}

type huntRead struct {
	hunt Hunt
	ok   bool
}

// watching returns a handler that notes what it reads.
func (h *Handler) watching() (*Handler, *sources) {
	s := &sources{
		changes: h.changes.next(), refs: make(map[host.Address]refsRead), here: make(map[host.Address]bool), hunts: make(map[string]huntRead),
		objects: h.cfg.Moderation.ObjectNumber(),
	}
	noting := *h
	noting.read.facts = notedFacts{h.read.facts, s}
	noting.git = notedGit{h.git, s}
	noting.cfg.Hunt = func(identifier string) (Hunt, bool) {
		hunt, ok := h.cfg.Hunt(identifier)
		s.hunts[identifier] = huntRead{hunt, ok}
		return hunt, ok
	}
	noting.cfg.About = func() []host.Description {
		about := h.cfg.About()
		s.about = &about
		return about
	}
	return &noting, s
}

type notedFacts struct {
	host.RepoFacts
	to *sources
}

func (f notedFacts) Query(ctx context.Context, filter host.Filter) ([][]byte, error) {
	f.to.note(filter)
	return f.RepoFacts.Query(ctx, filter)
}

func (f notedFacts) HeldBy(ctx context.Context, filter host.Filter) ([][]byte, error) {
	f.to.note(filter)
	return f.RepoFacts.HeldBy(ctx, filter)
}

// note keeps a filter. Pages are read in chunks, each until the last event of the one before:
// the filter of the first chunk covers those that follow.
func (s *sources) note(f host.Filter) {
	if n := len(s.filters); n > 0 && f.Until != nil {
		last := s.filters[n-1]
		if last.Until == nil && reflect.DeepEqual(last.Kinds, f.Kinds) && reflect.DeepEqual(last.Authors, f.Authors) && reflect.DeepEqual(last.Tags, f.Tags) {
			return
		}
		until := *f.Until
		f.Until = &until
	}
	s.filters = append(s.filters, f)
}

type notedGit struct {
	Repositories
	to *sources
}

func (g notedGit) Here(ctx context.Context, repo host.Address) (bool, error) {
	here, err := g.Repositories.Here(ctx, repo)
	if err == nil {
		g.to.here[repo] = here
	}
	return here, err
}

func (g notedGit) Refs(ctx context.Context, repo host.Address) (refs []grasp.Ref, head string, here bool, err error) {
	refs, head, here, err = g.Repositories.Refs(ctx, repo)
	if err == nil {
		g.to.refs[repo] = refsRead{slices.Clone(refs), head, here}
	}
	return refs, head, here, err
}

// unchanged reports whether a page that was made from s would be the same now.
func (s *sources) unchanged(ctx context.Context, h *Handler) bool {
	events, all := h.changes.since(s.changes)
	if !all || s.objects != h.cfg.Moderation.ObjectNumber() {
		return false
	}
	for _, e := range events {
		if slices.ContainsFunc(s.filters, func(f host.Filter) bool { return f.Matches(e) }) {
			return false
		}
	}
	for repo, was := range s.here {
		if here, err := h.git.Here(ctx, repo); err != nil || here != was {
			return false
		}
	}
	for repo, was := range s.refs {
		refs, head, here, err := h.git.Refs(ctx, repo)
		if err != nil || here != was.here || head != was.head || !slices.Equal(refs, was.refs) {
			return false
		}
	}
	for identifier, was := range s.hunts {
		hunt, ok := h.cfg.Hunt(identifier)
		if ok != was.ok || hunt.Missing != was.hunt.Missing || !hunt.Next.Equal(was.hunt.Next) || !slices.Equal(hunt.Asking, was.hunt.Asking) {
			return false
		}
	}
	return s.about == nil || reflect.DeepEqual(*s.about, h.cfg.About())
}
