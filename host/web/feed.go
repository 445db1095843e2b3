package web

import (
	"context"
	"encoding/xml"
	"errors"
	"fmt"
	"html/template"
	"net/http"
	"slices"
	"strings"
	"time"

	"talon/host"
	"talon/host/gitread"
	"talon/host/web/code"
	"talon/sdk/grasp"
	"talon/sdk/nip19"
)

// document is an answer that is no HTML page.
type document struct {
	Type string
	Body []byte
}

// feedLink leads from a page to its feed.
type feedLink struct {
	Title string
	Path  template.URL
}

// feedsOf returns the feeds of a repository.
func feedsOf(base string) (list []feedLink) {
	list = []feedLink{{"Commits", template.URL(base + "/log.atom")}, {"Tags", template.URL(base + "/refs.atom")}}
	for _, s := range sections {
		list = append(list, feedLink{s.Title, template.URL(base + "/" + s.Name + ".atom")})
	}
	return list
}

// atom is a feed (RFC 4287).
type atom struct {
	XMLName xml.Name    `xml:"http://www.w3.org/2005/Atom feed"`
	ID      string      `xml:"id"`
	Title   string      `xml:"title"`
	Updated string      `xml:"updated"`
	Links   []atomLink  `xml:"link"`
	Entries []atomEntry `xml:"entry"`
}

type atomLink struct {
	Rel  string `xml:"rel,attr"`
	Type string `xml:"type,attr,omitempty"`
	Href string `xml:"href,attr"`
}

type atomEntry struct {
	ID         string         `xml:"id"`
	Title      string         `xml:"title"`
	Updated    string         `xml:"updated"`
	Published  string         `xml:"published"`
	Link       atomLink       `xml:"link"`
	Author     string         `xml:"author>name"`
	Categories []atomCategory `xml:"category"`
}

type atomCategory struct {
	Term string `xml:"term,attr"`
}

// codeFeed returns the feed of the commits of a ref, or of the tags.
func (h *Handler) codeFeed(repo grasp.Repo, name, ref string) page {
	return func(ctx context.Context, r *http.Request) (int, string, any, error) {
		a, err := h.read.announced(ctx, repo)
		if err != nil {
			return 0, "", nil, err
		}
		git, err := h.git.Repository(ctx, address(repo))
		if err != nil {
			return 0, "", nil, err
		}
		// Read for the cache: the feed is made again when a ref moves.
		_, _, here, err := h.git.Refs(ctx, address(repo))
		if err != nil {
			return 0, "", nil, err
		}
		if a.stored == nil || git == nil || !here {
			return http.StatusNotFound, "message", notFound, nil
		}
		urls := h.urls(r)
		at := urls.of(repo)
		title := orElse(line(a.stored.Name, maxName), at.Identifier)
		q := h.codeOf(r, git, repo, a.stored.Name)
		var list []code.FeedEntry
		if name == "log" {
			var of string
			of, list, err = h.pages.Commits(ctx, q, ref)
			title += ": commits of " + of
		} else {
			list, err = h.pages.Tags(ctx, q)
			title += ": tags"
		}
		if errors.Is(err, gitread.ErrNotFound) {
			return http.StatusNotFound, "message", notFound, nil
		}
		if down := (*gitread.TakenDown)(nil); errors.As(err, &down) {
			return http.StatusUnavailableForLegalReasons, "message", objectDown(down), nil
		}
		if err != nil {
			return 0, "", nil, err
		}
		self := urls.git(at.Base + "/" + name + ".atom" + slash(ref))
		v := atom{
			ID: self, Title: title, Updated: rfc3339(a.stored.CreatedAt),
			Links: []atomLink{{Rel: "self", Type: "application/atom+xml", Href: self}, {Rel: "alternate", Type: "text/html", Href: urls.git(at.Base + "/" + name + slash(ref))}},
		}
		for i, n := range list {
			when, page := rfc3339(n.When), urls.git(n.Path)
			v.Entries = append(v.Entries, atomEntry{
				ID: page, Title: n.Title, Updated: when, Published: when, Author: n.Author, Link: atomLink{Rel: "alternate", Type: "text/html", Href: page},
			})
			if i == 0 || when > v.Updated {
				v.Updated = when
			}
		}
		d, err := xmlDocument("application/atom+xml; charset=utf-8", v)
		return http.StatusOK, "", d, err
	}
}

func slash(ref string) string {
	if ref == "" {
		return ""
	}
	return "/" + ref
}

// feed returns the feed of a section of a repository, nil for another name.
func (h *Handler) feed(repo grasp.Repo, name, ref string) page {
	switch {
	case name == "log", name == "refs" && ref == "":
		return h.codeFeed(repo, name, ref)
	case ref != "":
		return nil
	}
	i := slices.IndexFunc(sections[:], func(s section) bool { return s.Name == name })
	if i < 0 {
		return nil
	}
	s := sections[i]
	return func(ctx context.Context, r *http.Request) (int, string, any, error) {
		a, err := h.read.announced(ctx, repo)
		if err != nil {
			return 0, "", nil, err
		}
		if a.stored == nil {
			return http.StatusNotFound, "message", notFound, nil
		}
		f := host.Filter{Kinds: []host.Kind{s.kind}, Tags: []host.TagFilter{repoTag(repo.Identifier, a.maintainers)}}
		roots, _, _, err := h.read.matching(ctx, f, query{State: "all"}, a.maintainers)
		if err != nil {
			return 0, "", nil, err
		}
		people, err := h.read.profiles(ctx, authorsOf(roots))
		if err != nil {
			return 0, "", nil, err
		}
		urls := h.urls(r)
		list := urls.git(basePath(repo) + "/" + s.Name)
		v := atom{
			ID: list, Title: orElse(line(a.stored.Name, maxName), identifier(repo.Identifier)) + ": " + strings.ToLower(s.Title),
			Updated: rfc3339(a.stored.CreatedAt),
			Links:   []atomLink{{Rel: "self", Type: "application/atom+xml", Href: list + ".atom"}, {Rel: "alternate", Type: "text/html", Href: list}},
		}
		for i, root := range roots {
			v.Entries = append(v.Entries, entryOf(root, people[root.PubKey], list+"/"+host.ID(root.ID).String(), urls.relay()))
			if i == 0 || v.Entries[i].Updated > v.Updated {
				v.Updated = v.Entries[i].Updated
			}
		}
		d, err := xmlDocument("application/atom+xml; charset=utf-8", v)
		return http.StatusOK, "", d, err
	}
}

func entryOf(root *root, author person, path, relay string) atomEntry {
	e := atomEntry{
		ID: "nostr:" + nip19.EncodeNevent(root.ID, root.PubKey, uint16(root.Kind), relay), Title: root.title,
		Updated: rfc3339(root.updated.CreatedAt), Published: rfc3339(root.CreatedAt),
		Link: atomLink{Rel: "alternate", Type: "text/html", Href: path}, Author: orElse(author.Name, author.Short()),
	}
	for _, name := range append([]string{statusText(root.status, root.Kind)}, root.labels...) {
		e.Categories = append(e.Categories, atomCategory{name})
	}
	return e
}

// rfc3339 returns a time as feeds have it. A time outside the calendar becomes its start.
func rfc3339(seconds int64) string {
	if m := at(seconds).Machine; m != "" {
		return m
	}
	return time.Unix(0, 0).UTC().Format(time.RFC3339)
}

func xmlDocument(kind string, v any) (document, error) {
	body, err := xml.MarshalIndent(v, "", " ")
	if err != nil {
		return document{}, fmt.Errorf("write XML: %w", err)
	}
	return document{kind, append([]byte(xml.Header), body...)}, nil
}

// maxSites bounds the repositories of the sitemap, the ones announced last.
const maxSites = 500

// sitemap lists the pages of repositories for search engines.
func (h *Handler) sitemap(ctx context.Context, r *http.Request) (int, string, any, error) {
	type site struct {
		Loc     string `xml:"loc"`
		LastMod string `xml:"lastmod,omitempty"`
	}
	urls := h.urls(r)
	v := struct {
		XMLName xml.Name `xml:"http://www.sitemaps.org/schemas/sitemap/0.9 urlset"`
		Sites   []site   `xml:"url"`
	}{Sites: []site{{Loc: urls.git("/")}}}
	var failed error
	_, err := h.read.each(ctx, host.Filter{Kinds: []host.Kind{grasp.KindAnnouncement}}, maxSites, func(e *host.Event) bool {
		a, err := e.Announcement()
		if err != nil {
			return true
		}
		here, err := h.git.Here(ctx, address(a.Repo()))
		if failed = err; here {
			v.Sites = append(v.Sites, site{urls.git(a.Repo().Path()), at(e.CreatedAt).Machine})
		}
		return err == nil
	})
	if err == nil {
		err = failed
	}
	if err != nil {
		return 0, "", nil, err
	}
	d, err := xmlDocument("application/xml; charset=utf-8", v)
	return http.StatusOK, "", d, err
}

// robots asks crawlers to leave pages alone that cost much, and lists without end.
func (h *Handler) robots(_ context.Context, r *http.Request) (int, string, any, error) {
	var b strings.Builder
	b.WriteString("User-agent: *\n")
	for _, verb := range [...]string{"archive", "blame", "compare", "grep", "log", "raw"} {
		b.WriteString("Disallow: /*/*/" + verb + "/\n")
	}
	b.WriteString("Disallow: /*?\nDisallow: /search\nSitemap: " + h.urls(r).git("/sitemap.xml") + "\n")
	return http.StatusOK, "", document{"text/plain; charset=utf-8", []byte(b.String())}, nil
}
