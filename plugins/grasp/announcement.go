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

	// maxLooked is how many owners' repositories are looked for. If there is none, the
	// newest of their announcements that is stored is read, and the newest that is held.
	maxLooked = 5

	// maxURLs bounds the URLs of these that are read. maxQuotaURLs bounds those of an author's
	// announcements, if there is a quota.
	maxURLs      = 40
	maxQuotaURLs = 800
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

// hosted decides about an announcement whose repository exists here, or may be created. The relay
// holds it until the repository has data. A stored announcement may have no repository, because a
// policy before this one accepted it.
func (q *question) hosted(a *grasp.Announcement) policy.Verdict {
	address := at(a.Repo().Address())
	switch {
	case q.finds(q.held, address):
		return announcementNew
	case q.has(a.Repo().Address(), ""):
		if q.finds(q.stored, address) {
			return announcementKnown
		}
	case q.repositories > 0 && q.full(a):
		return q.quota
	}
	return announcementNew
}

// full reports whether the author's other repositories here reach the quota. Announcements as a
// maintainer of another owner's repository do not count.
func (q *question) full(own *grasp.Announcement) bool {
	seen, left := map[string]bool{own.Identifier: true}, maxQuotaURLs
	f := policy.Filter{Kinds: []int{grasp.KindAnnouncement}, Authors: []policy.PubKey{policy.PubKey(own.PubKey)}, Limit: 2 * maxRepositories}
	for _, ask := range q.everywhere() {
		found := ask(f)
		for found.Next() {
			a, ok, unknown := q.rehosted(found.Event(), &left)
			if unknown {
				return true // whoever announces so much
			}
			if ok && !seen[a.Identifier] {
				seen[strings.Clone(a.Identifier)] = true
			}
			if len(seen) > q.repositories {
				return true
			}
		}
		if found.More() {
			return true
		}
	}
	return false
}

// rehosted reads an announcement that is here, and reports whether it would get a repository today.
// left is the number of URLs that may still be read. unknown is true if it is too small.
func (q *question) rehosted(event policy.Event, left *int) (a *grasp.Announcement, ok, unknown bool) {
	a, err := q.place(event, left)
	if err != nil {
		return nil, false, err == errManyURLs
	}
	standing, _ := q.rules.Announcement(a, false)
	return a, standing != grasp.Refused, false
}

// maintained reports whether the author is in the recursive maintainer set of another author's
// announcement, whose own repository exists here or may be created.
func (q *question) maintained(a *grasp.Announcement) bool {
	var repos []grasp.Repo
	for _, owner := range q.owners(a.Identifier, a.PubKey, maxRounds) {
		if owner != a.PubKey && len(repos) < maxLooked {
			repos = append(repos, grasp.Repo{PubKey: owner, Identifier: a.Identifier})
		}
	}
	yes, _ := q.hosts(repos)
	return yes
}

// mayHost reports whether one of some repositories exists here, is expected, or cannot be ruled
// out.
func (q *question) mayHost(repos []grasp.Repo) bool {
	yes, unknown := q.hosts(repos)
	return yes || unknown
}

// hosts reports whether one of some repositories exists here or is expected. An announcement can
// be here without its repository: a maintainer's, or one that a policy before this one accepted.
// unknown is true if there are more repositories than hosts looks at.
func (q *question) hosts(repos []grasp.Repo) (yes, unknown bool) {
	unknown = len(repos) > maxLooked
	repos = repos[:min(len(repos), maxLooked)]
	if len(repos) == 0 {
		return false, false
	}
	addresses := make([]string, len(repos))
	for i, repo := range repos {
		if addresses[i] = repo.Address(); q.has(addresses[i], "") {
			return true, unknown
		}
	}
	// A held announcement may be about to get its repository.
	left := maxURLs
	f := policy.Filter{Tags: []policy.TagFilter{{Name: policy.ByAddress, Values: addresses}}, Limit: 1}
	for _, ask := range q.everywhere() {
		for found := ask(f); found.Next(); {
			_, ok, more := q.rehosted(found.Event(), &left)
			if ok || more {
				return ok, true
			}
		}
	}
	return false, unknown || len(repos) > 1
}

// profile decides about an author's events about itself. It accepts related events, and a list that
// names this service (NIP-34, user grasp list). It accepts all of them if another event of the
// author is stored.
func (q *question) profile(event policy.Event) policy.Verdict {
	if q.profiles {
		if event.Kind() == grasp.KindGraspList && q.listed(event) {
			return graspList
		}
		if q.finds(q.stored, policy.Filter{Authors: []policy.PubKey{event.PubKey()}}) {
			return profile
		}
		// It is often sent right before the first issue of its author.
		return q.related(event, early)
	}
	return q.related(event, unrelated)
}

// maxGrasps is how many services of a grasp list are looked at.
const maxGrasps = 100

// listed reports whether a grasp list names this service.
func (q *question) listed(event policy.Event) bool {
	n := 0
	for it := walk(event); it.next() && n < maxGrasps; {
		if it.Name() != "g" {
			continue
		}
		n++
		if q.rules.Service.IsRelay(it.Value()) {
			return true
		}
	}
	return false
}
