package grasp

import "errors"

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

// ParsePullRequest reads a pull request or an update. Without a right commit its
// git data could never arrive, so that it is refused; whatever else is malformed
// is left out.
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
		u, ok := parseURL(url)
		if !ok || !u.exact || (u.scheme != "http" && u.scheme != "https") || !s.at(&u) {
			continue
		}
		p, err := ParsePath(u.path)
		if err != nil || !p.PRs || p.Rest != "" || u.path[len(u.path)-1] == '/' || p.PubKey != pr.PubKey {
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
