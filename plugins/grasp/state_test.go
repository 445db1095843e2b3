package main

import (
	"fmt"
	"strings"
	"testing"

	"talon/sdk/grasp"
	"talon/sdk/policy/policytest"
)

// Olivia publishes a state, then pushes. Her next state names what is here already.
func TestStateOfAnOwner(t *testing.T) {
	w := newWorld(t, nil)
	s := state(olivia, "refs/heads/main "+commit, "refs/tags/v1 "+commit)
	w.refuses("state-no-announcement", grasp.ReasonNoAnnouncement, s)

	w.holds(announces(olivia))
	w.has(olivia)
	w.waits("state-waits", s)

	w.has(olivia, commit)
	w.accepts("state-complete", s)
	w.waits("state-waits", state(olivia, "refs/heads/main "+commit, "refs/tags/v2 "+other))

	// Without a repository nothing is complete.
	delete(w.Git, address(olivia))
	w.waits("state-waits", s)
}

// Who may say where a repository's branches are.
func TestStateOfMaintainers(t *testing.T) {
	w := newWorld(t, nil)
	w.hosts()
	main := "refs/heads/main " + commit
	w.accepts("state-complete", state(olivia, main))
	w.accepts("state-complete", state(mike, main))
	w.refuses("state-not-maintainer", grasp.ReasonNotMaintainer, state(rita, main))
	w.stores(announcesAt("elsewhere.com", mike, rita))
	w.accepts("state-complete", state(rita, main))
	for _, who := range []struct {
		name  string
		state policytest.Event
	}{{"a contributor", state(carl, main)}, {"a stranger", state(stan, main)}} {
		t.Run(who.name, func(t *testing.T) {
			w.refuses("state-not-maintainer", grasp.ReasonNotMaintainer, who.state)
		})
	}

	// Olivia takes Mike off the list: the newer announcement counts, also while it is
	// held.
	w = newWorld(t, nil)
	w.hosts()
	newer := announces(olivia)
	newer.CreatedAt = policytest.Now + 1
	w.holds(newer)
	w.refuses("state-not-maintainer", grasp.ReasonNotMaintainer, state(mike, main))
}

// Mike's own copy has the data, Olivia's does not: the state is served immediately,
// and the relay brings it over.
func TestStateThatAnotherRepositoryHas(t *testing.T) {
	w := newWorld(t, nil)
	w.stores(announces(olivia, mike), announces(mike))
	w.has(olivia)
	w.has(mike, commit)
	w.accepts("state-complete", state(mike, "refs/heads/main "+commit))

	// Not for Olivia's state: in Mike's copy she has no say.
	w.waits("state-waits", state(olivia, "refs/heads/main "+commit))
}

// Ref values are not validated: what no repository can have waits, and expires.
func TestStateThatNothingMeets(t *testing.T) {
	w := newWorld(t, nil)
	w.hosts()
	for _, tag := range []string{
		"refs/heads/main deadbeef", "refs/heads/main --upload-pack=x", "refs/heads/main " + strings.Repeat("z", 40),
		"refs/heads/../x " + commit, "refs/heads/main", "refs/heads/main " + strings.Repeat("0", 40),
	} {
		w.waits("state-faulty", state(olivia, tag))
	}
	// Peeled tags and refs of other folders say nothing; a state without any is one
	// whose author no longer tracks the repository.
	w.accepts("state-untracked", state(olivia, "refs/tags/v1^{} "+other, "refs/notes/x "+other))
	w.accepts("state-complete", state(olivia, "refs/heads/main "+commit, "refs/tags/v1^{} "+other))
	for _, d := range []string{"", "..", "a/b"} {
		e := state(olivia)
		e.Tags[0] = []string{"d", d}
		if v := w.Admit(e); v.Rule != "state-invalid" {
			t.Errorf("%q: %v by %s", d, v.Action, v.Rule)
		}
	}
}

// A branch is a commit; a tag may be anything.
func TestStateOfOtherObjects(t *testing.T) {
	w := newWorld(t, nil)
	w.stores(announces(olivia))
	w.Git[address(olivia)] = policytest.Repo{Objects: []string{commit}, Others: []string{other}}
	w.accepts("state-complete", state(olivia, "refs/heads/main "+commit, "refs/tags/v1 "+other, "refs/tags/v0 "+commit))
	w.waits("state-waits", state(olivia, "refs/heads/main "+other))
	w.waits("state-waits", state(olivia, "refs/heads/main "+commit, "refs/heads/x "+other, "refs/tags/v1 "+other))
	w.waits("pr-waits", event(carl, grasp.KindPullRequest, "a "+address(olivia), "c "+other))
}

// Object names of SHA-256 repositories.
func TestStateOfSHA256(t *testing.T) {
	w := newWorld(t, nil)
	w.stores(announces(olivia))
	w.has(olivia, strings.Repeat("c", 64))
	w.accepts("state-complete", state(olivia, "refs/heads/main "+strings.Repeat("C", 64)))
}

// A state of many refs is held without looking: the relay looks immediately.
func TestLargeState(t *testing.T) {
	w := newWorld(t, nil)
	w.hosts()
	refs := func(n int) (list []string) {
		for i := range n {
			list = append(list, fmt.Sprintf("refs/heads/b%d %s", i, commit))
		}
		return list
	}
	w.accepts("state-complete", state(olivia, refs(40)...))
	w.waits("state-large", state(olivia, refs(42)...))
	w.waits("state-large", state(olivia, refs(2000)...))
	w.refuses("state-not-maintainer", grasp.ReasonNotMaintainer, state(stan, refs(2000)...))
}

// 40 different objects in each of 30 repositories would be 1,200 reads: those that
// fit are made, and the rest is the relay's.
func TestStateOfManyOwners(t *testing.T) {
	w := newWorld(t, nil)
	var refs []string
	for i := range 40 {
		refs = append(refs, fmt.Sprintf("refs/heads/b%d %040x", i, i+1))
	}
	for i := range 30 {
		owner := person(byte(50 + i))
		w.stores(announces(owner, mike))
		w.has(owner, fmt.Sprintf("%040x", 1))
	}
	w.waits("state-waits", state(mike, refs...))
}
