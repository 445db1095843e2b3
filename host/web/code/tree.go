package code

import (
	"bytes"
	"errors"
	"html/template"
	"net/http"
	"net/url"
	"path"
	"slices"
	"strconv"
	"strings"

	"talon/host/gitread"
	"talon/host/web/text"
)

// maxEntries bounds the rows of a folder.
const maxEntries = 5000

// treePage is what the page of a folder shows.
type treePage struct {
	head
	Rows    template.HTML
	Count   int
	Hidden  int // entries that are not shown
	Last    *change
	History template.URL
	Archive []link
	Pending bool // last changes are being looked for
}

// change is a commit in one line.
type change struct {
	Subject string
	Author  string
	URL     template.URL
	Short   string
	At      text.Moment
}

// link is a URL of this service.
type link struct {
	URL  template.URL
	Text string
}

// tree makes the page of a folder.
func (p *Pages) tree(q *Request, segments []string) (*Page, error) {
	if len(segments) == 0 {
		t, ok := q.git.HEAD()
		if !ok {
			return nil, gitread.ErrNotFound
		}
		return redirect(q.url("tree", t)), nil
	}
	t, at, err := q.git.Resolve(segments)
	if err != nil {
		return nil, err
	}
	if t.Short {
		return redirect(q.url("tree", t, at...)), nil
	}
	root, err := q.git.RootTree(t)
	if errors.Is(err, gitread.ErrNotFound) && t.Ref != "" && len(at) == 0 {
		return redirect(q.Base + "/refs"), nil // a tag of a file, or of a folder
	}
	if err != nil {
		return nil, err
	}
	entry, err := q.git.At(root, at)
	if err != nil {
		return nil, err
	}
	if entry.Mode != gitread.ModeTree {
		return redirect(q.url("blob", t, at...)), nil
	}
	changes, err := q.git.LastChanges(t.Commit, at)
	if err != nil {
		return nil, err
	}
	etag, known := p.etag(q, t.Commit, strconv.FormatBool(changes == nil))
	if known {
		return notModified(etag), nil
	}
	entries, err := q.git.Tree(entry.ID)
	if err != nil {
		return nil, err
	}
	title := q.Name
	if len(at) > 0 {
		title = fileName(strings.Join(at, "/"))
	}
	v := &treePage{head: q.headOf(title, t, at), Count: len(entries), Pending: changes == nil, History: template.URL(q.url("log", t, at...))}
	v.addCrumbs(q, t, at)
	if len(at) == 0 {
		for _, format := range [...]string{"tar.gz", "zip"} {
			v.Archive = append(v.Archive, link{template.URL(q.url("archive", t) + "." + format), format})
		}
	}
	if v.Last, err = q.lastChange(t, at); err != nil {
		return nil, err
	}
	rows := sortedEntries(entries)
	if len(rows) > maxEntries {
		v.Hidden, rows = len(rows)-maxEntries, rows[:maxEntries]
	}
	if v.Rows, err = p.rows(q, t, root, at, entry.ID, rows, changes); err != nil {
		return nil, err
	}
	return &Page{Status: http.StatusOK, Template: "code-tree", Content: v, ETag: etag}, nil
}

// rows writes the rows of a folder. A template takes 30 times as long.
func (p *Pages) rows(q *Request, t gitread.Target, root string, at []string, tree string, entries []gitread.Entry, changes gitread.Changes) (template.HTML, error) {
	sizes, err := q.git.TreeSizes(tree, entries)
	if err != nil {
		return "", err
	}
	var modules map[string]string
	var b bytes.Buffer
	tree, blob, commits := q.url("tree", t, at...)+"/", q.url("blob", t, at...)+"/", q.Base+"/commit/"
	if len(at) > 0 {
		b.WriteString(`<tr><td class="n"><a href="` + escape(q.url("tree", t, at[:len(at)-1]...)) + `">..</a></td><td class="m"></td><td class="w"></td><td class="z"></td></tr>` + "\n")
	}
	for i := range entries {
		e := &entries[i]
		b.WriteString(`<tr><td class="n">`)
		base, class := blob, "f"
		switch e.Mode {
		case gitread.ModeTree:
			base, class = tree, "d"
		case gitread.ModeLink:
			class = "s"
		case gitread.ModeCommit:
			if modules == nil {
				if modules, err = q.submodules(root); err != nil {
					return "", err
				}
			}
			p.writeModule(&b, e, modules[path.Join(append(slices.Clone(at), e.Name)...)])
		}
		if e.Mode != gitread.ModeCommit {
			writeLink(&b, base, class, e.Name)
		}
		if e.Mode == gitread.ModeProgram || e.Mode == gitread.ModeLink {
			b.WriteString(` <small>` + e.Mode.String() + `</small>`)
		}
		b.WriteString(`</td><td class="m">`)
		when := `</td><td class="w">`
		if c, ok := changes[e.Name]; ok {
			b.WriteString(`<a href="` + escape(commits+c.ID) + `">` + escapeText(text.Line(c.Subject, 100)) + `</a>`)
			m := text.At(c.When)
			day, _, _ := strings.Cut(m.Text, ",")
			when += `<time datetime="` + escape(m.Machine) + `">` + escape(day) + `</time>`
		}
		b.WriteString(when + `</td><td class="z">`)
		if size, ok := sizes[e.ID]; ok && size >= 0 {
			b.WriteString(shortSize(size))
		}
		b.WriteString("</td></tr>\n")
	}
	return template.HTML(b.String()), nil
}

// writeLink writes the link to an entry of a folder.
func writeLink(b *bytes.Buffer, base, class, name string) {
	shown := escapeText(fileName(name))
	if name == "." || name == ".." { // browsers would go elsewhere
		b.WriteString(shown)
		return
	}
	b.WriteString(`<a class="` + class + `" href="` + escape(base+escapePath(name)) + `">` + shown + `</a>`)
}

// writeModule writes the entry of a submodule, with a link if its repository is here.
func (p *Pages) writeModule(b *bytes.Buffer, e *gitread.Entry, cloneURL string) {
	name := escapeText(fileName(e.Name))
	if to, ok := p.cfg.Local(cloneURL); ok {
		name = `<a class="x" href="` + escape(to+"/tree/"+e.ID) + `">` + name + `</a>`
	}
	b.WriteString(name + ` <small>submodule at ` + escape(text.ShortID(e.ID)))
	if cloneURL != "" {
		b.WriteString(` of ` + escapeText(text.Line(cloneURL, 100)))
	}
	b.WriteString(`</small>`)
}

// lastChange returns the last commit that changed a path, nil if that is not known yet.
func (q *Request) lastChange(t gitread.Target, at []string) (*change, error) {
	id := t.Commit
	if len(at) > 0 {
		var err error
		if id, err = q.git.LastCommit(t.Commit, at); err != nil || id == "" {
			return nil, err
		}
	}
	commit, err := q.git.Commit(id)
	if err != nil {
		return nil, err
	}
	return q.changeOf(commit), nil
}

// changeOf returns a commit in one line.
func (q *Request) changeOf(c *gitread.Commit) *change {
	return &change{
		Subject: text.OrElse(text.Line(c.Subject(), 140), "(no message)"), Author: text.OrElse(text.Line(c.Author.Name, 60), "nobody"),
		URL: template.URL(q.Base + "/commit/" + c.ID), Short: text.ShortID(c.ID), At: text.At(c.Committer.When),
	}
}

// absolute returns the clone URL of a submodule. It may be relative to that of the repository.
func (q *Request) absolute(to string) string {
	if !strings.HasPrefix(to, "./") && !strings.HasPrefix(to, "../") {
		return to
	}
	base, err := url.Parse(q.Clone + "/")
	if err != nil {
		return to
	}
	full, err := base.Parse(to)
	if err != nil {
		return to
	}
	return full.String()
}

// maxModules bounds the file .gitmodules that is read.
const maxModules = 64 << 10

// submodules returns the clone URLs of the submodules of a tree by their paths.
func (q *Request) submodules(root string) (map[string]string, error) {
	urls := make(map[string]string)
	entry, err := q.git.At(root, []string{".gitmodules"})
	if err != nil || entry.Mode != gitread.ModeFile {
		return urls, nil
	}
	content, err := q.git.Blob(entry.ID, maxModules)
	if err != nil {
		return urls, nil // a page without these links
	}
	at, to := "", ""
	for line := range strings.Lines(string(content)) {
		line = strings.TrimSpace(line)
		if strings.HasPrefix(line, "[") {
			at, to = "", ""
			continue
		}
		key, value, _ := strings.Cut(line, "=")
		switch strings.ToLower(strings.TrimSpace(key)) {
		case "path":
			at = strings.Trim(strings.TrimSpace(value), `"`)
		case "url":
			to = strings.Trim(strings.TrimSpace(value), `"`)
		}
		if at != "" && to != "" {
			urls[path.Clean(at)] = q.absolute(to)
		}
	}
	return urls, nil
}
