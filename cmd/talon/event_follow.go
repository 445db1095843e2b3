package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"talon/host"
	"talon/host/relayclient"
	"talon/host/schnorr"
	"talon/sdk/grasp"
)

// maxFollowed bounds the states that are remembered of one repository.
const maxFollowed = 10_000

// stateFollower knows every state of a repository that took effect at its relays since it was
// opened. A query alone does not show a state that another one has replaced in between.
type stateFollower struct {
	identifier  string
	maintainers []grasp.PubKey
	stop        context.CancelFunc
	ended       sync.WaitGroup
	relays      int

	mu      sync.Mutex     // guards the fields below
	states  []*grasp.State // in the order in which they came, each once
	changed chan struct{}  // closed at the next change
	left    int            // connections that have not ended
}

// followStates asks the relays for the states of some maintainers, and goes on to listen. It
// returns when each relay has sent what it has. A relay that does not answer is an error.
func followStates(cmd *cobra.Command, how *sending, addresses []string, key signer, identifier string, maintainers []grasp.PubKey) (*stateFollower, error) {
	var filters [][]byte
	for part := range slices.Chunk(maintainers, maxAuthors) {
		text, err := json.Marshal(repoFilter(grasp.KindState, identifier, part))
		if err != nil {
			return nil, err
		}
		filters = append(filters, text)
	}
	ctx, stop := context.WithCancel(cmd.Context())
	f := &stateFollower{identifier: identifier, maintainers: maintainers, stop: stop, changed: make(chan struct{})}
	targets := newTargets(cmd, how, slices.Sorted(slices.Values(addresses)), key)
	f.relays, f.left = len(targets), len(targets)
	answers := make(chan error, len(targets))
	for _, t := range targets {
		f.ended.Go(func() {
			defer f.lose()
			isLive := false
			err := f.follow(ctx, t, bytes.Join(filters, []byte(",")), func() {
				isLive = true
				answers <- nil
			})
			if !isLive {
				answers <- fmt.Errorf("ask %s what it has of the repository: %w", t.address, plainError(err))
			}
		})
	}
	limit := how.timeout
	if _, remote := key.(remoteSigner); remote {
		limit += signTime // a relay may ask who it is
	}
	timeout := time.NewTimer(limit)
	defer timeout.Stop()
	for range targets {
		var err error
		select {
		case err = <-answers:
		case <-timeout.C:
			err = fmt.Errorf("ask the relays what they have of the repository: no answer within %v", limit)
		}
		if err != nil {
			f.close()
			return nil, err
		}
	}
	return f, nil
}

// follow listens to one relay until the context or the connection ends.
func (f *stateFollower) follow(ctx context.Context, t *target, filters []byte, live func()) error {
	defer t.close()
	return t.follow(ctx, func(ctx context.Context, c *relayclient.Conn) error {
		return c.Follow(ctx, filters, f.add, live)
	})
}

// add notes a state that a relay sends, if it is one and was asked for.
func (f *stateFollower) add(e *host.Event) {
	if e.Kind != grasp.KindState || e.D() != f.identifier || !slices.Contains(f.maintainers, grasp.PubKey(e.PubKey)) || schnorr.Verify(e) != nil {
		return
	}
	if s, err := e.State(); err == nil {
		f.note(s)
	}
}

// note remembers states.
func (f *stateFollower) note(states ...*grasp.State) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, s := range states {
		if len(f.states) < maxFollowed && !slices.ContainsFunc(f.states, func(have *grasp.State) bool { return have.ID == s.ID }) {
			f.states = append(f.states, s)
			f.notify()
		}
	}
}

// lose notes the end of a connection.
func (f *stateFollower) lose() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.left--
	f.notify()
}

// notify wakes those who wait for a change. REQUIRES: mu.
func (f *stateFollower) notify() {
	close(f.changed)
	f.changed = make(chan struct{})
}

// list returns the states so far, in the order in which they took effect, and a channel that is
// closed when there is another one. Relays may differ in their order: then that of the states'
// times counts.
func (f *stateFollower) list() ([]*grasp.State, <-chan struct{}) {
	f.mu.Lock()
	defer f.mu.Unlock()
	states := slices.Clone(f.states)
	if f.relays > 1 {
		slices.SortStableFunc(states, func(a, b *grasp.State) int {
			if b.Newer(&a.Stamp) {
				return -1
			}
			return 1
		})
	}
	return states, f.changed
}

// isLive reports whether a relay is left that could send more.
func (f *stateFollower) isLive() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.left > 0
}

// wait waits until a state has come, with all that took effect before it. It gives up when
// the time is over, and when no relay is left that could send it.
func (f *stateFollower) wait(ctx context.Context, id grasp.ID, limit time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	for f.isLive() {
		states, changed := f.list()
		if slices.ContainsFunc(states, func(s *grasp.State) bool { return s.ID == id }) {
			return
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return
		}
	}
}

func (f *stateFollower) close() {
	f.stop()
	f.ended.Wait()
}

// change is how a ref was lost: the object that it had and the one that it has, "" for none.
type change struct{ want, has string }

// headKey is the name of HEAD among the refs of a state.
const headKey = "HEAD"

// lostTo returns what some of the states took away that was not theirs to change, and that nobody
// has changed since. Mine reports whether a state is one of them, and own whether a ref is theirs
// to change.
//
// Two people make states from the same one, and the first takes effect before the second. Then the
// second lacks what the first has changed. The first may itself have been made from a state that
// was older yet. So of two objects of a ref, the one that was seen later counts, and a ref that is
// there counts more than one that is not.
func lostTo(states []*grasp.State, maintainers []grasp.PubKey, mine func(grasp.ID) bool, own func(ref string) bool) map[string]change {
	type value struct{ ref, object string }
	lost, since := map[string]change{}, map[value]int{}
	var before map[string]string
	var latest *grasp.State
	for i, s := range states {
		if !s.Tracks() || !slices.Contains(maintainers, s.PubKey) || latest != nil && !s.Newer(&latest.Stamp) {
			continue // it never took effect
		}
		refs := refsOf(s)
		for ref := range before {
			if _, ok := refs[ref]; !ok {
				refs[ref] = ""
			}
		}
		for ref, has := range refs {
			if _, ok := since[value{ref, has}]; !ok {
				since[value{ref, has}] = i
			}
			want := before[ref]
			c, again := lost[ref]
			switch {
			case latest == nil || has == want && !again:
			case !mine(s.ID) && has != want:
				delete(lost, ref) // others have changed it
			case !mine(s.ID):
			case again && has == c.want:
				delete(lost, ref) // given back
			case again:
				lost[ref] = change{c.want, has}
			case !own(ref) && (has == "" || want == "" || since[value{ref, want}] > since[value{ref, has}]):
				lost[ref] = change{want, has}
			}
		}
		latest, before = s, refs
	}
	return lost
}

// refsOf returns the objects of a state by name, with the branch of HEAD.
func refsOf(s *grasp.State) map[string]string {
	refs := make(map[string]string, len(s.Refs)+1)
	for _, ref := range s.Refs {
		refs[ref.Name] = ref.Object
	}
	refs[headKey] = s.Head
	return refs
}
