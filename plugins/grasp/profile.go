package main

import (
	"talon/sdk/grasp"
	"talon/sdk/policy"
)

// profile decides about what an author says of itself: it is accepted if it is
// related, or if anything else of the author is here, or if it names this service
// as one that the author uses (NIP-34, user grasp list).
func (q *question) profile(event policy.Event) policy.Verdict {
	if q.profiles {
		if event.Kind() == grasp.KindGraspList && q.listed(event) {
			return graspList
		}
		if q.exists(policy.Filter{Authors: []policy.PubKey{event.PubKey()}}) {
			return profile
		}
	}
	if q.related(event) {
		return related
	}
	if q.profiles {
		// It is often sent right before the first issue of its author.
		return early
	}
	return unrelated
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
