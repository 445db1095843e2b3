package code

import (
	"fmt"
	"html/template"
	"net/http"
	"slices"
	"strings"

	"talon/host/gitread"
)

// maxRange is how many commits a comparison lists.
const maxRange = 100

// comparePage is what the page of a comparison shows.
type comparePage struct {
	head
	From, To   *ref
	FromURL    template.URL
	ToURL      template.URL
	Fork       *ref // where both part; nil if they have nothing in common
	ForkURL    template.URL
	Repository template.URL
	Days       []day
	Count      int
	More       bool
	Diff       diffView
	Same       bool
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
		Repository: template.URL(q.Base), Same: from.Commit == to.Commit,
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
	v.Diff = q.diffView(d, from, gitread.Target{Commit: to.Commit})
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

// shownRefs is how many refs of a kind a page lists.
const shownRefs = 1000

// refsPage is what the page of branches and tags shows.
type refsPage struct {
	head
	Lists []refRows
}

// refRows is a list of refs of one kind.
type refRows struct {
	Title  string
	Rows   []refRow
	Hidden int
}

// refRow is a branch or a tag.
type refRow struct {
	Name    string
	URL     template.URL
	Default bool
	Last    *change // nil if it is no commit
	Ahead   int     // commits that the default branch does not have
	Behind  int
	Counted bool
	Compare template.URL
	Archive []link
	Tag     *tagView
}

// refList makes the page of branches and tags.
func (p *Pages) refList(q *Request, segments []string) (*Page, error) {
	if len(segments) > 0 {
		return nil, gitread.ErrNotFound
	}
	refs := q.git.Refs()
	parts := make([]string, 0, 2*len(refs)+1)
	for _, ref := range refs {
		parts = append(parts, ref.Name, ref.ID)
	}
	etag, known := p.etag(q, append(parts, q.git.HEADRef())...)
	if known {
		return notModified(etag), nil
	}
	v := &refsPage{head: head{Title: "Branches and tags", Name: q.Name, Base: template.URL(q.Base)}}
	for _, kind := range [...]struct{ title, prefix string }{{"Branches", "refs/heads/"}, {"Tags", "refs/tags/"}} {
		list := refRows{Title: kind.title}
		var rows []refRow
		for _, ref := range refs {
			if !strings.HasPrefix(ref.Name, kind.prefix) {
				continue
			}
			if len(rows) == shownRefs {
				list.Hidden++
				continue
			}
			row, err := p.refRow(q, ref.Name)
			if err != nil {
				return nil, err
			}
			rows = append(rows, row)
		}
		slices.SortStableFunc(rows, func(a, b refRow) int {
			switch {
			case a.Default != b.Default:
				return map[bool]int{true: -1, false: 1}[a.Default]
			case a.Last != nil && b.Last != nil:
				return strings.Compare(b.Last.At.Machine, a.Last.At.Machine)
			}
			return 0
		})
		if list.Rows = rows; len(rows) > 0 {
			v.Lists = append(v.Lists, list)
		}
	}
	return &Page{Status: http.StatusOK, Template: "code-refs", Content: v, ETag: etag}, nil
}

// refRow returns a branch or a tag.
func (p *Pages) refRow(q *Request, name string) (refRow, error) {
	t, err := q.git.Named(name)
	if err != nil {
		return refRow{}, err
	}
	row := refRow{Name: refOf(t).Name, URL: template.URL(q.url("tree", t)), Default: name == q.git.HEADRef()}
	c, err := q.git.Commit(t.Commit)
	if err != nil {
		return row, nil // a ref of something else than a commit
	}
	row.Last = q.changeOf(c)
	for _, format := range [...]string{"tar.gz", "zip"} {
		row.Archive = append(row.Archive, link{template.URL(q.url("archive", t) + "." + format), format})
	}
	if t.Tag != "" {
		if row.Tag, err = q.tag(t.Tag); err != nil {
			return row, err
		}
	}
	head, ok := q.git.HEAD()
	if strings.HasPrefix(name, "refs/heads/") && ok && !row.Default {
		row.Compare = template.URL(q.Base + "/compare/" + escapePath(q.git.NameOf(head)) + "..." + escapePath(q.git.NameOf(t)))
		row.Ahead, row.Behind, row.Counted = q.git.AheadBehind(t.Commit, head.Commit)
	}
	return row, nil
}
