package web

import (
	"context"
	"html/template"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"talon/host"
	rules "talon/sdk/grasp"
	"talon/sdk/nip19"
)

const (
	maxLinks   = 10 // of an announcement, of each kind
	maxPersons = 30 // maintainers that a page names
)

// place is what each page about a repository shows of its URL.
type place struct {
	Npub       string
	Short      string
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

func (p places) of(r rules.Repo) place {
	npub := npubOf(r)
	at := place{
		Npub:       npub,
		Short:      shortKey(npub),
		Identifier: identifier(r.Identifier),
		Canonical:  template.URL(p.git(r.Path())),
		Clone:      p.git(r.Path()),
		Nostr:      p.nostr(r),
		Relay:      p.relay(),
		Service:    p.service.String(),
		Argument:   argument(r.Identifier),
	}
	if code := nip19.EncodeNaddr(nip19.Naddr{Kind: rules.KindAnnouncement, PubKey: r.PubKey, D: r.Identifier}, p.relay()); code != "" {
		at.App, at.Web = template.URL("nostr:"+code), template.URL(client+code)
	}
	return at
}

// repository is what the page of one shows.
type repository struct {
	place
	Name        string
	Description string
	Archived    bool
	Links       []link   // pages of the project
	Elsewhere   []string // clone URLs of other servers, as text
	At          moment   // of the announcement
	State       *moment  // of the newest state; nil if there is none
	Maintainers []person
	Others      int     // maintainers that are not named
	Hunt        *hunted // nil if nothing is looked for
	Refs        []refList
	Threads     []list
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
func (h *Handler) repository(repo rules.Repo) page {
	return func(ctx context.Context, r *http.Request) (int, string, any, error) {
		a, err := h.read.announced(ctx, repo)
		if err != nil {
			return 0, "", nil, err
		}
		if a.stored == nil && a.held == nil {
			return http.StatusNotFound, "message", notFound, nil
		}
		p := h.places(r)
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
		for _, l := range [...]refList{branches(refs, head), tags(refs)} {
			if l.Count > 0 {
				v.Refs = append(v.Refs, l)
			}
		}
		return http.StatusOK, "repository", v, h.read.fill(ctx, v, repo, a.maintainers)
	}
}

// waiting is a repository whose announcement is held.
type waiting struct {
	place
	Here   bool // there is a repository to push to
	Hunted bool // its data is looked for elsewhere

	Archived bool // its announcement does not list this service: nobody pushes here
}

// announcedAs returns what the announcement itself says.
func (h *Handler) announcedAs(a *announced, at place) *repository {
	v := &repository{
		place:       at,
		Name:        orElse(line(a.stored.Name, maxName), at.Identifier),
		Description: lines(a.stored.Description, maxText),
		Archived:    !a.stored.ListsService(h.service),
		At:          momentOf(a.stored.Stamp),
	}
	for _, url := range a.stored.Web[:min(len(a.stored.Web), maxLinks)] {
		if l := linkTo(url); l.Text != "" {
			v.Links = append(v.Links, l)
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

func momentOf(s rules.Stamp) moment { return at(s.CreatedAt) }

// fill adds what other events say of a repository.
func (r reader) fill(ctx context.Context, v *repository, repo rules.Repo, maintainers []rules.PubKey) error {
	state, err := r.state(ctx, repo, maintainers)
	if err != nil {
		return err
	}
	if state != nil {
		m := momentOf(*state)
		v.State = &m
	}
	tag := repoTag(repo.Identifier, maintainers)
	kinds := [...]struct {
		title string
		kind  host.Kind
		threads
	}{
		{title: "Issues", kind: rules.KindIssue},
		{title: "Pull requests", kind: rules.KindPullRequest},
		{title: "Patches", kind: rules.KindPatch},
	}
	var shown []*root
	for i := range kinds {
		if kinds[i].threads, err = r.threads(ctx, kinds[i].kind, tag, maintainers); err != nil {
			return err
		}
		shown = append(shown, kinds[i].shown()...)
	}
	if err := r.comments(ctx, shown); err != nil {
		return err
	}
	named := maintainers[:min(len(maintainers), maxPersons)]
	v.Others = len(maintainers) - len(named)
	people, err := r.people(ctx, slices.Concat(hostKeys(named), authorsOf(shown)))
	if err != nil {
		return err
	}
	for _, key := range named {
		v.Maintainers = append(v.Maintainers, people[key])
	}
	for i := range kinds {
		if len(kinds[i].roots) > 0 {
			v.Threads = append(v.Threads, kinds[i].list(kinds[i].title, people, v.Relay))
		}
	}
	return nil
}

// prs returns the page of a path under /prs/. It is the same whether anything is
// there or not.
func (h *Handler) prs(repo rules.Repo) page {
	return func(_ context.Context, r *http.Request) (int, string, any, error) {
		at := h.places(r).of(repo)
		at.Clone = strings.Replace(at.Clone, repo.Path(), "/prs"+repo.Path(), 1)
		at.Canonical = template.URL(at.Clone)
		return http.StatusOK, "prs", at, nil
	}
}
