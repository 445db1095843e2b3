// Package code makes the pages of the content of a git repository: folders, files, commits,
// history.
//
// Package web finds the repository, checks that it may be seen, and sends what package code makes.
// Package gitread reads the repository. A path below a repository begins with a verb; the map verbs
// says which function answers it. Most pages are a template and a struct. Rows of folders, files and
// diffs are written directly, as a template takes 30 times as long.
//
// Invariants:
//
//  1. Names, messages and contents are of strangers. They are escaped and bounded. Characters that
//     are invisible, or turn the direction of a line, are shown as their number.
//  2. The content of a file is never served as a page: see [File].
//  3. A page costs a bounded amount of work, whatever the repository holds. It shows a part, and
//     says so, or refuses.
//  4. The answer for an id of a commit is the same as long as the refs reach it, but for links to the
//     commits around it.
package code

import (
	"cmp"
	"context"
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"errors"
	"fmt"
	"html/template"
	"io/fs"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"talon/host/bound"
	"talon/host/gitread"
	"talon/host/gitrepo"
	"talon/host/web/text"
)

// Config configures the pages.
type Config struct {
	Reader *gitread.Reader
	Log    *slog.Logger
	Now    func() time.Time // nil means time.Now

	// Local returns the path of the page of a repository that this service has at a clone URL.
	// Nil: it has none.
	Local func(cloneURL string) (path string, ok bool)
}

// Pages makes the pages.
type Pages struct {
	cfg     Config
	reader  *gitread.Reader
	version string // of the program, as far as it changes pages
	bodies  *bodies
}

// New returns the maker of pages.
func New(cfg Config) *Pages {
	cfg.Log = cmp.Or(cfg.Log, slog.New(slog.DiscardHandler))
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.Local == nil {
		cfg.Local = func(string) (string, bool) { return "", false }
	}
	return &Pages{cfg: cfg, reader: cfg.Reader, version: hashOf(files), bodies: newBodies()}
}

// Bounds returns the rows of the table of bounds.
func (p *Pages) Bounds() []bound.Spec { return p.reader.Bounds() }

//go:embed templates/*.html templates/style.css
var files embed.FS

// Templates are the templates of the pages. They use those named top, body, bottom and time.
var Templates fs.FS = files

// Style is what the pages add to the style sheet.
func Style() string {
	text, err := files.ReadFile("templates/style.css")
	if err != nil {
		panic(err) // it is part of the program
	}
	return string(text)
}

// generation changes when the same templates are filled in another way.
const generation = "1"

// hashOf returns a hash of all files.
func hashOf(files fs.FS) string {
	sum := sha256.New()
	_ = fs.WalkDir(files, ".", func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			content, _ := fs.ReadFile(files, path)
			fmt.Fprintf(sum, "%s %d ", path, len(content))
			sum.Write(content)
		}
		return err
	})
	sum.Write([]byte(generation))
	return base64.RawURLEncoding.EncodeToString(sum.Sum(nil)[:9])
}

// Request asks for a page or a file of a repository that may be seen.
type Request struct {
	HTTP *http.Request
	Repo *gitrepo.Repo
	By   bound.Holder

	Name       string // of the repository, as pages show it
	Identifier string // as pages show it
	Base       string // the path of the repository's page, escaped, without .git
	Clone      string // its clone URL
	About      string // changes when what pages say of the repository does
	Rest       string // what follows Base and a slash, escaped

	// Href and Mention are those of [markdown.Options], for texts in the repository. Nil: no links
	// to elsewhere.
	Href    func(destination string) string
	Mention func(code string) (label, href string)

	// Mentions returns a Mention for one text, which also knows the pages of events. Nil: it knows none.
	Mentions func(ctx context.Context, text string) (mention func(code string) (label, href string), err error)

	// Fork returns a request for the repository of the same identifier of another owner, if it may be
	// seen. It fails with gitread.ErrNotFound. Nil: there are no others.
	Fork func(ctx context.Context, npub string) (*Request, error)

	// Forks returns the others that are here. Nil: there are none.
	Forks func(ctx context.Context) ([]Fork, error)

	// SignedIn says that the client has proven a key. It may have pages that cost more.
	SignedIn bool

	git *gitread.Repository
}

// Fork is the repository of the same identifier of another owner.
type Fork struct {
	Npub string
	Name string // of the owner, for the eye
	Path string // of the page of the repository
}

// ErrSignIn says that a page is for people who have signed in.
var ErrSignIn = errors.New("this page is for people who have signed in")

// Kind is a kind of answer.
type Kind uint8

const (
	KindNone     Kind = iota // there is no such page
	KindPage                 // an HTML page that costs little
	KindMiddling             // an HTML page for which a git may have to start
	KindFile                 // anything else
)

// Page is the content of an HTML page.
type Page struct {
	Status   int
	Template string
	Content  any
	ETag     string // "" if the answer is not to be kept
	Location string // of a redirect
}

// maker makes a page. Segments is what follows the verb in the path, decoded.
type maker func(p *Pages, q *Request, segments []string) (*Page, error)

// fileMaker makes a file.
type fileMaker func(p *Pages, q *Request, segments []string) (*File, error)

// verbs are the first segments of paths below a repository.
var verbs = map[string]struct {
	kind Kind
	page maker
	file fileMaker
}{
	"tree": {kind: KindPage, page: (*Pages).tree},
	"blob": {kind: KindPage, page: (*Pages).blob},
	"raw":  {kind: KindFile, file: (*Pages).raw},

	"log":     {kind: KindMiddling, page: (*Pages).log},
	"commit":  {kind: KindMiddling, page: (*Pages).commit, file: (*Pages).patch},
	"compare": {kind: KindMiddling, page: (*Pages).compare},
	"refs":    {kind: KindPage, page: (*Pages).refList},
	"blame":   {kind: KindMiddling, page: (*Pages).blame},
	"grep":    {kind: KindMiddling, page: (*Pages).search},
	"archive": {kind: KindFile, file: (*Pages).archive},
}

// KindOf returns the kind of answer at a path below a repository.
func KindOf(rest string) Kind {
	verb, rest, _ := strings.Cut(rest, "/")
	if verb == "commit" && isPatch(rest) {
		return KindFile
	}
	return verbs[verb].kind
}

// Verbs returns the first segments of the paths that package code answers, sorted.
func Verbs() []string {
	var list []string
	for verb := range verbs {
		list = append(list, verb)
	}
	slices.Sort(list)
	return list
}

// Page makes an HTML page. Its errors are gitread.ErrNotFound, gitread.ErrBusy, gitread.ErrTooLarge,
// or no fault of the client.
func (p *Pages) Page(ctx context.Context, q *Request) (*Page, error) {
	verb, segments, ok := split(q.Rest)
	if v := verbs[verb]; ok && v.page != nil {
		var err error
		if q.git, err = p.reader.Open(ctx, q.Repo, q.By); err != nil {
			return nil, err
		}
		defer q.git.Close()
		page, err := v.page(p, q, segments)
		if query := q.HTTP.URL.RawQuery; err == nil && page.Location != "" && query != "" {
			page.Location += "?" + query
		}
		return page, err
	}
	return nil, gitread.ErrNotFound
}

// File makes another answer. Its errors are those of Page.
func (p *Pages) File(ctx context.Context, q *Request) (*File, error) {
	verb, segments, ok := split(q.Rest)
	if v := verbs[verb]; ok && v.file != nil {
		var err error
		if q.git, err = p.reader.Open(ctx, q.Repo, q.By); err != nil {
			return nil, err
		}
		defer q.git.Close()
		return v.file(p, q, segments)
	}
	return nil, gitread.ErrNotFound
}

// maxSegments bounds the depth of a path.
const maxSegments = 80

// split takes apart the path below a repository. Names in a tree may be of any bytes.
func split(rest string) (verb string, segments []string, ok bool) {
	verb, rest, _ = strings.Cut(rest, "/")
	rest = strings.TrimSuffix(rest, "/")
	if rest == "" {
		return verb, nil, true
	}
	if strings.Count(rest, "/") >= maxSegments {
		return verb, nil, false
	}
	for segment := range strings.SplitSeq(rest, "/") {
		name, err := url.PathUnescape(segment)
		if err != nil || name == "" || name == "." || name == ".." || strings.ContainsAny(name, "/\x00") {
			return verb, nil, false
		}
		segments = append(segments, name)
	}
	return verb, segments, true
}

// etag returns the ETag of an answer that depends on the parts. A client that has it already gets
// a page with status 304.
func (p *Pages) etag(q *Request, parts ...string) (etag string, known bool) {
	sum := sha256.New()
	for _, part := range append(parts, p.version, q.About, q.Base, q.Rest, q.HTTP.URL.RawQuery) {
		fmt.Fprintf(sum, "%d %s ", len(part), part)
	}
	etag = `"` + base64.RawURLEncoding.EncodeToString(sum.Sum(nil)[:12]) + `"`
	return etag, Matches(q.HTTP, etag)
}

// Matches reports whether a client has the answer with an ETag.
func Matches(r *http.Request, etag string) bool {
	known := r.Header.Get("If-None-Match")
	return known == "*" || strings.Contains(known, etag)
}

// notModified is the answer for a client that has the page already.
func notModified(etag string) *Page { return &Page{Status: http.StatusNotModified, ETag: etag} }

// redirect sends a client to another path of the repository.
func redirect(to string) *Page { return &Page{Status: http.StatusFound, Location: to} }

// head is what all pages of a repository show.
type head struct {
	Title     string // of the page
	Name      string // of the repository
	Base      template.URL
	Ref       *ref // nil for a page of no ref
	Crumbs    []crumb
	Permalink template.URL // "" if the page is at the id of a commit
	Robots    string       // "" for a page that may be indexed
	Feed      template.URL // "" if there is none of what the page shows
}

// ref is the branch, tag or commit that a page shows.
type ref struct {
	Name   string // for the eye
	URL    string // in paths, escaped
	Kind   string // branch, tag, ref or commit
	Commit string
	Short  string
}

// crumb is a folder on the way to an entry.
type crumb struct {
	Name string
	URL  template.URL // "" for the last
}

// headOf returns what a page at a path shows.
func (q *Request) headOf(title string, t gitread.Target, path []string) head {
	h := head{Title: title, Name: q.Name, Base: template.URL(q.Base), Ref: refOf(t)}
	if t.Ref != "" {
		h.Permalink = template.URL(q.url(verbOf(q.Rest), gitread.Target{Commit: t.Commit}, path...))
	} else {
		h.Robots = "noindex, nofollow"
	}
	return h
}

func verbOf(rest string) string {
	verb, _, _ := strings.Cut(rest, "/")
	return verb
}

func refOf(t gitread.Target) *ref {
	r := &ref{Name: fileName(t.Name()), URL: escapePath(t.Name()), Commit: t.Commit, Short: text.ShortID(t.Commit), Kind: "ref"}
	switch {
	case t.Ref == "":
		r.Kind, r.Name = "commit", r.Short
	case strings.HasPrefix(t.Ref, "refs/heads/"):
		r.Kind = "branch"
	case strings.HasPrefix(t.Ref, "refs/tags/"):
		r.Kind = "tag"
	}
	return r
}

// addCrumbs adds the folders of a path, below the root.
func (h *head) addCrumbs(q *Request, t gitread.Target, path []string) {
	h.Crumbs = append(h.Crumbs, crumb{q.Identifier, template.URL(q.url("tree", t))})
	for i, name := range path {
		c := crumb{Name: fileName(name)}
		if i < len(path)-1 {
			c.URL = template.URL(q.url("tree", t, path[:i+1]...))
		}
		h.Crumbs = append(h.Crumbs, c)
	}
	if len(path) == 0 {
		h.Crumbs[0].URL = ""
	}
}

// url returns the path of a page of the repository.
func (q *Request) url(verb string, t gitread.Target, path ...string) string {
	var b strings.Builder
	b.WriteString(q.Base)
	b.WriteByte('/')
	b.WriteString(verb)
	b.WriteByte('/')
	b.WriteString(escapePath(q.git.NameOf(t)))
	for _, name := range path {
		b.WriteByte('/')
		b.WriteString(url.PathEscape(name))
	}
	return b.String()
}

// escapePath escapes the segments of a path.
func escapePath(path string) string {
	segments := strings.Split(path, "/")
	for i := range segments {
		segments[i] = url.PathEscape(segments[i])
	}
	return strings.Join(segments, "/")
}

// isBusy reports whether an answer failed because of others.
func isBusy(err error) bool {
	return errors.Is(err, gitread.ErrBusy) || errors.Is(err, bound.ErrFull) || errors.Is(err, bound.ErrShare) || errors.Is(err, gitrepo.ErrDisplaced)
}

// IsBusy reports whether an answer failed because too many others are being served.
func IsBusy(err error) bool { return isBusy(err) }
