package code

import (
	"html/template"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"talon/host/gitread"
	"talon/host/web/text"
)

// searchPage is what the page of a search in a repository shows.
type searchPage struct {
	head
	Action template.URL
	Query  string
	Files  []searchFile
	Count  int
	More   bool
	Note   string
}

// searchFile is a file in which a search has found something.
type searchFile struct {
	Name string
	URL  template.URL
	Rows template.HTML
}

// search makes the page of a search: /grep/REF?q=TEXT.
func (p *Pages) search(q *Request, segments []string) (*Page, error) {
	if len(segments) == 0 {
		t, ok := q.git.HEAD()
		if !ok {
			return nil, gitread.ErrNotFound
		}
		return redirect(q.url("grep", t)), nil
	}
	t, rest, err := q.git.Resolve(segments)
	if err != nil {
		return nil, err
	}
	if len(rest) > 0 {
		return nil, gitread.ErrNotFound
	}
	query := q.HTTP.URL.Query().Get("q")
	etag, known := p.etag(q, t.Commit)
	if known {
		return notModified(etag), nil
	}
	v := &searchPage{head: q.headOf("Search", t, nil), Action: template.URL(q.url("grep", t)), Query: text.Line(query, 200)}
	v.Robots = "noindex, nofollow"
	v.addCrumbs(q, t, nil)
	switch query = strings.TrimSpace(query); {
	case query == "":
	case len(query) < 2 || len(query) > 200 || strings.ContainsAny(query, "\n\r\x00"):
		v.Note = "A search has 2 to 200 characters on one line."
	default:
		matches, more, err := q.git.Grep(t.Commit, query)
		if err != nil {
			return nil, err
		}
		v.Count, v.More = len(matches), more
		v.Files = q.searchFiles(t, matches)
	}
	return &Page{Status: http.StatusOK, Template: "code-search", Content: v, ETag: etag}, nil
}

// searchFiles returns what was found by files.
func (q *Request) searchFiles(t gitread.Target, matches []gitread.Match) (files []searchFile) {
	for group := range slices.Values(groupBy(matches)) {
		path := strings.Split(group[0].Path, "/")
		f := searchFile{Name: fileName(group[0].Path), URL: template.URL(q.url("blob", t, path...))}
		var b []byte
		for _, m := range group {
			n := strconv.Itoa(m.Line)
			b = append(b, `<tr><td class="b"><a href="`+escape(string(f.URL)+"?l="+n+"#L"+n)+`">`+n+`</a></td><td class="t">`...)
			b = appendCode(b, strings.TrimLeft(m.Text, " \t")) // a phone has no room for the indentation
			b = append(b, "</td></tr>\n"...)
		}
		f.Rows = template.HTML(b)
		files = append(files, f)
	}
	return files
}

// groupBy returns matches by the files that they are in.
func groupBy(matches []gitread.Match) (groups [][]gitread.Match) {
	for i, m := range matches {
		if i == 0 || m.Path != matches[i-1].Path {
			groups = append(groups, nil)
		}
		groups[len(groups)-1] = append(groups[len(groups)-1], m)
	}
	return groups
}
