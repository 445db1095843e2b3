package code

import (
	"net/http"
	"os"
	"strings"

	"talon/host/gitread"
	"talon/host/web/text"
)

// archive makes an archive of a commit: /archive/REF.tar.gz or .zip.
func (p *Pages) archive(q *Request, segments []string) (*File, error) {
	if len(segments) == 0 {
		return nil, gitread.ErrNotFound
	}
	last := &segments[len(segments)-1]
	format := ""
	for _, f := range [...]string{"tar.gz", "zip"} {
		if name, ok := strings.CutSuffix(*last, "."+f); ok {
			*last, format = name, f
		}
	}
	if format == "" {
		return nil, gitread.ErrNotFound
	}
	t, rest, err := q.git.Resolve(segments)
	if err != nil {
		return nil, err
	}
	if len(rest) > 0 {
		return nil, gitread.ErrNotFound
	}
	folder := plainName(q.Identifier) + "-" + plainName(refOf(t).Name)
	etag, known := p.etag(q, t.Commit, folder)
	if known {
		return &File{Status: http.StatusNotModified, ETag: etag}, nil
	}
	on, err := q.git.Archive(t.Commit, format, folder)
	if err != nil {
		return nil, err
	}
	f := &File{Status: http.StatusOK, ContentType: map[string]string{"tar.gz": "application/gzip", "zip": "application/zip"}[format], ETag: etag, Disposition: disposition(folder + "." + format), Disk: on}
	if f.Size, err = sizeOf(on); err != nil {
		_ = on.Close()
		return nil, err
	}
	return f, nil
}

func sizeOf(f *os.File) (int64, error) {
	info, err := f.Stat()
	if err != nil {
		return 0, err
	}
	return info.Size(), nil
}

// plainName makes a name of a folder of a text.
func plainName(s string) string {
	s = strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("-._", r) {
			return r
		}
		return '-'
	}, s)
	return text.Line(strings.Trim(s, "-."), 60) + map[bool]string{true: "x"}[strings.Trim(s, "-.") == ""]
}
