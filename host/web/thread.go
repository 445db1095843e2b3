package web

import (
	"context"
	"html/template"
	"maps"
	"net/url"
	"slices"
	"strings"

	"talon/host"
	"talon/sdk/grasp"
)

const (
	maxRoots = 100 // that are looked at
	maxItems = 5   // that the page of a repository shows: of the open ones, and of the closed
)

// root is an issue, a pull request or the first patch of a series.
type root struct {
	grasp.Event             // without tags
	title       string      // cleaned
	status      int         // a kind
	subject     grasp.Stamp // of the event that set the title last; zero if none did
	labels      []string
	commit      string // the tip of a pull request
	updated     grasp.Stamp
	comments    int
	more        bool // there are more comments than were counted
}

// threads are the newest roots of one kind.
type threads struct {
	roots []*root
	more  bool
	last  int64 // the second of the last event that was read
	read  int   // events
}

// threads reads roots that match, and how they stand.
func (r reader) threads(ctx context.Context, f host.Filter, maintainers []grasp.PubKey) (t threads, err error) {
	t.more, err = r.each(ctx, f, maxRoots, func(e *host.Event) bool {
		event := e.Grasp()
		t.last = event.CreatedAt
		t.read++
		if _, later := event.Root(); later {
			return true // a patch of a series, which its first one stands for
		}
		found := &root{Event: grasp.Event{Stamp: event.Stamp, Kind: event.Kind}, title: titleOf(e), updated: event.Stamp}
		found.addLabels(inlineLabels(e))
		if e.Kind == grasp.KindPullRequest {
			pr, err := grasp.ParsePullRequest(event)
			if err != nil {
				return true
			}
			found.commit = strings.Clone(pr.Commit)
		}
		t.roots = append(t.roots, found)
		return true
	})
	if err == nil {
		t.roots, err = r.withoutReported(ctx, t.roots, maintainers)
	}
	if err == nil && slices.Contains(f.Kinds, grasp.KindPullRequest) {
		err = r.updates(ctx, t.roots)
	}
	if err == nil {
		err = r.statuses(ctx, t.roots, maintainers)
	}
	return t, err
}

// about calls yield with stored events of the kinds that name one of the roots in a tag. Their
// author is the author of a root, or one of the others. If there are too many, it reads the
// newest of each root alone, by its own author and those others. So a flood under one root hides
// nothing under another. It may yield an event more than once.
func (r reader) about(ctx context.Context, roots []*root, tag byte, others []host.PubKey, kinds []host.Kind, yield func(e *host.Event)) error {
	const maximum, maxEach = 4 * chunk, 8
	if len(roots) == 0 {
		return nil
	}
	ask := func(roots []*root, limit int) (more bool, err error) {
		f := host.Filter{Kinds: kinds, Authors: slices.Concat(others, authorsOf(roots)), Tags: []host.TagFilter{naming(tag, roots)}}
		return r.each(ctx, f, limit, func(e *host.Event) bool {
			yield(e)
			return true
		})
	}
	more, err := ask(roots, maximum)
	for i := 0; more && i < len(roots) && err == nil; i++ {
		_, err = ask(roots[i:i+1], maxEach)
	}
	return err
}

func naming(tag byte, roots []*root) host.TagFilter {
	t := host.TagFilter{Name: tag}
	for _, root := range roots {
		t.Values = append(t.Values, host.ID(root.ID).String())
	}
	return t
}

func authorsOf(roots []*root) []host.PubKey {
	var keys []host.PubKey
	seen := make(map[grasp.PubKey]bool)
	for _, root := range roots {
		if !seen[root.PubKey] {
			seen[root.PubKey] = true
			keys = append(keys, root.PubKey)
		}
	}
	return keys
}

func byID(roots []*root) map[grasp.ID]*root {
	all := make(map[grasp.ID]*root, len(roots))
	for _, root := range roots {
		all[root.ID] = root
	}
	return all
}

// updates finds the latest update of each pull request, by its author.
func (r reader) updates(ctx context.Context, roots []*root) error {
	all := byID(roots)
	return r.about(ctx, roots, 'E', nil, []host.Kind{grasp.KindPRUpdate}, func(e *host.Event) {
		pr, err := e.PullRequest()
		if err != nil {
			return
		}
		if root := all[pr.Root]; root != nil && root.PubKey == pr.PubKey && pr.Newer(&root.updated) {
			root.updated, root.commit = pr.Stamp, strings.Clone(pr.Commit)
		}
	})
}

// statuses finds the status of each root that counts.
func (r reader) statuses(ctx context.Context, roots []*root, maintainers []grasp.PubKey) error {
	all := byID(roots)
	said := make(map[grasp.ID][]*grasp.Event)
	kinds := []host.Kind{grasp.KindOpen, grasp.KindApplied, grasp.KindClosed, grasp.KindDraft}
	err := r.about(ctx, roots, 'e', host.PubKeys(maintainers), kinds, func(e *host.Event) {
		event := e.Grasp()
		id, ok := event.Root()
		if root := all[id]; !ok || root == nil {
			return
		}
		event.Tags = [][]string{{"e", host.ID(id).String()}}
		said[id] = append(said[id], event)
	})
	for _, root := range roots {
		root.status = grasp.Status(&root.Event, said[root.ID], maintainers)
	}
	return err
}

// labels adds the labels and titles that somebody set who may.
func (r reader) labels(ctx context.Context, roots []*root, maintainers []grasp.PubKey) error {
	all := byID(roots)
	return r.about(ctx, roots, 'e', host.PubKeys(maintainers), []host.Kind{kindLabel}, func(e *host.Event) {
		titles, labels := labelsOf(e)
		for _, tag := range e.Tags {
			if len(tag) < 2 || tag[0] != "e" {
				continue
			}
			id, _ := grasp.ParseID(tag[1])
			root := all[id]
			if root == nil || e.PubKey != host.PubKey(root.PubKey) && !slices.Contains(maintainers, grasp.PubKey(e.PubKey)) {
				continue
			}
			root.addLabels(labels)
			if stamp := e.Grasp().Stamp; len(titles) > 0 && stamp.Newer(&root.subject) {
				root.subject, root.title = stamp, titles[0]
			}
		}
	})
}

// addLabels adds labels that are not there yet.
func (root *root) addLabels(labels []string) {
	for _, label := range labels {
		if label = line(label, maxLabel); hasLook(label) && !slices.Contains(root.labels, label) && len(root.labels) < maxLabels {
			root.labels = append(root.labels, strings.Clone(label))
		}
	}
}

// comments counts the comments on roots, without those that a maintainer has reported. It stops at a
// number that they share.
func (r reader) comments(ctx context.Context, roots []*root, maintainers []grasp.PubKey) error {
	const maximum = 8 * chunk
	if len(roots) == 0 {
		return nil
	}
	all := byID(roots)
	f := host.Filter{Kinds: []host.Kind{grasp.KindComment}, Tags: []host.TagFilter{naming('E', roots)}}
	rootOf := make(map[grasp.ID]*root)
	more, err := r.each(ctx, f, maximum, func(e *host.Event) bool {
		if id, ok := e.Grasp().Root(); ok && all[id] != nil {
			all[id].comments++
			rootOf[grasp.ID(e.ID)] = all[id]
		}
		return true
	})
	if err == nil {
		var reported map[grasp.ID]bool
		reported, err = r.reported(ctx, slices.Collect(maps.Keys(rootOf)), maintainers)
		for id := range reported {
			if root := rootOf[id]; root != nil {
				root.comments--
			}
		}
	}
	for _, root := range roots {
		root.more = more && root.comments > 0
	}
	return err
}

// titleOf returns what an issue, a pull request or a patch is called.
func titleOf(e *host.Event) string {
	for _, tag := range e.Tags {
		if len(tag) > 1 && tag[0] == "subject" {
			if title := line(tag[1], maxTitle); hasLook(title) {
				return strings.Clone(title)
			}
		}
	}
	title, isPatch := "", e.Kind == grasp.KindPatch
	rest := e.Content
	for range 40 {
		var text string
		var ok bool
		text, rest, ok = strings.Cut(rest, "\n")
		subject, found := strings.CutPrefix(text, "Subject: ")
		if isPatch && found {
			title = line(subject, maxTitle)
			break
		}
		if title == "" {
			title = line(text, maxTitle)
		}
		if !ok || !isPatch && title != "" {
			break
		}
	}
	if strings.HasPrefix(title, "[PATCH") {
		if _, after, ok := strings.Cut(title, "] "); ok {
			title = after
		}
	}
	return strings.Clone(orElse(title, "(no title)"))
}

// thread is a root as a page shows it.
type thread struct {
	Title    string
	Status   string
	Author   person
	At       moment
	Updated  moment // of a pull request that was updated
	Commit   string
	Comments string // "" for none
	Labels   []label
	Path     template.URL // of its page
}

// label is a label of an issue, and the list of issues that have it.
type label struct {
	Name string
	Path template.URL
}

// list is a kind of threads as a page shows them.
type list struct {
	section
	Path   template.URL // of the list of all
	Open   []thread
	Closed []thread

	OpenCount, ClosedCount string
	Hidden                 bool // there are more than the page shows
}

// split parts roots into open and closed ones.
func (t *threads) split() (open, closed []*root) {
	for _, root := range t.roots {
		if root.status == grasp.KindOpen || root.status == grasp.KindDraft {
			open = append(open, root)
		} else {
			closed = append(closed, root)
		}
	}
	return open, closed
}

// shown returns the roots that a page shows.
func (t *threads) shown() []*root {
	open, closed := t.split()
	return append(open[:min(len(open), maxItems):min(len(open), maxItems)], closed[:min(len(closed), maxItems)]...)
}

// statusText names a status as people do.
func statusText(status, kind int) string {
	switch status {
	case grasp.KindDraft:
		return "draft"
	case grasp.KindClosed:
		return "closed"
	case grasp.KindApplied:
		switch kind {
		case grasp.KindIssue:
			return "resolved"
		case grasp.KindPatch:
			return "applied"
		}
		return "merged"
	}
	return "open"
}

// list makes threads ready for a page.
func (t *threads) list(s section, base string, profiles map[host.PubKey]person) list {
	open, closed := t.split()
	l := list{
		section:     s,
		Path:        template.URL(base + "/" + s.Name),
		OpenCount:   number(len(open), t.more),
		ClosedCount: number(len(closed), t.more),
		Hidden:      t.more || len(open) > maxItems || len(closed) > maxItems,
	}
	show := func(roots []*root) (list []thread) {
		for _, root := range roots[:min(len(roots), maxItems)] {
			list = append(list, root.thread(s, base, profiles))
		}
		return list
	}
	l.Open, l.Closed = show(open), show(closed)
	return l
}

// thread makes a root ready for a page.
func (root *root) thread(s section, base string, profiles map[host.PubKey]person) thread {
	item := thread{
		Title:  root.title,
		Status: statusText(root.status, root.Kind),
		Author: profiles[root.PubKey],
		At:     at(root.CreatedAt),
		Commit: shortID(root.commit),
		Path:   template.URL(base + "/" + s.Name + "/" + host.ID(root.ID).String()),
	}
	for _, name := range root.labels {
		item.Labels = append(item.Labels, label{name, template.URL(base + "/" + s.Name + "?state=all&label=" + url.QueryEscape(name))})
	}
	if root.comments > 0 {
		item.Comments = number(root.comments, root.more)
	}
	if root.updated.ID != root.ID {
		item.Updated = at(root.updated.CreatedAt)
	}
	return item
}
