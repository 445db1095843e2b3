package grasp

import "strings"

// PRsPush asks whether ref updates of a repository under /prs/ may be made
// (GRASP-06). There are no states: a ref is for one event.
type PRsPush struct {
	Repo    Repo // of the URL: the signer's
	Updates []Update
	Refs    []Ref // all that the repository has now

	// PullRequest returns the pull request or update with this id, stored or held,
	// and whether an event with it is here. For an event of another kind it is nil.
	// A nil function knows none.
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

// CheckPRs says why a ref of a repository under /prs/ does not belong to its
// event, "" if it does: the signer must be that of the URL, the identifier one of
// its a tags, the tip its commit.
func CheckPRs(repo Repo, pr *PullRequest, tip string) string {
	switch {
	case pr.PubKey != repo.PubKey:
		return "the event with this id is signed by somebody else than the URL names"
	case !pr.names(repo.Identifier):
		return "the event with this id is for another repository than the URL names"
	}
	return checkTip(pr.Commit, true, tip)
}
