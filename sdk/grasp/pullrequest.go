package grasp

import (
	"errors"
	"strings"
)

// PullRequest is a pull request, kind 1618, or an update of one, kind 1619.
type PullRequest struct {
	Stamp
	Update    bool
	Commit    string   // the tip, an object name
	Clone     []string // URLs where the commit is, as written
	Repos     []Repo   // the repositories it is for, each once
	MergeBase string   // an object name, "" if there is none
	Branch    string   // the name that the author suggests, "" if there is none; not checked
	Root      ID       // of an update: the pull request; zero if there is none
}

var (
	errNotPullRequest = errors.New("invalid: not a pull request (kind 1618) or an update of one (kind 1619)")
	errNoCommit       = errors.New("invalid: a pull request needs a c tag with the commit at its tip, 40 or 64 hex digits")
)

// ParsePullRequest reads a pull request or an update. It refuses one without a valid commit,
// because its git data could never arrive. It leaves out all other malformed values.
func ParsePullRequest(e *Event) (*PullRequest, error) {
	if e.Kind != KindPullRequest && e.Kind != KindPRUpdate {
		return nil, errNotPullRequest
	}
	commit, ok := ParseObject(e.first("c"))
	if !ok {
		return nil, errNoCommit
	}
	pr := &PullRequest{
		Stamp:  e.Stamp,
		Update: e.Kind == KindPRUpdate,
		Commit: commit,
		Clone:  e.all("clone"),
		Branch: e.first("branch-name"),
	}
	if base, ok := ParseObject(e.first("merge-base")); ok {
		pr.MergeBase = base
	}
	if pr.Update {
		pr.Root, _ = e.Root()
	}
	seen := map[Repo]bool{}
	for _, tag := range e.Tags {
		if len(tag) < 2 || tag[0] != "a" {
			continue
		}
		if repo, ok := ParseRepo(tag[1]); ok && !seen[repo] {
			seen[repo] = true
			pr.Repos = append(pr.Repos, repo)
		}
	}
	return pr, nil
}

// Ref returns the ref of the pull request, refs/nostr/ and its id.
func (pr *PullRequest) Ref() Ref { return Ref{nostrRefs + hexString(pr.ID), pr.Commit} }

// PRsRepo returns the repository under /prs/ where the commit of the pull request
// is pushed (GRASP-06): that of the signer, with the identifier of one of its a
// tags, if a clone URL names it exactly.
func (pr *PullRequest) PRsRepo(s Service) (Repo, bool) {
	for _, url := range pr.Clone {
		path, exact, ok := s.locate(url, "http")
		if !ok || !exact {
			continue
		}
		p, err := ParsePath(path)
		if err != nil || !p.PRs || p.Rest != "" || path[len(path)-1] == '/' || p.PubKey != pr.PubKey {
			continue
		}
		if pr.names(p.Identifier) {
			return p.Repo, true
		}
	}
	return Repo{}, false
}

func (pr *PullRequest) names(identifier string) bool {
	for _, repo := range pr.Repos {
		if repo.Identifier == identifier {
			return true
		}
	}
	return false
}

// PRsPush asks whether ref updates of a repository under /prs/ may be made (GRASP-06). No state is
// needed: each ref belongs to one event.
type PRsPush struct {
	Repo    Repo // of the URL: the signer's
	Updates []Update
	Refs    []Ref // all that the repository has now

	// PullRequest returns the pull request or update with this id, stored or held, and whether an
	// event with it is here. It returns nil for an event of another kind. If the function is nil,
	// no event is known.
	PullRequest func(id ID) (pr *PullRequest, known bool)
}

// Authorize decides about the push. An event that is not here yet may come later:
// then [CheckPRs] decides whether the ref stays.
func (p *PRsPush) Authorize() (answer Answer) {
	if len(p.Updates) == 0 {
		answer.refuse("", "a push without commands is not authorised")
	}
	refs := sortedRefs(p.Refs)
	seen := make(map[string]bool, len(p.Updates))
	for i := range p.Updates {
		u := &p.Updates[i]
		reason := p.check(u, objectOf(refs, u.Ref))
		if seen[u.Ref] {
			reason = "the push moves the ref twice"
		}
		seen[u.Ref] = true
		if reason != "" {
			answer.refuse(u.Ref, reason)
		}
	}
	return answer
}

func (p *PRsPush) check(u *Update, current string) string {
	hex, ok := strings.CutPrefix(u.Ref, nostrRefs)
	id, right := ParseID(hex)
	switch {
	case !ok || !right:
		return "only refs/nostr/<event id> can be pushed here, with the id as 64 lower-case hex digits"
	case !isObject(u.New) || !isObject(u.Old):
		return "an object name must be 40 or 64 lower-case hex digits"
	case IsZero(u.New) && current == "":
		return "" // it is deleted already
	case IsZero(u.New):
		return noNostrDeletion
	case p.PullRequest == nil:
		return ""
	}
	pr, known := p.PullRequest(id)
	switch {
	case !known:
		return ""
	case pr == nil:
		return "the event with this id is not a pull request"
	}
	return CheckPRs(p.Repo, pr, u.New)
}

// CheckPRs returns why a ref of a repository under /prs/ does not match its event, or "" if it
// does. The signer must be the one in the URL. The identifier must be in an a tag of the event. The
// tip must be its commit.
func CheckPRs(repo Repo, pr *PullRequest, tip string) string {
	switch {
	case pr.PubKey != repo.PubKey:
		return "the event with this id is signed by somebody else than the URL names"
	case !pr.names(repo.Identifier):
		return "the event with this id is for another repository than the URL names"
	}
	return checkTip(pr.Commit, true, tip)
}
