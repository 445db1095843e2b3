package repos

import (
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"talon/host"
	"talon/internal/testkit"
	"talon/sdk/grasp"
	"talon/sdk/nip19"
)

// TestAnnouncePushClone: alice announces a repository, says what it will have, pushes
// with plain git, and everybody can clone it.
func TestAnnouncePushClone(t *testing.T) {
	w, work, one := newWork(t)

	announcement := w.sent(w.announce(alice, "demo"), host.Held)
	// Held is enough to look at it.
	if out := work.git("ls-remote", w.url(alice, "demo")); out != "" {
		t.Errorf("a new repository has %s", out)
	}
	if out, err := work.try("push", w.url(alice, "demo"), "main"); err == nil || !strings.Contains(out, "state event") {
		t.Errorf("a push without a state: %v %s", err, out)
	}
	state := w.sent(w.state(alice, "demo", "HEAD", "ref: refs/heads/main", "refs/heads/main", one), host.Held)
	w.wantServed(announcement, false)
	work.git("push", w.url(alice, "demo"), "main")
	w.wantServed(announcement, true)
	w.wantServed(state, true)
	w.wantRefs(demo(alice), "HEAD=refs/heads/main", "refs/heads/main="+one)
	if out := work.git("ls-remote", w.url(alice, "demo")); !strings.Contains(out, one) {
		t.Errorf("the clone has %s", out)
	}
}

// TestWhoMayPush: a state counts only if a maintainer of the repository has signed it. The chain
// of announcements between the owner and that maintainer may have any length.
func TestWhoMayPush(t *testing.T) {
	w := newWorld(t)
	work := w.workspace()
	commit := work.commit("one")
	w.sent(w.announce(alice, "demo", bob), host.Held)
	// Bob's announcement lists carol, and other servers: he has no repository here.
	w.sent(w.event(bob, grasp.KindAnnouncement, host.Tag{"d", "demo"}, host.Tag{"maintainers", carol.PubKey.String()}), host.Stored)

	state := w.sent(w.state(eve, "demo", "refs/heads/main", commit), host.Held)
	if out, err := work.try("push", w.url(alice, "demo"), "main"); err == nil {
		t.Errorf("a stranger's state moved refs: %s", out)
	}
	w.wantServed(state, false)
	for i, who := range []*testkit.Signer{alice, bob, carol} {
		commit := work.commit(strings.Repeat("x", i+1))
		state := w.sent(w.state(who, "demo", "refs/heads/main", commit), host.Held)
		work.git("push", w.url(alice, "demo"), "main")
		w.wantServed(state, true)
	}
	w.wantRefs(demo(bob), "absent")
}

// TestMaintainersRepositoriesFollow: bob has a repository of the same identifier, and alice
// counts in it. A commit that she pushes to her repository is in his a moment later, and costs
// no second copy.
func TestMaintainersRepositoriesFollow(t *testing.T) {
	w, work, one := newWork(t)
	w.sent(w.announce(alice, "demo", bob), host.Held)
	his := w.sent(w.announce(bob, "demo", alice), host.Held)
	w.sent(w.state(alice, "demo", "refs/heads/main", one), host.Held)
	work.git("push", w.url(alice, "demo"), "main")
	w.waitIdle()
	w.wantServed(his, true)
	w.wantRefs(demo(bob), "HEAD=refs/heads/main", "refs/heads/main="+one)
	repo, err := w.disk.repo(demo(bob))
	w.must(err)
	if found, err := repo.Has(t.Context(), one); err != nil || !found[0] {
		t.Errorf("bob's repository has no %s: %v", one, err)
	}
}

// TestNobodyIsPromotedByOthers: eve names alice as her maintainer. Alice's push brings
// eve's repository in line, as GRASP wants, but nobody serves eve's announcement for it.
func TestNobodyIsPromotedByOthers(t *testing.T) {
	w, work, one := newWork(t)
	w.sent(w.announce(alice, "demo"), host.Held)
	hers := w.sent(w.announce(eve, "demo", alice), host.Held)
	w.sent(w.state(alice, "demo", "refs/heads/main", one), host.Held)
	work.git("push", w.url(alice, "demo"), "main")
	w.waitIdle()
	w.wantRefs(demo(eve), "HEAD=refs/heads/main", "refs/heads/main="+one)
	w.wantServed(hers, false)
	w.restart()
	w.waitIdle()
	w.wantServed(hers, false)
}

// TestManyNameABusyMaintainer: a push brings few of those in line who name its author
// and wait for data of their own.
func TestManyNameABusyMaintainer(t *testing.T) {
	w, work, one := newWork(t)
	w.sent(w.announce(alice, "demo", bob), host.Held)
	w.sent(w.announce(bob, "demo", alice), host.Held)
	var strangers []*testkit.Signer
	for i := range maxUnserved + 8 {
		strangers = append(strangers, testkit.NewSigner(byte(100+i)))
		w.sent(w.announce(strangers[i], "demo", alice), host.Held)
	}
	w.sent(w.state(alice, "demo", "refs/heads/main", one), host.Held)
	w.waitIdle() // who comes while data comes, follows it
	work.git("push", w.url(alice, "demo"), "main")
	w.waitIdle()
	follow := 0
	for _, who := range strangers {
		if strings.Contains(w.refs(demo(who)), one) {
			follow++
		}
	}
	if follow != maxUnserved {
		t.Errorf("%d repositories of strangers follow, want %d", follow, maxUnserved)
	}
	w.wantRefs(demo(bob), "HEAD=refs/heads/main", "refs/heads/main="+one)
}

// TestStatesOutOfOrder: two states wait; the older one is pushed first and served, then
// the newer one. Afterwards the older one moves nothing any more.
func TestStatesOutOfOrder(t *testing.T) {
	w, work, one := newWork(t)
	two := work.commit("two")
	w.sent(w.announce(alice, "demo"), host.Held)
	older := w.sent(w.state(alice, "demo", "refs/heads/main", one), host.Held)
	newer := w.sent(w.state(alice, "demo", "refs/heads/main", two), host.Held)

	work.git("push", w.url(alice, "demo"), one+":refs/heads/main")
	w.wantServed(older, true)
	w.wantServed(newer, false)
	work.git("push", w.url(alice, "demo"), two+":refs/heads/main")
	w.wantServed(newer, true)
	w.wantServed(older, false) // replaced
	if out, err := work.try("push", "--force", w.url(alice, "demo"), one+":refs/heads/main"); err == nil {
		t.Errorf("an old state rolled the repository back: %s", out)
	}
	w.wantRefs(demo(alice), "HEAD=refs/heads/main", "refs/heads/main="+two)
}

// TestStateOfWhatIsHere: a state whose objects have all come before takes effect by
// itself: branches made, moved and deleted, a force push, HEAD.
func TestStateOfWhatIsHere(t *testing.T) {
	w, work, one := newWork(t)
	work.git("tag", "-a", "v1", "-m", "v1")
	tag := work.git("rev-parse", "v1")
	two := work.commit("two")
	w.sent(w.announce(alice, "demo"), host.Held)
	w.sent(w.state(alice, "demo", "refs/heads/main", two, "refs/heads/old", one, "refs/tags/v1", tag, "refs/tags/v1^{}", one), host.Held)
	work.git("push", w.url(alice, "demo"), "main", one+":refs/heads/old", "v1")

	state := w.sent(w.state(alice, "demo", "HEAD", "refs/heads/old/deep", "refs/heads/main", one, "refs/heads/old/deep", two), host.Held)
	w.waitIdle()
	w.wantServed(state, true)
	w.wantRefs(demo(alice), "HEAD=refs/heads/old/deep", "refs/heads/main="+one, "refs/heads/old/deep="+two)
}

// TestImpossibleStates checks that a state whose data cannot exist is never served, and harms
// nobody.
func TestImpossibleStates(t *testing.T) {
	w, work, one := newWork(t)
	blob := work.git("rev-parse", "HEAD:file")
	w.sent(w.announce(alice, "demo"), host.Held)
	good := w.sent(w.state(alice, "demo", "refs/heads/main", one), host.Held)
	work.git("push", w.url(alice, "demo"), "main")
	for _, refs := range [][]string{
		{"refs/heads/main", "deadbeef"},
		{"refs/heads/main", strings.Repeat("d", 40)},
		{"refs/heads/main", "--upload-pack=x"},
		{"refs/heads/main", blob},
		{"refs/heads/a..b", one},
		{"refs/heads/main", one, "refs/heads/main/sub", one},
	} {
		state := w.sent(w.state(alice, "demo", refs...), host.Held)
		w.waitIdle()
		w.wantServed(state, false)
	}
	w.wantServed(good, true)
	w.wantRefs(demo(alice), "HEAD=refs/heads/main", "refs/heads/main="+one)
}

// TestImpossibleStateTakesNothing: a state that git rejects removes no branch, also if no other
// state names that branch.
func TestImpossibleStateTakesNothing(t *testing.T) {
	w, work, one := newWork(t)
	blob := work.git("rev-parse", "HEAD:file")
	w.sent(w.announce(alice, "demo"), host.Held)
	good := w.sent(w.state(alice, "demo", "refs/heads/main", one, "refs/heads/old", one), host.Held)
	work.git("push", w.url(alice, "demo"), "main", "main:old")
	w.sent(w.event(alice, 5, host.Tag{"e", good.ID.String()}), host.Stored)
	state := w.sent(w.state(alice, "demo", "refs/heads/main", blob), host.Held)
	w.waitIdle()
	w.wantServed(state, false)
	w.wantRefs(demo(alice), "HEAD=refs/heads/main", "refs/heads/main="+one, "refs/heads/old="+one)
}

// TestDeleted: a repository goes with its announcement, held or served, and a state
// that was deleted allows no push.
func TestDeleted(t *testing.T) {
	w, work, one := newWork(t)
	at := demo(alice)

	first := w.sent(w.announce(alice, "demo"), host.Held)
	w.waitIdle()
	w.sent(w.event(alice, 5, host.Tag{"a", at.Address()}), host.Stored)
	w.waitIdle()
	w.wantHeld(first, false)
	w.wantRefs(at, "absent")

	w.sent(w.announce(alice, "demo"), host.Held)
	state := w.sent(w.state(alice, "demo", "refs/heads/main", one), host.Held)
	w.sent(w.event(alice, 5, host.Tag{"e", state.ID.String()}), host.Stored)
	if out, err := work.try("push", w.url(alice, "demo"), "main"); err == nil {
		t.Errorf("a deleted state allowed a push: %s", out)
	}
	w.sent(w.state(alice, "demo", "refs/heads/main", one), host.Held)
	work.git("push", w.url(alice, "demo"), "main")
	w.sent(w.event(alice, 5, host.Tag{"a", at.Address()}), host.Stored)
	w.waitIdle()
	w.wantRefs(at, "absent")
	if out, err := work.try("ls-remote", w.url(alice, "demo")); err == nil {
		t.Errorf("a deleted repository is served: %s", out)
	}
}

// TestTimePasses: half an hour after its announcement a repository that nobody has
// pushed to goes, the announcement stays for a day, and a state brings both back.
func TestTimePasses(t *testing.T) {
	w, work, one := newWork(t)
	at := demo(alice)
	announcement := w.sent(w.announce(alice, "demo"), host.Held)
	w.wantHere(at, true)
	w.clock.Add(31 * 60)
	w.until("the repository goes", func() bool { return !w.here(at) })
	w.wantHeld(announcement, true)
	if out, err := work.try("ls-remote", w.url(alice, "demo")); err == nil || !strings.Contains(out, "not found") {
		t.Errorf("a dormant repository answers %v\n%s", err, out)
	}

	w.sent(w.state(alice, "demo", "refs/heads/main", one), host.Held)
	work.git("push", w.url(alice, "demo"), "main")
	w.wantServed(announcement, true)
	w.clock.Add(48 * 60 * 60)
	w.restart()
	w.waitIdle()
	w.wantServed(announcement, true)
	w.wantRefs(at, "HEAD=refs/heads/main", "refs/heads/main="+one)
}

// TestServedBeforeItsRepository: an announcement that is served without a repository, and
// whose successor gets one and waits in vain, is left without one.
func TestServedBeforeItsRepository(t *testing.T) {
	w := newWorld(t)
	at := demo(alice)
	plain := w.sent(w.event(alice, 30617, host.Tag{"d", "demo"}, host.Tag{"clone", "https://elsewhere.test/x.git"}, host.Tag{"relays", "wss://elsewhere.test"}), host.Stored)
	w.waitIdle()
	w.wantRefs(at, "absent")
	announcement := w.sent(w.announce(alice, "demo"), host.Held)
	w.waitIdle()
	w.folder(at) // of an older Talon, or of a push that failed
	w.wantServed(plain, true)
	w.clock.Add(31 * 60)
	w.until("the repository goes", func() bool { return w.refs(at) == "absent" })
	w.waitIdle()
	w.wantHeld(announcement, true)
	w.wantServed(plain, true)
}

// TestPullRequest: a contributor pushes a commit and sends its event, in either order.
func TestPullRequest(t *testing.T) {
	w, work, one := newWork(t)
	at := demo(alice)
	w.sent(w.announce(alice, "demo"), host.Held)
	w.sent(w.state(alice, "demo", "refs/heads/main", one), host.Held)
	work.git("push", w.url(alice, "demo"), "main")
	two := work.commit("two")
	three := work.commit("three")
	main := "refs/heads/main=" + one

	// The event first: only its own tip is taken.
	pr := w.sent(w.pullRequest(eve, two, at.Repo), host.Held)
	name := "refs/nostr/" + pr.ID.String()
	if out, err := work.try("push", w.url(alice, "demo"), three+":"+name); err == nil {
		t.Errorf("a wrong tip was taken: %s", out)
	}
	work.git("push", w.url(alice, "demo"), two+":"+name)
	w.wantServed(pr, true)
	w.wantRefs(at, "HEAD=refs/heads/main", main, name+"="+two)

	// The ref first.
	later := w.pullRequest(eve, three, at.Repo)
	other := "refs/nostr/" + later.ID.String()
	work.git("push", w.url(alice, "demo"), three+":"+other)
	w.sent(later, host.Held)
	w.waitIdle()
	w.wantServed(later, true)
	if w.reconciler.waiting.len() != 0 {
		t.Error("its ref still waits for it")
	}

	// The data is here already: the event alone is enough.
	again := w.sent(w.pullRequest(bob, two, at.Repo), host.Held)
	w.waitIdle()
	w.wantServed(again, true)

	// A deleted pull request takes its ref along.
	w.sent(w.event(eve, 5, host.Tag{"e", pr.ID.String()}), host.Stored)
	w.waitIdle()
	if got := w.refs(at); strings.Contains(got, name) || !strings.Contains(got, other) {
		t.Errorf("after the deletion there is %s", got)
	}
}

// TestPullRequestNamedTwice: a round for the whole repository also names one of its pull requests.
// Git refuses a transaction with two updates of a ref.
func TestPullRequestNamedTwice(t *testing.T) {
	w, work, one := newWork(t)
	at := demo(alice)
	w.sent(w.announce(alice, "demo"), host.Held)
	w.sent(w.state(alice, "demo", "refs/heads/main", one), host.Held)
	work.git("push", w.url(alice, "demo"), "main")
	pr := w.sent(w.pullRequest(eve, one, at.Repo), host.Held)
	w.waitIdle()
	w.wantServed(pr, true)
	name := "refs/nostr/" + pr.ID.String()
	repo, err := w.disk.repo(at)
	w.must(err)
	unlock, err := repo.Lock(t.Context())
	w.must(err)
	err = repo.UpdateRefs(t.Context(), []host.RefUpdate{{Ref: name, Old: one, New: zeros(one)}})
	unlock()
	w.must(err)
	w.must(w.reconciler.round(at, task{all: true, ids: setOf(pr.ID)}))
	w.wantRefs(at, "HEAD=refs/heads/main", "refs/heads/main="+one, name+"="+one)
}

// TestRefsWithoutEvent: a ref whose event never comes goes after 20 minutes, also if the service
// restarts in that time. A ref goes immediately if its event comes and names another commit.
func TestRefsWithoutEvent(t *testing.T) {
	w, work, one := newWork(t)
	two := work.commit("two")
	at := demo(alice)
	w.sent(w.announce(alice, "demo"), host.Held)
	lie := w.pullRequest(eve, two, at.Repo)
	if out, err := work.try("push", w.url(alice, "demo"), one+":refs/nostr/"+lie.ID.String()); err == nil || !strings.Contains(out, "waits for its first push") {
		t.Errorf("a repository that waits for its first push answers %v\n%s", err, out)
	}
	w.sent(w.state(alice, "demo", "refs/heads/main", one), host.Held)
	work.git("push", w.url(alice, "demo"), one+":refs/heads/main")
	main := "refs/heads/main=" + one
	work.git("push", w.url(alice, "demo"), one+":refs/nostr/"+strings.Repeat("a", 64), one+":refs/nostr/"+lie.ID.String())
	w.sent(lie, host.Held)
	w.waitIdle()
	w.wantServed(lie, false)
	w.wantRefs(at, "HEAD=refs/heads/main", main, "refs/nostr/"+strings.Repeat("a", 64)+"="+one)
	w.clock.Add(15 * 60)
	w.restart()
	w.waitIdle()
	if w.reconciler.waiting.len() != 1 {
		t.Fatalf("%d refs wait, want 1", w.reconciler.waiting.len())
	}
	w.clock.Add(6 * 60)
	_, err := w.reconciler.askForDue(t.Context())
	w.must(err)
	w.until("the ref goes", func() bool { return w.refs(at) == "HEAD=refs/heads/main\n"+main })
	w.until("nothing waits", func() bool { return w.reconciler.waiting.len() == 0 })
}

// TestContributorsOwnPlace: a pull request is pushed to /prs/ of its author (GRASP-06),
// for a repository that is not announced here, which gets it when it is.
func TestContributorsOwnPlace(t *testing.T) {
	w, work, one := newWork(t)
	prs := location{Repo: repoOf(eve, "demo"), prs: true}
	url := w.server.URL + "/prs" + repoOf(eve, "demo").Path()
	// Nothing was pushed: an empty repository, that is nowhere on disk.
	if out := work.git("ls-remote", url); out != "" {
		t.Errorf("an empty place has %s", out)
	}
	if out, err := work.try("push", url, "main"); err == nil || strings.Contains(out, "not found") {
		t.Errorf("a branch was taken, or the reason is wrong: %s", out)
	}
	w.wantRefs(prs, "absent")

	pr := w.event(eve, grasp.KindPullRequest, host.Tag{"c", one}, host.Tag{"a", repoOf(alice, "demo").Address()},
		host.Tag{"clone", "https://" + domain + "/prs" + repoOf(eve, "demo").Path()})
	work.git("push", url, one+":refs/nostr/"+pr.ID.String())
	w.sent(pr, host.Held)
	w.waitIdle()
	w.wantServed(pr, true)

	// The ref of another signer's event goes when its time is up.
	two := work.commit("two")
	wrong := w.event(bob, grasp.KindPullRequest, host.Tag{"c", two}, host.Tag{"a", repoOf(alice, "demo").Address()},
		host.Tag{"clone", "https://" + domain + "/prs" + repoOf(bob, "demo").Path()})
	work.git("push", url, two+":refs/nostr/"+wrong.ID.String())
	w.sent(wrong, host.Held)
	w.waitIdle()
	w.wantServed(wrong, false)
	w.clock.Add(21 * 60)
	_, err := w.reconciler.askForDue(t.Context())
	w.must(err)
	w.waitIdle()
	w.wantRefs(prs, "HEAD=refs/heads/master", "refs/nostr/"+pr.ID.String()+"="+one)

	// Maintenance sets aside what no ref reaches, and drops it when it is old.
	w.must(w.reconciler.maintainAll(t.Context()))
	aside, err := filepath.Glob(filepath.Join(w.data, "git-prs", ".shared", "sha1", "demo.git", "objects", "pack", "*.mtimes"))
	w.must(err)
	if len(aside) != 1 {
		t.Errorf("objects that no ref reaches are in %d packs of their own, want 1", len(aside))
	}

	// The announcement comes later: the pull request is in its repository, too.
	w.sent(w.announce(alice, "demo"), host.Held)
	w.waitIdle()
	w.wantRefs(demo(alice), "HEAD=refs/heads/master", "refs/nostr/"+pr.ID.String()+"="+one)
}

// TestCrash: refs have landed and the commit has not; the next start finishes it.
func TestCrash(t *testing.T) {
	w, work, one := newWork(t)
	at := demo(alice)
	announcement := w.sent(w.announce(alice, "demo"), host.Held)
	state := w.sent(w.state(alice, "demo", "refs/heads/main", one), host.Held)
	w.waitIdle()
	w.folder(at)
	w.halt()
	repo, err := w.disk.repo(at)
	w.must(err)
	work.git("push", repo.Dir(), "main")
	w.start()
	w.until("the events are served", func() bool { return w.served(state) && w.served(announcement) })
	w.wantRefs(at, "HEAD=refs/heads/main", "refs/heads/main="+one)
}

// TestCrashOfMaintainer: the same with the state of a maintainer who announces nothing.
// If others announce the identifier, the refs tell whose data came; if nobody does, the
// objects alone.
func TestCrashOfMaintainer(t *testing.T) {
	for name, others := range map[string]bool{"alone": false, "among others": true} {
		t.Run(name, func(t *testing.T) {
			w, work, one := newWork(t)
			at := demo(alice)
			state := w.sent(w.state(bob, "demo", "refs/heads/main", one), host.Held)
			announcement := w.sent(w.announce(alice, "demo", bob), host.Held)
			if others {
				w.sent(w.announce(eve, "demo"), host.Held)
			}
			w.waitIdle()
			w.folder(at)
			w.halt()
			repo, err := w.disk.repo(at)
			w.must(err)
			work.git("push", repo.Dir(), "main")
			if !others {
				work.git("push", repo.Dir(), ":main")
			}
			w.start()
			w.until("the events are served", func() bool { return w.served(state) && w.served(announcement) })
			w.wantRefs(at, "HEAD=refs/heads/main", "refs/heads/main="+one)
		})
	}
}

// TestCrashWithoutState: refs landed, and the state that allowed them is gone at the next start.
// The refs go.
func TestCrashWithoutState(t *testing.T) {
	w := newWorld(t)
	work := w.workspace()
	work.commit("one")
	at := demo(alice)
	announcement := w.sent(w.announce(alice, "demo"), host.Held)
	w.waitIdle()
	w.folder(at)
	w.halt()
	repo, err := w.disk.repo(at)
	w.must(err)
	work.git("push", repo.Dir(), "main")
	w.start()
	w.until("the refs go", func() bool { return !strings.Contains(w.refs(at), "main=") })
	w.waitIdle()
	w.wantServed(announcement, false)
}

// TestPolicyRefuses: what the rules allow, a policy may refuse, and git shows why.
func TestPolicyRefuses(t *testing.T) {
	w, work, one := newWork(t)
	w.sent(w.announce(alice, "demo"), host.Held)
	state := w.sent(w.state(alice, "demo", "refs/heads/main", one), host.Held)
	why := grasp.ReasonArchived
	w.policy.refusing.Store(&why)
	if out, err := work.try("push", w.url(alice, "demo"), "main"); err == nil || !strings.Contains(strings.Join(strings.Fields(strings.ReplaceAll(out, "remote:", "")), " "), why) {
		t.Errorf("the client hears %s", out)
	}
	w.wantServed(state, false)
}

// TestSHA256: a repository whose first state names objects by SHA-256 is made so.
func TestSHA256(t *testing.T) {
	w := newWorld(t)
	work := w.workspace("--object-format=sha256")
	one := work.commit("one")
	w.sent(w.announce(alice, "demo"), host.Held)
	state := w.sent(w.state(alice, "demo", "refs/heads/main", one), host.Held)
	work.git("push", w.url(alice, "demo"), "main")
	w.wantServed(state, true)
}

// TestIdentifiers: whatever an identifier is made of, it has one repository.
func TestIdentifiers(t *testing.T) {
	w, work, one := newWork(t)
	for _, id := range []string{"a:b", "two words", "🦅", strings.Repeat("long", 50), "UPPER", "upper", "a%2Fb", "-x", "--upload-pack=x"} {
		w.sent(w.announce(alice, id), host.Held)
		state := w.sent(w.state(alice, id, "refs/heads/main", one), host.Held)
		work.git("push", w.url(alice, id), "main")
		w.wantServed(state, true)
	}
}

// TestMaintenance: twenty pushes leave twenty packs, and maintenance one, of which
// nothing is lost.
func TestMaintenance(t *testing.T) {
	w := newWorld(t)
	work := w.workspace()
	w.sent(w.announce(alice, "demo"), host.Held)
	var commit string
	for i := range 20 {
		commit = work.commit(strings.Repeat("x", i+1))
		w.sent(w.state(alice, "demo", "refs/heads/main", commit), host.Held)
		work.git("push", w.url(alice, "demo"), "main")
	}
	packs := func() int {
		list, err := filepath.Glob(filepath.Join(w.data, "git", ".shared", "sha1", "demo.git", "objects", "pack", "*.pack"))
		w.must(err)
		return len(list)
	}
	if n := packs(); n != 20 {
		t.Fatalf("there are %d packs, want 20", n)
	}
	w.must(w.reconciler.maintainAll(t.Context()))
	if n := packs(); n != 1 {
		t.Errorf("after maintenance there are %d packs, want 1", n)
	}
	fresh := filepath.Join(t.TempDir(), "clone")
	work.git("clone", "-q", w.url(alice, "demo"), fresh)
	if got := work.git("-C", fresh, "rev-list", "--count", "HEAD"); got != "20" {
		t.Errorf("the clone has %s commits, want 20", got)
	}
}

// TestSharedObjectsReleaseNobody: bob has pushed what alice signs later, to a repository
// of his own. Eve, who names alice as her maintainer, has its objects that way, since
// repositories of one identifier share them. Her announcement is not served for it; it
// is when the push comes to her.
func TestSharedObjectsReleaseNobody(t *testing.T) {
	w, work, one := newWork(t)
	w.sent(w.announce(bob, "demo"), host.Held)
	w.sent(w.state(bob, "demo", "refs/heads/main", one), host.Held)
	work.git("push", w.url(bob, "demo"), "main")
	hers := w.sent(w.announce(eve, "demo", alice), host.Held)
	at := demo(eve)
	w.sent(w.state(alice, "demo", "refs/heads/main", one), host.Held)
	w.waitIdle()
	w.wantRefs(at, "HEAD=refs/heads/main", "refs/heads/main="+one)
	w.wantServed(hers, false)

	two := work.commit("two")
	w.sent(w.state(alice, "demo", "refs/heads/main", two), host.Held)
	work.git("push", w.url(eve, "demo"), "main")
	w.wantServed(hers, true)
}

// TestPullRequestByOtherWays: the commit of a pull request that waits comes with the
// push of a branch, to the repository or to the one that it follows.
func TestPullRequestByOtherWays(t *testing.T) {
	w := newWorld(t)
	work := w.workspace()
	w.sent(w.announce(alice, "demo", bob), host.Held)
	w.sent(w.announce(bob, "demo", alice), host.Held)
	for _, to := range []*testkit.Signer{alice, bob} {
		commit := work.commit(nip19.EncodeNpub(to.PubKey))
		pr := w.sent(w.pullRequest(eve, commit, repoOf(alice, "demo")), host.Held)
		w.sent(w.state(alice, "demo", "refs/heads/main", commit), host.Held)
		work.git("push", w.url(to, "demo"), "main")
		w.waitIdle()
		w.wantServed(pr, true)
		refs, err := w.disk.repo(demo(alice))
		w.must(err)
		got, _, err := refs.Ref(t.Context(), nostrRefs+pr.ID.String())
		w.must(err)
		if got != commit {
			t.Errorf("its ref is at %q, want %s", got, commit)
		}
	}
}

// TestWaitingWithoutFolder: a repository that waits for its first push answers as an empty one
// and has no folder, also for SHA-256. A push that fails leaves none, and a restart takes away
// one that an older Talon made.
func TestWaitingWithoutFolder(t *testing.T) {
	w, work, one := newWork(t)
	at := demo(alice)
	folders := func() (list []string) {
		t.Helper()
		for _, pattern := range []string{"npub*", ".shared/*/*"} {
			found, err := filepath.Glob(filepath.Join(w.data, "git", pattern))
			w.must(err)
			list = append(list, found...)
		}
		return list
	}
	announcement := w.sent(w.announce(alice, "demo"), host.Held)
	for _, version := range []string{"0", "1", "2"} {
		if out := work.git("-c", "protocol.version="+version, "ls-remote", w.url(alice, "demo")); out != "" {
			t.Errorf("version %s: an empty repository has %s", version, out)
		}
		fresh := filepath.Join(t.TempDir(), "clone")
		work.git("-c", "protocol.version="+version, "clone", "-q", w.url(alice, "demo"), fresh)
		if out, err := work.try("-c", "protocol.version="+version, "-C", fresh, "fetch", w.url(alice, "demo"), one); err == nil {
			t.Errorf("version %s: an object of an empty repository was fetched: %s", version, out)
		}
	}
	if out, err := work.try("push", w.url(alice, "demo"), "main"); err == nil {
		t.Errorf("a push without a state landed: %s", out)
	}
	w.sent(w.state(alice, "demo", "refs/heads/main", one), host.Held)
	if out, err := work.try("push", w.url(alice, "demo"), "main:refs/heads/other"); err == nil {
		t.Errorf("a push of another branch landed: %s", out)
	}
	w.waitIdle()
	if list := folders(); len(list) > 0 {
		t.Errorf("a repository that waits for its first push has the folders %q", list)
	}
	w.folder(at)
	w.restart()
	w.waitIdle()
	if list := folders(); len(list) > 0 {
		t.Errorf("after a restart there are %q", list)
	}
	work.git("push", w.url(alice, "demo"), "main")
	w.wantServed(announcement, true)

	// The format is that of the newest state.
	large := w.workspace("--object-format=sha256")
	two := large.commit("two")
	w.sent(w.announce(bob, "large"), host.Held)
	w.sent(w.state(bob, "large", "refs/heads/main", two), host.Held)
	large.git("ls-remote", w.url(bob, "large"))
	large.git("push", w.url(bob, "large"), "main")
	w.wantRefs(location{Repo: repoOf(bob, "large")}, "HEAD=refs/heads/main", "refs/heads/main="+two)
}

// TestNoQueueOfJobs: a repository whose jobs wait behind those of others answers at once.
func TestNoQueueOfJobs(t *testing.T) {
	w := newWorld(t)
	work := w.workspace()
	for range cap(w.reconciler.slots) {
		w.reconciler.slots <- struct{}{}
	}
	w.sent(w.announce(alice, "demo"), host.Held)
	began := time.Now()
	work.git("ls-remote", w.url(alice, "demo"))
	if took := time.Since(began); took >= finishTime {
		t.Errorf("ls-remote took %v", took)
	}
	for range cap(w.reconciler.slots) {
		<-w.reconciler.slots
	}
}

// TestPathWithoutSuffix: people copy the URL of a page, which needs no .git. Fetch and push work
// there, with git and with libgit2. A name that ends in .git is never another repository's.
func TestPathWithoutSuffix(t *testing.T) {
	w, work, one := newWork(t)
	w.sent(w.announce(alice, "demo"), host.Held)
	w.sent(w.state(alice, "demo", "refs/heads/main", one), host.Held)
	url := strings.TrimSuffix(w.url(alice, "demo"), ".git")
	work.git("push", url, "main")
	if out := work.git("ls-remote", url, "refs/heads/main"); !strings.HasPrefix(out, one) {
		t.Errorf("ls-remote says %q", out)
	}
	copied := filepath.Join(t.TempDir(), "copy")
	work.git("clone", "-q", url, copied)
	if out := testkit.Git(t, copied, "rev-parse", "HEAD"); out != one {
		t.Errorf("the clone is at %s, want %s", out, one)
	}
	if out, err := work.try("ls-remote", url+".git.git"); err == nil {
		t.Errorf("another name: %s", out)
	}
	if out, err := work.try("ls-remote", url+"/more"); err == nil {
		t.Errorf("a path below: %s", out)
	}
	python := "/usr/bin/python3"
	if exec.Command(python, "-c", "import pygit2").Run() != nil {
		t.Skip("skipped: libgit2 for Python is not installed (Debian: apt install python3-pygit2)")
	}
	two := work.commit("two")
	w.sent(w.state(alice, "demo", "refs/heads/main", two), host.Held)
	const script = `
import pygit2, sys
url, dir, into = sys.argv[1:]
r = pygit2.clone_repository(url, into)
assert str(r.head.target) == sys.stdin.readline().strip(), r.head.target
pygit2.Repository(dir).remotes.create("here", url).push(["refs/heads/main"])
r.remotes["origin"].fetch()
print(r.references["refs/remotes/origin/main"].target)
`
	cmd := exec.CommandContext(t.Context(), python, "-c", script, url, work.dir, filepath.Join(t.TempDir(), "libgit2"))
	cmd.Stdin = strings.NewReader(one + "\n")
	out, err := cmd.CombinedOutput()
	if err != nil || strings.TrimSpace(string(out)) != two {
		t.Errorf("libgit2: %v\n%s", err, out)
	}
}

// TestStateGoes: when the state in effect is deleted or expires, the refs follow the newest one
// that remains, at once and in every repository of the maintainers. If none remains, they stay.
func TestStateGoes(t *testing.T) {
	w, work, one := newWork(t)
	two, three := work.commit("two"), work.commit("three")
	w.sent(w.announce(alice, "demo", bob), host.Held)
	w.sent(w.announce(bob, "demo", alice), host.Held)
	oldest := w.sent(w.state(alice, "demo", "HEAD", "ref: refs/heads/main", "refs/heads/main", one, "refs/heads/kept", one), host.Held)
	work.git("push", w.url(alice, "demo"), one+":refs/heads/main", one+":refs/heads/kept")
	deleted := w.sent(w.state(bob, "demo", "refs/heads/main", two), host.Held)
	work.git("push", w.url(alice, "demo"), two+":refs/heads/main", ":refs/heads/kept")
	want := func(refs ...string) {
		t.Helper()
		w.waitIdle()
		for _, who := range []*testkit.Signer{alice, bob} {
			w.wantRefs(demo(who), append([]string{"HEAD=refs/heads/main"}, refs...)...)
		}
	}
	want("refs/heads/main=" + two)

	w.sent(w.event(bob, 5, host.Tag{"e", deleted.ID.String()}), host.Stored)
	want("refs/heads/kept="+one, "refs/heads/main="+one)

	expires := time.Now().Unix() + 3600
	w.sent(w.event(bob, grasp.KindState, host.Tag{"d", "demo"}, host.Tag{"refs/heads/main", three},
		host.Tag{"expiration", strconv.FormatInt(expires, 10)}), host.Held)
	work.git("push", w.url(bob, "demo"), three+":refs/heads/main", ":refs/heads/kept")
	want("refs/heads/main=" + three)
	w.clock.Add(3601)
	w.until("the state expires", func() bool { return !strings.Contains(w.refs(demo(alice)), three) })
	want("refs/heads/kept="+one, "refs/heads/main="+one)

	w.sent(w.event(alice, 5, host.Tag{"e", oldest.ID.String()}), host.Stored)
	want("refs/heads/kept="+one, "refs/heads/main="+one)
	w.restart()
	want("refs/heads/kept="+one, "refs/heads/main="+one)
}
