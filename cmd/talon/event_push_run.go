package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"talon/host"
	"talon/sdk/grasp"
)

// maxPushes is how often one command signs and pushes while others push as well.
const maxPushes = 9

// A pushRun is one talon event push. It signs and pushes again while others push.
type pushRun struct {
	*pushing
	watched
	who    *signing
	args   []string // of git
	author host.PubKey

	intent  *pushIntent
	planned *grasp.State    // in effect when the plan was made
	signed  *host.Event     // by the plan; nil if it changes nothing
	revived map[string]bool // refs that others removed, and that a state of this run has
	refused int64           // time of a state for which a relay has a newer one
}

func (p *pushing) run(cmd *cobra.Command, who *signing, how *sending, args []string) (err error) {
	r := &pushRun{
		pushing: p, watched: watched{cmd: cmd, how: how, mine: map[grasp.ID]bool{}},
		who: who, args: args, revived: map[string]bool{},
	}
	if r.key, r.author, err = who.identity(); err != nil {
		return err
	}
	defer r.key.close()
	p.helper = newRemoteHelper(cmd.Context(), p.dir, args, slices.Contains(p.git, "--prune"))
	defer p.helper.close()
	defer r.watched.close()
	for n := 1; ; n++ {
		lacks, err := r.once()
		if err != nil {
			return err
		}
		if len(lacks) == 0 {
			r.warn()
			return nil
		}
		if n == maxPushes || who.cmd.Flags().Changed("created-at") {
			return fmt.Errorf("other pushes changed the repository, and it is not as this push would make it: %s. Push again", strings.Join(shorten(lacks), ", "))
		}
		fmt.Fprintf(cmd.ErrOrStderr(), "another push changed the repository, so the push is made again (%d of %d): %s\n", n, maxPushes-1, strings.Join(shorten(lacks), ", "))
		if err := pause(cmd.Context(), n); err != nil {
			return err
		}
	}
}

// warn names the refs that others removed and that are there again, unless they are gone.
func (r *pushRun) warn() {
	var there []string
	for ref := range r.revived {
		if now := r.served.state; now != nil && now.Object(ref) != "" {
			there = append(there, ref)
		}
	}
	if len(there) > 0 {
		slices.Sort(there)
		fmt.Fprintf(r.cmd.ErrOrStderr(), "warning: another push removed %s at the same time, and this one brought it back: remove it again if it should go\n", strings.Join(shorten(there), ", "))
	}
}

// pause waits before another push. Two that meet must not meet again.
func pause(ctx context.Context, n int) error {
	select {
	case <-time.After(rand.N(min(100*time.Millisecond<<n, 10*time.Second))):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// once plans, signs, sends and pushes. It returns what the repository lacks after that because
// others changed it.
func (r *pushRun) once() (lacks []string, err error) {
	if r.intent, err = r.ask(r.cmd.Context(), r.args); err != nil {
		return nil, err
	}
	if err := r.read(); err != nil {
		return nil, err
	}
	if err := r.served.checkAuthor(r.author, r.intent.repo); err != nil {
		return nil, err
	}
	if err := r.checkUnsigned(); err != nil {
		return nil, err
	}
	plan, err := r.plan()
	if err != nil {
		return nil, err
	}
	plan.write(r.cmd.ErrOrStderr())
	r.planned, r.signed = r.served.state, nil
	moves := r.intent.moves
	if plan.changed() {
		if err := r.sign(plan); err != nil || r.dryRun {
			return nil, err
		}
		held, older, err := sendVersion(r.cmd, r.how, r.signed, r.addresses, r.key)
		switch {
		case err != nil:
			return nil, err
		case older:
			r.refused = r.signed.CreatedAt
			return []string{"a relay has a newer state"}, nil
		case held && r.overtaken():
			return []string{"another state took effect"}, nil
		case !held && r.intent.removes():
			// The server itself removes refs that the state does not name. git push cannot
			// remove a ref that is gone.
			fmt.Fprintln(r.cmd.ErrOrStderr(), nothingLeft)
			moves = false
		}
	}
	if r.dryRun || r.signed == nil && !moves {
		return nil, nil
	}
	if moves {
		err = r.push()
	}
	return r.verify(err)
}

// read finds out what the repository is. Later it asks for the states again.
func (r *pushRun) read() error {
	if r.states == nil {
		r.repo, r.addresses = r.intent.repo, append(slices.Clone(r.intent.relays), r.relays...)
		if err := r.how.check(r.addresses); err != nil {
			return err
		}
	}
	return r.watched.read()
}

// overtaken reports whether another state took effect after the plan was made.
func (r *pushRun) overtaken() bool {
	states, _ := r.states.list()
	latest := grasp.Latest(states, r.served.maintainers)
	return latest != nil && !r.mine[latest.ID] && (r.planned == nil || latest.Newer(&r.planned.Stamp))
}

// checkUnsigned refuses a first state that would take refs away from a repository that has some.
// They are there after the state that named them was deleted, or gave way to one without refs.
func (r *pushRun) checkUnsigned() error {
	if r.served.state != nil || slices.Contains(r.git, "--prune") {
		return nil
	}
	var lost []string
	for _, address := range r.intent.addresses {
		there, err := r.remoteRefs(r.cmd.Context(), address)
		if err != nil {
			return fmt.Errorf("read the refs of the repository: %w", err)
		}
		for ref := range there {
			_, named := r.intent.refs[ref]
			if isStateRef(ref) && !named {
				lost = append(lost, ref)
			}
		}
	}
	if len(lost) == 0 {
		return nil
	}
	// Refs change a moment before their state is served.
	if err := pause(r.cmd.Context(), 1); err != nil {
		return err
	}
	if err := r.readStates(); err != nil || r.served.state != nil {
		return err
	}
	slices.Sort(lost)
	return fmt.Errorf("no state of the repository is in effect, and a new one would remove %s: push these refs as well (--all, --tags), or remove them with --prune",
		strings.Join(shorten(slices.Compact(lost)), ", "))
}

// plan returns how the state in effect becomes that of the push. plan gives back the refs that
// earlier states of this run took from others. It does not repeat removals of others: it only
// notes them.
func (r *pushRun) plan() (*statePlan, error) {
	want := newPlan(r.served.state)
	lost := r.lost(func(ref string) bool {
		_, own := r.intent.refs[ref]
		return own || ref == headKey && r.head != ""
	})
	for ref, c := range lost {
		switch {
		case ref == headKey:
			want.head = cmp.Or(c.want, want.head)
		case c.want == "":
			// It may have been removed by a state that was made before it was there.
			r.revived[ref] = true
		default:
			want.next[ref] = c.want
		}
	}
	r.intent.apply(want.next)
	if err := want.check(); err != nil {
		return nil, err
	}
	local, err := readHead(r.cmd.Context(), r.dir)
	if err != nil {
		return nil, err
	}
	return want, want.setHead(r.head, local)
}

// sign signs the planned state, later than all that is known of the repository.
func (r *pushRun) sign(plan *statePlan) error {
	e, err := plan.event(r.intent.repo.Identifier)
	if err != nil {
		return err
	}
	if err := r.who.setTime(e, max(r.served.latest, r.refused)); err != nil || r.dryRun {
		return err
	}
	if err := r.key.sign(e); err != nil {
		return err
	}
	r.signed, r.mine[grasp.ID(e.ID)] = e, true
	return nil
}

// push pushes. The hook has been asked before the state was signed.
//
// A server that has all that the state names removes the other refs itself. git push fails
// if a ref that it should remove is gone.
func (r *pushRun) push() error {
	git := r.process(r.cmd.Context(), r.args, "--no-verify")
	git.Stdin, git.Stdout, git.Stderr = r.cmd.InOrStdin(), r.cmd.OutOrStdout(), r.cmd.ErrOrStderr()
	said := &bounded{max: 64 << 10}
	if r.intent.removes() {
		git.Stderr = said
	}
	err := git.Run()
	if err != nil && r.intent.removes() && len(r.misplaced()) == 0 {
		fmt.Fprintln(r.cmd.ErrOrStderr(), nothingLeft)
		return nil
	}
	_, _ = said.kept.WriteTo(r.cmd.ErrOrStderr())
	if err != nil {
		return fmt.Errorf("the state was sent, and git did not push: %w", err)
	}
	return nil
}

const nothingLeft = "the server has all that the state names, and brings its branches and tags in line: nothing is left to push"

// verify reads the repository again after a push, and returns what it lacks because others
// changed it. A push that failed for another reason is an error.
func (r *pushRun) verify(pushed error) (lacks []string, err error) {
	if err := r.awaitState(); err != nil {
		return nil, errors.Join(pushed, fmt.Errorf("read the repository again: %w", err))
	}
	if pushed != nil && !r.overtaken() {
		return nil, pushed
	}
	plan, err := r.plan()
	if err != nil {
		return nil, err
	}
	if r.waits() && !r.overtaken() {
		// Nobody else changed anything, and the relay takes its time.
		fmt.Fprintln(r.cmd.ErrOrStderr(), "the relay does not serve the state yet")
	} else if plan.changed() {
		added, moved, removed := plan.difference()
		lacks = slices.Concat(added, moved, removed)
		if plan.head != plan.nowHead {
			lacks = append(lacks, "HEAD")
		}
		return lacks, nil
	}
	return r.misplaced(), nil
}

// waits reports whether the state that was signed last has not taken effect.
func (r *pushRun) waits() bool {
	now := r.served.state
	return r.signed != nil && (now == nil || (&grasp.Stamp{ID: grasp.ID(r.signed.ID), CreatedAt: r.signed.CreatedAt}).Newer(&now.Stamp))
}

// awaitState waits until the state that was signed is in effect, or a newer one, and until all that
// took effect before it is known.
func (r *pushRun) awaitState() error {
	for began := time.Now(); ; {
		if err := r.readStates(); err != nil {
			return err
		}
		if !r.waits() {
			break
		}
		if time.Since(began) > r.how.timeout {
			return nil
		}
		r.states.wait(r.cmd.Context(), grasp.ID(r.signed.ID), time.Second)
	}
	return nil
}

// misplaced returns the refs that the servers do not have where the push wants them. It waits for
// a server that has begun.
func (r *pushRun) misplaced() (refs []string) {
	ctx, cancel := context.WithTimeout(r.cmd.Context(), r.how.timeout)
	defer cancel()
	for {
		refs = nil
		begun := false
		for _, address := range r.intent.addresses {
			there, err := r.remoteRefs(ctx, address)
			if err != nil {
				return append(refs, address)
			}
			for ref, object := range r.intent.refs {
				if there[ref] != object {
					refs = append(refs, ref)
				} else if object == "" {
					begun = true
				}
			}
		}
		slices.Sort(refs)
		if refs = slices.Compact(refs); len(refs) == 0 || !begun {
			return refs
		}
		select {
		case <-ctx.Done():
			return refs
		case <-time.After(100 * time.Millisecond):
		}
	}
}
