package main

import (
	"encoding/hex"
	"fmt"
	"strings"
	"testing"

	"talon/sdk/grasp"
	"talon/sdk/policy"
	"talon/sdk/policy/policytest"
)

// TestRelatedEvents covers events about a repository, and events about those events.
func TestRelatedEvents(t *testing.T) {
	w := newWorld(t, nil)
	w.hosts()
	issue := event(carl, grasp.KindIssue, "a "+address(olivia), "subject help")
	w.accepts("related", issue)
	w.stores(issue)
	for _, name := range []string{"a", "A", "q"} {
		w.accepts("related", event(stan, 1, name+" "+address(olivia)))
	}
	for _, name := range []string{"e", "E", "q"} {
		w.accepts("related", event(stan, 1, name+" "+issue.Hex()))
	}
	w.accepts("related", event(olivia, grasp.KindClosed, "e "+issue.Hex()+"  root"))
	w.accepts("related", event(stan, grasp.KindComment, "E "+issue.Hex(), "K 1621"))
	w.accepts("related", event(carl, grasp.KindPatch, "a "+address(olivia), "t root"))

	w.refuses("unrelated", reasonUnrelated, event(stan, 1, "p "+hex.EncodeToString(olivia[:])))
	w.refuses("unrelated", reasonUnrelated, event(stan, 1, "r "+address(olivia), "t "+issue.Hex()))
	w.refuses("unrelated", reasonUnrelated, event(stan, 1, "e "+strings.Repeat("e", 64), "a 30617:"+strings.Repeat("e", 64)+":talon"))
	w.refuses("unrelated", reasonUnrelated, event(stan, 1, "a "+address(olivia)+"2", "a 30617:"+hex.EncodeToString(stan[:])+":talon"))
	w.refuses("unrelated", reasonUnrelated, event(stan, 1))
}

// An issue is sent right after its announcement, which waits for its data: it is held with
// that. It opens the relay for no other kind.
func TestRelatedToHeldEvents(t *testing.T) {
	w := newWorld(t, nil)
	pr := event(carl, grasp.KindPullRequest, "a "+address(olivia), "c "+commit)
	w.holds(pr, state(olivia, "refs/heads/main "+commit), announces(olivia))
	stateOf := strings.Replace(address(olivia), "30617", "30618", 1)
	for _, kind := range []int{grasp.KindComment, grasp.KindPatch, grasp.KindIssue, grasp.KindOpen, grasp.KindApplied, grasp.KindClosed, grasp.KindDraft} {
		w.follows("related-waits", address(olivia), event(carl, kind, "a "+address(olivia)))
		w.follows("related-waits", stateOf, event(carl, kind, "a "+stateOf))
		w.follows("related-waits", pr.Hex(), event(stan, kind, "E "+pr.Hex()))
	}
	for _, kind := range []int{0, 1, 3, 4, 7, 1059, 1984, 10002, 30023} {
		for _, tag := range []string{"a " + address(olivia), "A " + stateOf, "E " + pr.Hex(), "q " + address(olivia)} {
			if v := w.Admit(event(stan, kind, tag)); v.Action != policy.ActionReject {
				t.Errorf("kind %d with %q: %v by %q", kind, tag, v.Action, v.Rule)
			}
		}
	}
	// One stored event that it is about justifies it.
	issue := event(carl, grasp.KindIssue, "a "+address(olivia))
	w.stores(issue)
	w.accepts("related", event(stan, 1, "e "+issue.Hex(), "a "+address(olivia)))
}

// Events that need no more git data wait for the announcement all the same.
func TestOnlyHeldAnnouncements(t *testing.T) {
	w := newWorld(t, nil)
	w.holds(announces(olivia, mike))
	w.has(olivia, commit)
	w.follows("pr-complete-waits", address(olivia), event(carl, grasp.KindPullRequest, "a "+address(olivia), "c "+commit))
	w.follows("state-untracked-waits", address(olivia), event(olivia, grasp.KindState, "d talon"))

	w.Held = nil
	w.stores(announces(olivia, mike))
	w.accepts("pr-complete", event(carl, grasp.KindPullRequest, "a "+address(olivia), "c "+commit))
	w.accepts("state-untracked", event(olivia, grasp.KindState, "d talon"))
}

// An accepted event names one that comes later.
func TestRelatedByBeingNamed(t *testing.T) {
	w := newWorld(t, nil)
	note := event(carl, 1, "t x")
	article := event(carl, 30023, "d how:to")
	list := event(carl, 10003)
	for _, e := range []policytest.Event{note, article, list} {
		w.refuses("unrelated", reasonUnrelated, e)
	}
	w.stores(event(olivia, grasp.KindIssue, "a "+address(olivia), "e "+note.Hex(), "q 30023:"+hex.EncodeToString(carl[:])+":how:to"))
	w.stores(event(olivia, grasp.KindComment, "A 10003:"+hex.EncodeToString(carl[:])+":"))
	for _, e := range []policytest.Event{note, article, list} {
		w.accepts("related", e)
	}
}

// Addresses of all shapes, many of one author, and of authors whose identifiers are
// exchanged: each is compared whole.
func TestRelatedToAddresses(t *testing.T) {
	w := newWorld(t, nil)
	key := func(pk policy.PubKey) string { return hex.EncodeToString(pk[:]) }
	w.stores(event(olivia, 30023, "d one"), event(mike, 30023, "d two"), event(olivia, 10002), event(mike, 30003))
	for _, a := range []string{"30023:" + key(olivia) + ":one", "30023:" + key(mike) + ":two", "10002:" + key(olivia) + ":", "30003:" + key(mike) + ":"} {
		w.accepts("related", event(stan, 1, "a "+a))
	}
	w.refuses("unrelated", reasonUnrelated, event(stan, 1, "a 30023:"+key(olivia)+":two", "a 30023:"+key(mike)+":one", "a 10002:"+key(mike)+":",
		"a 30003:"+key(olivia)+":", "a 1:"+key(olivia)+":", "a 30023:"+key(olivia)))

	var tags []string
	for i := range 29 {
		tags = append(tags, fmt.Sprintf("a 30023:%s:other-%d", key(olivia), i))
	}
	w.accepts("related", event(stan, 1, append(tags, "a 30023:"+key(olivia)+":one")...))
}

// Deletions are taken whatever they delete, if it is here.
func TestDeletion(t *testing.T) {
	w := newWorld(t, nil)
	held := announces(olivia)
	note := event(carl, 1, "t x")
	w.holds(held)
	w.stores(note)
	w.accepts("deletion", event(olivia, 5, "a "+address(olivia)))
	w.accepts("deletion", event(olivia, 5, "e "+held.Hex()))
	w.refuses("unrelated", reasonUnrelated, event(stan, 5, "e "+held.Hex(), "a "+address(olivia)))
	w.accepts("deletion", event(carl, 5, "e "+strings.Repeat("e", 64), "e "+note.Hex()))
	w.refuses("unrelated", reasonUnrelated, event(stan, 5, "e "+strings.Repeat("e", 64)))
	w.refuses("unrelated", reasonUnrelated, event(stan, 5))
}

// TestProfiles covers profiles of authors who have other events here.
func TestProfiles(t *testing.T) {
	w := newWorld(t, nil)
	w.holds(announces(olivia))
	w.refuses("unrelated", reasonUnrelated, event(olivia, 0)) // a held event is not enough
	w.stores(announces(olivia), event(carl, grasp.KindIssue, "a "+address(olivia)))
	for _, kind := range []int{0, 3, 10002, 10317} {
		w.accepts("profile", event(olivia, kind))
		w.accepts("profile", event(carl, kind))
		w.refuses("unrelated", reasonUnrelated, event(stan, kind))
	}
	w.refuses("unrelated", reasonUnrelated, event(olivia, 1))

	// Their first issue may be the next thing that comes.
	for kind, want := range map[int]uint32{0: 60, 3: 60, 10002: 60, 10317: 60, 1: 0, 1621: 0} {
		if got := w.Admit(event(stan, kind)).Retry; got != want {
			t.Errorf("kind %d of a stranger is tried again for %d seconds, want %d", kind, got, want)
		}
	}

	// A user who lists this relay as a GRASP service may publish that list here.
	w.accepts("grasp-list", event(stan, 10317, "g wss://elsewhere.com", "g wss://"+here))
	w.refuses("unrelated", reasonUnrelated, event(stan, 10317, "g wss://elsewhere.com", "r wss://"+here))

	w = newWorld(t, map[string]any{"profiles": false})
	w.holds(announces(olivia))
	w.refuses("unrelated", reasonUnrelated, event(olivia, 0))
	if got := w.Admit(event(stan, 0)).Retry; got != 0 {
		t.Errorf("a profile that is never accepted is tried again for %d seconds", got)
	}
	w.refuses("unrelated", reasonUnrelated, event(stan, 10317, "g wss://"+here))
}

// Carl's pull request comes before its commit, or after.
func TestPullRequest(t *testing.T) {
	w := newWorld(t, nil)
	w.hosts()
	for _, kind := range []int{grasp.KindPullRequest, grasp.KindPRUpdate} {
		w.waits("pr-waits", event(carl, kind, "a "+address(olivia), "c "+other))
		w.accepts("pr-complete", event(carl, kind, "a "+address(olivia), "c "+commit))
		w.refuses("pr-invalid", "invalid: a pull request needs a c tag with the commit at its tip, 40 or 64 hex digits",
			event(carl, kind, "a "+address(olivia), "c main"))
		w.refuses("unrelated", reasonUnrelated, event(carl, kind, "a "+address(stan), "c "+commit))
	}
	// To several repositories: one that has the commit will do.
	w.holds(announces(mike))
	w.has(mike, other)
	w.accepts("pr-complete", event(carl, 1618, "a "+address(stan), "a "+address(olivia), "a "+address(mike), "c "+other))

	// It belongs to something here without naming a repository that is: no data can come.
	issue := event(carl, grasp.KindIssue, "a "+address(olivia))
	w.stores(issue)
	w.accepts("related", event(carl, 1618, "a "+address(stan), "q "+issue.Hex(), "c "+commit))
}

// A policy before this one accepts what is about repositories elsewhere: nothing of it is
// held, since no data would ever come for it.
func TestRepositoriesElsewhere(t *testing.T) {
	w := newWorld(t, nil)
	w.stores(announcesAt("elsewhere.com", olivia, mike))
	const nothing = "invalid: none of the repositories that this state is for is here"
	for _, refs := range [][]string{{"refs/heads/main " + commit}, {"refs/heads/main deadbeef"}, nil, manyRefs(2 * maxRefs)} {
		w.refuses("state-no-repository", nothing, state(olivia, refs...))
		w.refuses("state-no-repository", nothing, state(mike, refs...))
	}
	w.accepts("related", event(carl, grasp.KindPullRequest, "a "+address(olivia), "c "+commit))
	w.refuses("announcement-not-listed", reasonNotListed, announcesAt("elsewhere.com", olivia))

	// Its owner lists this service from now on. Until the data is here everything waits,
	// the next announcement too.
	w.waits("announcement-new", announces(olivia))
	w.holds(announces(olivia, mike))
	w.waits("state-waits", state(mike, "refs/heads/main "+commit))
	w.waits("pr-waits", event(carl, grasp.KindPullRequest, "a "+address(olivia), "c "+commit))
	w.has(olivia)
	w.waits("announcement-new", announces(olivia))
}

func manyRefs(n int) (refs []string) {
	for i := range n {
		refs = append(refs, fmt.Sprintf("refs/heads/b%d %040x", i, i+1))
	}
	return refs
}

// GRASP-06: pull requests for repositories that are elsewhere.
func TestPullRequestUnderPRs(t *testing.T) {
	w := newWorld(t, nil)
	to := func(url string) policytest.Event {
		return event(carl, grasp.KindPullRequest, "a "+address(stan), "c "+commit, "clone "+url)
	}
	right := "https://" + here + "/prs/" + npub(carl) + "/talon.git"
	w.waits("prs-waits", to(right))

	const wrong = "invalid: a clone URL under /prs/ must name the event's own signer and the identifier of one of its a tags"
	for _, url := range []string{
		"https://" + here + "/prs/" + npub(stan) + "/talon.git",
		right + "?x", "https://" + here + "/prs/..%2f" + npub(carl) + "/talon.git",
	} {
		w.refuses("prs-other", wrong, to(url))
	}
	for _, url := range []string{"https://" + here + ".evil.com/prs/" + npub(carl) + "/talon.git", "https://" + here + "/" + npub(carl) + "/talon.git", "ssh://" + here + "/prs/x"} {
		w.refuses("unrelated", reasonUnrelated, to(url))
	}
	// For a repository that is here it does not matter.
	w.stores(announces(stan))
	w.waits("pr-waits", to("https://"+here+"/prs/"+npub(stan)+"/talon.git"))
}

func TestPRsOff(t *testing.T) {
	h, err := policytest.ConfigureAt(t, policy.Service{Domain: here}, manifest, new(service), nil)
	if err != nil {
		t.Fatal(err)
	}
	w := &world{h, t}
	w.refuses("unrelated", reasonUnrelated, event(carl, 1618, "a "+address(stan), "c "+commit, "clone https://"+here+"/prs/"+npub(carl)+"/talon.git"))
	w.refuses("unrelated", reasonUnrelated, event(carl, 1618, "a "+address(stan), "c "+commit, "clone https://"+here+"/prs/"+npub(stan)+"/talon.git"))
}
