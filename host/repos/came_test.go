package repos

import (
	"testing"

	"talon/host"
	"talon/internal/testkit"
	"talon/sdk/nip19"
)

// TestSharedObjectsReleaseNobody: bob has pushed what alice signs later, to a repository
// of his own. Eve, who names alice as her maintainer, has its objects that way, since
// repositories of one identifier share them. Her announcement is not served for it; it
// is when the push comes to her.
func TestSharedObjectsReleaseNobody(t *testing.T) {
	w := newWorld(t)
	work := w.workspace()
	one := work.commit("one")
	w.sent(w.announce(bob, "demo"), host.Held)
	w.sent(w.state(bob, "demo", "refs/heads/main", one), host.Held)
	work.git("push", w.url(bob, "demo"), "main")
	hers := w.sent(w.announce(eve, "demo", alice), host.Held)
	at := location{Repo: repoOf(eve, "demo")}
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
		refs, err := w.disk.repo(location{Repo: repoOf(alice, "demo")})
		w.must(err)
		got, _, err := refs.Ref(t.Context(), nostrRefs+pr.ID.String())
		w.must(err)
		if got != commit {
			t.Errorf("its ref is at %q, want %s", got, commit)
		}
	}
}
