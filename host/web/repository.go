package web

import (
	"context"
	"errors"
	"fmt"
	"html/template"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"talon/host"
	"talon/host/gitread"
	"talon/host/gitrepo"
	"talon/host/web/code"
	"talon/host/web/text"
	"talon/sdk/grasp"
	"talon/sdk/nip19"
)

const (
	maxLinks   = 10 // of an announcement, of each kind
	maxPersons = 30 // maintainers that a page names
)

// repoURL is what each page about a repository shows of its URL.
type repoURL struct {
	Npub       string
	Short      string
	Owner      template.URL // of the owner's page
	Base       string       // the path of this page, below which the others are
	Identifier string
	Canonical  template.URL
	Clone      string // its URL here
	Nostr      string // for git with a helper, "" if there is none
	Relay      string
	Service    string
	App        template.URL // nostr:naddr…, "" if the identifier is too long for one
	Web        template.URL
	Argument   string // the identifier as an argument of a shell, "" if it has none that is safe to copy
}

func (p serviceURLs) of(r grasp.Repo) repoURL {
	npub := npubOf(r)
	at := repoURL{
		Npub:       npub,
		Owner:      template.URL("/" + npub),
		Base:       basePath(r),
		Short:      shortKey(npub),
		Identifier: identifier(r.Identifier),
		Canonical:  template.URL(p.git(r.Path())),
		Clone:      p.git(r.Path()),
		Nostr:      p.nostr(r),
		Relay:      p.relay(),
		Service:    p.service.String(),
		Argument:   argument(r.Identifier),
	}
	if code := nip19.EncodeNaddr(nip19.Naddr{Kind: grasp.KindAnnouncement, PubKey: r.PubKey, D: r.Identifier}, p.relay()); code != "" {
		at.App, at.Web = template.URL("nostr:"+code), template.URL(client+code)
	}
	return at
}

// repository is what the page of one shows.
type repository struct {
	repoURL
	Name        string
	By          person // the owner
	Description string
	Archived    bool
	Links       []link   // pages of the project
	Elsewhere   []string // clone URLs of other servers, as text
	At          moment   // of the announcement
	State       *moment  // of the newest state; nil if there is none
	Signer      person   // of that state
	Topics      []string
	Relays      []string       // other relays, as text
	Code        *code.Overview // nil if there is no commit on the default branch
	Preview     *preview
	Feeds       []feedLink
	Counts      []list // of all conversations, also those of which there are none
	Maintainers []person
	Others      int     // maintainers that are not named
	Hunt        *hunted // nil if nothing is looked for
	Refs        []refList
	Threads     []list
}

// preview is what other sites show of a link to a page (OpenGraph).
type preview struct {
	Title, Summary string
	URL            template.URL
}

// hunted is what a page shows of a search for git data.
type hunted struct {
	Missing int
	Hosts   []string // that are being asked
	Next    *moment  // when others are
}

func (h *Handler) hunted(identifier string) *hunted {
	s, ok := h.cfg.Hunt(identifier)
	if !ok {
		return nil
	}
	v := &hunted{Missing: s.Missing}
	for _, text := range s.Asking[:min(len(s.Asking), maxLinks)] {
		if u, err := url.Parse(text); err == nil {
			v.Hosts = append(v.Hosts, line(u.Host, maxName))
		}
	}
	if !s.Next.IsZero() {
		next := at(s.Next.Unix())
		v.Next = &next
	}
	return v
}

// repository returns the page of a repository that is announced.
func (h *Handler) repository(repo grasp.Repo) page {
	return func(ctx context.Context, r *http.Request) (int, string, any, error) {
		a, err := h.read.announced(ctx, repo)
		if err != nil {
			return 0, "", nil, err
		}
		if a.stored == nil && a.held == nil {
			return http.StatusNotFound, "message", notFound, nil
		}
		p := h.urls(r)
		at := p.of(repo)
		if a.stored == nil {
			here, err := h.git.Here(ctx, address(repo))
			_, hunted := h.cfg.Hunt(repo.Identifier)
			return http.StatusOK, "held", waiting{at, here, hunted, !a.held.ListsService(h.service)}, err
		}
		refs, head, here, err := h.git.Refs(ctx, address(repo))
		if err != nil {
			return 0, "", nil, err
		}
		v := h.announcedAs(&a, at)
		v.Hunt = h.hunted(repo.Identifier)
		if !here {
			return http.StatusNotFound, "elsewhere", v, nil
		}
		for _, l := range [...]refList{branches(refs, head, at.Base), tags(refs, at.Base)} {
			if l.Count > 0 {
				v.Refs = append(v.Refs, l)
			}
		}
		if err := h.read.loadRepository(ctx, v, repo, a.maintainers); err != nil {
			return 0, "", nil, err
		}
		return http.StatusOK, "repository", v, h.overview(ctx, r, v, repo, a.stored.Name)
	}
}

// waiting is a repository whose announcement is held.
type waiting struct {
	repoURL
	Here   bool // there is a repository to push to
	Hunted bool // its data is looked for elsewhere

	Archived bool // its announcement does not list this service: nobody pushes here
}

// announcedAs returns what the announcement itself says.
func (h *Handler) announcedAs(a *announced, at repoURL) *repository {
	v := &repository{
		repoURL:     at,
		Name:        orElse(line(a.stored.Name, maxName), at.Identifier),
		Description: lines(a.stored.Description, maxText),
		Archived:    !a.stored.ListsService(h.service),
		At:          momentOf(a.stored.Stamp),
		Feeds:       feedsOf(at.Base),
	}
	v.Preview = &preview{v.Name, line(a.stored.Description, maxSummary), at.Canonical}
	for _, url := range a.stored.Web[:min(len(a.stored.Web), maxLinks)] {
		if l := linkTo(url); l.Text != "" {
			v.Links = append(v.Links, l)
		}
	}
	for _, url := range a.stored.Relays {
		if shown := line(url, maxShown); shown != "" && !h.service.IsRelay(url) && len(v.Relays) < maxLinks {
			v.Relays = append(v.Relays, shown)
		}
	}
	for _, url := range a.stored.Clone {
		if len(v.Elsewhere) == maxLinks {
			break
		}
		if text := line(url, maxShown); text != "" && !h.service.ServesGit(url) {
			v.Elsewhere = append(v.Elsewhere, text)
		}
	}
	return v
}

func momentOf(s grasp.Stamp) moment { return at(s.CreatedAt) }

// loadRepository adds what other events say of a repository.
func (r reader) loadRepository(ctx context.Context, v *repository, repo grasp.Repo, maintainers []grasp.PubKey) error {
	state, err := r.state(ctx, repo, maintainers)
	if err != nil {
		return err
	}
	if v.Topics, err = r.topics(ctx, repo); err != nil {
		return err
	}
	tag := repoTag(repo.Identifier, maintainers)
	kinds := make([]threads, len(sections))
	var shown []*root
	for i := range kinds {
		f := host.Filter{Kinds: []host.Kind{sections[i].kind}, Tags: []host.TagFilter{tag}}
		if kinds[i], err = r.threads(ctx, f, maintainers); err != nil {
			return err
		}
		shown = append(shown, kinds[i].shown()...)
	}
	if err := r.labels(ctx, shown, maintainers); err != nil {
		return err
	}
	if err := r.comments(ctx, shown, maintainers); err != nil {
		return err
	}
	named := maintainers[:min(len(maintainers), maxPersons)]
	v.Others = len(maintainers) - len(named)
	keys := append(slices.Concat(host.PubKeys(named), authorsOf(shown)), host.PubKey(repo.PubKey))
	if state != nil {
		keys = append(keys, host.PubKey(state.PubKey))
	}
	people, err := r.profiles(ctx, keys)
	if err != nil {
		return err
	}
	if state != nil {
		m := momentOf(*state)
		v.State, v.Signer = &m, people[host.PubKey(state.PubKey)]
	}
	v.By = people[host.PubKey(repo.PubKey)]
	for _, key := range named {
		v.Maintainers = append(v.Maintainers, people[key])
	}
	for i := range kinds {
		v.Counts = append(v.Counts, kinds[i].list(sections[i], v.Base, nil))
		if len(kinds[i].roots) > 0 {
			v.Threads = append(v.Threads, kinds[i].list(sections[i], v.Base, people))
		}
	}
	return nil
}

// topics returns the topics of a repository that is announced.
func (r reader) topics(ctx context.Context, repo grasp.Repo) (topics []string, err error) {
	f := host.Filter{
		Kinds: []host.Kind{grasp.KindAnnouncement}, Authors: []host.PubKey{host.PubKey(repo.PubKey)},
		Tags: []host.TagFilter{{Name: 'd', Values: []string{repo.Identifier}}},
	}
	_, err = r.each(ctx, f, 1, func(e *host.Event) bool {
		for _, tag := range e.Tags {
			if len(tag) < 2 || tag[0] != "t" || len(topics) == maxLabels || tag[1] == "personal-fork" {
				continue
			}
			if topic := line(tag[1], maxLabel); hasLook(topic) && !slices.Contains(topics, topic) {
				topics = append(topics, strings.Clone(topic))
			}
		}
		return false
	})
	return topics, err
}

// overview adds what is on the default branch. A page without that is better than none, if too many
// others are being served or the repository is too large for a page.
func (h *Handler) overview(ctx context.Context, r *http.Request, v *repository, repo grasp.Repo, about string) error {
	git, err := h.git.Repository(ctx, address(repo))
	if err != nil || git == nil {
		return err
	}
	t, err := h.texts(ctx, nil)
	if err != nil {
		return err
	}
	q := h.codeOf(r, git, repo, about)
	o := t.options(1)
	q.Href, q.Mention = o.Href, o.Mention
	h.viewed.add(address(repo))
	v.Code, err = h.pages.Overview(ctx, q)
	return h.withoutCode(r, err)
}

// codeOf returns a request for what is in a repository that may be seen. Announced is the name in its
// announcement.
func (h *Handler) codeOf(r *http.Request, git *gitrepo.Repo, repo grasp.Repo, announced string) *code.Request {
	shown := identifier(repo.Identifier)
	return &code.Request{
		HTTP: r, Repo: git, By: h.cfg.Client(r), Name: orElse(line(announced, maxName), shown), Identifier: shown,
		Base: basePath(repo), Clone: h.urls(r).git(repo.Path()), About: h.aboutOf(repo, announced),
	}
}

// aboutOf returns a text that changes when pages of a repository do, though its commits do not: with
// its name, and with each row of the operator about it.
func (h *Handler) aboutOf(repo grasp.Repo, announced string) string {
	return fmt.Sprint(h.cfg.Moderation.NumberOf(host.PubKey(repo.PubKey), repo.Identifier), " ", announced)
}

// withoutCode returns nil for an error because of which a page has no part about code.
func (h *Handler) withoutCode(r *http.Request, err error) error {
	if code.IsBusy(err) || errors.Is(err, gitread.ErrTooLarge) || errors.Is(err, gitread.ErrNotFound) || errors.As(err, new(*gitread.TakenDown)) {
		h.cfg.Log.Debug("make a page without code", "path", r.URL.Path, "err", err)
		return nil
	}
	return err
}

// prs returns the page of a path under /prs/. It is the same whether anything is
// there or not.
func (h *Handler) prs(repo grasp.Repo) page {
	return func(_ context.Context, r *http.Request) (int, string, any, error) {
		at := h.urls(r).of(repo)
		at.Clone = strings.Replace(at.Clone, repo.Path(), "/prs"+repo.Path(), 1)
		at.Canonical = template.URL(at.Clone)
		return http.StatusOK, "prs", at, nil
	}
}

// maxRefs bounds how many branches, and how many tags, a page shows.
const maxRefs = 50

// ref is a branch or a tag.
type ref struct {
	Name string       // without refs/heads/ or refs/tags/
	ID   string       // short
	Path template.URL // of its tree
	HEAD bool
}

// refList is the branches or the tags of a repository.
type refList struct {
	Title string
	List  []ref
	Count int
}

// Hidden returns how many refs the page does not show.
func (l refList) Hidden() int { return l.Count - len(l.List) }

// branches returns the heads, the one that HEAD names first.
func branches(refs []grasp.Ref, head, base string) refList {
	l := pick("Branches", base, refs, "refs/heads/", func(a, b grasp.Ref) int {
		switch {
		case a.Name == head:
			return -1
		case b.Name == head:
			return 1
		}
		return strings.Compare(a.Name, b.Name)
	})
	if len(l.List) > 0 {
		l.List[0].HEAD = slices.ContainsFunc(refs, func(r grasp.Ref) bool { return r.Name == head && strings.HasPrefix(head, "refs/heads/") })
	}
	return l
}

// tags returns the tags, the highest version first.
func tags(refs []grasp.Ref, base string) refList {
	return pick("Tags", base, refs, "refs/tags/", func(a, b grasp.Ref) int { return text.Natural(b.Name, a.Name) })
}

func pick(title, base string, refs []grasp.Ref, prefix string, compare func(a, b grasp.Ref) int) refList {
	var all []grasp.Ref
	for _, r := range refs {
		if strings.HasPrefix(r.Name, prefix) {
			all = append(all, r)
		}
	}
	slices.SortFunc(all, compare)
	l := refList{Title: title, Count: len(all)}
	for _, r := range all[:min(len(all), maxRefs)] {
		path := base + "/tree"
		for segment := range strings.SplitSeq(r.Name[len(prefix):], "/") {
			path += "/" + url.PathEscape(segment)
		}
		l.List = append(l.List, ref{Name: identifier(r.Name[len(prefix):]), ID: shortID(r.Object), Path: template.URL(path)})
	}
	return l
}
