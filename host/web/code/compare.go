package code

import (
	"fmt"
	"html/template"
	"net/http"
	"strings"

	"talon/host/gitread"
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

// compare makes the page of what B has that A does not: /compare/A...B.
func (p *Pages) compare(q *Request, segments []string) (*Page, error) {
	a, b, ok := strings.Cut(strings.Join(segments, "/"), "...")
	if !ok {
		return nil, gitread.ErrNotFound
	}
	from, rest, err := q.git.Resolve(strings.Split(a, "/"))
	if err != nil {
		return nil, err
	}
	to, more, err := q.git.Resolve(strings.Split(b, "/"))
	if err != nil {
		return nil, err
	}
	if len(rest) > 0 || len(more) > 0 {
		return nil, gitread.ErrNotFound
	}
	if from.Short || to.Short {
		return redirect(q.Base + "/compare/" + escapePath(q.git.NameOf(from)) + "..." + escapePath(q.git.NameOf(to))), nil
	}
	etag, known := p.etag(q, from.Commit, to.Commit)
	if known {
		return notModified(etag), nil
	}
	v := &comparePage{
		head: q.headOf("", to, nil), From: refOf(from), To: refOf(to), FromURL: template.URL(q.url("tree", from)), ToURL: template.URL(q.url("tree", to)),
		Same: from.Commit == to.Commit,
	}
	v.Title = fmt.Sprintf("%s...%s", v.From.Name, v.To.Name)
	v.Robots, v.Ref = "noindex, nofollow", nil
	v.Permalink = template.URL(q.Base + "/compare/" + from.Commit + "..." + to.Commit)
	base, err := q.git.MergeBase(from.Commit, to.Commit)
	if err != nil {
		return nil, err
	}
	start := from.Commit
	if base != "" {
		v.Fork, start = refOf(gitread.Target{Commit: base}), base
		v.ForkURL = template.URL(q.Base + "/commit/" + base)
	}
	ids, isMore, err := q.git.Range(from.Commit, to.Commit, maxRange)
	if err != nil {
		return nil, err
	}
	v.Count, v.More = len(ids), isMore
	if v.Days, err = q.days(ids); err != nil {
		return nil, err
	}
	d, err := q.git.Diff(start, to.Commit)
	if err != nil {
		return nil, err
	}
	v.Diff = q.diffView(d, gitread.Target{Commit: start}, gitread.Target{Commit: to.Commit})
	return &Page{Status: http.StatusOK, Template: "code-compare", Content: v, ETag: etag}, nil
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
