package main

import (
	"talon/sdk/grasp"
	"talon/sdk/policy"
)

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
		if !fewURLs(here.Event(), &left) {
			return policy.Pass()
		}
		a, err := grasp.ParseAnnouncement(s.found.read(here.Event(), placed))
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
