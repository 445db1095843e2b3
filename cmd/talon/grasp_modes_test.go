package main

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/nbd-wtf/go-nostr"

	"talon/internal/testkit"
)

// elsewhere is an announcement for another service.
func (st *story) elsewhere(who person, id, domain string) *nostr.Event {
	st.Helper()
	return st.event(who, 30617, nostr.Tag{"d", id}, nostr.Tag{"clone", "https://" + domain + repoPath(who, id)}, nostr.Tag{"relays", "wss://" + domain})
}

func (st *story) wantInfo(key, want string) {
	st.Helper()
	got := ""
	if value, ok := st.info()[key]; ok {
		got = fmt.Sprint(value)
	}
	if want == "" && got != "" || !strings.Contains(got, want) {
		st.Errorf("%s is %q, want %q", key, got, want)
	}
}

// TestGraspArchive: the operator keeps copies of others' repositories (GRASP-05), and
// changes her mind about which, while the service runs. Nobody pushes to a copy, and
// git says why; a repository that lists the service stays writable.
func TestGraspArchive(t *testing.T) {
	data := graspData(t)
	t.Parallel()
	dir := pluginFolder(t, "grasp")
	s := startGrasp(t, data, dir)
	st := newStory(t, s)
	owner, other := st.who("owner"), st.who("other")
	work := st.folder()
	st.published(owner, work)

	st.refused(st.elsewhere(other, "a", "their.test"), notListedReason)
	st.wantInfo("supported_grasps", "[GRASP-01 GRASP-06]")
	st.wantInfo("curation", "")
	archived := func(who person, id, domain string) {
		t.Helper()
		st.held(st.elsewhere(who, id, domain))
		url := st.repo(who, id)
		st.wantRefs(url)
		commit := work.commit(id)
		state := st.held(st.state(who, id, "refs/heads/main", commit))
		work.cannotPush(archiveReason, url, commit+":refs/heads/main")
		work.cannotPush(archiveReason, url, commit+":refs/nostr/"+strings.Repeat("a", 64))
		st.wantServed(state, false)
	}
	stranger, third := st.who("stranger"), st.who("third")
	configure(t, s, dir, "grasp", `archive = ["`+other.npub()+`", "`+third.npub()+`/c", "d"]
archive_services = ["their.test"]`)
	st.wantInfo("supported_grasps", "[GRASP-01 GRASP-05 GRASP-06]")
	st.wantInfo("curation", "operator's list")
	st.wantInfo("curation", "their.test")
	archived(other, "b", "any.test")
	archived(third, "c", "any.test")
	archived(stranger, "d", "any.test")
	archived(stranger, "e", "their.test")
	st.refused(st.elsewhere(third, "b", "any.test"), notListedReason)
	st.refused(st.elsewhere(stranger, "c", "any.test"), notListedReason)
	st.refused(st.elsewhere(stranger, "dd", "x.not.their.test"), notListedReason)

	configure(t, s, dir, "grasp", "archive_all = true")
	st.wantInfo("supported_grasps", "[GRASP-01 GRASP-05 GRASP-06]")
	st.wantInfo("curation", "")
	archived(stranger, "f", "any.test")
	// Those that list the service are no copies.
	two := work.commit("two")
	state := st.held(st.state(owner, "demo", "refs/heads/main", two))
	work.push(st.repo(owner, "demo"), two+":refs/heads/main")
	st.wantServed(state, true)
	// Its owner moves away: from now on it is a copy.
	st.stored(st.elsewhere(owner, "demo", "their.test"))
	three := work.commit("three")
	st.held(st.state(owner, "demo", "refs/heads/main", three))
	work.cannotPush(archiveReason, st.repo(owner, "demo"), three+":refs/heads/main")
	st.wantRefs(st.repo(owner, "demo"), "HEAD=refs/heads/main", "refs/heads/main="+two)
	if page := st.wantStatus(http.StatusOK, "GET", repoPath(owner, "demo")).body; !strings.Contains(page, "read-only archive") {
		t.Errorf("the page does not say that it is a copy:\n%s", page)
	}
	// And back again; then the operator closes everything.
	st.stored(st.announcement(owner, "demo"))
	work.push(st.repo(owner, "demo"), three+":refs/heads/main")
	configure(t, s, dir, "grasp", "read_only = true")
	four := work.commit("four")
	st.held(st.state(owner, "demo", "refs/heads/main", four))
	work.cannotPush(archiveReason, st.repo(owner, "demo"), four+":refs/heads/main")
	st.wantInfo("repo_acceptance_criteria", "Nothing can be pushed")
	st.refused(st.elsewhere(other, "g", "their.test"), notListedReason)
}

// TestGraspModeration: the operator denies an author, a repository and a name, and then
// hosts chosen repositories only, while the service runs; NIP-11 follows. Earlier events
// and repositories stay, unless they are denied.
func TestGraspModeration(t *testing.T) {
	data := graspData(t)
	t.Parallel()
	dir := pluginFolder(t, "lists", "grasp")
	s := startGrasp(t, data, dir)
	st := newStory(t, s)
	owner, friend, spammer := st.who("owner"), st.who("friend"), st.who("spammer")
	work := st.folder()
	one := st.published(owner, work)
	const (
		deniedAuthor = "blocked: this author may not write here"
		denied       = "blocked: this repository is not welcome here"
		curated      = "blocked: this service hosts chosen repositories only"
	)
	st.stored(st.event(spammer, 1621, nostr.Tag{"a", repoAddress(owner, "demo")}))
	st.held(st.announcement(spammer, "spam"))
	st.held(st.announcement(owner, "unwanted"))
	st.held(st.state(owner, "unwanted", "refs/heads/main", work.commit("unwanted")))

	configure(t, s, dir, "grasp", `deny = ["`+spammer.npub()+`", "`+owner.npub()+`/unwanted", "casino"]`)
	st.refused(st.event(spammer, 1621, nostr.Tag{"a", repoAddress(owner, "demo")}), deniedAuthor)
	st.refused(st.announcement(spammer, "more"), deniedAuthor)
	st.refused(st.state(spammer, "spam", "refs/heads/main", one), deniedAuthor)
	st.refused(st.announcement(owner, "unwanted"), denied)
	st.refused(st.state(owner, "unwanted", "refs/heads/main", one), denied)
	st.refused(st.announcement(friend, "casino"), denied)
	st.refused(st.event(friend, 1621, nostr.Tag{"a", repoAddress(owner, "unwanted")}), unrelatedReason)
	work.cannotPush("this repository is not welcome here", st.repo(owner, "unwanted"), "main")
	work.cannotPush("this author may not write here", st.repo(spammer, "spam"), one+":refs/nostr/"+strings.Repeat("a", 64))
	st.held(st.announcement(friend, "casinos"))
	st.wantInfo("curation", "")

	configure(t, s, dir, "grasp", `allow = ["`+friend.npub()+`", "chosen"]
max_repositories_per_author = 3`)
	st.wantInfo("curation", "operator's list")
	st.refused(st.announcement(owner, "new"), curated)
	st.held(st.announcement(friend, "any"))
	st.held(st.announcement(owner, "chosen"))
	st.stored(st.announcement(owner, "demo")) // was here before
	two := work.commit("two")
	st.held(st.state(owner, "demo", "refs/heads/main", two))
	work.push(st.repo(owner, "demo"), "main")

	st.held(st.announcement(friend, "third"))
	st.refused(st.announcement(friend, "fourth"), "blocked: you have 3 repositories here, which is as many as one author may have")

	// The general lists come first, and count for git's events as for all others.
	configure(t, s, dir, "lists", `deny_authors = ["`+friend.npub()+`"]`)
	st.refused(st.announcement(friend, "third"), deniedAuthor)
}

// TestGraspWithoutPRs: an operator who takes no pull requests for repositories
// elsewhere has nothing under /prs/, and says nothing of GRASP-06.
func TestGraspWithoutPRs(t *testing.T) {
	data := graspData(t)
	t.Parallel()
	s := startGrasp(t, data, pluginFolder(t, "grasp"), "--prs=false")
	st := newStory(t, s)
	owner, contributor := st.who("owner"), st.who("contributor")
	work := st.folder()
	one := st.published(owner, work)
	st.wantInfo("supported_grasps", "[GRASP-01]")
	path := "/prs" + repoPath(contributor, "demo")
	for _, rest := range []string{"", "/info/refs?service=git-upload-pack", "/info/refs?service=git-receive-pack"} {
		st.wantStatus(http.StatusNotFound, "GET", path+rest)
	}
	st.refused(st.prsPull(contributor, "other", one, repoAddress(owner, "other")), unrelatedReason)
	if _, err := gitAs(work.dir, "push", st.web+path, one+":refs/nostr/"+strings.Repeat("a", 64)); err == nil {
		t.Error("a push under /prs/ went through")
	}
	// For a repository that is here, the pull request is one like any other.
	two := work.commit("two")
	pr := st.held(st.prsPull(contributor, "demo", two, repoAddress(owner, "demo")))
	work.push(st.repo(owner, "demo"), two+":refs/nostr/"+pr.ID)
	st.wantServed(pr, true)
}

// TestGraspListens: a service without a configured domain is reached at what it listens
// on, with the port.
func TestGraspListens(t *testing.T) {
	data := graspData(t)
	t.Parallel()
	at := testkit.FreeAddress(t)
	t.Cleanup(func() { mustCheck(t, data) })
	st := newStory(t, start(t, data, "--plugins", pluginFolder(t, "grasp"), "--listen", at))
	owner := st.who("owner")
	work := st.folder()
	one := work.commit("one")
	announce := func(clone, relay string) *nostr.Event {
		return st.event(owner, 30617, nostr.Tag{"d", "demo"}, nostr.Tag{"clone", clone + repoPath(owner, "demo")}, nostr.Tag{"relays", relay})
	}
	st.refused(st.announcement(owner, "demo"), notListedReason)
	st.refused(announce("http://127.0.0.1", "ws://127.0.0.1"), notListedReason)
	st.refused(announce("http://localhost"+at[strings.IndexByte(at, ':'):], "ws://"+at), notListedReason)
	announcement := st.held(announce(st.web, st.s.url))
	st.held(st.state(owner, "demo", "refs/heads/main", one))
	work.push(st.repo(owner, "demo"), "main")
	st.wantServed(announcement, true)
}

// TestGeneralPurpose: one line makes the same modules a relay for everybody, which
// takes what has nothing to do with git.
func TestGeneralPurpose(t *testing.T) {
	data := graspData(t)
	t.Parallel()
	dir := pluginFolder(t, graspChain...)
	s := startGrasp(t, data, dir)
	st := newStory(t, s)
	stranger := st.who("stranger")
	note := st.refused(st.event(stranger, 1), unrelatedReason)
	configure(t, s, dir, "open", "every = true")
	st.stored(note)
	st.stored(st.event(stranger, 0))
	st.stored(st.event(stranger, 30023, nostr.Tag{"d", "x"}))
	st.stored(st.event(stranger, 30618, nostr.Tag{"d", "x"}))

	// Repositories that list the service are hosted as ever.
	st.wantInfo("supported_grasps", "[GRASP-01 GRASP-06]")
	owner := st.who("owner")
	work := st.folder()
	one := work.commit("one")
	announcement := st.held(st.announcement(owner, "demo"))
	st.wantRefs(st.repo(owner, "demo"))
	state := st.held(st.state(owner, "demo", "refs/heads/main", one))
	work.push(st.repo(owner, "demo"), one+":refs/heads/main")
	st.wantServed(announcement, true)
	st.wantServed(state, true)
	st.wantRefs(st.repo(owner, "demo"), "HEAD=refs/heads/main", "refs/heads/main="+one)
	pull := st.held(st.pull(stranger, work.commit("two"), repoAddress(owner, "demo")))
	work.push(st.repo(owner, "demo"), "main:refs/nostr/"+pull.ID)
	st.wantServed(pull, true)

	// Those elsewhere are events like others.
	st.stored(st.elsewhere(stranger, "far", "their.test"))
	st.stored(st.state(stranger, "far", "refs/heads/main", one))
	st.stored(st.pull(owner, one, repoAddress(stranger, "far")))
	st.wantStatus(http.StatusNotFound, "GET", repoPath(stranger, "far")+"/info/refs?service=git-upload-pack")
	// Until their owners list the service.
	moved := st.held(st.announcement(stranger, "far"))
	st.wantRefs(st.repo(stranger, "far"))
	work.push(st.repo(stranger, "far"), one+":refs/heads/main")
	st.becomesServed(moved)
	configure(t, s, dir, "open", "every = false")
	st.refused(st.event(stranger, 1), unrelatedReason)
}

// TestWithoutGrasp: without the module there are no repositories: announcements are
// events like others, nothing is held, and every question of git's is answered by a
// page that says that there is nothing.
func TestWithoutGrasp(t *testing.T) {
	data := graspData(t)
	t.Parallel()
	dir := pluginFolder(t, "limits", "open")
	drop(t, dir, "open.toml", []byte("[config]\nevery = true\n"))
	st := newStory(t, startGrasp(t, data, dir))
	owner := st.who("owner")
	work := st.folder()
	one := work.commit("one")
	for _, e := range []*nostr.Event{
		st.announcement(owner, "demo"), st.elsewhere(owner, "other", "their.test"), st.state(owner, "demo", "refs/heads/main", one),
		st.state(st.who("stranger"), "nothing", "refs/heads/main", one), st.pull(owner, one, repoAddress(owner, "demo")), st.event(owner, 1),
	} {
		st.stored(e)
	}
	for _, path := range []string{repoPath(owner, "demo"), repoPath(owner, "other")} {
		for _, rest := range []string{"", "/info/refs?service=git-upload-pack", "/info/refs?service=git-receive-pack"} {
			st.wantStatus(http.StatusNotFound, "GET", path+rest)
		}
	}
	if out, err := gitAs(work.dir, "push", st.repo(owner, "demo"), "main"); err == nil || !strings.Contains(out, "not found") {
		t.Errorf("a push: %v\n%s", err, out)
	}
	st.wantInfo("supported_grasps", "")
	st.wantInfo("repo_acceptance_criteria", "Every valid event is stored")
	st.wantStatus(http.StatusOK, "GET", "/")
}
