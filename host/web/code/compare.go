package code

import (
	"context"
	"fmt"
	"html/template"
	"net/http"
	"strings"

	"talon/host/gitread"
	"talon/host/web/text"
)

// maxRange is how many commits a comparison lists.
const maxRange = 100

// comparePage is what the page of a comparison shows.
type comparePage struct {
	head
	From, To *ref
	FromURL  template.URL
	ToURL    template.URL
	Fork     *ref // where both part; nil if they have nothing in common
	ForkURL  template.URL
	Days     []day
	Count    int
	More     bool
	Diff     diffView
	Same     bool
}

// side is one side of a comparison.
type side struct {
	request *Request // of the repository that it is in
	target  gitread.Target
	prefix  string // NPUB and a colon, "" for the repository whose page this is
}

// name returns the side as paths have it, with its name or the id of its commit.
func (s *side) name(t gitread.Target) string { return s.prefix + escapePath(s.request.git.NameOf(t)) }

// ref returns the side for the eye.
func (s *side) ref() *ref {
	r := refOf(s.target)
	if s.prefix != "" {
		r.Name = text.Line(s.prefix, 12) + ":" + r.Name
	}
	return r
}

// side resolves one side: a ref of the repository, or NPUB:REF for one of another repository of the
// same identifier. The caller closes what it adds to opened.
func (p *Pages) side(ctx context.Context, q *Request, path string, opened *[]*gitread.Repository) (*side, error) {
	s := &side{request: q}
	if npub, rest, ok := strings.Cut(path, ":"); ok {
		if q.Fork == nil {
			return nil, gitread.ErrNotFound
		}
		fork, err := q.Fork(ctx, npub)
		if err != nil {
			return nil, err
		}
		if fork.git, err = p.reader.Open(ctx, fork.Repo, fork.By); err != nil {
			return nil, err
		}
		*opened = append(*opened, fork.git)
		s.request, s.prefix, path = fork, npub+":", rest
	}
	t, rest, err := s.request.git.Resolve(strings.Split(path, "/"))
	if err == nil && len(rest) > 0 {
		err = gitread.ErrNotFound
	}
	s.target = t
	return s, err
}

// both returns the request for a repository whose objects have both commits: repositories of an
// identifier share objects some time after a push.
func both(from, to *side) (*Request, error) {
	if from.request == to.request {
		return to.request, nil
	}
	for _, pair := range [...]struct {
		in *side
		of string
	}{{to, from.target.Commit}, {from, to.target.Commit}} {
		if holds, err := pair.in.request.git.Holds(pair.of); err != nil || holds {
			return pair.in.request, err
		}
	}
	return nil, fmt.Errorf("%w: no repository has the commits of both", gitread.ErrNotFound)
}

// compare makes the page of what B has that A does not: /compare/A...B.
func (p *Pages) compare(q *Request, segments []string) (*Page, error) {
	a, b, ok := strings.Cut(strings.Join(segments, "/"), "...")
	if !ok {
		return nil, gitread.ErrNotFound
	}
	var opened []*gitread.Repository
	defer func() {
		for _, git := range opened {
			git.Close()
		}
	}()
	ctx := q.HTTP.Context()
	from, err := p.side(ctx, q, a, &opened)
	if err != nil {
		return nil, err
	}
	to, err := p.side(ctx, q, b, &opened)
	if err != nil {
		return nil, err
	}
	if from.target.Short || to.target.Short {
		return redirect(q.Base + "/compare/" + from.name(from.target) + "..." + to.name(to.target)), nil
	}
	etag, known := p.etag(q, from.target.Commit, to.target.Commit, from.request.About, to.request.About)
	if known {
		return notModified(etag), nil
	}
	v, err := p.comparison(q, from, to)
	if err != nil {
		return nil, err
	}
	return &Page{Status: http.StatusOK, Template: "code-compare", Content: v, ETag: etag}, nil
}

// comparison fills the page of a comparison.
func (p *Pages) comparison(q *Request, from, to *side) (*comparePage, error) {
	start, tip := from.target.Commit, to.target.Commit
	v := &comparePage{
		head: q.headOf("", to.target, nil), From: from.ref(), To: to.ref(), Same: start == tip,
		FromURL: template.URL(from.request.url("tree", from.target)), ToURL: template.URL(to.request.url("tree", to.target)),
	}
	v.Title = fmt.Sprintf("%s...%s", v.From.Name, v.To.Name)
	v.Robots, v.Ref = "noindex, nofollow", nil
	v.Permalink = template.URL(q.Base + "/compare/" + from.name(gitread.Target{Commit: start}) + "..." + to.name(gitread.Target{Commit: tip}))
	in, err := both(from, to)
	if err != nil {
		return nil, err
	}
	base, err := in.git.MergeBase(start, tip)
	if err != nil {
		return nil, err
	}
	ids, isMore, err := in.git.Range(start, tip, maxRange)
	if err != nil {
		return nil, err
	}
	v.Count, v.More = len(ids), isMore
	if v.Days, err = to.request.days(ids); err != nil {
		return nil, err
	}
	before := gitread.Target{Commit: base}
	if base != "" {
		start, v.Fork, v.ForkURL = base, refOf(before), template.URL(to.request.Base+"/commit/"+base)
	}
	d, err := in.git.Diff(start, tip)
	if err != nil {
		return nil, err
	}
	v.Diff = to.request.diffView(d, before, gitread.Target{Commit: tip})
	return v, nil
}

// Compare returns what a page of package web shows of the changes between two commits, such as those of
// a pull request: the fields of the template code-diff.
func (p *Pages) Compare(q *Request, from, to string) (any, error) {
	git, err := p.reader.Open(q.HTTP.Context(), q.Repo, q.By)
	if err != nil {
		return nil, err
	}
	defer git.Close()
	with := *q
	with.git = git
	for _, id := range []string{from, to} {
		if _, err := git.Commitish(id); err != nil {
			return nil, err
		}
	}
	base, err := git.MergeBase(from, to)
	if err != nil {
		return nil, err
	}
	if base == "" {
		base = from
	}
	d, err := git.Diff(base, to)
	if err != nil {
		return nil, err
	}
	return with.diffView(d, gitread.Target{Commit: base}, gitread.Target{Commit: to}), nil
}
