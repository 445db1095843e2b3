package main

import (
	"slices"
	"strings"

	"talon/sdk/grasp"
	"talon/sdk/policy"
)

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
			if q.hasCommit(repo.Address(), pr.Commit) {
				return prComplete
			}
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
	switch {
	case q.related(event):
		return related // no repository is here that its commit could come to
	case q.prs && q.forPRs(pr):
		return prsOther
	}
	return unrelated
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

// Push refuses what goes to a read-only archive, or to a repository that the
// operator denies. Whether a state event allows the rest is the relay's to say, and of
// a repository at more places than are read, all.
func (s *service) Push(in policy.PushInput) policy.Verdict {
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
