package code

import (
	"errors"
	"html/template"
	"net/http"
	"strings"

	"talon/host/gitread"
	"talon/host/web/text"
)

// Bounds of the texts of a commit, in characters.
const (
	maxSubject = 300
	maxMessage = 20_000
	maxPerson  = 100
	maxParents = 50
)

// commitPage is what the page of a commit shows.
type commitPage struct {
	head
	ID        string
	Subject   string
	Body      template.HTML
	Author    signature
	Committer *signature // nil if it is the author
	Signed    string
	Parents   []link
	Merge     bool
	Tree      template.URL
	Patch     template.URL
	Diff      diffView
	Newer     template.URL // the commit before this one in the log of the default branch, "" if there is none
	Older     template.URL // the one after it
}

// signature is somebody who signed a commit or a tag, as it states.
type signature struct {
	Name  string
	Email string
	At    text.Moment
}

func signatureOf(s gitread.Signature) signature {
	return signature{text.OrElse(text.Line(s.Name, maxPerson), "nobody"), text.Line(s.Email, maxPerson), text.At(s.When)}
}

// commit makes the page of a commit.
func (p *Pages) commit(q *Request, segments []string) (*Page, error) {
	if len(segments) == 0 {
		return nil, gitread.ErrNotFound
	}
	t, rest, err := q.git.Resolve(segments)
	if err != nil {
		return nil, err
	}
	if len(rest) > 0 {
		return nil, gitread.ErrNotFound
	}
	if t.Short || t.Ref != "" {
		return redirect(q.Base + "/commit/" + t.Commit), nil
	}
	newer, older := "", ""
	if head, ok := q.git.HEAD(); ok {
		newer, older, err = q.git.Neighbours(head.Commit, t.Commit)
	}
	if err != nil && !errors.Is(err, gitread.ErrIndexing) {
		return nil, err
	}
	c, err := q.git.Commit(t.Commit)
	if err != nil {
		return nil, err
	}
	body, err := q.linked(text.Lines(c.Body(), maxMessage))
	if err != nil {
		return nil, err
	}
	etag, known := p.etag(q, t.Commit, newer, older, string(body))
	if known {
		return notModified(etag), nil
	}
	subject := text.OrElse(text.Line(c.Subject(), maxSubject), "(no message)")
	v := &commitPage{
		head: q.headOf(text.Line(subject, 80), t, nil), ID: t.Commit, Subject: subject, Body: body,
		Author: signatureOf(c.Author), Signed: c.Signed, Merge: len(c.Parents) > 1,
		Tree: template.URL(q.url("tree", t)), Patch: template.URL(q.Base + "/commit/" + t.Commit),
	}
	if newer != "" {
		v.Newer = template.URL(q.Base + "/commit/" + newer)
	}
	if older != "" {
		v.Older = template.URL(q.Base + "/commit/" + older)
	}
	if who := signatureOf(c.Committer); who != v.Author {
		v.Committer = &who
	}
	for _, parent := range c.Parents[:min(len(c.Parents), maxParents)] {
		v.Parents = append(v.Parents, link{template.URL(q.Base + "/commit/" + escapePath(parent)), text.ShortID(parent)})
	}
	d, err := q.git.CommitDiff(c)
	if err != nil {
		return nil, err
	}
	from := gitread.Target{}
	if len(c.Parents) > 0 {
		from.Commit = c.Parents[0]
	}
	v.Diff = q.diffView(d, from, t)
	return &Page{Status: http.StatusOK, Template: "code-commit", Content: v, ETag: etag}, nil
}

// isPatch reports whether the last segment of a path asks for the text of a patch.
func isPatch(path string) bool {
	return strings.HasSuffix(path, ".patch") || strings.HasSuffix(path, ".diff")
}

// patch makes the patch of a commit as a text: /commit/ID.patch, or ID.diff without the message.
func (p *Pages) patch(q *Request, segments []string) (*File, error) {
	if len(segments) != 1 {
		return nil, gitread.ErrNotFound
	}
	id, plain := strings.CutSuffix(segments[0], ".diff")
	id = strings.TrimSuffix(id, ".patch")
	t, _, err := q.git.Resolve([]string{id})
	if err != nil {
		return nil, err
	}
	if t.Short || t.Ref != "" {
		suffix := segments[0][len(id):]
		return &File{Status: http.StatusFound, Location: q.Base + "/commit/" + t.Commit + suffix}, nil
	}
	etag, known := p.etag(q, t.Commit)
	if known {
		return &File{Status: http.StatusNotModified, ETag: etag}, nil
	}
	c, err := q.git.Commit(t.Commit)
	if err != nil {
		return nil, err
	}
	s, err := q.git.PatchStream(c, !plain)
	if err != nil {
		return nil, err
	}
	return &File{Status: http.StatusOK, ContentType: "text/plain; charset=utf-8", ETag: etag, Size: -1, Stream: s}, nil
}
