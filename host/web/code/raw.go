package code

import (
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"unicode/utf8"

	"talon/host/gitread"
)

// maxBuffered is the largest file that is sent from memory. Git sends larger ones.
const maxBuffered = 1 << 20

// File is an answer that is no page.
type File struct {
	Status      int
	ContentType string
	Disposition string // "" if a browser may show it
	ETag        string
	Location    string // of a redirect
	Body        []byte
	Size        int64 // of what is sent; -1 if it is not known

	Ranges       bool   // a client may ask for a part
	ContentRange string // says which part this is

	Stream *gitread.Stream // writes the answer, if it is not nil
	Disk   *os.File        // has the answer, if it is not nil
}

// End gives back what the file uses. The server calls it at the end of each answer.
func (f *File) End() {
	if f.Stream != nil {
		f.Stream.End()
	}
	if f.Disk != nil {
		_ = f.Disk.Close()
	}
}

// FilePolicy is the content security policy of each File: nothing in it runs, loads anything, or
// has the origin of the service.
const FilePolicy = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; sandbox; frame-ancestors 'none'; base-uri 'none'; form-action 'none'"

// raw makes the content of a file.
func (p *Pages) raw(q *Request, segments []string) (*File, error) {
	t, at, err := q.git.Resolve(segments)
	if err != nil {
		return nil, err
	}
	if len(at) == 0 {
		return nil, gitread.ErrNotFound
	}
	root, err := q.git.RootTree(t)
	if err != nil {
		return nil, err
	}
	entry, err := q.git.At(root, at)
	if err != nil {
		return nil, err
	}
	if entry.Mode == gitread.ModeTree || entry.Mode == gitread.ModeCommit {
		return nil, gitread.ErrNotFound
	}
	size, err := q.git.Size(entry.ID)
	if err != nil {
		return nil, err
	}
	name := at[len(at)-1]
	f := &File{Status: http.StatusOK, ETag: `"` + entry.ID + `"`, Size: size}
	if Matches(q.HTTP, f.ETag) {
		return &File{Status: http.StatusNotModified, ETag: f.ETag}, nil
	}
	f.Ranges = size <= maxSeek
	part, isPart, err := spanOf(q.HTTP, size, f.ETag)
	if err != nil {
		f.Status, f.ContentRange = http.StatusRequestedRangeNotSatisfiable, fmt.Sprintf("bytes */%d", size)
		return f, nil
	}
	if size <= maxBuffered {
		f.Body, err = q.git.Blob(entry.ID, maxBuffered)
	} else {
		f.Stream, err = q.git.BlobStream(entry.ID)
	}
	if err != nil {
		return nil, err
	}
	f.setType(name, f.Body)
	if isPart {
		f.cut(part)
	}
	return f, nil
}

// cut reduces a file to a part of it.
func (f *File) cut(part span) {
	f.Status, f.ContentRange, f.Size = http.StatusPartialContent, part.contentRange(f.Size), part.length
	if f.Stream != nil {
		f.Stream.Cut(part.from, part.length)
		return
	}
	f.Body = f.Body[part.from : part.from+part.length]
}

// setType says what a browser may do with a file of a name. Content is nil if it is not known.
func (f *File) setType(name string, content []byte) {
	m := mediaOf(name)
	switch {
	case m.contentType != "":
		f.ContentType = m.contentType
	case content != nil && !isBinary(content):
		f.ContentType = "text/plain; charset=utf-8"
		if !utf8.Valid(content) {
			f.ContentType = "text/plain"
		}
	default:
		f.ContentType = "application/octet-stream"
		f.Disposition = disposition(name)
	}
}

// disposition has a browser save a file under a name.
func disposition(name string) string {
	plain := strings.Map(func(r rune) rune {
		if r < ' ' || r > '~' || strings.ContainsRune(`"\/%;`, r) {
			return '_'
		}
		return r
	}, strings.ToValidUTF8(name, "_"))
	return fmt.Sprintf(`attachment; filename="%s"; filename*=UTF-8''%s`, plain, url.PathEscape(strings.ToValidUTF8(name, "_")))
}

// SetCache says how caches may keep an answer, unless a handler in front has said it.
func SetCache(to http.Header, rule string) {
	if to.Get("Cache-Control") == "" {
		to.Set("Cache-Control", rule)
	}
}

// WriteHead writes the head of an answer.
func (f *File) WriteHead(w http.ResponseWriter) {
	to := w.Header()
	to.Set("Content-Security-Policy", FilePolicy)
	SetCache(to, "public, no-cache")
	if f.ETag != "" {
		to.Set("ETag", f.ETag)
	}
	if f.Location != "" {
		to.Set("Location", f.Location)
	}
	if f.ContentType != "" {
		to.Set("Content-Type", f.ContentType)
	}
	if f.Disposition != "" {
		to.Set("Content-Disposition", f.Disposition)
	}
	if f.Ranges {
		to.Set("Accept-Ranges", "bytes")
	}
	if f.ContentRange != "" {
		to.Set("Content-Range", f.ContentRange)
	}
	if f.HasBody() && f.Size >= 0 {
		to.Set("Content-Length", strconv.FormatInt(f.Size, 10))
	}
	w.WriteHeader(f.Status)
}

// HasBody reports whether a body follows the head.
func (f *File) HasBody() bool {
	return f.Status == http.StatusOK || f.Status == http.StatusPartialContent
}

// WriteBody writes the rest of an answer.
func (f *File) WriteBody(w io.Writer) error {
	if f.Stream != nil {
		_, err := f.Stream.WriteTo(w)
		return err
	}
	if f.Disk != nil {
		_, err := io.CopyN(w, f.Disk, f.Size)
		return err
	}
	_, err := w.Write(f.Body)
	return err
}
