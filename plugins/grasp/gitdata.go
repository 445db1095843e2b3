package main

import (
	"slices"
	"strconv"
	"strings"

	"talon/sdk/abi"
	"talon/sdk/grasp"
	"talon/sdk/policy"
)

// maxRefs is how many refs a state may have for its objects to be looked for. A
// larger one is held: the relay looks immediately, and it needs fewer steps for it.
const maxRefs = 40

func (q *question) state(event policy.Event) policy.Verdict {
	d, _ := event.Tag("d")
	s := &grasp.State{Stamp: stamp(event), Identifier: d}
	switch err := grasp.CheckIdentifier(d); {
	case err != nil:
		return reject("invalid: "+err.Error()+" (d tag)", "state-invalid")
	case !askable(d):
		return identifierLong
	case q.rules.Deny.Has(grasp.Repo{PubKey: s.PubKey, Identifier: d}):
		return denied
	}
	owners := q.owners(d, s.PubKey, maxStateRounds)
	switch {
	case len(owners) > 0:
	case q.isAnnounced(d):
		return notMaintainer
	default:
		return noAnnouncement
	}
	// The author's own repository is the likeliest to be here.
	if i := slices.Index(owners, s.PubKey); i > 0 {
		owners[0], owners[i] = owners[i], owners[0]
	}
	repos := make([]grasp.Repo, len(owners))
	for i, owner := range owners {
		repos[i] = grasp.Repo{PubKey: owner, Identifier: d}
	}
	if !q.mayHost(repos) {
		return noRepository
	}
	tags, fits := stateTags(event, d)
	if !fits {
		return stateLarge
	}
	s, err := grasp.ParseState(&grasp.Event{Stamp: s.Stamp, Kind: grasp.KindState, Tags: tags})
	switch {
	case err != nil:
		return reject(err.Error(), "state-invalid")
	case !s.Tracks():
		if parent := q.pending(repos); parent != "" {
			return stateFollows.With(parent)
		}
		return stateUntracked
	case len(s.Faults) > 0:
		return stateFaulty
	}
	objects := objectsOf(s)
	for _, repo := range repos[:min(len(repos), maxLooked)] {
		if !q.may(len(objects)) {
			break
		}
		if q.hasAll(repo, objects) {
			return stateComplete
		}
	}
	return stateWaits
}

// stateTags returns the tags of a state that name refs. It returns false for more than maxRefs.
func stateTags(event policy.Event, d string) (tags [][]string, fits bool) {
	tags = [][]string{{"d", d}}
	for it := walk(event); it.next(); {
		name := it.Name()
		if name != "HEAD" && !strings.HasPrefix(name, "refs/") || strings.HasSuffix(name, "^{}") {
			continue
		}
		if len(tags) > maxRefs+1 {
			return nil, false
		}
		tags = append(tags, []string{name, it.Value()})
	}
	return tags, true
}

// wanted is an object of a state.
type wanted struct {
	object string
	commit bool // a branch names it
}

// objectsOf returns the objects of a state, each once. That of HEAD is first, since
// it is the likeliest to be new, then those of the other branches.
func objectsOf(s *grasp.State) (objects []wanted) {
	add := func(object string, commit bool) {
		if object != "" && !slices.ContainsFunc(objects, func(w wanted) bool { return w.object == object }) {
			objects = append(objects, wanted{object, commit})
		}
	}
	add(s.Object(s.Head), true)
	for _, ref := range s.Refs { // by name: heads before tags
		add(ref.Object, strings.HasPrefix(ref.Name, "refs/heads/"))
	}
	return objects
}

func (q *question) hasAll(repo grasp.Repo, objects []wanted) bool {
	address := repo.Address()
	for _, w := range objects {
		if w.commit && !q.hasCommit(address, w.object) || !w.commit && !q.has(address, w.object) {
			return false
		}
	}
	return true
}

// An event may name thousands of others. The first of them are looked for.
const (
	maxIDs       = 200
	maxAddresses = 30
)

// related accepts an event that names a stored one, or is named by one. It holds one that
// names a held event only, as long as that: kinds of NIP-34 and comments (NIP-22). For others
// it returns the verdict otherwise. Repositories that the operator denies do not count.
func (q *question) related(event policy.Event, otherwise policy.Verdict) policy.Verdict {
	n := q.named(event, false)
	if n.found(q.stored) || q.isReferenced(event) {
		return related
	}
	if mayFollow(event.Kind()) {
		for _, f := range n.filters() {
			if parent := q.heldAs(f); parent != "" {
				return relatedWaits.With(parent)
			}
		}
	}
	return otherwise
}

// mayFollow reports whether an event of this kind is held because it is about one that is.
func mayFollow(kind int) bool {
	switch kind {
	case grasp.KindComment, grasp.KindPatch, grasp.KindPullRequest, grasp.KindPRUpdate, grasp.KindIssue,
		grasp.KindOpen, grasp.KindApplied, grasp.KindClosed, grasp.KindDraft:
		return true
	}
	return false
}

// isReferenced reports whether a stored event names this one.
func (q *question) isReferenced(event policy.Event) bool {
	if q.referenced(event.ID().String()) {
		return true
	}
	switch kind := event.Kind(); {
	case kind == 0 || kind == 3 || kind >= 10000 && kind < 20000, kind >= 30000 && kind < 40000:
		return q.referenced(addressOf(event))
	}
	return false
}

// deletion accepts the deletion of any stored event, of an event that the operator has denied
// since, and of the author's held events.
func (q *question) deletion(event policy.Event) policy.Verdict {
	n := q.named(event, true)
	if n.found(q.stored) {
		return deletes
	}
	for _, f := range n.filters() {
		f.Authors = []policy.PubKey{event.PubKey()}
		if q.finds(q.held, f) {
			return deletes
		}
	}
	return unrelated
}

// names are the references of an event by a, A, q and by e, E, q.
type names struct {
	*question
	ids       []policy.ID
	addresses []string
}

func (q *question) named(event policy.Event, deniedToo bool) names {
	n := names{question: q}
	left := maxAddresses
	var seen []string
	for it := walk(event); it.next() && (len(n.ids) < maxIDs || left > 0); {
		name, value := it.Name(), it.Value()
		if len(name) != 1 {
			continue
		}
		switch name[0] {
		case 'e', 'E', 'q', 'a', 'A':
		default:
			continue
		}
		// A value of the length of an id is no address, and the other way round.
		if len(value) == 64 {
			if name[0]|0x20 != 'a' && len(n.ids) < maxIDs {
				if id, ok := grasp.ParseID(value); ok {
					n.ids = append(n.ids, policy.ID(id))
				}
			}
		} else if name[0]|0x20 != 'e' && left > 0 && len(value) > 64 && !contains(seen, value) {
			left--
			seen = append(seen, value)
			if kind, pubkey, d, ok := grasp.ParseAddress(value); ok && askable(d) && (deniedToo || !q.denies(kind, pubkey, d)) {
				n.addresses = append(n.addresses, value)
			}
		}
	}
	return n
}

// filters returns filters for all references: one for the addresses, one for the ids.
func (n *names) filters() (list []policy.Filter) {
	if len(n.addresses) > 0 {
		list = append(list, policy.Filter{Tags: []policy.TagFilter{{Name: policy.ByAddress, Values: n.addresses}}})
	}
	if len(n.ids) > 0 {
		list = append(list, policy.Filter{IDs: n.ids})
	}
	return list
}

// found reports whether ask finds any of the references.
func (n *names) found(ask func(policy.Filter) policy.Events) bool {
	for _, f := range n.filters() {
		if n.finds(ask, f) {
			return true
		}
	}
	return false
}

// denies reports whether an address is that of a repository, or of its state, which
// the operator does not want.
func (q *question) denies(kind int, pubkey grasp.PubKey, d string) bool {
	return (kind == grasp.KindAnnouncement || kind == grasp.KindState) && q.rules.Deny.Has(grasp.Repo{PubKey: pubkey, Identifier: d})
}

// addressOf returns kind:pubkey:d of an event that has an address.
func addressOf(event policy.Event) string {
	b := strconv.AppendInt(make([]byte, 0, 128), int64(event.Kind()), 10)
	b = abi.AppendHex(append(b, ':'), event.Author()[:])
	b = append(b, ':')
	if event.Kind() >= 30000 {
		d, _ := event.Tag("d")
		b = append(b, d...)
	}
	return string(b)
}

const (
	maxRepos       = 20 // that a pull request is for
	maxIdentifiers = 5  // that they have
	maxClones      = 20 // tags of where its commit is
)

func (q *question) pullRequest(event policy.Event) policy.Verdict {
	pr, err := grasp.ParsePullRequest(q.own.read(event, first(map[string]int{"c": 1, "a": maxRepos, "clone": maxClones})))
	if err != nil {
		return reject(err.Error(), "pr-invalid")
	}
	if repos := q.announced(pr.Repos); len(repos) > 0 {
		for _, repo := range repos[:min(len(repos), maxLooked)] {
			if !q.hasCommit(repo.Address(), pr.Commit) {
				continue
			}
			if parent := q.pending(repos); parent != "" {
				return prFollows.With(parent)
			}
			return prComplete
		}
		if q.mayHost(repos) {
			return prWaits
		}
	}
	if q.prs {
		if repo, ok := pr.PRsRepo(q.rules.Service); ok && !q.rules.Deny.Has(repo) {
			return prsWaits
		}
	}
	if q.prs && q.forPRs(pr) {
		return q.related(event, prsOther)
	}
	return q.related(event, unrelated) // no repository is here that its commit could come to
}

// announced returns those of the repositories that are announced here, and that the
// operator does not deny: those of the first maxIdentifiers identifiers.
func (q *question) announced(repos []grasp.Repo) (here []grasp.Repo) {
	var asked []string
	for _, repo := range repos {
		if len(asked) == maxIdentifiers || contains(asked, repo.Identifier) || !askable(repo.Identifier) {
			continue
		}
		asked = append(asked, repo.Identifier)
		here = append(here, q.announcedAs(repo.Identifier, repos)...)
	}
	return here
}

// announcedAs is announced for one identifier.
func (q *question) announcedAs(identifier string, repos []grasp.Repo) (here []grasp.Repo) {
	f := policy.Filter{Tags: []policy.TagFilter{{Name: policy.ByAddress}}, Header: true}
	for _, repo := range repos {
		if repo.Identifier == identifier && !q.rules.Deny.Has(repo) {
			f.Tags[0].Values = append(f.Tags[0].Values, repo.Address())
		}
	}
	if len(f.Tags[0].Values) == 0 {
		return nil
	}
	for _, ask := range q.everywhere() {
		for _, author := range authors(ask(f)) {
			if repo := (grasp.Repo{PubKey: author, Identifier: identifier}); !slices.Contains(here, repo) {
				here = append(here, repo)
			}
		}
	}
	return here
}

// forPRs reports whether a clone URL leads to /prs/ of this service.
func (q *question) forPRs(pr *grasp.PullRequest) bool {
	for _, url := range pr.Clone {
		_, rest, _ := strings.Cut(url, "://")
		_, path, _ := strings.Cut(rest, "/")
		if strings.HasPrefix(path, "prs/") && q.rules.Service.ServesGit(url) {
			return true
		}
	}
	return false
}

// Push refuses pushes to a read-only archive and to a repository that the operator denies. The
// relay checks the rest against the state events. If a repository is at more places than the
// policy may read, the relay checks all of the push. Limits of bytes hold for each push that is
// not refused.
func (s *service) Push(in policy.PushInput) policy.Verdict {
	if in.Fetch() {
		return policy.Pass().Within(s.authorBytes, s.repositoryBytes)
	}
	v := s.decidePush(in)
	if v.Action == policy.ActionPass {
		v = v.Within(s.authorBytes, s.repositoryBytes)
	}
	return v
}

func (s *service) decidePush(in policy.PushInput) policy.Verdict {
	repo, ok := grasp.ParseRepo(in.Repo())
	switch {
	case !ok || !askable(repo.Identifier):
		return policy.Pass()
	case s.rules.Deny.HasAuthor(repo.PubKey):
		return deniedAuthor
	case s.rules.Deny.Has(repo):
		return denied
	case in.PRs():
		return policy.Pass() // it is no copy of what its owner announces
	case s.readOnly:
		return archived
	}
	q, left := s.ask(in.Facts), maxURLs
	var newest grasp.Stamp
	found, listed := false, false
	for _, ask := range q.everywhere() {
		here := ask(at(repo.Address()))
		if !here.Next() {
			continue
		}
		a, err := s.place(here.Event(), &left)
		if err == errManyURLs {
			return policy.Pass()
		}
		if err != nil || found && !a.Newer(&newest) {
			continue
		}
		found, newest, listed = true, a.Stamp, a.ListsService(s.rules.Service)
	}
	if found && !listed {
		return archived
	}
	return policy.Pass()
}
