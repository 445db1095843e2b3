package repos

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"sync"
	"time"

	"talon/host"
	"talon/host/githttp"
	"talon/host/gitrepo"
	"talon/host/maintainers"
	"talon/sdk/grasp"
	"talon/sdk/nip19"
)

// Authorize decides about a push (githttp.Pushes), by GRASP's own rules and by the
// policies. If both refuse, the reason is the policy's: GRASP's reason would ask somebody
// who may not push to publish a state first. A repository without a folder is made with the
// first push to it.
func (f *Reconciler) Authorize(ctx context.Context, push *githttp.Push) error {
	c, err := f.checkUpdates(ctx, push)
	if c.ask == nil {
		return err
	}
	limits, byPolicy := f.askPolicy(ctx, push, c.ask)
	c.limits = limits
	if byPolicy != nil && (err == nil || isRefusal(byPolicy)) {
		err = byPolicy
	}
	if err == nil {
		err = f.unknownPulls(ctx, push, c)
	}
	if err == nil {
		err = f.setRoom(ctx, push, c)
	}
	if err != nil {
		if isRefusal(err) {
			f.metrics.refused.Inc()
		}
		return err
	}
	f.pushing.add(c.place, 1)
	if c.place.prs || c.held {
		unlock, err := push.Repo.Lock(ctx)
		if err == nil {
			err = f.makeForPush(ctx, push)
			unlock()
		}
		if err != nil {
			f.pushing.add(c.place, -1)
			return err
		}
	}
	if len(c.waits) == 0 {
		return nil
	}
	// The push may take longer than what is left of the announcement's time.
	err = f.cfg.Pipeline.SubmitRelease(ctx, &host.ReleaseRequest{
		Plan: func(context.Context, host.RepoFacts, int64) (host.Release, error) {
			return host.Release{ExtendDeadline: c.waits}, nil
		},
		Done: func([]host.Released, error) {},
	})
	if err != nil {
		f.pushing.add(c.place, -1)
	}
	return err
}

// pushing counts the pushes that are authorised and have not ended, by repository. A job leaves
// an empty folder alone while one is under way.
type pushing struct {
	mu     sync.Mutex // guards counts
	counts map[location]int
}

func (p *pushing) add(at location, n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.counts == nil {
		p.counts = make(map[location]int)
	}
	if p.counts[at] += n; p.counts[at] == 0 {
		delete(p.counts, at)
	}
}

func (p *pushing) any(at location) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.counts[at] > 0
}

// unknownPulls refuses refs for events that are not here from those who have pushed many, and
// from everybody as long as the repository waits for its first push: it would be a drop for the
// files of strangers. It notes whether a push has no others, and who asked for it.
func (f *Reconciler) unknownPulls(ctx context.Context, push *githttp.Push, c checked) error {
	unknown, err := f.countUnknown(ctx, push, c.refs)
	if err != nil || unknown == 0 {
		return err
	}
	if c.held {
		return &githttp.Refusal{Reason: unauthorised + "this repository waits for its first push: publish the event of the pull request before its commits"}
	}
	if host.NetworkOf(push.Client.Addr) == (netip.Prefix{}) {
		return nil
	}
	var wait time.Duration
	if f.cfg.PullRefs == 0 || unknown <= f.cfg.PullRefs {
		if wait = f.pulled.Reserve(push.Client.Addr, float64(unknown)); wait == 0 {
			return nil
		}
	}
	reason := fmt.Sprintf("your address may push %d refs an hour for events that are not here: publish the events first", f.cfg.PullRefs)
	if wait > 0 {
		reason += fmt.Sprintf(", or try again in %v", max(wait.Round(time.Minute), time.Minute))
	}
	return &githttp.Refusal{Reason: reason}
}

// countUnknown counts the refs of a push whose event is not here, and that are not waiting
// for it. The push is early if all of its refs are for events that are not here. Its author is
// the owner, whose maintainers have signed the heads and tags. The author of a push to
// refs/nostr/ alone is that of an event.
func (f *Reconciler) countUnknown(ctx context.Context, push *githttp.Push, refs gitrepo.Refs) (n int, err error) {
	p, ok := f.locationOfPath(push.Parts)
	if !ok {
		return 0, nil
	}
	early := 0
	there := make(map[string]string, len(refs.List))
	for _, ref := range refs.List {
		there[ref.Name] = ref.ID
	}
	for _, u := range push.Updates {
		// Anybody can push what is there, and it needs no object.
		inPlace := there[u.Ref] == u.New || gitrepo.IsZero(u.New)
		id, ok := nostrRef(u.Ref)
		if !ok {
			if !inPlace {
				push.Author = githttp.OwnerOf(push.Repo)
			}
			continue
		}
		pr, known, err := f.pull(ctx, id)
		switch {
		case err != nil:
			return 0, err
		case known:
			if push.Author == "" && pr.PullRequest != nil && !inPlace {
				push.Author = nip19.EncodeNpub(pr.PubKey)
			}
			continue
		case !f.waiting.has(p.String(), id):
			n++
		}
		early++
	}
	push.Early = early == len(push.Updates)
	return n, nil
}

// Confirm decides about a push whose objects are all here (githttp.Pushes), by GRASP's
// own rules at this time. It asks no policy, for they count. REQUIRES: the lock.
func (f *Reconciler) Confirm(ctx context.Context, push *githttp.Push) error {
	c, err := f.checkUpdates(ctx, push)
	if err != nil {
		if isRefusal(err) {
			f.metrics.refused.Inc()
		}
		return err
	}
	push.Note, push.Removes = partNote(c.rest), c.removes
	if c.place.prs || c.held {
		// Another push that failed may have taken it away.
		if err := f.makeForPush(ctx, push); err != nil {
			return err
		}
	}
	if err := f.note(ctx, c.place, push); err != nil {
		return err
	}
	return f.charge(ctx, c.place, push)
}

func isRefusal(err error) bool { return errors.As(err, new(*githttp.Refusal)) }

// checked is what GRASP's rules say of a push.
type checked struct {
	place   location
	ask     *host.Push     // the question to the policies, also with a refusal; nil with other errors
	waits   []host.Address // the announcement whose time begins again, if there is one
	rest    []string       // what the state of the push still lacks after it
	removes []string       // refs that the state of the push does not have, and that the push does not name
	refs    gitrepo.Refs   // of the repository
	limits  host.UsageLimits
	held    bool // the announcement of the repository is in purgatory
}

// checkUpdates asks GRASP's rules about a push.
func (f *Reconciler) checkUpdates(ctx context.Context, push *githttp.Push) (checked, error) {
	p, ok := f.locationOfPath(push.Parts)
	if !ok {
		return checked{}, gitrepo.ErrNotFound
	}
	c := checked{place: p, ask: &host.Push{
		Client: &push.Client, Repo: p.address(), PRs: p.prs, Updates: push.Updates, Bytes: push.Bytes,
	}}
	updates := make([]grasp.Update, len(push.Updates))
	for i, u := range push.Updates {
		updates[i] = grasp.Update(u)
	}
	tip, failed := f.tips(ctx)
	check := f.checkAnnounced
	if p.prs {
		check = f.checkPRs
	}
	answer, err := check(ctx, push, &c, updates, tip)
	if err == nil {
		err = failed()
	}
	if err != nil {
		return checked{}, err
	}
	if !answer.OK() {
		return checked{place: p, ask: c.ask}, refusal(&answer)
	}
	c.rest = answer.Rest
	if answer.State != nil {
		c.removes = unnamedRemovals(answer.State, c.refs, push.Updates)
	}
	return c, nil
}

// unnamedRemovals returns the heads and tags that a state removes and a push does not name.
func unnamedRemovals(s *grasp.State, refs gitrepo.Refs, updates []host.RefUpdate) (list []string) {
	named := make(map[string]bool, len(updates))
	for _, u := range updates {
		named[u.Ref] = true
	}
	for _, ref := range refs.List {
		if !named[ref.Name] && !strings.HasPrefix(ref.Name, nostrRefs) && s.Object(ref.Name) == "" {
			list = append(list, ref.Name)
		}
	}
	return list
}

// tipOf returns a pull request, and whether its event is here.
type tipOf func(grasp.ID) (pr *grasp.PullRequest, known bool)

// checkPRs checks a push to a repository under /prs/ (GRASP-06).
func (f *Reconciler) checkPRs(
	ctx context.Context, push *githttp.Push, c *checked, updates []grasp.Update, tip tipOf,
) (grasp.Answer, error) {
	refs, err := push.Repo.Refs(ctx)
	if err != nil && !errors.Is(err, gitrepo.ErrNotFound) {
		return grasp.Answer{}, err
	}
	c.ask.Maintainers = []host.PubKey{c.place.PubKey}
	c.refs = refs
	return (&grasp.PRsPush{Repo: c.place.Repo, Updates: updates, Refs: tracked(refs), PullRequest: tip}).Authorize(), nil
}

// checkAnnounced checks a push to the repository of an announcement (GRASP-01).
func (f *Reconciler) checkAnnounced(
	ctx context.Context, push *githttp.Push, c *checked, updates []grasp.Update, tip tipOf,
) (grasp.Answer, error) {
	list, err := maintainers.Below(ctx, f.cfg.Store, c.place.Identifier, c.place.PubKey)
	if err != nil {
		return grasp.Answer{}, err
	}
	mine := own(list, c.place.PubKey)
	if mine == nil {
		return grasp.Answer{}, gitrepo.ErrNotFound
	}
	rule := grasp.Push{
		Updates: updates, Maintainers: maintainers.Graph(list).Maintainers(c.place.PubKey),
		Tip: func(id grasp.ID) (string, bool) {
			pr, known := tip(id)
			if pr == nil {
				return "", known
			}
			return pr.Commit, known
		},
	}
	c.ask.Maintainers = host.PubKeys(rule.Maintainers)
	if rule.States, err = f.states(ctx, c.place.Identifier, rule.Maintainers); err != nil {
		return grasp.Answer{}, err
	}
	refs, err := push.Repo.Refs(ctx)
	if mine.Held && errors.Is(err, gitrepo.ErrNotFound) {
		var waits bool
		if waits, err = f.disk.waits(ctx, c.place.address()); err == nil && !waits {
			err = gitrepo.ErrNotFound
		}
	}
	if err != nil {
		return grasp.Answer{}, err
	}
	c.refs = refs
	rule.Refs = tracked(refs)
	answer := rule.Authorize()
	c.held = mine.Held
	if mine.Held && answer.State != nil {
		c.waits = append(c.waits, c.place.address())
	}
	return answer, nil
}

// maxRest bounds the refs that a note names.
const maxRest = 10

// partNote says to a client that its push was one of several.
func partNote(rest []string) string {
	if len(rest) == 0 {
		return ""
	}
	return "accepted as a part: the state event takes effect when the rest of it is pushed: " + listRefs(rest)
}

// removalNote says to a client that its push removed refs that it did not name.
func removalNote(removed []string) string {
	if len(removed) == 0 {
		return ""
	}
	return "warning: the state event does not have these refs, so they are removed: " + listRefs(removed)
}

// listRefs names the first of some refs.
func listRefs(refs []string) string {
	if len(refs) <= maxRest {
		return strings.Join(refs, " ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(refs[:maxRest], " "), len(refs)-maxRest)
}

// tips returns a function for the rules, which know no errors, and one for the error
// that it met.
func (f *Reconciler) tips(ctx context.Context) (tip tipOf, failed func() error) {
	var failure error
	tip = func(id grasp.ID) (*grasp.PullRequest, bool) {
		p, known, err := f.pull(ctx, id)
		failure = errors.Join(failure, err)
		return p.PullRequest, known
	}
	return tip, func() error { return failure }
}

// unauthorised begins the reason of every push that is not allowed: by it clients tell one
// from a push that failed.
const unauthorised = "authorisation failed: "

func refusal(answer *grasp.Answer) *githttp.Refusal {
	r := &githttp.Refusal{Reason: unauthorised + strings.ReplaceAll(answer.Text(), "\n", "; "), Refs: make(map[string]string)}
	for _, one := range answer.Refused {
		if one.Ref != "" {
			r.Refs[one.Ref] = unauthorised + one.Reason
		}
	}
	return r
}

// askPolicy asks the policies about a push. It returns what they let the repository take.
func (f *Reconciler) askPolicy(ctx context.Context, push *githttp.Push, ask *host.Push) (host.UsageLimits, error) {
	there, err := push.Repo.Exists()
	if err != nil {
		return host.UsageLimits{}, err
	}
	if there {
		mine, shared, err := push.Repo.Size()
		if err != nil {
			return host.UsageLimits{}, err
		}
		ask.Stored = mine + shared
	}
	ruling, err := f.cfg.Policy.Push(ctx, ask)
	if err != nil {
		return host.UsageLimits{}, fmt.Errorf("ask the policies about a push: %w", err)
	}
	switch ruling.Action {
	case host.Pass, host.Accept:
		return ruling.Limits, nil
	}
	reason := ruling.Reason
	if reason == "" {
		reason = "this push is not welcome here"
	}
	return host.UsageLimits{}, &githttp.Refusal{Reason: unauthorised + reason}
}

// makeForPush makes a repository that has no folder yet. REQUIRES: the lock.
func (f *Reconciler) makeForPush(ctx context.Context, push *githttp.Push) error {
	there, err := push.Repo.Exists()
	if there || err != nil {
		return err
	}
	f.metrics.made.Inc()
	format := gitrepo.SHA1
	if len(push.Updates[0].New) == sha256Digits {
		format = gitrepo.SHA256
	}
	return push.Repo.Init(ctx, format)
}

// note notes refs that come before their event: should the server die before it is in
// line, they do not stay for ever.
func (f *Reconciler) note(ctx context.Context, p location, push *githttp.Push) error {
	for id := range pushedPulls(push) {
		_, known, err := f.pull(ctx, id)
		if err == nil && !known {
			_, err = f.waiting.add(ctx, p.String(), id, f.cfg.Now().Unix())
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// pushedPulls are the events whose refs a push sets.
func pushedPulls(push *githttp.Push) map[host.ID]struct{} {
	ids := make(map[host.ID]struct{})
	for _, u := range push.Updates {
		if id, ok := nostrRef(u.Ref); ok {
			ids[id] = struct{}{}
		}
	}
	return ids
}

// PushDone reconciles the repositories that a push has changed (githttp.Pushes): the client
// gets its answer when the events are served.
func (f *Reconciler) PushDone(ctx context.Context, push *githttp.Push) {
	p, ok := f.locationOfPath(push.Parts)
	if !ok {
		return
	}
	f.pushing.add(p, -1)
	if push.Changed && push.Repo.NeedsRepack() {
		f.jobs.enqueue(repacking(p), task{})
	}
	if push.Charged && !push.Changed {
		f.jobs.enqueue(measuring(p.Repo), task{}) // what was charged is not there
	}
	done := f.jobs.enqueue(p, task{ids: pushedPulls(push), newObjects: push.Changed, urgent: true})
	select {
	case <-done:
	case <-ctx.Done():
	}
	if push.Note != "" && push.Changed {
		// The state may have taken effect: its objects may have been here.
		if c, err := f.checkUpdates(ctx, push); err == nil {
			push.Note = partNote(c.rest)
		}
	}
	if len(push.Removes) > 0 && push.Changed && push.Note == "" {
		if refs, err := push.Repo.Refs(ctx); err == nil {
			push.Note = removalNote(absent(push.Removes, refs))
		}
	}
	if push.Room != nil && push.Room.Reported && push.Changed {
		text, err := f.usageNote(ctx, p, push.Room.Limits)
		if err == nil && text != "" && push.Note != "" {
			text = push.Note + "; " + text
		}
		push.Note = cmp.Or(text, push.Note)
	}
}

// absent returns the names that no ref has.
func absent(names []string, refs gitrepo.Refs) (list []string) {
	there := make(map[string]bool, len(refs.List))
	for _, ref := range refs.List {
		there[ref.Name] = true
	}
	for _, name := range names {
		if !there[name] {
			list = append(list, name)
		}
	}
	return list
}
