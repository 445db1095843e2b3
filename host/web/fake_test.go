package web

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"

	"talon/host"
	"talon/host/gitread"
	"talon/host/gitrepo"
	"talon/host/memfacts"
	"talon/internal/testkit"
	"talon/sdk/grasp"
	"talon/sdk/nip19"
)

// world is a service with events and repositories in memory.
type world struct {
	t       *testing.T
	stored  []*host.Event
	held    []*host.Event
	repos   map[host.Address]repoOnDisk
	about   []host.Description
	err     error
	queries int
	read    int // events that queries returned
	block   chan struct{}
	*Handler
}

type repoOnDisk struct {
	refs []grasp.Ref
	head string
	git  *gitrepo.Repo // nil in tests of other pages
}

func newWorld(t *testing.T, change ...func(*Config)) *world {
	t.Helper()
	w := &world{t: t, repos: map[host.Address]repoOnDisk{}}
	cfg := Config{
		Name: "Nest", Description: "A home for birds.", Contact: "mailto:op@example.com", Service: "git.example.com",
		PRs: true, NIPs: []int{1, 11}, About: func() []host.Description { return w.about },
	}
	for _, c := range change {
		c(&cfg)
	}
	h, err := New(cfg, Deps{Facts: w, Git: w, Code: testReader})
	if err != nil {
		t.Fatal(err)
	}
	w.Handler = h
	return w
}

func (w *world) Get(_ context.Context, id host.ID) ([]byte, error) { return nil, w.err }

func (w *world) Held(_ context.Context, id host.ID) ([]byte, error) { return nil, w.err }

func (w *world) Referenced(context.Context, string) (bool, error) { return false, w.err }

func (w *world) Query(ctx context.Context, f host.Filter) ([][]byte, error) {
	return w.match(ctx, w.stored, f)
}

func (w *world) HeldBy(ctx context.Context, f host.Filter) ([][]byte, error) {
	return w.match(ctx, w.held, f)
}

func (w *world) match(ctx context.Context, events []*host.Event, f host.Filter) (texts [][]byte, err error) {
	if w.block != nil {
		select {
		case <-w.block:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	if f.Limit < 0 || f.Limit > 100 {
		w.t.Errorf("a query without a small limit: %+v", f)
	}
	if f.Kinds == nil && (len(f.Tags) == 0 || f.Tags[0].Name > host.MaintainerOf) {
		w.t.Errorf("a query without kinds or addresses: %+v", f)
	}
	w.queries++
	texts = memfacts.Query(events, f)
	w.read += len(texts)
	return texts, w.err
}

func (w *world) Here(_ context.Context, a host.Address) (bool, error) {
	_, here := w.repos[a]
	return here, w.err
}

func (w *world) Repository(_ context.Context, a host.Address) (*gitrepo.Repo, error) {
	return w.repos[a].git, w.err
}

// testScheduler starts no git until a test asks for it.
var testScheduler = func() *gitrepo.Scheduler {
	s, err := gitrepo.NewScheduler(gitrepo.DefaultScheduleOptions)
	if err != nil {
		panic(err)
	}
	return s
}()

// testReader keeps no archives.
var testReader = func() *gitread.Reader {
	r, err := gitread.Open(gitread.Options{Scheduler: testScheduler})
	if err != nil {
		panic(err)
	}
	return r
}()

func (w *world) Refs(_ context.Context, a host.Address) ([]grasp.Ref, string, bool, error) {
	r, here := w.repos[a]
	return r.refs, r.head, here, w.err
}

// key is the public key of somebody with a name.
func key(name string) host.PubKey { return sha256.Sum256([]byte("key of " + name)) }

func npub(name string) string { return nip19.EncodeNpub(key(name)) }

func event(who string, kind host.Kind, at int64, content string, tags ...host.Tag) *host.Event {
	return testkit.Unsigned(key(who), kind, at, content, tags...)
}

const now = 1_790_000_000

// publish stores events.
func (w *world) publish(events ...*host.Event) *host.Event {
	w.stored = append(w.stored, events...)
	for _, e := range events {
		w.Handler.Publish([]host.Published{{Event: e, Seq: int64(len(w.stored))}})
	}
	return events[len(events)-1]
}

// announce returns an announcement that lists the service.
func announce(who, identifier string, tags ...host.Tag) *host.Event {
	return event(who, grasp.KindAnnouncement, now, "", append([]host.Tag{
		{"d", identifier}, {"clone", "https://git.example.com/x.git", "https://other.example/x.git"}, {"relays", "wss://git.example.com"},
	}, tags...)...)
}

// host makes a repository for an announcement.
func (w *world) host(e *host.Event, refs ...grasp.Ref) {
	a, _ := e.Address()
	w.repos[a] = repoOnDisk{refs: refs, head: "refs/heads/main"}
}

func repoOf(who, identifier string) grasp.Repo {
	return grasp.Repo{PubKey: key(who), Identifier: identifier}
}

func a(who, identifier string) host.Tag { return host.Tag{"a", repoOf(who, identifier).Address()} }

// doc is an answer, its page parsed.
type doc struct {
	*httptest.ResponseRecorder
	elements []element
	text     string // of the body, with spaces as they come out
}

type element struct {
	name string
	attr map[string]string
}

func (w *world) get(path string, change ...func(*http.Request)) *doc {
	w.t.Helper()
	return w.request(http.MethodGet, path, change...)
}

func request(path string) *http.Request {
	return httptest.NewRequest(http.MethodGet, "http://git.example.com"+path, nil)
}

func (w *world) request(method, path string, change ...func(*http.Request)) *doc {
	w.t.Helper()
	r := request(path)
	r.Method = method
	for _, c := range change {
		c(r)
	}
	d := &doc{ResponseRecorder: httptest.NewRecorder()}
	w.ServeHTTP(d.ResponseRecorder, r)
	if d.Body.Len() > 0 {
		d.parse(w.t)
	}
	return d
}

// raw is get for an answer that is no page.
func (w *world) raw(path string, change ...func(*http.Request)) *httptest.ResponseRecorder {
	w.t.Helper()
	r := request(path)
	for _, c := range change {
		c(r)
	}
	got := httptest.NewRecorder()
	w.ServeHTTP(got, r)
	return got
}

// parse reads a page. Pages are written so that an XML parser that knows HTML's void elements
// reads them as a browser does. If a stranger's text opens or closes an element, parse fails, or
// the tests find an element that they do not know.
func (d *doc) parse(t *testing.T) {
	t.Helper()
	p := xml.NewDecoder(bytes.NewReader(d.Body.Bytes()))
	p.Strict, p.AutoClose, p.Entity = false, xml.HTMLAutoClose, xml.HTMLEntity
	var text strings.Builder
	var open []string
	inBody := false
	for {
		token, err := p.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatalf("%v in\n%s", err, d.Body)
		}
		switch token := token.(type) {
		case xml.StartElement:
			text.WriteString(gap(token.Name.Local))
			e := element{token.Name.Local, map[string]string{}}
			for _, a := range token.Attr {
				e.attr[a.Name.Local] = a.Value
			}
			d.elements = append(d.elements, e)
			open = append(open, e.name)
			inBody = inBody || e.name == "body"
		case xml.EndElement:
			if len(open) == 0 || open[len(open)-1] != token.Name.Local {
				t.Fatalf("</%s> closes %v in\n%s", token.Name.Local, open, d.Body)
			}
			open = open[:len(open)-1]
			text.WriteString(gap(token.Name.Local))
		case xml.CharData:
			if inBody {
				text.Write(token)
			}
		case xml.Comment:
			t.Fatalf("a comment in\n%s", d.Body)
		}
	}
	d.text = strings.Join(strings.Fields(text.String()), " ")
}

// gap is the space that a person sees between an element and the text next to it.
func gap(element string) string {
	switch element {
	case "dt", "dd", "span", "br", "li", "div":
		return " "
	}
	return ""
}

func (d *doc) hrefs() (list []string) {
	for _, e := range d.elements {
		if href, ok := e.attr["href"]; ok && e.name == "a" {
			list = append(list, href)
		}
	}
	return list
}

// has asks for texts in the body.
func (d *doc) has(t *testing.T, texts ...string) {
	t.Helper()
	for _, text := range texts {
		if !strings.Contains(d.text, text) {
			t.Errorf("the page does not say %q:\n%s", text, d.text)
		}
	}
}

// hasNot asks that texts are nowhere in the answer.
func (d *doc) hasNot(t *testing.T, texts ...string) {
	t.Helper()
	for _, text := range texts {
		if strings.Contains(d.text, text) || strings.Contains(d.Body.String(), text) {
			t.Errorf("the page says %q:\n%s", text, d.text)
		}
	}
}

func (d *doc) status(t *testing.T, want int) *doc {
	t.Helper()
	if d.Code != want {
		t.Errorf("status %d, want %d: %s", d.Code, want, d.text)
	}
	return d
}

func commit(n int) string { return fmt.Sprintf("%x", sha256.Sum256([]byte(itoa(n))))[:40] }

func heads(names ...string) (refs []grasp.Ref) {
	for i, name := range names {
		refs = append(refs, grasp.Ref{Name: name, Object: commit(i)})
	}
	return refs
}

func rootTag(e *host.Event) host.Tag { return host.Tag{"e", e.ID.String(), "", "root"} }

func itoa(n int) string { return strconv.Itoa(n) }
