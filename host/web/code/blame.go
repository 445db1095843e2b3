package code

import (
	"errors"
	"html/template"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"talon/host/gitread"
	"talon/host/web/text"
)

// blamePage is what the page of a blame shows.
type blamePage struct {
	head
	Rows template.HTML
	Blob template.URL
	Note string
	Last *change
}

// blame makes the page that says which commit each line of a file comes from.
func (p *Pages) blame(q *Request, segments []string) (*Page, error) {
	t, at, err := q.git.Resolve(segments)
	if err != nil {
		return nil, err
	}
	if len(at) == 0 {
		return nil, gitread.ErrNotFound
	}
	if t.Short {
		return redirect(q.url("blame", t, at...)), nil
	}
	root, err := q.git.RootTree(t)
	if err != nil {
		return nil, err
	}
	entry, err := q.git.At(root, at)
	if err != nil {
		return nil, err
	}
	if entry.Mode != gitread.ModeFile && entry.Mode != gitread.ModeProgram {
		return redirect(q.url("tree", t, at...)), nil
	}
	etag, known := p.etag(q, t.Commit)
	if known {
		return notModified(etag), nil
	}
	v := &blamePage{head: q.headOf("Blame of "+fileName(at[len(at)-1]), t, at), Blob: template.URL(q.url("blob", t, at...))}
	v.Robots = "noindex, nofollow"
	v.addCrumbs(q, t, at)
	content, err := q.git.Blob(entry.ID, maxBlob)
	switch {
	case errors.Is(err, gitread.ErrTooLarge):
		v.Note = "The file is too large for a blame."
	case err != nil:
		return nil, err
	case isBinary(content):
		v.Note = "This is a binary file."
	default:
		lines, err := q.git.Blame(t.Commit, at)
		if errors.Is(err, gitread.ErrCPU) {
			v.Note = "The history of the file is too long for a blame here. Clone the repository and run git blame."
			break
		}
		if err != nil {
			return nil, err
		}
		if v.Rows, err = p.blameRows(q, at, content, lines); err != nil {
			return nil, err
		}
	}
	return &Page{Status: http.StatusOK, Template: "code-blame", Content: v, ETag: etag}, nil
}

// blameRows writes the lines of a file, with the commits that they come from.
func (p *Pages) blameRows(q *Request, at []string, content []byte, lines []gitread.BlameLine) (template.HTML, error) {
	source := string(content)
	parts := []part{{len(source), classText}}
	if l := languageOf(at[len(at)-1], content); l.quotes != "" || l.lineComments != nil || l.blockComments != nil {
		parts = scan(l, source)
	}
	subjects := make(map[string]string)
	b := make([]byte, 0, 3*len(content))
	begin := 0
	for i := range lines {
		if begin >= len(source) {
			break
		}
		end := len(source)
		if j := strings.IndexByte(source[begin:], '\n'); j >= 0 {
			end = begin + j
		}
		l := &lines[i]
		number := strconv.Itoa(i + 1)
		first := i == 0 || lines[i-1].Commit != l.Commit
		b = append(b, `<tr id="L`+number+`"`...)
		if first {
			b = append(b, ` class="g"`...)
		}
		b = append(b, `><td class="o">`...)
		if first {
			subject, ok := subjects[l.Commit]
			if !ok {
				c, err := q.git.Commit(l.Commit)
				if err != nil {
					return "", err
				}
				m := text.At(c.Committer.When)
				day, _, _ := strings.Cut(m.Text, ",")
				subject = `<a href="` + escape(q.Base+"/commit/"+l.Commit) + `" title="` + escape(text.Line(c.Subject(), 120)) + `">` + text.ShortID(l.Commit)[:8] + `</a> ` +
					escapeText(text.Line(c.Author.Name, 20)) + ` <small>` + escape(day) + `</small>`
				subjects[l.Commit] = subject
			}
			b = append(b, subject...)
			if l.Previous != "" {
				before := q.url("blame", gitread.Target{Commit: l.Previous}, strings.Split(l.OldName, "/")...)
				b = append(b, ` <a href="`+escape(before)+`" title="Blame before this change">↶</a>`...)
			}
		}
		b = append(b, `</td><td class="b"><a href="#L`+number+`">`+number+`</a></td><td class="t">`...)
		b, parts = appendParts(b, source, begin, min(end, begin+maxLine), parts)
		b = append(b, "</td></tr>\n"...)
		begin = end + 1
	}
	return template.HTML(b), nil
}

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
			b = appendCode(b, m.Text)
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
