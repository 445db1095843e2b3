package main

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"

	"github.com/nbd-wtf/go-nostr"
)

const nostrRef = "refs/nostr/"

// published makes a repository of the owner's, demo, with one commit.
func (st *story) published(owner person, work *folder) (commit string) {
	st.Helper()
	commit = work.commit("one")
	st.held(st.announcement(owner, "demo"))
	st.held(st.state(owner, "demo", "refs/heads/main", commit))
	work.push(st.repo(owner, "demo"), "main")
	return commit
}

// pullRequest: a contributor, whom nobody has listed, sends a pull request and its
// commit, in either order. A tip that is not the event's is refused, or goes when
// the event comes.
func pullRequest(st *story) {
	owner, contributor := st.who("owner"), st.who("contributor")
	url, address := st.repo(owner, "demo"), repoAddress(owner, "demo")
	work := st.folder()
	one := st.published(owner, work)
	two, three, four := work.commit("two"), work.commit("three"), work.commit("four")
	main := "HEAD=refs/heads/main refs/heads/main=" + one

	// The event first.
	pr := st.held(st.pull(contributor, two, address))
	ref := nostrRef + pr.ID
	work.cannotPush("the event with this id has its tip at "+two[:12], url, three+":"+ref)
	st.wantServed(pr, false)
	work.push(url, two+":"+ref)
	st.wantServed(pr, true)
	st.wantRefs(url, main, ref+"="+two)
	if got := work.git("ls-remote", url, ref); got != two+"\t"+ref {
		st.Errorf("the maintainer sees %q", got)
	}

	// The ref first.
	later := st.pull(contributor, three, address)
	work.push(url, three+":"+nostrRef+later.ID)
	if a := st.c.publish(st, later); !a.ok {
		st.Errorf("a pull request whose commit is here: %+v", a)
	}
	st.becomesServed(later)

	// The ref first, and not the commit that the event names.
	lie := st.pull(contributor, four, address)
	work.push(url, one+":"+nostrRef+lie.ID)
	st.held(lie)
	st.until("the wrong ref goes", func() bool { return !strings.Contains(st.refsOf(url), lie.ID) })
	st.wantServed(lie, false)
	work.push(url, four+":"+nostrRef+lie.ID)
	st.wantServed(lie, true)

	// An update of it, whose commit is here already.
	update := st.event(contributor, 1619, nostr.Tag{"c", three}, nostr.Tag{"a", address}, nostr.Tag{"E", pr.ID}, nostr.Tag{"P", contributor.hex()})
	st.stored(update)
	st.until("the update has its ref", func() bool { return strings.Contains(st.refsOf(url), nostrRef+update.ID+"="+three) })

	// Neither deletes the ref of another, nor of an event of another kind.
	work.cannotPush("refs under refs/nostr/ are not deleted by a push", url, ":"+ref)
	issue := st.stored(st.event(contributor, 1621, nostr.Tag{"a", address}))
	work.cannotPush("the event with this id is not a pull request", url, one+":"+nostrRef+issue.ID)

	// A later push of a maintainer leaves them alone.
	work.git("reset", "-q", "--hard", two)
	st.stored(st.state(owner, "demo", "refs/heads/main", two))
	st.until("main has moved", func() bool { return strings.Contains(st.refsOf(url), "refs/heads/main="+two) })
	if got := st.refsOf(url); !strings.Contains(got, ref+"="+two) {
		st.Errorf("the pull request's ref has gone: %s", got)
	}
}

// ownPlace: a contributor leaves the commits of a pull request under /prs/ of her own key
// (GRASP-06), for a repository that is announced here. The pull request is served, and its
// ref is in the repository as well. Nothing of the repository is under /prs/.
func ownPlace(st *story) {
	owner, contributor := st.who("owner"), st.who("contributor")
	url, prs := st.repo(owner, "demo"), st.prs(contributor, "demo")
	work := st.folder()
	one := st.published(owner, work)
	two := work.commit("two")

	// Nothing is there, and it can be cloned as an empty repository; nothing is made.
	empty := filepath.Join(st.TempDir(), "empty")
	st.git(".", "clone", "-q", "--depth=1", "--filter=blob:none", prs, empty)
	st.wantRefs(prs)
	if made := st.placesOf(contributor); len(made) > 0 {
		st.Errorf("a look at a place has made %v", made)
	}

	pr := st.held(st.prsPull(contributor, "demo", two, repoAddress(owner, "demo")))
	st.wantServed(pr, false)
	work.push(prs, two+":"+nostrRef+pr.ID)
	st.wantServed(pr, true)
	st.wantRefs(prs, nostrRef+pr.ID+"="+two)
	st.getRefs(url, "HEAD=refs/heads/main", "refs/heads/main="+one, nostrRef+pr.ID+"="+two)

	// Never the other way round.
	three := work.commit("three")
	direct := st.held(st.pull(contributor, three, repoAddress(owner, "demo")))
	work.push(url, three+":"+nostrRef+direct.ID)
	st.wantServed(direct, true)
	st.wantRefs(prs, nostrRef+pr.ID+"="+two)
	if got := st.refsOf(st.prs(owner, "demo")); got != "" {
		st.Errorf("the owner's place has %s", got)
	}
}

// placesOf are the folders under /prs/ on disk that are somebody's.
func (st *story) placesOf(who person) []string {
	st.Helper()
	var list []string
	err := filepath.WalkDir(filepath.Join(st.s.data, "git-prs"), func(path string, _ os.DirEntry, err error) error {
		if strings.Contains(path, who.npub()) {
			list = append(list, path)
		}
		return err
	})
	// Others make folders, and remove them, at this moment.
	if err != nil && !os.IsNotExist(err) {
		st.Fatal(err)
	}
	return list
}

// ownPlaceFirst: the pull request is for a repository that is not announced here. It
// is served from under /prs/, and when the announcement comes, the repository gets
// it. The ref may come before the event as well.
func ownPlaceFirst(st *story) {
	owner, contributor := st.who("owner"), st.who("contributor")
	url, prs := st.repo(owner, "demo"), st.prs(contributor, "demo")
	work := st.folder()
	one, two := work.commit("one"), work.commit("two")
	pr := st.held(st.prsPull(contributor, "demo", one, repoAddress(owner, "demo")))
	work.push(prs, one+":"+nostrRef+pr.ID)
	st.wantServed(pr, true)

	second := st.event(contributor, 1619, nostr.Tag{"c", two}, nostr.Tag{"a", repoAddress(owner, "demo")}, nostr.Tag{"E", pr.ID}, nostr.Tag{"P", contributor.hex()},
		nostr.Tag{"clone", "https://other.test/x.git", "HTTPS://RELAY.TEST/prs" + repoPath(contributor, "demo")})
	work.push(prs, two+":"+nostrRef+second.ID)
	st.held(second)
	st.becomesServed(second)
	both := []string{nostrRef + pr.ID + "=" + one, nostrRef + second.ID + "=" + two}
	if both[0] > both[1] {
		both[0], both[1] = both[1], both[0]
	}
	st.wantRefs(prs, both...)
	st.stored(st.event(owner, 1111, nostr.Tag{"E", pr.ID})) // about what is accepted here

	if got := st.refsOf(url); got != "absent" {
		st.Errorf("there is a repository without an announcement: %s", got)
	}
	announcement := st.held(st.announcement(owner, "demo"))
	st.getRefs(url, both...)
	st.wantServed(announcement, false)
	state := st.stored(st.state(owner, "demo", "refs/heads/main", one))
	st.becomesServed(announcement)
	st.wantServed(state, true)
	st.getRefs(url, append([]string{"HEAD=refs/heads/main", "refs/heads/main=" + one}, both...)...)
}

// ownPlaceRefusals: a place takes only pull requests of its own signer, for its own
// identifier and with their own tip. A refusal never says "not found", by which clients
// tell that the place is off.
func ownPlaceRefusals(st *story) {
	owner, contributor, stranger := st.who("owner"), st.who("contributor"), st.who("stranger")
	prs := st.prs(contributor, "demo")
	work := st.folder()
	one, two := work.commit("one"), work.commit("two")
	id := strings.Repeat("ab", 32)
	for _, ref := range []string{
		"refs/heads/main", "refs/tags/v1", "refs/nostr/x", "refs/nostr/" + strings.ToUpper(id), "refs/nostr/" + id[:63], "refs/nostr/" + id + "0",
		"refs/nostr/" + id + "/x", "refs/other/" + id, "refs/nostr/refs/nostr/" + id,
	} {
		out, err := gitAs(work.dir, "push", prs, one+":"+ref)
		if err == nil || strings.Contains(strings.ToLower(out), "not found") || !strings.Contains(out, "only refs/nostr/<event id> can be pushed here") {
			st.Errorf("a push of %s: %v\n%s", ref, err, out)
		}
	}
	if made := st.placesOf(contributor); len(made) > 0 {
		st.Errorf("refused pushes have made %v", made)
	}
	st.wantRefs(prs)

	const wrongPlace = "invalid: a clone URL under /prs/ must name the event's own signer and the identifier of one of its a tags"
	address := repoAddress(owner, "demo")
	clone := func(url string, tags ...nostr.Tag) *nostr.Event {
		return st.event(contributor, 1618, append(tags, nostr.Tag{"c", one}, nostr.Tag{"a", address}, nostr.Tag{"clone", url})...)
	}
	// Somebody else's place, another identifier, or a URL that is not exactly that one.
	st.refused(clone("https://relay.test/prs"+repoPath(stranger, "demo")), wrongPlace)
	st.refused(clone("https://relay.test/prs"+repoPath(contributor, "other")), wrongPlace)
	st.refused(clone("https://relay.test/prs"+repoPath(contributor, "demo")+"?x=y"), wrongPlace)
	st.refused(clone("https://relay.test/prs"+repoPath(contributor, "demo")+"/"), wrongPlace)
	st.refused(clone("https://relay.test"+repoPath(contributor, "demo")), unrelatedReason)
	st.refused(clone("https://other.test/prs"+repoPath(contributor, "demo")), unrelatedReason)
	st.refused(clone("https://relay.test:8443/prs"+repoPath(contributor, "demo")), unrelatedReason)
	// An issue is no pull request.
	st.refused(st.event(contributor, 1621, nostr.Tag{"a", address}, nostr.Tag{"clone", "https://relay.test/prs" + repoPath(contributor, "demo")}), unrelatedReason)

	// Another tip than the event's.
	pr := st.held(st.prsPull(contributor, "demo", one, address))
	work.cannotPush("the event with this id has its tip at "+one[:12], prs, two+":"+nostrRef+pr.ID)
	// Another's event, in this place.
	other := st.held(st.prsPull(stranger, "demo", one, address))
	work.cannotPush("signed by somebody else than the URL names", prs, one+":"+nostrRef+other.ID)
	work.cannotPush("for another repository than the URL names", st.prs(contributor, "other"), one+":"+nostrRef+pr.ID)
	st.wantServed(pr, false)
	st.wantServed(other, false)

	// The ref first; then an event comes which says something else.
	lie := st.prsPull(contributor, "demo", two, address)
	foreign := st.prsPull(stranger, "demo", one, address)
	work.push(prs, one+":"+nostrRef+lie.ID, one+":"+nostrRef+foreign.ID)
	st.held(lie)
	st.until("the wrong ref goes", func() bool { return !strings.Contains(st.refsOf(prs), lie.ID) })
	st.held(foreign)
	st.wantServed(lie, false)
	st.wantServed(foreign, false)
	if got := st.refsOf(prs); got != nostrRef+foreign.ID+"="+one && got != "" {
		st.Errorf("the place has %s", got)
	}
	// A right one is still taken.
	work.push(prs, one+":"+nostrRef+pr.ID)
	st.wantServed(pr, true)
	// No other way leads to a place.
	for _, path := range []string{"/prs/" + contributor.npub() + "/..git", "/prs/" + contributor.npub() + "/x%2fdemo.git", "/prs/x/demo.git", "/prs/demo.git", "/prs/" + contributor.npub() + "/demo/x"} {
		st.wantStatus(http.StatusNotFound, "GET", path+"/info/refs?service=git-upload-pack")
	}
}

// deletedWhileHeld: the owner changes her mind before anything was pushed, and names
// what waits by its id or its address. A later push finds nothing that allows it.
func deletedWhileHeld(st *story) {
	owner, stranger := st.who("owner"), st.who("stranger")
	url, address := st.repo(owner, "demo"), repoAddress(owner, "demo")
	work := st.folder()
	one := work.commit("one")

	announcement := st.held(st.announcement(owner, "demo"))
	st.wantStatus(http.StatusOK, "GET", repoPath(owner, "demo")+"/info/refs?service=git-upload-pack")
	st.c.publish(st, st.event(stranger, 5, nostr.Tag{"a", address}, nostr.Tag{"e", announcement.ID}))
	st.wantStatus(http.StatusOK, "GET", repoPath(owner, "demo")+"/info/refs?service=git-upload-pack")
	st.stored(st.event(owner, 5, nostr.Tag{"a", address}))
	st.until("the repository goes", func() bool { return st.refsOf(url) == "absent" })
	st.held(st.announcement(stranger, "demo"))
	st.refused(st.state(owner, "demo", "refs/heads/main", strings.Repeat("1", 40)), notAuthorizedReason)

	byID := st.held(st.announcement(owner, "demo"))
	st.stored(st.event(owner, 5, nostr.Tag{"e", byID.ID}))
	st.until("the repository goes again", func() bool { return st.refsOf(url) == "absent" })

	st.held(st.announcement(owner, "demo"))
	state := st.held(st.state(owner, "demo", "refs/heads/main", one))
	st.stored(st.event(owner, 5, nostr.Tag{"e", state.ID}))
	work.cannotPush("no state event of a maintainer says so", url, "main")
	st.held(st.state(owner, "demo", "refs/heads/main", one))
	st.stored(st.event(owner, 5, nostr.Tag{"a", strings.Replace(address, "30617", "30618", 1)}))
	work.cannotPush("no state event of a maintainer says so", url, "main")
	pr := st.held(st.pull(stranger, one, address))
	st.stored(st.event(stranger, 5, nostr.Tag{"e", pr.ID}))
	last := st.held(st.state(owner, "demo", "refs/heads/main", one))
	work.push(url, "main")
	st.wantServed(last, true)
	st.wantServed(pr, false)
	st.wantServed(state, false)
}

// deletedWhenServed: a pull request that its author deletes takes its ref along, and
// a deleted announcement its repository. A deletion by anybody else does nothing.
func deletedWhenServed(st *story) {
	owner, contributor, stranger := st.who("owner"), st.who("contributor"), st.who("stranger")
	url, address := st.repo(owner, "demo"), repoAddress(owner, "demo")
	work := st.folder()
	one := st.published(owner, work)
	main := []string{"HEAD=refs/heads/main", "refs/heads/main=" + one}
	two := work.commit("two")
	pr := st.held(st.pull(contributor, two, address))
	work.push(url, two+":"+nostrRef+pr.ID)
	st.c.publish(st, st.event(stranger, 5, nostr.Tag{"e", pr.ID}, nostr.Tag{"a", address}))
	st.wantRefs(url, append(main, nostrRef+pr.ID+"="+two)...)
	st.stored(st.event(contributor, 5, nostr.Tag{"e", pr.ID}))
	st.getRefs(url, main...)
	st.wantServed(pr, false)

	issue := st.stored(st.event(contributor, 1621, nostr.Tag{"a", address}))
	st.stored(st.event(owner, 5, nostr.Tag{"a", address}))
	st.until("the repository goes", func() bool { return st.refsOf(url) == "absent" })
	st.wantStatus(http.StatusNotFound, "GET", repoPath(owner, "demo"))
	if n := st.count(`{"kinds":[30617],"authors":["` + owner.hex() + `"]}`); n != 0 {
		st.Errorf("%d announcements are served", n)
	}
	st.wantServed(issue, true)
	// It can be announced again, and nothing old is in it.
	st.held(st.announcement(owner, "demo"))
	if got := st.refsOf(url); strings.Contains(got, nostrRef) {
		st.Errorf("the new repository has %s", got)
	}
}

// deletedTheSameSecond: clients that hurry sign a deletion and what it deletes in the
// same second, and a new state in the second of a deletion.
func deletedTheSameSecond(st *story) {
	owner := st.who("owner")
	url, address := st.repo(owner, "demo"), repoAddress(owner, "demo")
	work := st.folder()
	one := work.commit("one")
	st.held(st.announcement(owner, "demo"))
	state := st.held(st.state(owner, "demo", "refs/heads/main", one))
	st.stored(st.eventAt(owner, state.CreatedAt, 5, nostr.Tag{"a", strings.Replace(address, "30617", "30618", 1)}))
	work.cannotPush("no state event of a maintainer says so", url, "main")
	// One of that second again is what the deletion was about.
	again := st.stateAt(owner, state.CreatedAt, "demo", "refs/heads/main", one, "refs/heads/x", one)
	if a := st.c.publish(st, again); a.ok {
		st.Errorf("a state of the second of its deletion: %+v", a)
	}
	next := st.held(st.stateAt(owner, state.CreatedAt+1, "demo", "refs/heads/main", one))
	work.push(url, "main")
	st.wantServed(next, true)
	st.now += 10

	// By id, another event of the second is not meant.
	two := work.commit("two")
	first := st.held(st.state(owner, "demo", "refs/heads/main", two))
	st.stored(st.eventAt(owner, first.CreatedAt, 5, nostr.Tag{"e", first.ID}))
	work.cannotPush("the newest state event", url, "main")
	second := st.held(st.stateAt(owner, first.CreatedAt, "demo", "HEAD", "ref: refs/heads/main", "refs/heads/main", two))
	work.push(url, "main")
	st.wantServed(second, true)

	// A held announcement of the second goes as well, with its repository.
	other := st.held(st.announcement(owner, "other"))
	st.stored(st.eventAt(owner, other.CreatedAt, 5, nostr.Tag{"a", repoAddress(owner, "other")}))
	st.until("the repository goes", func() bool { return st.refsOf(st.repo(owner, "other")) == "absent" })
}
