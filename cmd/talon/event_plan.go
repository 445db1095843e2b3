package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"talon/sdk/grasp"
)

// statePlan is a new state beside the one in effect. Refs are objects by name.
type statePlan struct {
	now, next     map[string]string
	nowHead, head string
	kept          int // refs of the state in effect that are not in the local repository
}

// planState returns the state in effect, nil if there is none, with the local refs
// over it. What is not in the local repository stays, or goes with prune.
func planState(inEffect *grasp.State, local map[string]string, prune bool) (*statePlan, error) {
	p := newPlan(inEffect)
	for ref := range p.now {
		if _, ok := local[ref]; ok {
			continue
		}
		if prune {
			delete(p.next, ref)
		} else {
			p.kept++
		}
	}
	maps.Copy(p.next, local)
	return p, p.check()
}

// newPlan returns a plan that changes nothing.
func newPlan(inEffect *grasp.State) *statePlan {
	p := &statePlan{now: map[string]string{}}
	if inEffect != nil {
		for _, ref := range inEffect.Refs {
			p.now[ref.Name] = ref.Object
		}
		p.nowHead = inEffect.Head
	}
	p.next, p.head = maps.Clone(p.now), p.nowHead
	return p
}

func (p *statePlan) check() error {
	if len(p.next) == 0 {
		return errors.New("the state would have no branches and no tags, which means that its author does not track the repository any more")
	}
	return nil
}

// setHead moves HEAD to a branch that was asked for. Where nothing was asked for it stays;
// in a first state it is that of the local repository, or the only branch.
func (p *statePlan) setHead(asked, local string) error {
	if asked != "" {
		if !strings.HasPrefix(asked, "refs/") {
			asked = "refs/heads/" + asked
		}
		if _, ok := p.next[asked]; !ok || !strings.HasPrefix(asked, "refs/heads/") {
			return fmt.Errorf("HEAD cannot name %q: the state has no such branch", asked)
		}
		p.head = asked
		return nil
	}
	if p.head != "" {
		if _, had := p.now[p.head]; had && p.next[p.head] == "" {
			return fmt.Errorf("HEAD names %s, which the new state does not have: say with --head which branch it is to name", p.head)
		}
		return nil
	}
	if len(p.now) > 0 {
		return nil
	}
	if _, ok := p.next[local]; ok {
		p.head = local
		return nil
	}
	branches := slices.DeleteFunc(p.refs(), func(ref string) bool { return !strings.HasPrefix(ref, "refs/heads/") })
	if len(branches) == 1 {
		p.head = branches[0]
	}
	return nil
}

// changed reports whether the plan differs from the state in effect.
func (p *statePlan) changed() bool { return p.head != p.nowHead || !maps.Equal(p.now, p.next) }

// refs returns the names of the new state in order.
func (p *statePlan) refs() []string { return slices.Sorted(maps.Keys(p.next)) }

// difference returns the names of the refs that are new, that move and that go.
func (p *statePlan) difference() (added, moved, removed []string) {
	for _, ref := range p.refs() {
		switch old, had := p.now[ref]; {
		case !had:
			added = append(added, ref)
		case old != p.next[ref]:
			moved = append(moved, ref)
		}
	}
	for _, ref := range slices.Sorted(maps.Keys(p.now)) {
		if _, ok := p.next[ref]; !ok {
			removed = append(removed, ref)
		}
	}
	return added, moved, removed
}

// lost returns the refs that go, and those that move to where their commits are not.
func (p *statePlan) lost(ctx context.Context, dir string) []string {
	_, moved, lost := p.difference()
	for _, ref := range moved {
		if strings.HasPrefix(ref, "refs/tags/") || !contains(ctx, dir, p.now[ref], p.next[ref]) {
			lost = append(lost, ref)
		}
	}
	return lost
}

// write says what changes, a line for each ref.
func (p *statePlan) write(w io.Writer) {
	var b strings.Builder
	added, moved, removed := p.difference()
	list := func(refs []string, line func(ref string) string) {
		const maximum = 100
		for i, ref := range refs {
			if i == maximum {
				fmt.Fprintf(&b, "  … and %d more\n", len(refs)-maximum)
				return
			}
			fmt.Fprintf(&b, "  %s\n", plain(line(ref)))
		}
	}
	list(added, func(ref string) string { return "added   " + ref + " " + short(p.next[ref]) })
	list(moved, func(ref string) string { return "moved   " + ref + " " + short(p.now[ref]) + ".." + short(p.next[ref]) })
	list(removed, func(ref string) string { return "removed " + ref + " " + short(p.now[ref]) })
	switch {
	case p.head == p.nowHead:
	case p.nowHead == "":
		fmt.Fprintf(&b, "  HEAD    %s\n", plain(p.head))
	default:
		fmt.Fprintf(&b, "  HEAD    %s, was %s\n", plain(p.head), plain(p.nowHead))
	}
	if b.Len() == 0 {
		b.WriteString("  nothing changes\n")
	}
	if p.kept > 0 {
		fmt.Fprintf(&b, "  %s not here, kept as in the state in effect (--prune removes them)\n", counted(p.kept, "ref"))
	}
	_, _ = io.WriteString(w, b.String())
}

func short(object string) string { return object[:min(12, len(object))] }

// shorten keeps the beginning of a long list for a message.
func shorten(list []string) []string {
	const maximum = 10
	var short []string
	for i, text := range list {
		if i == maximum {
			return append(short, fmt.Sprintf("and %d more", len(list)-maximum))
		}
		short = append(short, plain(text))
	}
	return short
}

// confirm asks on the terminal. Without one nobody can answer.
func confirm(cmd *cobra.Command, question string) error {
	in := cmd.InOrStdin()
	if w, ok := in.(io.Writer); !ok || !terminal(w) {
		return fmt.Errorf("%s Nobody can answer here, so nothing was signed: --yes says that this is meant", question)
	}
	fmt.Fprintf(cmd.ErrOrStderr(), "%s [y/N] ", question)
	answer, err := bufio.NewReader(in).ReadString('\n')
	if err != nil && err != io.EOF {
		return fmt.Errorf("read the answer: %w", err)
	}
	switch strings.ToLower(strings.TrimSpace(answer)) {
	case "y", "yes":
		return nil
	}
	return errors.New("nothing was signed: --yes says that this is meant")
}
