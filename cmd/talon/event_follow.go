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

	mu      sync.Mutex // guards the fields below
	states  []*grasp.State
	changed chan struct{} // closed at the next change
	lost    int           // connections that have ended
	relays  int
}

// followStates asks the relays for the states of some maintainers, and goes on to listen. It
// returns when each relay has sent what it has. A relay that does not answer is an error.
func followStates(cmd *cobra.Command, how *sending, addresses []string, key *secretKey, identifier string, maintainers []grasp.PubKey) (*stateFollower, error) {
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
	f.relays = len(targets)
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
	timeout := time.NewTimer(how.timeout)
	defer timeout.Stop()
	for range targets {
		var err error
		select {
		case err = <-answers:
		case <-timeout.C:
			err = fmt.Errorf("ask the relays what they have of the repository: no answer within %v", how.timeout)
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
	f.lost++
	f.notify()
}

// notify wakes those who wait for a change. REQUIRES: mu.
func (f *stateFollower) notify() {
	close(f.changed)
	f.changed = make(chan struct{})
}

// list returns the states so far, and a channel that is closed when there is another one.
func (f *stateFollower) list() ([]*grasp.State, <-chan struct{}) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.states), f.changed
}

// wait waits until a state has come, with all that took effect before it. It gives up when
// the time is over, and when no relay is left that could send it.
func (f *stateFollower) wait(ctx context.Context, id grasp.ID, limit time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	for {
		states, changed := f.list()
		f.mu.Lock()
		left := f.relays - f.lost
		f.mu.Unlock()
		if left == 0 || slices.ContainsFunc(states, func(s *grasp.State) bool { return s.ID == id }) {
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
