package repos

import (
	"strings"
	"testing"

	"talon/host"
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
