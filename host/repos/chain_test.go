package repos

import (
	"crypto/sha256"
	"fmt"
	"testing"

	"talon/host"
	"talon/internal/testkit"
)

// TestChainOfMaintainers has strangers announce the identifier of a served repository. Each lists
// the next, and the last one the first. They change nothing for the owner and maintainers of that
// repository, and a state by one of them counts for all of their own.
func TestChainOfMaintainers(t *testing.T) {
	w, work, one := newWork(t)
	w.sent(w.announce(alice, "demo"), host.Held)
	w.sent(w.state(alice, "demo", "refs/heads/main", one), host.Held)
	work.git("push", w.url(alice, "demo"), "main")
	const chain = 12
	var signers []*testkit.Signer
	for i := range chain {
		signers = append(signers, testkit.SignerOf(sha256.Sum256(fmt.Append(nil, "chain ", i))))
	}
	for i, s := range signers {
		w.sent(w.announce(s, "demo", signers[(i+1)%chain]), host.Held)
	}
	theirs := w.sent(w.state(signers[chain/2], "demo", "refs/heads/main", one), host.Held)
	w.waitIdle()
	w.wantServed(theirs, true) // its object is here
	two := work.commit("two")
	w.sent(w.state(alice, "demo", "refs/heads/main", two), host.Held)
	work.git("push", w.url(alice, "demo"), "main")
	w.wantRefs(demo(alice), "HEAD=refs/heads/main", "refs/heads/main="+two)
	w.waitIdle()
	for _, i := range []int{0, chain/2 - 1, chain / 2, chain - 1} {
		w.wantRefs(demo(signers[i]), "HEAD=refs/heads/main", "refs/heads/main="+one)
	}
}

// TestPushOvertakesJobs has all slots of jobs taken, and a job of the repository wait for one, as
// 1,000 announcements of strangers do. A push needs neither the slot nor the lock of that job.
func TestPushOvertakesJobs(t *testing.T) {
	w, work, one := newWork(t)
	w.sent(w.announce(alice, "demo"), host.Held)
	state := w.state(alice, "demo", "refs/heads/main", one)
	w.waitIdle()
	for range cap(w.reconciler.slots) {
		w.reconciler.slots <- struct{}{}
	}
	w.sent(state, host.Held)
	w.reconciler.jobs.enqueue(demo(alice), task{})
	work.git("push", w.url(alice, "demo"), "main")
	w.wantServed(state, true)
	for range cap(w.reconciler.slots) {
		<-w.reconciler.slots
	}
	w.waitIdle()
	w.wantRefs(demo(alice), "HEAD=refs/heads/main", "refs/heads/main="+one)
}
