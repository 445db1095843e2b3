package code

import (
	"html/template"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"talon/host/gitread"
	"talon/host/web/text"
)

const (
	// perPage is how many commits a page of a log has.
	perPage = 50

	// maxPathSkip is how far a log of a path or of an author goes back: git counts from the tip each time.
	maxPathSkip = 20_000
)

// logPage is what the page of a log shows.
type logPage struct {
	head
	Days  []day
	Count int    // of all commits; 0 if it is not known
	Path  string // for the eye; "" for the log of all
	Newer template.URL
	Older template.URL

	Search bool   // there is a field for an author
	Author string // of these commits; "" for all
}

// day is the commits of one day of a log.
type day struct {
	Title   string
	Commits []*change
}

// log makes the page of a log. A position counts from the tip, so that links go to the tip's id.
func (p *Pages) log(q *Request, segments []string) (*Page, error) {
	if len(segments) == 0 {
		t, ok := q.git.HEAD()
		if !ok {
			return nil, gitread.ErrNotFound
		}
		return redirect(q.url("log", t)), nil
	}
	t, at, err := q.git.Resolve(segments)
	if err != nil {
		return nil, err
	}
	if t.Short {
		return redirect(q.url("log", t, at...)), nil
	}
	etag, known := p.etag(q, t.Commit)
	if known {
		return notModified(etag), nil
	}
	values := q.HTTP.URL.Query()
	from, author := max(0, number(values.Get("from"))), strings.TrimSpace(values.Get("author"))
	if author != "" && !q.SignedIn {
		return nil, ErrSignIn
	}
	title := "Commits of " + fileName(t.Name())
	if t.Ref == "" {
		title = "Commits up to " + text.ShortID(t.Commit)
	}
	v := &logPage{head: q.headOf(title, t, at), Search: q.SignedIn && len(at) == 0, Author: text.Line(author, maxPerson)}
	if from > 0 || author != "" {
		v.Robots = "noindex, nofollow"
	}
	var ids []string
	more := false
	switch {
	case len(at) == 0 && author == "":
		ids, v.Count, err = q.git.Log(t.Commit, from, perPage)
		more = from+len(ids) < v.Count
	case from > maxPathSkip || len(at) > 0 && author != "":
		return nil, gitread.ErrNotFound
	case author != "":
		ids, more, err = q.git.AuthorLog(t.Commit, author, from, perPage)
	default:
		v.Path = fileName(strings.Join(at, "/"))
		v.Title = "History of " + v.Path
		ids, more, err = q.git.PathLog(t.Commit, at, from, perPage)
	}
	if err != nil {
		return nil, err
	}
	if len(ids) == 0 && (from > 0 || len(at) > 0) {
		return nil, gitread.ErrNotFound
	}
	if v.Days, err = q.days(ids); err != nil {
		return nil, err
	}
	v.addCrumbs(q, t, at)
	byID := gitread.Target{Commit: t.Commit}
	if from > 0 {
		v.Newer = template.URL(q.url("log", byID, at...) + query(author, max(0, from-perPage)))
	}
	if more {
		v.Older = template.URL(q.url("log", byID, at...) + query(author, from+perPage))
	}
	if t.Ref != "" && len(at) == 0 {
		v.Feed = template.URL(q.Base + "/log.atom/" + escapePath(q.git.NameOf(t)))
	}
	return &Page{Status: http.StatusOK, Template: "code-log", Content: v, ETag: etag}, nil
}

// days returns commits by the day on which they were committed, in UTC and in the order of the log.
func (q *Request) days(ids []string) (list []day, err error) {
	for _, id := range ids {
		c, err := q.git.Commit(id)
		if err != nil {
			return nil, err
		}
		one := q.changeOf(c)
		title, _, _ := strings.Cut(one.At.Text, ",")
		if n := len(list); n == 0 || list[n-1].Title != title {
			list = append(list, day{Title: title})
		}
		last := &list[len(list)-1]
		last.Commits = append(last.Commits, one)
	}
	return list, nil
}

// number parses a number of a query, 0 if it is none.
func number(s string) int {
	n, err := strconv.Atoi(s)
	if err != nil || n > 1<<30 {
		return 0
	}
	return n
}

// query returns the query of a page of a log.
func query(author string, from int) string {
	values := make(url.Values)
	if author != "" {
		values.Set("author", author)
	}
	if from > 0 {
		values.Set("from", strconv.Itoa(from))
	}
	if len(values) == 0 {
		return ""
	}
	return "?" + values.Encode()
}
