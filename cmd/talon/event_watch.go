package main

import (
	"slices"

	"github.com/spf13/cobra"

	"talon/sdk/grasp"
)

// watched is a repository whose states a command follows from before its plan until after it has
// sent its own. A state names all refs, so of two that were made from the same one the newer takes
// the other's refs away. The command signs again, with the refs of the others, until the state in
// effect has all that it should.
type watched struct {
	cmd       *cobra.Command
	how       *sending
	key       signer
	repo      grasp.Repo
	addresses []string // of relays

	served *served
	states *stateFollower
	mine   map[grasp.ID]bool // states that the command signed
}

// read finds out who maintains the repository, and what its states are. The first time it begins
// to follow them.
func (w *watched) read() error {
	if w.states != nil {
		return w.readStates()
	}
	a := newAsker(w.cmd, w.how, w.addresses, w.key)
	defer a.close()
	var err error
	if w.served, err = a.maintainers(w.cmd.Context(), w.repo); err != nil {
		return err
	}
	w.states, err = followStates(w.cmd, w.how, w.addresses, w.key, w.repo.Identifier, w.served.maintainers)
	if err != nil {
		return err
	}
	states, _ := w.states.list()
	w.served.setState(states)
	return nil
}

// readStates asks for the states again.
func (w *watched) readStates() error {
	a := newAsker(w.cmd, w.how, w.addresses, w.key)
	defer a.close()
	states, err := a.states(w.cmd.Context(), w.repo.Identifier, w.served.maintainers)
	if err != nil {
		return err
	}
	w.served.setState(states)
	if !w.states.isLive() {
		w.states.note(states...)
	}
	if now := w.served.state; now != nil {
		w.states.wait(w.cmd.Context(), now.ID, w.how.timeout)
	}
	return nil
}

// lost returns what states of this command took from others. Own reports whether a ref is the
// command's to change. A state that relays hold has not taken effect yet, and counts as the last.
func (w *watched) lost(own func(ref string) bool, held ...*grasp.State) map[string]change {
	states, _ := w.states.list()
	for _, s := range held {
		if !slices.ContainsFunc(states, func(have *grasp.State) bool { return have.ID == s.ID }) {
			states = append(states, s)
		}
	}
	return lostTo(states, w.served.maintainers, func(id grasp.ID) bool { return w.mine[id] }, own)
}

// close ends the connections.
func (w *watched) close() {
	if w.states != nil {
		w.states.close()
	}
}
