package web

import (
	"context"
	"fmt"
	"html/template"
	"maps"
	"net/http"
	"slices"
	"strings"

	"talon/host"
	"talon/host/web/code"
	"talon/host/web/markdown"
	"talon/sdk/grasp"
	"talon/sdk/nip19"
)

// conversationPage is an issue, a pull request or a patch as a page shows it.
type conversationPage struct {
	repoURL
	Section section
	Name    string // of the repository
	Title   string
	Preview *preview
	Feeds   []feedLink
	Status  string
	Class   string // of the status
	ID      string
	Event   template.URL // nostr:nevent…
	Client  template.URL // the event in a git client for nostr
	Code    string       // the nevent
	Root    said
	Note    *said
	Labels  []label
	Said    []said
	Older   string // the query of the comments before, "" if there are none
	Later   bool   // these are not the newest comments
	More    bool   // there are more reactions than were counted
	Pull    *pull
	Answer  []string // arguments of talon event publish
	Ngit    string   // the command of ngit for this kind of conversation
}

// pull is what a page shows of the commits of a pull request.
type pull struct {
	Ref    string
	Commit string
	Base   string // "" if nobody named it
	Branch string // that the author suggests
	Here   bool   // its commits are here

	Standing *code.Standing // nil if that is not known
	Page     template.URL   // of the tip, "" if it has none
	Compare  template.URL   // of the page of its changes
}

// said is a remark as a page shows it.
type said struct {
	ID        string // of the element
	Author    person
	Role      string // of the author: author or maintainer, "" for others
	At        moment
	Verb      string // what the remark did, "" for a comment
	Title     string // that it set, or of a patch
	Labels    []label
	Commits   []commitLink
	From      *commitLink  // the tip before a new version
	Compare   template.URL // what changed since then
	Body      template.HTML
	Cut       bool
	Depth     string // class of a reply
	Reactions []reaction
}

// commitLink is a commit, and its page if it has one.
type commitLink struct {
	Short string
	Page  template.URL

	id string
}

// reaction is a sign, and how many people gave it.
type reaction struct {
	Sign  string
	Count int
}

const (
	// maxIndent bounds how far replies are moved to the right.
	maxIndent = 4

	// maxCommits bounds the commits of a conversation that become links.
	maxCommits = 50
)

// conversation returns the page of an issue, a pull request or a patch.
func (h *Handler) conversation(repo grasp.Repo, s section, id host.ID) page {
	return func(ctx context.Context, r *http.Request) (int, string, any, error) {
		a, err := h.read.announced(ctx, repo)
		if err != nil {
			return 0, "", nil, err
		}
		if a.stored == nil {
			return http.StatusNotFound, "message", notFound, nil
		}
		q := queryOf(r)
		c, err := h.read.conversation(ctx, id, s.kind, repoTag(repo.Identifier, a.maintainers), a.maintainers, q.Until)
		if err != nil {
			return 0, "", nil, err
		}
		if c == nil {
			return http.StatusNotFound, "message", notFound, nil
		}
		at := h.urls(r).of(repo)
		v := h.conversationAs(c, s, at)
		v.Canonical = template.URL(h.urls(r).git(at.Base + "/" + s.Name + "/" + v.ID))
		v.Preview, v.Feeds = &preview{v.Title, line(c.root.content, maxSummary), v.Canonical}, feedsOf(at.Base)
		v.Name, v.Later = orElse(line(a.stored.Name, maxName), at.Identifier), q.Until != nil
		if c.earlier != nil {
			v.Older = query{Until: c.earlier}.String()
		}
		if c.tip.Name != "" {
			refs, _, _, err := h.git.Refs(ctx, address(repo))
			if err != nil {
				return 0, "", nil, err
			}
			v.Pull = &pull{Ref: c.tip.Name, Commit: c.tip.Object, Base: c.base, Branch: c.branch, Here: slices.Contains(refs, c.tip)}
		}
		known, err := h.standing(ctx, r, v, c, repo, a.stored.Name)
		if err != nil {
			return 0, "", nil, err
		}
		return http.StatusOK, "conversation", v, h.fill(ctx, v, c, known)
	}
}

// standing adds how a pull request stands to the default branch. It returns those commits of the
// conversation that have pages.
func (h *Handler) standing(ctx context.Context, r *http.Request, v *conversationPage, c *conversation, repo grasp.Repo, about string) ([]string, error) {
	var commits []string
	if v.Pull != nil {
		commits = append(commits, v.Pull.Commit)
		if v.Pull.Base != "" {
			commits = append(commits, v.Pull.Base)
		}
	}
	for _, said := range c.remarks {
		if said.kind == grasp.KindApplied || said.kind == grasp.KindPRUpdate {
			commits = append(commits, said.set...)
		}
	}
	if len(commits) == 0 {
		return nil, nil
	}
	git, err := h.git.Repository(ctx, address(repo))
	if err != nil || git == nil {
		return nil, err
	}
	tip, base := "", ""
	if v.Pull != nil {
		tip, base = v.Pull.Commit, v.Pull.Base
	}
	standing, err := h.pages.Standing(ctx, h.codeOf(r, git, repo, about), tip, base, commits[:min(len(commits), maxCommits)])
	if err != nil || standing == nil {
		return nil, h.withoutCode(r, err)
	}
	if v.Pull != nil && slices.Contains(standing.Known, tip) {
		v.Pull.Standing, v.Pull.Compare = standing, template.URL(standing.Compare)
		v.Pull.Page = template.URL(v.Base + "/commit/" + tip)
	}
	return standing.Known, nil
}

// conversationAs returns the page of a conversation without what was said.
func (h *Handler) conversationAs(c *conversation, s section, at repoURL) *conversationPage {
	id := host.ID(c.root.ID)
	code := nip19.EncodeNevent(c.root.ID, c.root.PubKey, uint16(c.root.kind), at.Relay)
	v := &conversationPage{
		repoURL: at, Section: s, ID: id.String(), Code: code,
		Title:  c.title,
		Status: statusText(c.status, int(c.root.kind)),
		Event:  template.URL("nostr:" + code), Client: template.URL(client + code),
		Ngit: "pr",
	}
	if c.subject != "" {
		v.Title = c.subject
	}
	if c.root.kind == grasp.KindIssue {
		v.Ngit = "issue"
	}
	switch c.status {
	case grasp.KindDraft, grasp.KindClosed:
		v.Class = "off"
	case grasp.KindApplied:
		v.Class = "done"
	}
	for _, name := range c.labels {
		v.Labels = append(v.Labels, labelOf(name, at, s))
	}
	kind, author := fmt.Sprint(c.root.kind), host.PubKey(c.root.PubKey).String()
	for _, tag := range [...]string{"E=" + v.ID, "K=" + kind, "P=" + author, "e=" + v.ID, "k=" + kind, "p=" + author} {
		v.Answer = append(v.Answer, "--tag "+tag)
	}
	return v
}

func labelOf(name string, at repoURL, s section) label {
	return label{name, template.URL(at.Base + "/" + s.Name + query{State: "all", Label: name}.String())}
}

// fill adds what was said to a page.
func (h *Handler) fill(ctx context.Context, v *conversationPage, c *conversation, known []string) error {
	counts, more, err := h.read.reactions(ctx, c)
	if err != nil {
		return err
	}
	v.More = more
	all := append([]*remark{c.root}, c.remarks...)
	if c.note != nil {
		all = append(all, c.note)
	}
	var keys []host.PubKey
	var contents []string
	for _, r := range all {
		keys, contents = append(keys, host.PubKey(r.PubKey)), append(contents, r.content)
	}
	people, err := h.read.profiles(ctx, append(mentioned(contents...), keys...))
	if err != nil {
		return err
	}
	t, err := h.texts(ctx, people, contents...)
	if err != nil {
		return err
	}
	show := func(r *remark, heading, depth int) said {
		shown := v.show(ctx, r, c, t, heading, known)
		shown.Reactions = reactionsOf(counts[r.ID])
		if depth > 0 {
			shown.Depth = fmt.Sprintf(" reply d%d", min(depth, maxIndent))
		}
		return shown
	}
	v.Root = show(c.root, 2, 0)
	if c.note != nil {
		note := show(c.note, 2, 0)
		v.Note = &note
	}
	var before *commitLink
	for _, r := range threaded(c.remarks) {
		shown := show(r.remark, 3, r.depth)
		if r.kind == grasp.KindPRUpdate {
			now := &shown.Commits[0]
			if shown.From, before = before, now; shown.From != nil && shown.From.Page != "" && now.Page != "" {
				shown.Compare = template.URL(v.Base + "/compare/" + shown.From.id + "..." + now.id)
			}
		}
		v.Said = append(v.Said, shown)
	}
	return nil
}

// show returns a remark as the page shows it.
func (v *conversationPage) show(ctx context.Context, r *remark, c *conversation, t *texts, heading int, known []string) said {
	shown := said{
		ID: "e-" + host.ID(r.ID).String()[:16], Author: t.person(host.PubKey(r.PubKey)), At: at(r.CreatedAt), Cut: r.cut, Verb: c.verb(r),
	}
	switch key := host.PubKey(r.PubKey); {
	case slices.Contains(c.known[:len(c.known)-1], key):
		shown.Role = "maintainer"
	case r.PubKey == c.root.PubKey && r != c.root:
		shown.Role = "author"
	}
	switch {
	case r.kind == kindLabel && r.title, r.kind == grasp.KindPatch && r != c.root:
		shown.Title = r.set[0]
	case r.kind == kindLabel:
		for _, name := range r.set {
			shown.Labels = append(shown.Labels, labelOf(name, v.repoURL, v.Section))
		}
	default:
		for _, commit := range r.set {
			link := commitLink{Short: shortID(commit), id: commit}
			if slices.Contains(known, commit) {
				link.Page = template.URL(v.Base + "/commit/" + commit)
			}
			shown.Commits = append(shown.Commits, link)
		}
	}
	switch {
	case strings.TrimSpace(r.content) == "":
	case r.kind == grasp.KindPatch:
		shown.Body = patchText(r.content)
	default:
		shown.Body = markdown.Render(ctx, r.content, t.options(heading))
	}
	return shown
}

// verb says what a remark did, "" for a comment.
func (c *conversation) verb(r *remark) string {
	switch r.kind {
	case grasp.KindOpen:
		return "opened this again"
	case grasp.KindDraft:
		return "made this a draft"
	case grasp.KindClosed:
		return "closed this"
	case grasp.KindApplied:
		return statusText(grasp.KindApplied, int(c.root.kind)) + " this"
	case grasp.KindPRUpdate:
		return "pushed a new version"
	case grasp.KindPatch:
		if r != c.root {
			return "added a patch"
		}
	case kindLabel:
		if r.title {
			return "changed the title to"
		}
		return "added"
	}
	return ""
}

// reactionsOf returns signs, those that most people gave first.
func reactionsOf(counts map[string]int) (list []reaction) {
	const maximum = 8
	for _, sign := range slices.Sorted(maps.Keys(counts)) {
		list = append(list, reaction{sign, counts[sign]})
	}
	slices.SortStableFunc(list, func(a, b reaction) int { return b.Count - a.Count })
	return list[:min(len(list), maximum)]
}

// answer is a remark, and how many others it answers one after another.
type answer struct {
	*remark
	depth int
}

// threaded puts each answer behind what it answers. Remarks are in the order of time.
func threaded(remarks []*remark) (list []answer) {
	here := make(map[grasp.ID]bool, len(remarks))
	for _, r := range remarks {
		here[r.ID] = true
	}
	answers := make(map[grasp.ID][]*remark)
	var top []*remark
	for _, r := range remarks {
		if here[r.parent] && r.parent != r.ID {
			answers[r.parent] = append(answers[r.parent], r)
		} else {
			top = append(top, r)
		}
	}
	shown := make(map[grasp.ID]bool, len(remarks))
	var add func(r *remark, depth int)
	add = func(r *remark, depth int) {
		if shown[r.ID] {
			return
		}
		shown[r.ID] = true
		list = append(list, answer{r, depth})
		for _, next := range answers[r.ID] {
			add(next, depth+1)
		}
	}
	for _, r := range append(top, remarks...) { // the latter if they answer each other in a circle
		add(r, 0)
	}
	return list
}
