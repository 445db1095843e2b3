package code

import (
	"bytes"
	"html/template"
	"net/http"
	"path"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"talon/host/gitread"
	"talon/host/web/text"
)

// Bounds of a file on a page.
const (
	maxBlob     = 512 << 10
	maxLines    = 20_000
	maxLine     = 4_000    // bytes of a line that are shown
	maxMarkdown = 64 << 10 // of a file that is shown rendered
	maxPointer  = 1 << 10  // of a pointer of LFS
)

// blobPage is what the page of a file shows.
type blobPage struct {
	head
	Size     string
	Mode     string
	Lines    int
	Language string
	Raw      template.URL
	History  template.URL
	Blame    template.URL
	Last     *change

	Body     template.HTML // the lines of the file; "" if one of the following is set
	Document template.HTML // the file rendered, instead of Body
	Markdown template.URL  // of the file rendered; "" if it cannot be
	Source   bool          // the source of such a file is shown
	Image    bool
	Audio    bool
	Video    bool
	LFS      *pointer
	Link     *symlink
	Note     string // why there is no content
	Cut      bool   // lines are longer than the page shows
	Binary   bool
	IsBlank  bool
}

// pointer is a file that Git LFS keeps elsewhere.
type pointer struct {
	OID  string
	Size string
}

// symlink is what a symbolic link names.
type symlink struct {
	Text string
	URL  template.URL // "" if it leads out of the repository, or to nothing
}

// blob makes the page of a file.
func (p *Pages) blob(q *Request, segments []string) (*Page, error) {
	t, at, err := q.git.Resolve(segments)
	if err != nil {
		return nil, err
	}
	if len(at) == 0 {
		return redirect(q.url("tree", t)), nil
	}
	if t.Short {
		return redirect(q.url("blob", t, at...)), nil
	}
	root, err := q.git.RootTree(t)
	if err != nil {
		return nil, err
	}
	entry, err := q.git.At(root, at)
	if err != nil {
		return nil, err
	}
	switch entry.Mode {
	case gitread.ModeTree:
		return redirect(q.url("tree", t, at...)), nil
	case gitread.ModeCommit:
		return redirect(q.url("tree", t, at[:len(at)-1]...)), nil
	}
	last, err := q.lastChange(t, at)
	if err != nil {
		return nil, err
	}
	etag, known := p.etag(q, t.Commit, strconv.FormatBool(last == nil))
	if known {
		return notModified(etag), nil
	}
	size, err := q.git.Size(entry.ID)
	if err != nil {
		return nil, err
	}
	v := &blobPage{
		head: q.headOf(fileName(at[len(at)-1]), t, at), Size: shortSize(size), Last: last,
		Raw: template.URL(q.url("raw", t, at...)), History: template.URL(q.url("log", t, at...)),
	}
	v.addCrumbs(q, t, at)
	if entry.Mode != gitread.ModeFile {
		v.Mode = entry.Mode.String()
	}
	if err := p.fillBlob(q, v, t, root, at, entry, size); err != nil {
		return nil, err
	}
	return &Page{Status: http.StatusOK, Template: "code-blob", Content: v, ETag: etag}, nil
}

// fillBlob adds what a file holds.
func (p *Pages) fillBlob(q *Request, v *blobPage, t gitread.Target, root string, at []string, entry gitread.Entry, size int64) error {
	name := at[len(at)-1]
	switch kind := mediaOf(name); {
	case entry.Mode == gitread.ModeLink:
		return p.fillLink(q, v, t, root, at, entry)
	case kind.image && !kind.text:
		v.Image = true
		return nil
	case kind.audio:
		v.Audio = true
		return nil
	case kind.video:
		v.Video = true
		return nil
	case size == 0:
		v.IsBlank = true
		return nil
	case size > maxBlob:
		v.Note = "The file is too large to show."
		return nil
	}
	content, err := q.git.Blob(entry.ID, maxBlob)
	if err != nil {
		return err
	}
	if v.LFS = parsePointer(content); v.LFS != nil {
		return nil
	}
	if isBinary(content) {
		v.Binary = true
		return nil
	}
	v.Image = mediaOf(name).image
	v.Lines = countLines(content)
	if v.Lines > maxLines {
		v.Note = "The file has too many lines to show."
		return nil
	}
	v.Blame = template.URL(q.url("blame", t, at...))
	from, to := lineRange(q.HTTP.URL.Query().Get("l"), v.Lines)
	v.keepLines(from, to)
	lang := languageOf(name, content)
	v.Language = lexerName(lang, name)
	// Lines are marked in the source.
	if v.Source = q.HTTP.URL.Query().Get("source") == "1" || from > 0; IsMarkdown(name) && size <= maxMarkdown {
		v.Markdown = template.URL(q.url("blob", t, at...))
		if !v.Source {
			v.Document = q.document(q.HTTP.Context(), t, strings.Join(at, "/"), string(content))
			return nil
		}
	}
	v.Body, v.Cut = p.bodies.lines(entry.ID, name, lang, content, v.Lines, from, to)
	return nil
}

// keepLines has the links to the same file elsewhere lead to the lines that the page marks, if it marks some.
func (v *blobPage) keepLines(from, to int) {
	if from == 0 {
		return
	}
	anchor := template.URL("#L" + strconv.Itoa(from))
	v.Blame += anchor
	if v.Permalink != "" {
		lines := strconv.Itoa(from)
		if to > from {
			lines += "-" + strconv.Itoa(to)
		}
		v.Permalink += template.URL("?l="+lines) + anchor
	}
}

// fillLink adds what a symbolic link names.
func (p *Pages) fillLink(q *Request, v *blobPage, t gitread.Target, root string, at []string, entry gitread.Entry) error {
	content, err := q.git.Blob(entry.ID, maxPointer)
	if err != nil {
		v.Note = "The target of the symbolic link is too long to show."
		return nil
	}
	target := string(content)
	v.Link = &symlink{Text: fileName(target)}
	if strings.HasPrefix(target, "/") || !utf8.ValidString(target) {
		return nil
	}
	to := path.Join(append(slices.Clone(at[:len(at)-1]), target)...)
	if to == "." || to == ".." || strings.HasPrefix(to, "../") { // the root itself, or above it
		return nil
	}
	segments := strings.Split(to, "/")
	found, err := q.git.At(root, segments)
	switch {
	case err != nil:
		return nil // it leads to nothing
	case found.Mode == gitread.ModeTree:
		v.Link.URL = template.URL(q.url("tree", t, segments...))
	case found.Mode != gitread.ModeCommit:
		v.Link.URL = template.URL(q.url("blob", t, segments...))
	}
	return nil
}

// isBinary reports whether git takes a content for binary.
func isBinary(content []byte) bool {
	return bytes.IndexByte(content[:min(len(content), 8000)], 0) >= 0
}

func countLines(content []byte) int {
	n := bytes.Count(content, []byte{'\n'})
	if len(content) > 0 && content[len(content)-1] != '\n' {
		n++
	}
	return n
}

// parsePointer returns a pointer of Git LFS, nil if the content is none.
func parsePointer(content []byte) *pointer {
	if len(content) > maxPointer || !bytes.HasPrefix(content, []byte("version https://git-lfs.github.com/spec/v1\n")) {
		return nil
	}
	l := &pointer{}
	for line := range strings.Lines(string(content)) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		switch key {
		case "oid":
			l.OID = text.Line(value, 80)
		case "size":
			if n, err := strconv.ParseInt(value, 10, 64); err == nil && n >= 0 {
				l.Size = shortSize(n)
			}
		}
	}
	if l.OID == "" {
		return nil
	}
	return l
}

// lineRange parses the lines that a page marks: 10, or 10-20. It returns 0, 0 for none.
func lineRange(s string, lines int) (from, to int) {
	a, b, isRange := strings.Cut(s, "-")
	from, err := strconv.Atoi(a)
	if err != nil || from < 1 || from > lines {
		return 0, 0
	}
	to = from
	if isRange {
		if to, err = strconv.Atoi(b); err != nil {
			return from, from
		}
	}
	if to < from {
		from, to = max(1, to), from
	}
	return from, min(to, lines)
}
