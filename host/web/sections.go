package web

import (
	"cmp"
	"context"
	"fmt"
	"html/template"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"talon/host"
	"talon/sdk/grasp"
	"talon/sdk/nip19"
)

// section is a kind of conversations: issues, pull requests or patches.
type section struct {
	Name  string // in paths
	Title string
	One   string // of them
	Done  string // the status of one that was applied
	kind  host.Kind
}

var sections = [...]section{
	{"issues", "Issues", "issue", "resolved", grasp.KindIssue},
	{"pulls", "Pull requests", "pull request", "merged", grasp.KindPullRequest},
	{"patches", "Patches", "patch", "applied", grasp.KindPatch},
}

const (
	// maxPage bounds the conversations on a page of a list. maxLooked bounds those that the page
	// looks at. If few match the filter, a page has fewer than maxPage, and leads to the next.
	maxPage   = 25
	maxLooked = 1000

	// maxQuery bounds a value in the query of a URL, in characters.
	maxQuery = 200
)

// conversations returns the page of a path below a repository, nil if it has none.
func (h *Handler) conversations(repo grasp.Repo, rest string) page {
	first, ref, _ := strings.Cut(rest, "/")
	if name, ok := strings.CutSuffix(first, ".atom"); ok {
		return h.feed(repo, name, ref)
	}
	name, rest, more := strings.Cut(rest, "/")
	i := slices.IndexFunc(sections[:], func(s section) bool { return s.Name == name })
	switch {
	case i < 0:
		return nil
	case !more || rest == "":
		return h.listing(repo, sections[i])
	}
	rest, isJSON := strings.CutSuffix(rest, ".json")
	id, err := nip19.ParseEventID(rest)
	if err != nil {
		return nil
	}
	if hex := host.ID(id).String(); hex != rest {
		if isJSON {
			hex += ".json"
		}
		return func(context.Context, *http.Request) (int, string, any, error) {
			return http.StatusFound, "", redirect(basePath(repo) + "/" + name + "/" + hex), nil
		}
	}
	if isJSON {
		return h.eventJSON(repo, sections[i], id)
	}
	return h.conversation(repo, sections[i], id)
}

// eventJSON returns the event of an issue, a pull request or a patch as it was signed.
func (h *Handler) eventJSON(repo grasp.Repo, s section, id host.ID) page {
	return func(ctx context.Context, _ *http.Request) (int, string, any, error) {
		a, err := h.read.announced(ctx, repo)
		if err != nil {
			return 0, "", nil, err
		}
		texts, err := h.read.facts.Query(ctx, host.Filter{
			IDs: []host.ID{id}, Kinds: []host.Kind{s.kind}, Tags: []host.TagFilter{repoTag(repo.Identifier, a.maintainers)}, Limit: 1,
		})
		if err != nil {
			return 0, "", nil, fmt.Errorf("read an event: %w", err)
		}
		if a.stored == nil || len(texts) == 0 {
			return http.StatusNotFound, "message", notFound, nil
		}
		return http.StatusOK, "", document{"application/json", texts[0]}, nil
	}
}

// redirect is the path of another page.
type redirect string

// query is what the query of a URL may say.
type query struct {
	State  string
	Label  string
	Author string
	Text   string // of a search
	Until  *int64
}

// queryOf reads the query of a URL, and leaves out the rest.
func queryOf(r *http.Request) (q query) {
	values := r.URL.Query()
	get := func(name string) string {
		return line(values.Get(name), maxQuery)
	}
	q = query{Label: get("label"), Author: get("author"), Text: get("q")}
	if state := get("state"); slices.Contains([]string{"draft", "done", "closed", "all"}, state) {
		q.State = state
	}
	if n, err := strconv.ParseInt(get("until"), 10, 64); err == nil && n >= 0 {
		q.Until = &n
	}
	return q
}

// String returns the query in one form, "" if it says nothing.
func (q query) String() string {
	values := url.Values{}
	for name, value := range map[string]string{"state": q.State, "label": q.Label, "author": q.Author, "q": q.Text} {
		if value != "" {
			values.Set(name, value)
		}
	}
	if q.Until != nil {
		values.Set("until", strconv.FormatInt(*q.Until, 10))
	}
	if len(values) == 0 {
		return ""
	}
	return "?" + values.Encode()
}

// listPage is a list of conversations as a page shows it.
type listPage struct {
	repoURL
	Section section
	Name    string // of the repository
	States  []choice
	Query   query
	List    []thread
	Later   bool   // this is not the first page
	Newest  string // the query of the first page
	Next    string // the query of the next page, "" if there is none
	Partly  bool   // there may be more in the next page, though this one has room
	Feed    template.URL
	Address string // the naddr of the repository, "" if it has none
	Fault   string // what is wrong with the filter, "" if nothing is
}

// choice is a filter to choose.
type choice struct {
	Title string
	Query string
	On    bool
}

// matches reports whether a root is in a state that was asked for.
func (q query) matches(root *root) bool {
	if q.Label != "" && !slices.Contains(root.labels, q.Label) {
		return false
	}
	switch q.State {
	case "all":
		return true
	case "draft":
		return root.status == grasp.KindDraft
	case "closed":
		return root.status == grasp.KindClosed
	case "done":
		return root.status == grasp.KindApplied
	}
	return root.status == grasp.KindOpen || root.status == grasp.KindDraft
}

// listing returns a list of conversations about a repository.
func (h *Handler) listing(repo grasp.Repo, s section) page {
	return func(ctx context.Context, r *http.Request) (int, string, any, error) {
		a, err := h.read.announced(ctx, repo)
		if err != nil {
			return 0, "", nil, err
		}
		if a.stored == nil {
			return http.StatusNotFound, "message", notFound, nil
		}
		at, q := h.urls(r).of(repo), queryOf(r)
		v := &listPage{
			repoURL: at, Section: s, Query: q, Name: orElse(line(a.stored.Name, maxName), at.Identifier),
			Later: q.Until != nil, Feed: template.URL(at.Base + "/" + s.Name + ".atom"),
		}
		v.Canonical = template.URL(h.urls(r).git(at.Base + "/" + s.Name))
		v.Address = strings.TrimPrefix(string(at.App), "nostr:")
		first := q
		first.Until = nil
		v.Newest = cmp.Or(first.String(), "?")
		for _, state := range [...][2]string{{"", "Open"}, {"draft", "Draft"}, {"done", title(s.Done)}, {"closed", "Closed"}, {"all", "All"}} {
			c := choice{Title: state[1], On: state[0] == q.State}
			other := first
			other.State = state[0]
			c.Query = cmp.Or(other.String(), "?")
			if state[0] != "draft" || s.kind != grasp.KindIssue {
				v.States = append(v.States, c)
			}
		}
		f := host.Filter{Kinds: []host.Kind{s.kind}, Tags: []host.TagFilter{repoTag(repo.Identifier, a.maintainers)}, Until: q.Until}
		if q.Author != "" {
			key, err := nip19.ParsePubKey(q.Author)
			if err != nil {
				v.Fault = "An author is an npub."
				return http.StatusOK, "list", v, nil
			}
			f.Authors = []host.PubKey{key}
		}
		found, next, partly, err := h.read.matching(ctx, f, q, a.maintainers)
		if err != nil {
			return 0, "", nil, err
		}
		if next != nil {
			first.Until = next
			v.Next, v.Partly = first.String(), partly
		}
		if err := h.read.comments(ctx, found, a.maintainers); err != nil {
			return 0, "", nil, err
		}
		people, err := h.read.profiles(ctx, authorsOf(found))
		if err != nil {
			return 0, "", nil, err
		}
		for _, root := range found {
			v.List = append(v.List, root.thread(s, at.Base, people))
		}
		return http.StatusOK, "list", v, nil
	}
}

// matching returns roots that match a query, the newest first, and the second from which the next
// page goes on, nil if there is none. It reports whether it stopped before the page was full.
func (r reader) matching(ctx context.Context, f host.Filter, q query, maintainers []grasp.PubKey) (found []*root, next *int64, partly bool, err error) {
	seen := make(map[grasp.ID]bool)
	for looked := 0; ; {
		t, err := r.threads(ctx, f, maintainers)
		if err != nil {
			return nil, nil, false, err
		}
		if err := r.labels(ctx, t.roots, maintainers); err != nil {
			return nil, nil, false, err
		}
		for _, root := range t.roots {
			if seen[root.ID] {
				continue
			}
			seen[root.ID] = true
			if !q.matches(root) {
				continue
			}
			if len(found) == maxPage {
				return found, before(root.CreatedAt, q.Until), false, nil
			}
			found = append(found, root)
		}
		if !t.more {
			return found, nil, false, nil
		}
		looked += t.read
		f.Until = before(t.last, f.Until)
		if f.Until == nil {
			return found, nil, false, nil
		}
		if looked >= maxLooked {
			return found, f.Until, true, nil
		}
	}
}

// before returns the second from which a list goes on: that of its last event, or the one before
// where it began, if that was not later. It is nil if time ends.
func before(last int64, until *int64) *int64 {
	if until != nil && last >= *until {
		last = *until - 1
	}
	if last < 0 {
		return nil
	}
	return &last
}

// title returns a word with a capital.
func title(word string) string { return strings.ToUpper(word[:1]) + word[1:] }
