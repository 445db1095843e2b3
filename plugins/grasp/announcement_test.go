package main

import (
	"strconv"
	"strings"
	"testing"

	"talon/sdk/grasp"
	"talon/sdk/policy"
	"talon/sdk/policy/policytest"
)

// Olivia announces a repository, and pushes to it.
func TestAnnouncementOfAnOwner(t *testing.T) {
	w := newWorld(t, nil)
	first := announces(olivia)
	w.waits("announcement-new", first)

	// It is held, and has a repository. She publishes it again, with a better text:
	// that replaces the held one.
	w.holds(first)
	w.has(olivia)
	second := announces(olivia)
	second.Tags = append(second.Tags, []string{"description", "better"})
	w.waits("announcement-new", second)

	// After her push the announcement is served. Now a change is served immediately.
	w.Held = nil
	w.stores(first)
	w.has(olivia, commit)
	w.accepts("announcement-known", second)

	// Its repository is lost: a new one waits for its data.
	delete(w.Git, address(olivia))
	w.waits("announcement-new", second)
}

// Mike's own announcement of the repository is for another service. He is a
// maintainer of Olivia's, so it is here, without a repository of its own: it says
// that Rita is a maintainer too.
func TestAnnouncementOfAMaintainer(t *testing.T) {
	w := newWorld(t, nil)
	mikes := announcesAt("elsewhere.com", mike, rita)
	w.refuses("announcement-not-listed", reasonNotListed, mikes)

	w.holds(announces(olivia, mike)) // held announcements count
	w.accepts("announcement-maintainer", mikes)
	w.Held = nil
	w.hosts()
	w.accepts("announcement-maintainer", mikes)

	ritas := announcesAt("elsewhere.com", rita)
	w.refuses("announcement-not-listed", reasonNotListed, ritas)
	w.stores(mikes)
	w.accepts("announcement-maintainer", ritas)

	// Each lists the other, in a circle: that ends, and makes Stan no maintainer.
	w.stores(announcesAt("elsewhere.com", rita, mike, olivia))
	w.refuses("announcement-not-listed", reasonNotListed, announcesAt("elsewhere.com", stan, olivia))

	// One that does list this service gets a repository, maintainer or not.
	w.waits("announcement-new", announces(mike))
}

// TestMaintainersAlone checks that the announcements of maintainers do not keep each other here
// after the owner's announcement is gone.
func TestMaintainersAlone(t *testing.T) {
	w := newWorld(t, nil)
	w.stores(announcesAt("elsewhere.com", mike, rita), announcesAt("elsewhere.com", rita, mike))
	w.refuses("announcement-not-listed", reasonNotListed, announcesAt("elsewhere.com", mike, rita, carl))
}

// Another identifier is another repository, also where it begins alike or has colons.
func TestIdentifiersAreWhole(t *testing.T) {
	w := newWorld(t, nil)
	w.hosts()
	for _, d := range []string{"talon2", "Talon", "talo", "talon:x"} {
		e := announcesAt("elsewhere.com", mike)
		e.Tags[0] = []string{"d", d}
		w.refuses("announcement-not-listed", reasonNotListed, e)
	}
	long := announces(olivia)
	long.Tags[0] = []string{"d", strings.Repeat("x", 1025)}
	w.refuses("identifier-long", "invalid: the repository identifier must not be longer than 1024 bytes (d tag)", long)
}

// GRASP-05: read-only copies of repositories that are for other services.
func TestArchive(t *testing.T) {
	for name, test := range map[string]struct {
		config map[string]any
		wanted bool
	}{
		"everything":         {map[string]any{"archive_all": true}, true},
		"the author":         {map[string]any{"archive": []any{npub(olivia)}}, true},
		"the repository":     {map[string]any{"archive": []any{npub(olivia) + "/talon"}}, true},
		"the identifier":     {map[string]any{"archive": []any{"talon"}}, true},
		"another repository": {map[string]any{"archive": []any{npub(olivia) + "/falcon", npub(stan), "eagle"}}, false},
		"the service":        {map[string]any{"archive_services": []any{"elsewhere.com"}}, true},
		"another service":    {map[string]any{"archive_services": []any{"where.com"}}, false},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, test.config)
			if !test.wanted {
				w.refuses("announcement-not-listed", reasonNotListed, announcesAt("elsewhere.com", olivia))
				return
			}
			w.waits("announcement-new", announcesAt("elsewhere.com", olivia))

			// Nobody pushes to it; to one that lists this service, one may.
			w.holds(announcesAt("elsewhere.com", olivia))
			w.has(olivia)
			w.pushes(olivia, policy.ActionReject, "archived", "blocked: "+grasp.ReasonArchived)
			w.stores(announces(mike))
			w.pushes(mike, policy.ActionPass, "", "")

			// The newest announcement decides.
			w.stores(policytest.Event{PubKey: olivia, Kind: grasp.KindAnnouncement, CreatedAt: policytest.Now + 1, Tags: announces(olivia).Tags})
			w.pushes(olivia, policy.ActionPass, "", "")
		})
	}
}

// An archive that is not wanted any more stays read-only.
func TestPushToAnArchiveOfBefore(t *testing.T) {
	w := newWorld(t, nil)
	w.stores(announcesAt("elsewhere.com", olivia))
	w.has(olivia)
	w.pushes(olivia, policy.ActionReject, "archived", "blocked: "+grasp.ReasonArchived)
	w.pushes(stan, policy.ActionPass, "", "") // nothing is announced: that is for the relay to say
}

func TestReadOnly(t *testing.T) {
	w := newWorld(t, map[string]any{"read_only": true})
	w.hosts()
	w.pushes(olivia, policy.ActionReject, "archived", "blocked: "+grasp.ReasonArchived)
	// That archive does not contain her contributions to repositories elsewhere.
	if v := w.Push(policytest.Push{Repo: address(olivia), PRs: true}); v.Action != policy.ActionPass {
		t.Errorf("a push to /prs/: %v", v)
	}
	w.accepts("announcement-known", announces(olivia, mike, rita))
}

// A service for chosen repositories.
func TestAllow(t *testing.T) {
	const curated = "blocked: this service hosts chosen repositories only"
	w := newWorld(t, map[string]any{"allow": []any{npub(olivia), npub(mike) + "/talon", "open"}})
	w.waits("announcement-new", announces(olivia))
	w.waits("announcement-new", announces(mike))
	w.refuses("announcement-curated", curated, announces(stan))
	w.waits("announcement-new", named("open", announces(stan)))

	// Stan's was here before the list was made: it goes on.
	w.stores(announces(stan))
	w.has(stan, commit)
	w.accepts("announcement-known", announces(stan))
}

// Lists of what is not welcome come before everything.
func TestDeny(t *testing.T) {
	const blocked = "blocked: this author may not write here"
	w := newWorld(t, map[string]any{
		"deny": []any{npub(mallory), npub(olivia) + "/talon", "warez"}, "archive_all": true, "allow": []any{npub(mallory), npub(olivia), "warez"},
	})
	w.hosts()
	w.has(mallory)
	w.refuses("denied-author", blocked, announces(mallory))
	w.refuses("denied-author", blocked, event(mallory, 1621, "a "+address(olivia)))
	w.refuses("denied-author", blocked, event(mallory, 5, "a "+address(mallory)))
	w.refuses("denied-author", blocked, event(mallory, 0))
	w.refuses("denied-repository", reasonDenied, announces(olivia))
	w.refuses("denied-repository", reasonDenied, state(olivia))
	e := announces(stan)
	e.Tags[0][1] = "warez"
	w.refuses("denied-repository", reasonDenied, e)

	// Her repository is still stored, but counts for nothing: not for Mike's state,
	// not for issues. She can delete it.
	w.refuses("state-no-announcement", grasp.ReasonNoAnnouncement, state(mike))
	w.refuses("unrelated", reasonUnrelated, event(carl, 1621, "a "+address(olivia)))
	w.refuses("unrelated", reasonUnrelated, event(carl, 1618, "a "+address(olivia), "c "+commit))
	w.accepts("deletion", event(olivia, 5, "a "+address(olivia)))
	w.pushes(olivia, policy.ActionReject, "denied-repository", reasonDenied)
	w.pushes(mallory, policy.ActionReject, "denied-author", blocked)
}

func TestMaxRepositoriesPerAuthor(t *testing.T) {
	w := newWorld(t, map[string]any{"max_repositories_per_author": 2})
	w.stores(named("one", announces(olivia)))
	w.waits("announcement-new", announces(olivia))
	w.holds(named("two", announces(olivia)))
	w.refuses("announcement-quota", "blocked: you have 2 repositories here, which is as many as one author may have", announces(olivia))

	// Those that are here can change, others' count for others, and what one announces
	// as a maintainer does not count.
	w.waits("announcement-new", named("two", announces(olivia, mike)))
	w.waits("announcement-new", announces(mike))
	w.stores(named("three", announcesAt("elsewhere.com", mike)), named("four", announcesAt("elsewhere.com", mike)))
	w.waits("announcement-new", announces(mike))

	// The held one expires.
	w.Held = nil
	w.waits("announcement-new", announces(olivia))

	// A policy before this one accepted what was refused: it has no repository, and gets
	// none by coming again.
	w.holds(named("two", announces(olivia)))
	w.stores(announces(olivia))
	w.refuses("announcement-quota", "blocked: you have 2 repositories here, which is as many as one author may have", announces(olivia))
}

// Olivia's announcement of another repository has the identifier of this one in a
// second d tag. It is no announcement of this one: it neither makes it known here, nor
// gets it past the quota, nor makes an archive writable.
func TestSecondIdentifier(t *testing.T) {
	w := newWorld(t, map[string]any{"max_repositories_per_author": 1})
	two := func(i int) policytest.Event {
		e := named("other"+strconv.Itoa(i), announces(olivia, mike))
		e.Tags = append(e.Tags, []string{"d", "talon"})
		return e
	}
	w.stores(two(0))
	w.refuses("announcement-quota", "blocked: you have 1 repositories here, which is as many as one author may have", announces(olivia))
	w.refuses("announcement-not-listed", reasonNotListed, announcesAt("elsewhere.com", mike))
	w.has(olivia)
	w.waits("announcement-new", announces(olivia))

	w = newWorld(t, nil)
	w.stores(two(0), announcesAt("elsewhere.com", olivia))
	w.pushes(olivia, policy.ActionReject, "archived", "blocked: "+grasp.ReasonArchived)
	for i := range 40 {
		w.stores(two(i))
	}
	w.pushes(olivia, policy.ActionReject, "archived", "blocked: "+grasp.ReasonArchived)
}

// 10,000 maintainers would be read again by every decision.
func TestLargeAnnouncement(t *testing.T) {
	w := newWorld(t, nil)
	var many []policy.PubKey
	for i := range 10_000 {
		many = append(many, policy.PubKey{byte(i), byte(i >> 8), 9})
	}
	w.refuses("announcement-large", "invalid: a repository announcement must not be larger than 64 KiB", announces(olivia, many...))
	w.waits("announcement-new", announces(olivia, many[:900]...))
}

// Mallory and 600 of her friends announce the same identifier. Olivia and Mike list
// each other, so neither is pushed out; 600 announcements of Mallory's make her no
// maintainer of theirs.
func TestStrangersPushNobodyOut(t *testing.T) {
	w := newWorld(t, nil)
	w.stores(announces(olivia, mike), announcesAt("elsewhere.com", mike, olivia))
	w.has(olivia, commit)
	for i := range 600 {
		friend := policy.PubKey{7, byte(i), byte(i >> 8)}
		w.stores(announces(friend, mallory, carl))
		w.holds(announces(friend, mallory, carl))
	}
	w.accepts("state-complete", state(olivia, "refs/heads/main "+commit))
	w.accepts("state-complete", state(mike, "refs/heads/main "+commit))
	w.accepts("announcement-maintainer", announcesAt("elsewhere.com", mike, olivia, rita))
	w.waits("state-waits", state(mallory, "refs/heads/main "+commit)) // of her friends' repositories
	w.refuses("state-not-maintainer", grasp.ReasonNotMaintainer, state(stan, "refs/heads/main "+commit))
}
