package repos

import (
	"crypto/rand"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"talon/host"
	"talon/host/githttp"
	"talon/sdk/grasp"
)

// TestGitUsage: the store knows the bytes of git data of each repository, also after a crash before they
// were noted, and of no repository that is gone.
func TestGitUsage(t *testing.T) {
	w, work, one := newWork(t)
	w.sent(w.announce(alice, "demo"), host.Held)
	w.sent(w.state(alice, "demo", "refs/heads/main", one), host.Held)
	work.git("push", w.url(alice, "demo"), "main")
	repo := grasp.Repo{PubKey: alice.PubKey, Identifier: "demo"}
	key, _ := host.UsageOfRepository(alice.PubKey, "demo")
	noted := func(key host.UsageKey) int64 {
		t.Helper()
		list, err := w.store.Usage(t.Context(), key)
		w.must(err)
		return list[0].Git
	}
	agrees := func() bool {
		bytes, err := w.disk.usage(repo)
		w.must(err)
		return bytes > 0 && noted(key) == bytes && noted(host.UsageOfAuthor(alice.PubKey)) == bytes
	}
	w.until("the push counts", agrees)
	first := noted(key)

	two := work.commit(strings.Repeat("more", 1000))
	w.sent(w.state(alice, "demo", "refs/heads/main", two), host.Held)
	work.git("push", w.url(alice, "demo"), "main")
	w.until("the second push counts", func() bool { return noted(key) > first && agrees() })

	w.must(w.store.SetGitUsage(t.Context(), key, 1, host.UsageLimits{})) // as a crash leaves it
	w.restart()
	w.until("a start counts", agrees)

	w.sent(w.event(alice, host.KindDeletion, host.Tag{"a", "30617:" + alice.PubKey.String() + ":demo"}), host.Stored)
	w.until("a removed repository counts nothing", func() bool { return noted(key) == 0 && noted(host.UsageOfAuthor(alice.PubKey)) == 0 })
}

// TestPushOverQuota: a push that adds more bytes than a policy allows is refused with the reason,
// and counts nothing. Strangers cannot use all of a limit, and a push of what is here needs no room.
func TestPushOverQuota(t *testing.T) {
	w, work, one := newWork(t)
	limit := func(l host.UsageLimits) { w.policy.limits.Store(&l) }
	limit(host.UsageLimits{Author: 64 << 20, Repository: 1 << 20})
	key, _ := host.UsageOfRepository(alice.PubKey, "demo")
	noted := func() host.Usage {
		t.Helper()
		list, err := w.store.Usage(t.Context(), key, host.UsageOfAuthor(alice.PubKey))
		w.must(err)
		if list[0].Git != list[1].Git {
			t.Errorf("the repository has %d bytes of git data, its owner %d", list[0].Git, list[1].Git)
		}
		return list[1]
	}
	agrees := func() bool {
		bytes, err := w.disk.usage(grasp.Repo{PubKey: alice.PubKey, Identifier: "demo"})
		w.must(err)
		return bytes > 0 && noted().Git == bytes
	}
	w.sent(w.announce(alice, "demo"), host.Held)
	w.sent(w.state(alice, "demo", "refs/heads/main", one), host.Held)
	work.git("push", w.url(alice, "demo"), "main")
	w.until("a small push counts", agrees)

	refused := func(want string, push ...string) {
		t.Helper()
		out, err := work.try(append([]string{"push", w.url(alice, "demo")}, push...)...)
		if err == nil || !strings.Contains(strings.Join(strings.Fields(out), " "), want) {
			t.Errorf("git push %q says %v: %s, want %q", push, err, out, want)
		}
		w.until("a refused push counts nothing", agrees)
	}
	two := work.noise(1 << 20)
	w.sent(w.state(alice, "demo", "refs/heads/main", two), host.Held)
	before := noted().Git
	refused("over quota: the git data of this repository takes", "main")
	if after := noted().Git; after != before {
		t.Errorf("%d bytes count after a push that was refused, %d before", after, before)
	}
	// The owner's events count with the git data.
	limit(host.UsageLimits{Author: noted().Total() + 100})
	refused("over quota: the events and git data of its owner take", "main")

	// Eve's pull request may use three quarters of what the maintainers may.
	limit(host.UsageLimits{Repository: 5 << 18})
	pr := w.sent(w.pullRequest(eve, two, repoOf(alice, "demo")), host.Held)
	refused("of the 960 KiB that this relay allows", two+":refs/nostr/"+pr.ID.String())
	work.git("push", w.url(alice, "demo"), "main")
	w.until("a push within the limit counts", agrees)

	limit(host.UsageLimits{Author: 1, Repository: 1})
	three := work.noise(10)
	w.sent(w.state(alice, "demo", "refs/heads/main", three), host.Held)
	refused("over quota", "main")
	w.sent(w.state(alice, "demo", "refs/heads/main", two, "refs/heads/other", one), host.Held)
	work.git("push", w.url(alice, "demo"), one+":refs/heads/other") // it adds no object
}

// TestPushesShareQuota: pushes to two repositories of an owner, which both had room when they
// began, do not both get it.
func TestPushesShareQuota(t *testing.T) {
	w, work, _ := newWork(t)
	one := work.noise(256 << 10)
	for _, name := range []string{"a", "b"} {
		w.sent(w.announce(alice, name), host.Held)
		w.sent(w.state(alice, name, "refs/heads/main", one), host.Held)
	}
	w.policy.limits.Store(&host.UsageLimits{Author: 400 << 10})
	p := demo(alice)
	push := &githttp.Push{Room: &githttp.Room{Bytes: 1 << 20, Reason: "over quota", Limits: *w.policy.limits.Load()}, Stored: 300 << 10}
	p.Identifier = "b"
	w.must(w.reconciler.charge(t.Context(), p, push)) // a push to b that is about to move its refs
	if out, err := work.try("push", w.url(alice, "a"), "main"); err == nil || !strings.Contains(out, "over quota") {
		t.Errorf("the push to a says %v: %s", err, out)
	}
	p.Identifier = "a"
	if err := w.reconciler.charge(t.Context(), p, push); err == nil || !isRefusal(err) {
		t.Errorf("a push to a that had room is charged: %v", err)
	}
}

// noise commits a file that does not compress, and returns the name of the commit.
func (c *clone) noise(size int) string {
	c.t.Helper()
	noise := make([]byte, size)
	_, _ = rand.Read(noise)
	if err := os.WriteFile(filepath.Join(c.dir, "noise"), noise, 0o644); err != nil {
		c.t.Fatal(err)
	}
	c.git("config", "core.compression", "0")
	c.git("add", "noise")
	return c.commit("noise")
}
