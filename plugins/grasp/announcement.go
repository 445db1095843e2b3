package main

import (
	"strings"

	"talon/sdk/grasp"
	"talon/sdk/policy"
)

const (
	// maxAnnouncement bounds the tags and the content of an announcement, in bytes:
	// every decision about its repository reads it again.
	maxAnnouncement = 64 << 10

	maxOwners = 5 // whose own repositories are looked for
)

func (q *question) announcement(event policy.Event) policy.Verdict {
	if event.TagBytes()+len(event.Content()) > maxAnnouncement {
		return announcementLarge
	}
	a, err := grasp.ParseAnnouncement(q.own.read(event, nil))
	switch {
	case err != nil:
		return reject(err.Error(), "announcement-invalid")
	case !askable(a.Identifier):
		return identifierLong
	}
	standing, reason := q.rules.Announcement(a, false)
	switch {
	case standing != grasp.Refused:
		return q.hosted(a)
	case reason == grasp.ReasonDenied:
		return denied
	case reason == grasp.ReasonCurated && q.has(a.Repo().Address(), ""):
		// Only new repositories must be on the list.
		return q.hosted(a)
	case q.maintained(a):
		return maintainer
	case reason == grasp.ReasonMisplaced:
		return misplaced
	case reason == grasp.ReasonCurated:
		return curated
	}
	return notListed
}

// hosted decides about an announcement that has a repository here, or is to get
// one: it is held until the repository has data.
func (q *question) hosted(a *grasp.Announcement) policy.Verdict {
	if q.has(a.Repo().Address(), "") {
		if _, ok, _ := announcementOf(a.Repo(), q.stored); ok {
			return announcementKnown
		}
		return announcementNew
	}
	if q.repositories > 0 && !q.announces(a.Repo()) && q.full(a.PubKey) {
		return q.quota
	}
	return announcementNew
}

// full reports whether the author has as many repositories here as one may have.
// What an author announces as a maintainer of others' does not count.
func (q *question) full(author grasp.PubKey) bool {
	seen := map[string]bool{}
	f := policy.Filter{Kinds: []int{grasp.KindAnnouncement}, Authors: []policy.PubKey{policy.PubKey(author)}, Limit: 2 * maxRepositories}
	for _, ask := range q.everywhere() {
		found := ask(f)
		for found.Next() {
			a, ok := q.rehosted(found.Event())
			if ok && !seen[a.Identifier] {
				seen[strings.Clone(a.Identifier)] = true
			}
			if len(seen) == q.repositories {
				return true
			}
		}
		if found.More() {
			return true
		}
	}
	return false
}

// placed keeps the tags that say where a repository is.
func placed(name string) bool { return name == "d" || name == "clone" || name == "relays" }

// rehosted reads an announcement that is here, and reports whether it would get a
// repository today.
func (q *question) rehosted(event policy.Event) (*grasp.Announcement, bool) {
	a, err := grasp.ParseAnnouncement(q.found.read(event, placed))
	if err != nil {
		return nil, false
	}
	standing, _ := q.rules.Announcement(a, false)
	return a, standing != grasp.Refused
}

// maintained reports whether the author is in the recursive maintainer set of
// somebody else's announcement that is here for its own sake: it has a repository
// here, or is to get one.
func (q *question) maintained(a *grasp.Announcement) bool {
	left := maxOwners
	for _, owner := range q.graph(a.Identifier, a.PubKey).Owners(a.PubKey) {
		if owner == a.PubKey {
			continue
		}
		repo := grasp.Repo{PubKey: owner, Identifier: a.Identifier}
		if q.has(repo.Address(), "") {
			return true
		}
		for _, ask := range q.everywhere() {
			if event, ok, _ := announcementOf(repo, ask); ok {
				if _, ok := q.rehosted(event); ok {
					return true
				}
			}
		}
		if left--; left == 0 {
			break
		}
	}
	return false
}
