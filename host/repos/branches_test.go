package repos

import (
	"fmt"
	"strings"
	"testing"

	"talon/host"
	"talon/internal/testkit"
)

// TestManyBranches has a state with 20,000 branches, and then one without them. Refs follow each,
// and a client lists them.
func TestManyBranches(t *testing.T) {
	testkit.SkipRace(t)
	branches := testkit.Sized(5000, 20_000)
	w, work, one := newWork(t)
	w.sent(w.announce(alice, "demo"), host.Held)
	refs := []string{"refs/heads/main", one}
	for i := range branches {
		refs = append(refs, fmt.Sprintf("refs/heads/branch/%05d", i), one)
	}
	state := w.sent(w.state(alice, "demo", refs...), host.Held)
	work.git("push", w.url(alice, "demo"), "main")
	w.wantServed(state, true)
	w.waitIdle()
	list := work.git("ls-remote", w.url(alice, "demo"))
	if n := strings.Count(list, "refs/heads/branch/"); n != branches {
		t.Errorf("%d branches are listed, want %d", n, branches)
	}
	next := w.sent(w.state(alice, "demo", "refs/heads/main", one), host.Held)
	w.until("the next state is served", func() bool { return w.served(next) })
	w.waitIdle()
	w.wantRefs(demo(alice), "HEAD=refs/heads/main", "refs/heads/main="+one)
}
