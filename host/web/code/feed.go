package code

import (
	"context"
	"slices"
	"strings"

	"talon/host/gitread"
	"talon/host/web/text"
)

// maxFeed bounds the entries of a feed.
const maxFeed = 20

// FeedEntry is a commit or a tag as feeds have it.
type FeedEntry struct {
	Title  string
	Author string
	Path   string // of its page
	Commit string
	When   int64
}

// Commits returns the newest commits of a ref, by default of HEAD. Segments is the ref as in paths,
// escaped. It also returns the ref for the eye. Its errors are those of Page.
func (p *Pages) Commits(ctx context.Context, q *Request, ref string) (name string, list []FeedEntry, err error) {
	if q.git, err = p.reader.Open(ctx, q.Repo, q.By); err != nil {
		return "", nil, err
	}
	defer q.git.Close()
	t, ok := q.git.HEAD()
	if ref != "" {
		_, segments, right := split("log/" + ref)
		if !right {
			return "", nil, gitread.ErrNotFound
		}
		var rest []string
		t, rest, err = q.git.Resolve(segments)
		ok = len(rest) == 0
	}
	if err != nil || !ok {
		return "", nil, orNotFound(err)
	}
	ids, _, err := q.git.Log(t.Commit, 0, maxFeed)
	for i := 0; err == nil && i < len(ids); i++ {
		var n FeedEntry
		if n, err = q.feedEntry(ids[i]); err == nil {
			n.Path = q.Base + "/commit/" + ids[i]
			list = append(list, n)
		}
	}
	return fileName(t.Name()), list, err
}

// Tags returns the tags with the highest versions. Its errors are those of Page.
func (p *Pages) Tags(ctx context.Context, q *Request) (list []FeedEntry, err error) {
	if q.git, err = p.reader.Open(ctx, q.Repo, q.By); err != nil {
		return nil, err
	}
	defer q.git.Close()
	var names []string
	for _, ref := range q.git.Refs() {
		if strings.HasPrefix(ref.Name, "refs/tags/") {
			names = append(names, ref.Name)
		}
	}
	slices.SortFunc(names, func(a, b string) int { return text.Natural(b, a) })
	for _, name := range names[:min(len(names), maxFeed)] {
		t, err := q.git.Named(name)
		if err != nil {
			return nil, err
		}
		n, err := q.feedEntry(t.Commit)
		if err != nil {
			continue // a tag of something else than a commit
		}
		n.Title, n.Path = fileName(t.Name()), q.url("tree", t)
		list = append(list, n)
	}
	return list, nil
}

func (q *Request) feedEntry(id string) (FeedEntry, error) {
	c, err := q.git.Commit(id)
	if err != nil {
		return FeedEntry{}, err
	}
	one := q.changeOf(c)
	return FeedEntry{Title: one.Subject, Author: one.Author, Commit: id, When: c.Committer.When}, nil
}

func orNotFound(err error) error {
	if err == nil {
		err = gitread.ErrNotFound
	}
	return err
}

// Standing is how a commit stands to the default branch.
type Standing struct {
	Branch  string // the default branch, for the eye
	Ahead   int    // commits that the default branch does not have
	Behind  int
	Counted bool
	Merged  bool   // the default branch has the commit
	Compare string // the path of the page that shows what it changes
	Known   []string
}

// Standing returns how a commit stands to the default branch, and which of some commits have a page.
// Base is where its changes begin, "" where both part. It returns nil if the commit or the branch is
// not here. Its errors are those of Page.
func (p *Pages) Standing(ctx context.Context, q *Request, tip, base string, commits []string) (*Standing, error) {
	var err error
	if q.git, err = p.reader.Open(ctx, q.Repo, q.By); err != nil {
		return nil, err
	}
	defer q.git.Close()
	v := &Standing{}
	for _, id := range commits {
		reached, err := q.git.Reaches(id)
		if err != nil {
			return nil, err
		}
		if reached {
			v.Known = append(v.Known, id)
		}
	}
	head, ok := q.git.HEAD()
	if !ok || !slices.Contains(v.Known, tip) {
		return v, nil
	}
	v.Branch = fileName(head.Name())
	v.Ahead, v.Behind, v.Counted = q.git.AheadBehind(tip, head.Commit)
	v.Merged = v.Counted && v.Ahead == 0
	from := escapePath(q.git.NameOf(head))
	if v.Merged {
		// Both part at the commit itself now.
		from = ""
	}
	if slices.Contains(v.Known, base) && base != tip {
		from = base
	}
	if from != "" {
		v.Compare = q.Base + "/compare/" + from + "..." + tip
	}
	return v, nil
}
