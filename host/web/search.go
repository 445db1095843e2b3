package web

import (
	"context"
	"html/template"
	"net/http"
	"slices"
	"strings"

	"talon/host"
	"talon/sdk/grasp"
	"talon/sdk/nip19"
)

const (
	// maxFound bounds what a search shows of each kind, and maxSearched what it looks at.
	maxFound    = 25
	maxSearched = 100
)

// searchPage is what the page of a search shows.
type searchPage struct {
	Query     string
	Asked     bool
	Fault     string // what is wrong with the query, "" if nothing is
	Repos     []listed
	Found     []found
	MoreRepos bool
	MoreFound bool
}

// found is a conversation that a search found.
type found struct {
	thread
	Kind     string
	Repo     string
	RepoPath template.URL
}

// search answers a search with the index of NIP-50: the same words find the same events as at the
// relay. A key or the address of a repository leads to its page.
func (h *Handler) search(ctx context.Context, r *http.Request) (int, string, any, error) {
	q := queryOf(r).Text
	v := &searchPage{Query: q}
	code := strings.TrimPrefix(q, "nostr:")
	if key, ok := personOf(code); ok {
		return http.StatusFound, "", redirect("/" + nip19.EncodeNpub(key)), nil
	}
	if a, err := nip19.DecodeNaddr(code); err == nil && a.Kind == grasp.KindAnnouncement && grasp.CheckIdentifier(a.D) == nil {
		return http.StatusFound, "", redirect(grasp.Repo{PubKey: a.PubKey, Identifier: a.D}.Path()), nil
	}
	words, err := host.Search(q)
	switch {
	case err != nil:
		v.Fault = "These are too many words."
	case len(words) > 0:
		v.Asked = true
		if v.Repos, v.MoreRepos, err = h.searchRepos(ctx, words); err == nil {
			v.Found, v.MoreFound, err = h.searchRoots(ctx, words)
		}
		return http.StatusOK, "search", v, err
	}
	return http.StatusOK, "search", v, nil
}

// searchRepos finds repositories that are here.
func (h *Handler) searchRepos(ctx context.Context, words []host.TagFilter) (list []listed, more bool, err error) {
	var repos []grasp.Repo
	f := host.Filter{Kinds: []host.Kind{grasp.KindAnnouncement}, Tags: words}
	more, err = h.read.each(ctx, f, maxSearched, func(e *host.Event) bool {
		if a, err := e.Announcement(); err == nil {
			repos = append(repos, grasp.Repo{PubKey: a.PubKey, Identifier: strings.Clone(a.Identifier)})
		}
		return true
	})
	var keys []host.PubKey
	for i := 0; err == nil && i < len(repos); i++ {
		if len(list) == maxFound {
			more = true
			break
		}
		var item *listed
		if item, err = h.listed(ctx, repos[i]); item != nil {
			list, keys = append(list, *item), append(keys, item.owner)
		}
	}
	if err != nil {
		return nil, false, err
	}
	people, err := h.read.profiles(ctx, keys)
	for i := range list {
		list[i].Owner = people[list[i].owner]
	}
	return list, more, err
}

// searchRoots finds issues, pull requests and patches of repositories that are here.
func (h *Handler) searchRoots(ctx context.Context, words []host.TagFilter) (list []found, more bool, err error) {
	f := host.Filter{Kinds: []host.Kind{grasp.KindIssue, grasp.KindPullRequest, grasp.KindPatch}, Tags: words}
	var roots []*root
	var repos []grasp.Repo
	here := make(map[host.Address]bool)
	var failed error
	more, err = h.read.each(ctx, f, maxSearched, func(e *host.Event) bool {
		event := e.Grasp()
		if _, later := event.Root(); later {
			return true
		}
		repo, ok, err := h.repoOf(ctx, e, here)
		if failed = err; err != nil || !ok {
			return err == nil
		}
		if len(roots) == maxFound {
			return false
		}
		roots = append(roots, &root{Event: grasp.Event{Stamp: event.Stamp, Kind: event.Kind}, title: titleOf(e), updated: event.Stamp})
		repos = append(repos, repo)
		return true
	})
	if err == nil {
		err = failed
	}
	for i := 0; err == nil && i < len(roots); i++ {
		var a announced
		if a, err = h.read.announced(ctx, repos[i]); err == nil {
			err = h.read.statuses(ctx, roots[i:i+1], a.maintainers)
		}
		if err == nil {
			err = h.read.labels(ctx, roots[i:i+1], a.maintainers)
		}
	}
	if err != nil {
		return nil, false, err
	}
	people, err := h.read.profiles(ctx, authorsOf(roots))
	for i, root := range roots {
		s := sections[slices.IndexFunc(sections[:], func(s section) bool { return int(s.kind) == root.Kind })]
		base := basePath(repos[i])
		list = append(list, found{root.thread(s, base, people), title(s.One), identifier(repos[i].Identifier), template.URL(base)})
	}
	return list, more, err
}

// repoOf returns the first repository that an event names and that is here.
func (h *Handler) repoOf(ctx context.Context, e *host.Event, known map[host.Address]bool) (repo grasp.Repo, ok bool, err error) {
	const maximum = 5
	asked := 0
	for _, tag := range e.Tags {
		if len(tag) < 2 || tag[0] != "a" {
			continue
		}
		repo, ok := grasp.ParseRepo(tag[1])
		if !ok {
			continue
		}
		repo.Identifier = strings.Clone(repo.Identifier)
		here, asked1 := known[address(repo)]
		if !asked1 {
			if asked++; asked > maximum {
				break
			}
			if here, err = h.git.Here(ctx, address(repo)); err != nil {
				return repo, false, err
			}
			known[address(repo)] = here
		}
		if here {
			return repo, true, nil
		}
	}
	return repo, false, nil
}
