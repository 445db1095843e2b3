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

	// maxPathSkip is how far a log of a path goes back: git counts from the tip each time.
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
	from := max(0, number(q.HTTP.URL.Query().Get("from")))
	title := "Commits of " + fileName(t.Name())
	if t.Ref == "" {
		title = "Commits up to " + text.ShortID(t.Commit)
	}
	v := &logPage{head: q.headOf(title, t, at)}
	if from > 0 {
		v.Robots = "noindex, nofollow"
	}
	var ids []string
	more := false
	if len(at) == 0 {
		ids, v.Count, err = q.git.Log(t.Commit, from, perPage)
		more = from+len(ids) < v.Count
	} else {
		if from > maxPathSkip {
			return nil, gitread.ErrNotFound
		}
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
		v.Newer = template.URL(q.url("log", byID, at...) + query("from", max(0, from-perPage)))
	}
	if more {
		v.Older = template.URL(q.url("log", byID, at...) + query("from", from+perPage))
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

// query returns a query of one number, "" for 0.
func query(name string, n int) string {
	if n == 0 {
		return ""
	}
	return "?" + url.QueryEscape(name) + "=" + strconv.Itoa(n)
}
