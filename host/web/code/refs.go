package code

import (
	"errors"
	"html/template"
	"net/http"
	"slices"
	"strings"

	"talon/host/gitread"
	"talon/host/web/text"
)

// tagView is an annotated tag.
type tagView struct {
	Name    string
	Tagger  signature
	Signed  string
	Message string
}

// shownRefs is how many refs of a kind a page lists.
const shownRefs = 1000

// refsPage is what the page of branches and tags shows.
type refsPage struct {
	head
	Lists []refRows
	Forks []forkRow
}

// forkRow is the repository of the same identifier of another owner.
type forkRow struct {
	Fork
	URL     template.URL
	Compare template.URL // with the default branch, "" if there is none
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
	URL     template.URL // "" if it is no commit
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
	forks, err := q.forkRows()
	if err != nil {
		return nil, err
	}
	for _, f := range forks {
		parts = append(parts, f.Npub, f.Name)
	}
	etag, known := p.etag(q, append(parts, q.git.HEADRef())...)
	if known {
		return notModified(etag), nil
	}
	v := &refsPage{head: head{Title: "Branches and tags", Name: q.Name, Base: template.URL(q.Base)}, Forks: forks}
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

// forkRows returns the repositories of the same identifier of other owners.
func (q *Request) forkRows() (rows []forkRow, err error) {
	if q.Forks == nil {
		return nil, nil
	}
	forks, err := q.Forks(q.HTTP.Context())
	for _, f := range forks {
		row := forkRow{Fork: f, URL: template.URL(f.Path)}
		if head, ok := q.git.HEAD(); ok {
			row.Compare = template.URL(q.Base + "/compare/" + escapePath(q.git.NameOf(head)) + "..." + f.Npub + ":HEAD")
		}
		rows = append(rows, row)
	}
	return rows, err
}

// refRow returns a branch or a tag.
func (p *Pages) refRow(q *Request, name string) (refRow, error) {
	t, err := q.git.Named(name)
	if err != nil {
		return refRow{}, err
	}
	row := refRow{Name: refOf(t).Name, Default: name == q.git.HEADRef()}
	c, err := q.git.Commit(t.Commit)
	if errors.Is(err, gitread.ErrNotFound) || errors.Is(err, gitread.ErrTooLarge) {
		return row, nil // a ref of a file, of a folder, or of a commit that no page shows
	}
	if err != nil {
		return row, err
	}
	row.URL, row.Last = template.URL(q.url("tree", t)), q.changeOf(c)
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

// tag returns an annotated tag as pages show it.
func (q *Request) tag(id string) (*tagView, error) {
	t, err := q.git.Tag(id)
	if err != nil {
		return nil, err
	}
	return &tagView{Name: fileName(t.Name), Tagger: signatureOf(t.Tagger), Signed: t.Signed, Message: text.Lines(t.Message, 2000)}, nil
}
