package web

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"talon/host"
	"talon/host/web/markdown"
	"talon/host/wire"
	"talon/sdk/grasp"
)

// Kinds of a conversation that package grasp does not have.
const (
	kindReaction  = 7    // NIP-25
	kindReply     = 1622 // a comment as NIP-34 had it before NIP-22
	kindCoverNote = 1624 // replaces the text of an issue or a pull request, as clients have it
	kindLabel     = 1985 // NIP-32
)

const (
	// maxComments bounds the comments of a page, and again those of people who have a say.
	maxComments = 200

	// maxSettings bounds the statuses, labels and titles of a conversation, the newest first.
	maxSettings = 100

	// maxSeries bounds the patches of a series, and the updates of a pull request.
	maxSeries = 50

	// maxReactions bounds the reactions that are counted.
	maxReactions = 200

	// maxLabels bounds the labels of an issue, and maxLabel the characters of one.
	maxLabels = 20
	maxLabel  = 40

	// maxComment bounds a comment, in bytes. maxSaid bounds all texts of a page.
	maxComment = 16 << 10
	maxSaid    = 512 << 10
)

// conversation is an issue, a pull request or a patch, and what was said about it.
type conversation struct {
	root    *remark
	title   string
	subject string // the title that somebody who may set it set last, "" if nobody did
	status  int    // a kind
	labels  []string
	note    *remark   // stands above the text of the root, nil if there is none
	remarks []*remark // in the order of time
	earlier *int64    // there are more comments until this second; nil if there are none

	branch string    // that the author of a pull request suggests
	base   string    // the merge base that its author names, "" if none
	tip    grasp.Ref // of its newest version

	known []host.PubKey // who has a say: its author and the maintainers
	said  int           // bytes that are kept
}

// remark is an event of a conversation.
type remark struct {
	grasp.Stamp
	kind    host.Kind
	parent  grasp.ID // that it answers
	content string
	cut     bool     // the content goes on
	set     []string // the labels, the title or the commits that it sets
	title   bool     // it sets the title
}

// keep returns an event as a remark, with its text as far as there is room.
func (c *conversation) keep(e *host.Event, maximum int) *remark {
	r := &remark{Stamp: e.Grasp().Stamp, kind: e.Kind}
	maximum = min(maximum, max(maxSaid-c.said, 200)) // of the last ones there is the start
	content := e.Content
	if len(content) > maximum {
		content, r.cut = strings.ToValidUTF8(content[:maximum], ""), true
	}
	c.said += len(content)
	r.content = strings.Clone(content)
	return r
}

// conversation reads the conversation about a root that is of a kind and names the repository in
// a tag. It returns nil if there is none. Until bounds the comments, nil for the newest.
func (r reader) conversation(ctx context.Context, id host.ID, kind host.Kind, about host.TagFilter, maintainers []grasp.PubKey, until *int64) (*conversation, error) {
	texts, err := r.facts.Query(ctx, host.Filter{IDs: []host.ID{id}, Kinds: []host.Kind{kind}, Tags: []host.TagFilter{about}, Limit: 1})
	if err != nil {
		return nil, fmt.Errorf("read an issue: %w", err)
	}
	if len(texts) == 0 {
		return nil, nil
	}
	e, err := wire.ParseEvent(texts[0])
	if err != nil {
		return nil, fmt.Errorf("an event that is here does not parse: %w", err)
	}
	reported, err := r.reported(ctx, []grasp.ID{grasp.ID(id)}, maintainers)
	if err != nil || reported[grasp.ID(id)] {
		return nil, err
	}
	c := &conversation{title: titleOf(e), known: append(host.PubKeys(maintainers), e.PubKey)}
	if _, later := e.Grasp().Root(); later {
		return nil, nil
	}
	if kind == grasp.KindPullRequest {
		pr, err := e.PullRequest()
		if err != nil {
			return nil, nil
		}
		c.version(pr)
		c.base, c.branch = strings.Clone(pr.MergeBase), strings.Clone(line(pr.Branch, maxName))
	}
	c.root = c.keep(e, markdown.MaxBytes)
	c.label(inlineLabels(e))
	for _, read := range [...]func(context.Context, *conversation) error{r.settings, r.versions} {
		if err := read(ctx, c); err != nil {
			return nil, err
		}
	}
	if err := r.said(ctx, c, until); err != nil {
		return nil, err
	}
	if err := r.withoutReportedRemarks(ctx, c, maintainers); err != nil {
		return nil, err
	}
	slices.SortFunc(c.remarks, func(a, b *remark) int {
		if b.Newer(&a.Stamp) {
			return -1
		}
		return 1
	})
	return c, nil
}

// version notes the commit of a newer version of a pull request.
func (c *conversation) version(pr *grasp.PullRequest) {
	c.tip = grasp.Ref{Name: pr.Ref().Name, Object: strings.Clone(pr.Commit)}
}

// inlineLabels returns the labels that an event gives itself.
func inlineLabels(e *host.Event) (labels []string) {
	for _, tag := range e.Tags {
		if len(tag) > 1 && tag[0] == "t" && !(e.Kind == grasp.KindPatch && strings.HasPrefix(tag[1], "root")) {
			labels = append(labels, tag[1])
		}
	}
	return labels
}

// label adds labels that are not there yet, and returns those.
func (c *conversation) label(labels []string) (added []string) {
	for _, label := range labels {
		label = line(label, maxLabel)
		if !hasLook(label) || slices.Contains(c.labels, label) || len(c.labels) == maxLabels {
			continue
		}
		label = strings.Clone(label)
		c.labels, added = append(c.labels, label), append(added, label)
	}
	return added
}

// settings reads what its author and the maintainers set: the status, labels, the title, a note.
func (r reader) settings(ctx context.Context, c *conversation) error {
	f := host.Filter{
		Kinds:   []host.Kind{grasp.KindOpen, grasp.KindApplied, grasp.KindClosed, grasp.KindDraft, kindLabel, kindCoverNote},
		Authors: c.known,
		Tags:    []host.TagFilter{{Name: 'e', Values: []string{host.ID(c.root.ID).String()}}},
	}
	var labels []*remark
	c.status = grasp.KindOpen
	decided := false
	_, err := r.each(ctx, f, maxSettings, func(e *host.Event) bool { // the newest first
		switch e.Kind {
		case kindCoverNote:
			if c.note == nil {
				c.note = c.keep(e, maxComment)
			}
		case kindLabel:
			titles, names := labelsOf(e)
			if len(titles) > 0 {
				said := c.keep(e, 0)
				said.title, said.content, said.cut, said.set = true, "", false, titles[:1]
				if c.subject == "" {
					c.subject = titles[0]
				}
				c.remarks = append(c.remarks, said)
			}
			if len(names) > 0 {
				said := c.keep(e, 0)
				said.content, said.cut, said.set = "", false, names
				labels = append(labels, said)
			}
		default:
			if id, ok := e.Grasp().Root(); !ok || id != c.root.ID {
				return true
			}
			if !decided {
				c.status, decided = int(e.Kind), true
			}
			said := c.keep(e, maxComment)
			said.set = appliedAs(e)
			c.remarks = append(c.remarks, said)
		}
		return true
	})
	slices.Reverse(labels)
	for _, said := range labels {
		if said.set = c.label(said.set); len(said.set) > 0 {
			c.remarks = append(c.remarks, said)
		}
	}
	return err
}

// labelsOf returns the titles and the labels that a label event sets, as ngit and gitworkshop write
// them.
func labelsOf(e *host.Event) (titles, labels []string) {
	for _, tag := range e.Tags {
		if len(tag) < 3 || tag[0] != "l" {
			continue
		}
		switch tag[2] {
		case "#subject":
			if title := line(tag[1], maxTitle); hasLook(title) {
				titles = append(titles, strings.Clone(title))
			}
		case "#t":
			labels = append(labels, strings.Clone(line(tag[1], maxLabel)))
		}
	}
	return titles, labels[:min(len(labels), maxLabels)]
}

// appliedAs returns the commits as which a status says that something was applied.
func appliedAs(e *host.Event) (commits []string) {
	if e.Kind != grasp.KindApplied {
		return nil
	}
	for _, tag := range e.Tags {
		if len(tag) < 2 || tag[0] != "merge-commit" && tag[0] != "applied-as-commits" {
			continue
		}
		for _, value := range tag[1:min(len(tag), 11)] {
			if object, ok := grasp.ParseObject(value); ok && !slices.Contains(commits, object) {
				commits = append(commits, strings.Clone(object))
			}
		}
	}
	return commits[:min(len(commits), 10)]
}

// versions reads the updates of a pull request and the patches of a series, which only the author
// of the root adds.
func (r reader) versions(ctx context.Context, c *conversation) error {
	id, author := host.ID(c.root.ID).String(), []host.PubKey{c.root.PubKey}
	switch c.root.kind {
	case grasp.KindPullRequest:
		var updates []*remark
		f := host.Filter{Kinds: []host.Kind{grasp.KindPRUpdate}, Authors: author, Tags: []host.TagFilter{{Name: 'E', Values: []string{id}}}}
		newest := c.root.Stamp
		_, err := r.each(ctx, f, maxSeries, func(e *host.Event) bool {
			pr, err := e.PullRequest()
			if err != nil || pr.Root != c.root.ID {
				return true
			}
			if pr.Newer(&newest) {
				newest = pr.Stamp
				c.version(pr)
				if pr.MergeBase != "" {
					c.base = strings.Clone(pr.MergeBase)
				}
			}
			said := c.keep(e, maxComment)
			said.set = []string{strings.Clone(pr.Commit)}
			updates = append(updates, said)
			return true
		})
		c.remarks = append(c.remarks, updates...)
		return err
	case grasp.KindPatch:
		f := host.Filter{Kinds: []host.Kind{grasp.KindPatch}, Authors: author, Tags: []host.TagFilter{{Name: 'e', Values: []string{id}}}}
		_, err := r.each(ctx, f, maxSeries, func(e *host.Event) bool {
			if root, ok := e.Grasp().Root(); ok && root == c.root.ID {
				said := c.keep(e, markdown.MaxBytes)
				said.set = []string{titleOf(e)}
				c.remarks = append(c.remarks, said)
			}
			return true
		})
		return err
	}
	return nil
}

// said reads the comments until a second. It reads those of people who have a say by themselves,
// so that a flood by strangers hides none of them.
func (r reader) said(ctx context.Context, c *conversation, until *int64) error {
	seen := make(map[grasp.ID]bool)
	id := host.ID(c.root.ID).String()
	for _, form := range [...]struct {
		kind host.Kind
		tag  byte
	}{{grasp.KindComment, 'E'}, {kindReply, 'e'}} {
		for _, authors := range [...][]host.PubKey{c.known, nil} {
			f := host.Filter{Kinds: []host.Kind{form.kind}, Authors: authors, Until: until, Tags: []host.TagFilter{{Name: form.tag, Values: []string{id}}}}
			last := int64(0)
			more, err := r.each(ctx, f, maxComments, func(e *host.Event) bool {
				last = e.CreatedAt
				if !seen[e.ID] {
					seen[e.ID] = true
					said := c.keep(e, maxComment)
					said.parent = parentOf(e)
					c.remarks = append(c.remarks, said)
				}
				return true
			})
			if err != nil {
				return err
			}
			if more && authors == nil {
				if until != nil && last >= *until {
					last = *until - 1 // the page after this one shows something else
				}
				if last >= 0 && (c.earlier == nil || last > *c.earlier) {
					c.earlier = &last
				}
			}
		}
	}
	return nil
}

// parentOf returns the event that a comment answers.
func parentOf(e *host.Event) (parent grasp.ID) {
	for _, tag := range e.Tags {
		if len(tag) < 2 || tag[0] != "e" {
			continue
		}
		id, ok := grasp.ParseID(tag[1])
		if !ok {
			continue
		}
		if len(tag) > 3 && tag[3] == "root" && e.Kind == kindReply {
			continue
		}
		parent = id // of several the last, as NIP-10 has it
	}
	return parent
}

// reactions counts what people said with one sign about the root and the comments. A person counts
// once for each sign.
func (r reader) reactions(ctx context.Context, c *conversation) (counts map[grasp.ID]map[string]int, more bool, err error) {
	t := host.TagFilter{Name: 'e', Values: []string{host.ID(c.root.ID).String()}}
	about := map[grasp.ID]bool{c.root.ID: true}
	for _, said := range c.remarks {
		about[said.ID] = true
		t.Values = append(t.Values, host.ID(said.ID).String())
	}
	type vote struct {
		id   grasp.ID
		by   host.PubKey
		sign string
	}
	seen := make(map[vote]bool)
	counts = make(map[grasp.ID]map[string]int)
	more, err = r.each(ctx, host.Filter{Kinds: []host.Kind{kindReaction}, Tags: []host.TagFilter{t}}, maxReactions, func(e *host.Event) bool {
		v := vote{parentOf(e), e.PubKey, signOf(e.Content)}
		if v.sign == "" || !about[v.id] || seen[v] {
			return true
		}
		seen[v] = true
		if counts[v.id] == nil {
			counts[v.id] = make(map[string]int)
		}
		counts[v.id][v.sign]++
		return true
	})
	return counts, more, err
}

// signOf returns the sign of a reaction, "" for a text.
func signOf(content string) string {
	switch content {
	case "", "+":
		return "👍"
	case "-":
		return "👎"
	}
	// The longest emoji are families of several joined by invisible characters.
	if sign := line(content, 8); sign == content && hasLook(sign) && !strings.ContainsFunc(sign, func(r rune) bool { return r < 0x80 }) {
		return strings.Clone(sign)
	}
	return ""
}
