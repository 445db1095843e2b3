// Command grasp is the policy of a GRASP service: it accepts announcements of git
// repositories, their states and pull requests, and what people write about them.
//
// The rules are those of package grasp of the sdk, which the relay uses as well.
// What belongs to git data that is not here yet is held, so that the relay can
// release it when the data comes. Where this policy cannot tell, for a state of
// very many refs or of very many owners, it holds too: the relay looks at once
// and releases what is complete.
//
// It has an opinion about every event, so it belongs at the end of a chain. What a
// policy before it accepts stays accepted, unless it holds it. So it holds only what
// belongs to a repository that is here, or is to be.
package main

import (
	_ "embed"

	"talon/sdk/grasp"
	"talon/sdk/policy"
)

//go:embed manifest.json
var manifest string

var _ = policy.Register(manifest, new(service))

func main() {}

// Kinds beside those of package grasp.
const (
	kindProfile  = 0
	kindFollows  = 3
	kindDeletion = 5
	kindRelays   = 10002
)

func (s *service) Admit(in policy.Input) policy.Verdict {
	event := in.Event()
	if s.rules.Deny.HasAuthor(grasp.PubKey(*event.Author())) {
		return deniedAuthor
	}
	q := s.ask(in.Facts)
	switch event.Kind() {
	case grasp.KindAnnouncement:
		return q.announcement(event)
	case grasp.KindState:
		return q.state(event)
	case grasp.KindPullRequest, grasp.KindPRUpdate:
		return q.pullRequest(event)
	case kindDeletion:
		return q.deletion(event)
	case kindProfile, kindFollows, kindRelays, grasp.KindGraspList:
		return q.profile(event)
	}
	if q.related(event) {
		return related
	}
	return unrelated
}

// Verdicts. Each has the code of its rule, which metrics and logs show.
var (
	deniedAuthor = policy.Reject("blocked", "this author may not write here").By("denied-author")
	denied       = reject(grasp.ReasonDenied, "denied-repository")

	identifierLong    = policy.Reject("invalid", "the repository identifier must not be longer than 1024 bytes (d tag)").By("identifier-long")
	announcementLarge = policy.Reject("invalid", "a repository announcement must not be larger than 64 KiB").By("announcement-large")
	announcementNew   = hold("announcement-new")
	announcementKnown = policy.Accept().By("announcement-known")
	maintainer        = policy.Accept().By("announcement-maintainer")
	notListed         = reject(grasp.ReasonNotListed, "announcement-not-listed")
	misplaced         = reject(grasp.ReasonMisplaced, "announcement-misplaced")
	curated           = reject(grasp.ReasonCurated, "announcement-curated")

	stateComplete  = policy.Accept().By("state-complete")
	stateUntracked = policy.Accept().By("state-untracked")
	stateWaits     = hold("state-waits")
	stateFaulty    = hold("state-faulty")
	stateLarge     = hold("state-large")
	noAnnouncement = reject(grasp.ReasonNoAnnouncement, "state-no-announcement")
	notMaintainer  = reject(grasp.ReasonNotMaintainer, "state-not-maintainer")
	noRepository   = policy.Reject("invalid", "none of the repositories that this state is for is here").By("state-no-repository")

	prComplete = policy.Accept().By("pr-complete")
	prWaits    = hold("pr-waits")
	prsWaits   = hold("prs-waits")
	prsOther   = policy.Reject("invalid", "a clone URL under /prs/ must name the event's own signer and the identifier of one of its a tags").By("prs-other")

	deletes   = policy.Accept().By("deletion")
	related   = policy.Accept().By("related")
	profile   = policy.Accept().By("profile")
	graspList = policy.Accept().By("grasp-list")
	unrelated = reject(grasp.ReasonUnrelated, "unrelated")
	early     = unrelated.RetryFor(60)

	archived = policy.Reject("blocked", grasp.ReasonArchived).By("archived")
)

func hold(rule string) policy.Verdict { return withReason(policy.ActionHold, grasp.ReasonHeld, rule) }

func reject(reason, rule string) policy.Verdict {
	return withReason(policy.ActionReject, reason, rule)
}
