package code

import (
	"errors"
	"html/template"
	"net/http"
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
	case countLines(content) > maxLines:
		v.Note = "The file has too many lines for a blame."
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
	parts := partsOf(languageOf(at[len(at)-1], content), source)
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
				subject = `<a href="` + escape(q.Base+"/commit/"+l.Commit) + `" title="` + escape(text.Line(c.Subject(), 120)) + `">` + text.ShortID(l.Commit)[:8] + `</a><span class="y"> ` +
					escapeText(text.Line(c.Author.Name, 20)) + ` <small>` + escape(day) + `</small></span>`
				subjects[l.Commit] = subject
			}
			b = append(b, subject...)
			if l.Previous != "" {
				before := q.url("blame", gitread.Target{Commit: l.Previous}, strings.Split(l.OldName, "/")...)
				b = append(b, ` <a href="`+escape(before)+`" title="Blame before this change">↶</a>`...)
			}
		}
		b = append(b, `</td><td class="b"><a href="#L`+number+`">`+number+`</a></td><td class="t">`...)
		b, parts = appendLine(b, source, begin, end, parts)
		b = append(b, "</td></tr>\n"...)
		begin = end + 1
	}
	return template.HTML(b), nil
}
