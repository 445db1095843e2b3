package main

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"talon/host"
	"talon/sdk/grasp"
	"talon/sdk/nip19"
)

// maxStates is how often one command signs a state while others sign some as well.
const maxStates = 9

// A stateRun is one talon event state. It signs again while others push.
type stateRun struct {
	*stating
	watched
	who    *signing
	author host.PubKey
	local  localRefs

	intent  map[string]string // what the first plan changes: objects by ref, "" for those that go
	sent    *grasp.State      // what the run signed last; relays may hold it
	refused int64             // time of the newest state that is known not to stay
}

func runState(cmd *cobra.Command, who *signing, how *sending, what *stating, addresses []string, show bool) (err error) {
	if what.identifier == "" {
		return errors.New("the repository has no identifier: say with --identifier which one it was announced by")
	}
	r := &stateRun{stating: what, watched: watched{cmd: cmd, how: how, addresses: addresses, mine: map[grasp.ID]bool{}}, who: who}
	if r.local, err = readRefs(cmd.Context(), what.dir); err != nil {
		return fmt.Errorf("read the refs of %s: %w", what.dir, err)
	}
	if !show || len(addresses) > 0 {
		if err := errors.Join(relayArgs(cmd, addresses), how.check(addresses)); err != nil {
			return err
		}
	}
	if r.key, r.author, err = who.identity(); err != nil {
		return err
	}
	defer r.key.close()
	defer r.watched.close()
	for n := 1; ; n++ {
		e, err := r.event()
		if err != nil {
			return err
		}
		if err := r.key.sign(e); err != nil {
			return err
		}
		if show {
			return printEvent(cmd, e)
		}
		again, err := r.send(e)
		if err != nil || again == nil {
			return err
		}
		if n == maxStates || cmd.Flags().Changed("created-at") {
			return again
		}
		reason := again.Error()
		if errors.Is(again, errOlder) {
			reason = "a relay has a newer state"
		}
		fmt.Fprintf(cmd.ErrOrStderr(), "%s: the state is made again\n", reason)
		if err := pause(cmd.Context(), n); err != nil {
			return err
		}
	}
}

// send sends a signed state. Again says why another one is needed, and is nil if none is: a relay
// has a newer one, or this one takes away what others changed after the run read the repository.
func (r *stateRun) send(e *host.Event) (again, err error) {
	state, err := e.State()
	if err != nil {
		return nil, err
	}
	r.mine[state.ID] = true
	_, older, err := sendVersion(r.cmd, r.how, e, r.addresses, r.key)
	if err != nil {
		return nil, err
	}
	r.refused = max(r.refused, e.CreatedAt)
	if older {
		return errOlder, nil
	}
	r.sent = state
	if err := r.readStates(); err != nil {
		return nil, fmt.Errorf("the state was sent, and the repository could not be read again: %w", err)
	}
	if lost := r.lostRefs(); len(lost) > 0 {
		return fmt.Errorf("the state takes away what another push changed: %s", strings.Join(shorten(slices.Sorted(maps.Keys(lost))), ", ")), nil
	}
	return nil, nil
}

// lostRefs returns what states of this run took from others. A ref that others removed stays.
func (r *stateRun) lostRefs() map[string]change {
	var held []*grasp.State
	if r.sent != nil {
		held = []*grasp.State{r.sent}
	}
	lost := r.lost(func(ref string) bool { _, own := r.intent[ref]; return own }, held...)
	maps.DeleteFunc(lost, func(_ string, c change) bool { return c.want == "" })
	return lost
}

// event returns the state of the local refs over the one in effect, not signed. The first one says
// what the run changes.
func (r *stateRun) event() (*host.Event, error) {
	latest := r.refused
	if len(r.addresses) > 0 {
		if err := r.readServed(); err != nil {
			return nil, err
		}
		latest = max(latest, r.served.latest)
	} else {
		r.served = &served{}
	}
	plan, err := r.plan()
	if err != nil {
		return nil, err
	}
	plan.write(r.cmd.ErrOrStderr())
	if lost := plan.lost(r.cmd.Context(), r.dir); len(lost) > 0 && !r.yes && r.sent == nil {
		if err := confirm(r.cmd, fmt.Sprintf("Removed or moved back: %s. Sign this?", strings.Join(shorten(lost), ", "))); err != nil {
			return nil, err
		}
	}
	e, err := plan.event(r.identifier)
	if err != nil {
		return nil, err
	}
	return e, r.who.setTime(e, latest)
}

// plan returns how the state in effect becomes the new one. Later plans change what the first one
// changed, over what others made of the repository since.
func (r *stateRun) plan() (*statePlan, error) {
	if r.intent == nil {
		plan, err := planState(r.served.state, r.local.refs, r.prune)
		if err == nil {
			err = plan.setHead(r.head, r.local.head)
		}
		if err == nil {
			r.intent = plan.changes()
		}
		return plan, err
	}
	plan := newPlan(r.served.state)
	for ref, c := range r.lostRefs() {
		plan.put(ref, c.want)
	}
	plan.now, plan.nowHead = maps.Clone(plan.next), plan.head
	for ref, object := range r.intent {
		plan.put(ref, object)
	}
	return plan, plan.check()
}

// readServed reads what relays serve of the repository that the options name.
func (r *stateRun) readServed() (err error) {
	if r.states != nil {
		return r.readStates()
	}
	r.repo = grasp.Repo{PubKey: r.author, Identifier: r.identifier}
	if r.owner != "" {
		if r.repo.PubKey, err = nip19.ParsePubKey(strings.TrimPrefix(r.owner, "nostr:")); err != nil {
			return fmt.Errorf("the owner %.80q is wrong: %w", r.owner, err)
		}
	}
	if err := r.read(); err != nil {
		return err
	}
	if r.owner == "" && !r.served.announced {
		// A new repository of the author, or somebody else's.
		owners, err := readOwners(r.cmd, r.how, r.addresses, r.key, r.identifier, r.author)
		if err != nil {
			return err
		}
		if len(owners) > 0 {
			return fmt.Errorf("the key has announced no repository %q; others have, and list it as a maintainer: say with --owner whose it is (%s)",
				r.identifier, strings.Join(shorten(owners), ", "))
		}
	}
	return r.served.checkAuthor(r.author, r.repo)
}
