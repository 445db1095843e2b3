package main

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"talon/sdk/grasp"
	"talon/sdk/policy"
	"talon/sdk/policy/policytest"
)

func TestVectors(t *testing.T) { policytest.Vectors(t, manifest, new(service)) }

// A wrong entry names its setting and itself.
func TestWrongConfig(t *testing.T) {
	for name, test := range map[string]struct {
		at     policy.Service
		config map[string]any
		want   []string
	}{
		"npub":        {policytest.Service, map[string]any{"deny": []any{"talon", "npub1xyz"}}, []string{`config deny has "npub1xyz"`, "right checksum"}},
		"hex":         {policytest.Service, map[string]any{"allow": []any{strings.Repeat("ab", 32)}}, []string{`config allow has "abab`, "write an author as npub"}},
		"identifier":  {policytest.Service, map[string]any{"archive": []any{npub(olivia) + "/.."}}, []string{"config archive has ", "one dot or two"}},
		"service":     {policytest.Service, map[string]any{"archive_services": []any{"https://gitnostr.com"}}, []string{`config archive_services has "https://gitnostr.com"`, "without scheme"}},
		"quota":       {policytest.Service, map[string]any{"max_repositories_per_author": 101}, []string{"max_repositories_per_author", "101"}},
		"own address": {policy.Service{}, nil, []string{`the relay is reached at ""`, "a service is a domain"}},
	} {
		_, err := policytest.ConfigureAt(t, test.at, manifest, new(service), test.config)
		if err == nil {
			t.Errorf("%s: accepted", name)
			continue
		}
		for _, want := range test.want {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v; want %s", name, err, want)
			}
		}
	}
}

// TestDescribe checks that the relay's description follows from the settings.
func TestDescribe(t *testing.T) {
	for name, test := range map[string]struct {
		prs    bool
		config map[string]any
		want   policy.Description
	}{
		"all defaults": {true, nil, policy.Description{
			Grasps: []string{"GRASP-01", "GRASP-06"},
			Criteria: "Git repositories whose announcement lists relay.example.com in both its clone and its relays tags; " +
				"pull requests for repositories elsewhere, pushed to /prs/; and events about what is accepted here.",
		}},
		"chosen repositories": {false, map[string]any{"allow": []any{"talon"}, "max_repositories_per_author": 3}, policy.Description{
			Grasps: []string{"GRASP-01"},
			Criteria: "Git repositories whose announcement lists relay.example.com in both its clone and its relays tags, " +
				"if the operator has chosen them, at most 3 of one author; and events about what is accepted here.",
			Curation: "New repositories are hosted if they are on the operator's list.",
		}},
		"an archive of everything": {false, map[string]any{"archive_all": true, "archive": []any{"x"}, "archive_services": []any{"a.com"}, "read_only": true}, policy.Description{
			Grasps: []string{"GRASP-01", "GRASP-05"},
			Criteria: "Git repositories whose announcement lists relay.example.com in both its clone and its relays tags; " +
				"all other repositories, as read-only archives; and events about what is accepted here. " +
				"Nothing can be pushed: every repository here is a read-only archive.",
		}},
		"an archive of some": {false, map[string]any{
			"archive": []any{"x"}, "archive_services": []any{"a.com", "b.com", "c.com", "d.com", "e.com", "f.com"},
		}, policy.Description{
			Grasps: []string{"GRASP-01", "GRASP-05"},
			Criteria: "Git repositories whose announcement lists relay.example.com in both its clone and its relays tags; " +
				"some other repositories, as read-only archives; and events about what is accepted here.",
			Curation: "Repositories on the operator's list are archived. Repositories that list a.com, b.com, c.com, d.com, e.com, and others are archived.",
		}},
	} {
		h, err := policytest.ConfigureAt(t, policy.Service{Domain: here, PRs: test.prs}, manifest, new(service), test.config)
		if err != nil {
			t.Fatal(err)
		}
		test.want.Writes = policy.WritesRestricted
		if !reflect.DeepEqual(h.About, test.want) {
			t.Errorf("%s:\n%+v, want\n%+v", name, h.About, test.want)
		}
	}
}

// A push that is not to a repository, and one to a repository of no possible name.
func TestPushToNothing(t *testing.T) {
	w := newWorld(t, map[string]any{"read_only": true})
	for _, repo := range []string{"", "30617", "30617:xyz:talon", "30618" + address(olivia)[5:], address(olivia)[:71], address(olivia)[:71] + "../x"} {
		if v := w.Push(policytest.Push{Repo: repo}); v.Action != policy.ActionPass {
			t.Errorf("%q: %v", repo, v)
		}
	}
}

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

// TestStateOfMaintainers checks who may publish the state of a repository.
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
	w.waits("state-faulty", state(olivia, "refs/heads/main deadbeef"))
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
