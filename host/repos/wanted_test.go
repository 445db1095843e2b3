package repos

import (
	"context"
	"crypto/sha256"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"

	"talon/host"
	"talon/internal/testkit"
)

// countingStore counts the events that a store returns, and the questions.
type countingStore struct {
	Store
	questions, events atomic.Int64
}

func (c *countingStore) count(list [][]byte, err error) ([][]byte, error) {
	c.questions.Add(1)
	c.events.Add(int64(len(list)))
	return list, err
}

func (c *countingStore) Query(ctx context.Context, f host.Filter) ([][]byte, error) {
	return c.count(c.Store.Query(ctx, f))
}

func (c *countingStore) HeldBy(ctx context.Context, f host.Filter) ([][]byte, error) {
	return c.count(c.Store.HeldBy(ctx, f))
}

// signers returns n strangers.
func signers(n int) (list []*testkit.Signer) {
	for i := range n {
		list = append(list, testkit.SignerOf(sha256.Sum256(fmt.Append(nil, "stranger ", i))))
	}
	return list
}

// newServed makes a world in which alice's repository has a commit and is served.
func newServed(t *testing.T) (w *world, commit string) {
	w, work, commit := newWork(t)
	w.sent(w.announce(alice, "demo"), host.Held)
	w.sent(w.state(alice, "demo", "refs/heads/main", commit), host.Held)
	work.git("push", w.url(alice, "demo"), "main")
	w.waitIdle()
	return w, commit
}

// TestWantedAmongStrangers has strangers announce the identifier of a served repository, alone, in
// a cycle, and each with all as maintainers. One look reads each event a few times, however many
// announcements there are, and it finds what a newcomer's repository lacks.
func TestWantedAmongStrangers(t *testing.T) {
	testkit.SkipRace(t)
	n := testkit.Sized(20, 60)
	shapes := map[string]func(i int, all []*testkit.Signer) []*testkit.Signer{
		"alone": func(int, []*testkit.Signer) []*testkit.Signer { return nil },
		"cycle": func(i int, all []*testkit.Signer) []*testkit.Signer { return []*testkit.Signer{all[(i+1)%n]} },
		"star":  func(_ int, all []*testkit.Signer) []*testkit.Signer { return all },
	}
	for name, maintainers := range shapes {
		t.Run(name, func(t *testing.T) {
			w, _ := newServed(t)
			strangers := signers(n)
			for i, s := range strangers {
				w.sent(w.announce(s, "demo", maintainers(i, strangers)...), host.Held)
				w.sent(w.state(s, "demo", "refs/heads/main", fmt.Sprintf("%040x", i+1)), host.Held)
			}
			w.sent(w.announce(bob, "demo"), host.Held)
			const missing = "00000000000000000000000000000000000000b0"
			w.sent(w.state(bob, "demo", "refs/heads/main", missing), host.Held)
			w.waitIdle()
			counts := &countingStore{Store: w.reconciler.cfg.Store}
			w.reconciler.cfg.Store = counts
			wants, err := w.reconciler.Wanted(t.Context(), "demo")
			w.must(err)
			theirs := 0
			for _, want := range wants {
				if slices.Equal(want.Objects, []string{missing}) {
					theirs++
				}
			}
			if len(wants) != n+1 || theirs != 1 {
				t.Errorf("%d repositories lack something, %d of them the newcomer's; want %d and 1", len(wants), theirs, n+1)
			}
			if q, e := counts.questions.Load(), counts.events.Load(); q > int64(5*n) || e > int64(5*n) {
				t.Errorf("a look among %d announcements asks %d times and reads %d events, want at most %d of each", n, q, e, 5*n)
			}
		})
	}
}

// TestWantedLeavesStrangersForLater has strangers make one look expensive. The look ends early,
// with what served repositories and newcomers with few maintainers lack.
func TestWantedLeavesStrangersForLater(t *testing.T) {
	testkit.SkipRace(t)
	w, _ := newServed(t)
	const n = 20
	strangers := signers(n)
	for i, s := range strangers {
		w.sent(w.announce(s, "demo", strangers...), host.Held)
		refs := []string{}
		for r := range 100 {
			refs = append(refs, fmt.Sprintf("refs/heads/%d", r), fmt.Sprintf("%040x", i*100+r+1))
		}
		w.sent(w.state(s, "demo", refs...), host.Held)
	}
	w.sent(w.announce(bob, "demo"), host.Held)
	const missing = "00000000000000000000000000000000000000b0"
	w.sent(w.state(bob, "demo", "refs/heads/main", missing), host.Held)
	w.waitIdle()
	wants, err := w.reconciler.Wanted(t.Context(), "demo")
	w.must(err)
	// Each of the strangers' repositories costs 20 maintainers, 20 states and 2,000 objects.
	if most := maxWantedWork/2040 + 2; len(wants) < 2 || len(wants) > most || !slices.Equal(wants[0].Objects, []string{missing}) {
		t.Errorf("%d repositories, the first lacks %.100v; want 2 to %d, and the newcomer's first", len(wants), wants[0].Objects, most)
	}
}

// TestEventsAmongStrangers has strangers name one another as maintainers. An event of one of them
// makes no job for each of them: no data is here that their repositories could be made of.
func TestEventsAmongStrangers(t *testing.T) {
	testkit.SkipRace(t)
	w, commit := newServed(t)
	strangers := signers(maxUnserved + 9)
	last := strangers[maxUnserved+8]
	for _, s := range strangers[:maxUnserved+8] {
		w.sent(w.announce(s, "demo", strangers...), host.Held)
	}
	w.waitIdle()
	var jobs atomic.Int64
	start := w.reconciler.jobs.start
	w.reconciler.jobs.start = func(key any, j *job) {
		jobs.Add(1)
		start(key, j)
	}
	w.sent(w.announce(last, "demo", strangers...), host.Held)
	w.waitIdle()
	if n := jobs.Load(); n > 2 {
		t.Errorf("an announcement makes %d jobs, want at most 2: its repository's and its identifier's", n)
	}
	// With data, a bounded number follow.
	jobs.Store(0)
	w.sent(w.state(last, "demo", "refs/heads/main", commit), host.Held)
	w.waitIdle()
	if n := jobs.Load(); n < maxUnserved || n > 6*maxUnserved {
		t.Errorf("a state makes %d jobs, want %d to %d", n, maxUnserved, 6*maxUnserved)
	}
}
