package main

import (
	"strings"

	"talon/sdk/grasp"
	"talon/sdk/policy"
)

const (
	maxRepos  = 20 // that a pull request is for
	maxClones = 20 // tags of where its commit is
)

func (q *question) pullRequest(event policy.Event) policy.Verdict {
	pr, err := grasp.ParsePullRequest(q.own.read(event, first(map[string]int{"c": 1, "a": maxRepos, "clone": maxClones})))
	if err != nil {
		return reject(err.Error(), "pr-invalid")
	}
	if repos := q.announced(pr.Repos); len(repos) > 0 {
		for _, repo := range repos {
			if q.hasCommit(repo.Address(), pr.Commit) {
				return prComplete
			}
		}
		return prWaits
	}
	if q.prs {
		if repo, ok := pr.PRsRepo(q.rules.Service); ok && !q.rules.Deny.Has(repo) {
			return prsWaits
		}
	}
	switch {
	case q.related(event):
		return prWaits
	case q.prs && q.forPRs(pr):
		return prsOther
	}
	return unrelated
}

// announced returns those of the repositories that are announced here, and that
// the operator does not deny.
func (q *question) announced(repos []grasp.Repo) (here []grasp.Repo) {
	var wanted []grasp.Repo
	f := policy.Filter{Kinds: []int{grasp.KindAnnouncement}, Tags: []policy.TagFilter{{Name: "d"}}}
	for _, repo := range repos {
		if askable(repo.Identifier) && !q.rules.Deny.Has(repo) {
			wanted = append(wanted, repo)
			f.Authors = append(f.Authors, policy.PubKey(repo.PubKey))
			f.Tags[0].Values = append(f.Tags[0].Values, repo.Identifier)
		}
	}
	if len(wanted) == 0 {
		return nil
	}
	for _, ask := range q.everywhere() {
		for found := ask(f); found.Next(); {
			author := grasp.PubKey(*found.Event().Author())
			identifier, _ := found.Event().Tag("d")
			for i, repo := range wanted {
				if repo.PubKey == author && repo.Identifier == identifier {
					here = append(here, repo)
					wanted = append(wanted[:i], wanted[i+1:]...)
					break
				}
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
