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

	"talon/host"
	"talon/sdk/grasp"
	"talon/sdk/nip19"
)

// stating are the options of a state.
type stating struct {
	identifier, dir, owner, head string
	prune, yes                   bool
}

func eventStateCommand() *cobra.Command {
	var who signing
	var how sending
	var what stating
	var show bool
	cmd := &cobra.Command{
		Use:   "state RELAY...",
		Short: "Say with a signature where a repository's branches and tags are (NIP-34)",
		Long: `Sign a repository state (kind 30618, NIP-34) made of the branches and tags of a local git repository, and send it to relays.
talon event push signs and pushes in one step; this command is for those who push by other means.

It asks the relays for the state in effect and shows what changes. Branches and tags that are not in the local repository stay as they are, unless --prune
removes them, and HEAD stays where it is, unless --head moves it. Before commits are lost, by a branch that goes or moves back, it asks; without a terminal
it refuses, unless --yes says so.

A GRASP server takes the push that makes its repository the same as the state: send the state first, then push what has changed, all of it at once. An
annotated tag stands for itself, as git push sends it, not for the commit behind it.`,
		Example: `  talon event state --key alice.key --identifier demo ws://localhost:7777
  git push http://localhost:7777/npub1…/demo.git 'refs/heads/*' 'refs/tags/*'`,
		Args: cobra.ArbitraryArgs,
	}
	who.flags(cmd)
	how.flags(cmd)
	f := cmd.Flags()
	f.StringVar(&what.identifier, "identifier", "", "the repository's identifier (tag d), as in its announcement")
	f.StringVar(&what.owner, "owner", "", "the `npub` that announced the repository (default that of the key)")
	f.StringVar(&what.dir, "git", ".", "the `folder` of the local repository")
	f.StringVar(&what.head, "head", "", "the `branch` for HEAD, which clones check out (default: HEAD stays)")
	f.BoolVar(&what.prune, "prune", false, "remove the branches and tags that are not in the local repository")
	f.BoolVar(&what.yes, "yes", false, "do not ask before commits are lost")
	printFlag(cmd, &show)
	cmd.RunE = func(cmd *cobra.Command, addresses []string) error {
		return runState(cmd, &who, &how, &what, addresses, show)
	}
	return cmd
}

// checkAuthor refuses a state that no server would take.
func (s *served) checkAuthor(author host.PubKey, repo grasp.Repo) error {
	if !s.announced {
		return nil // not yet served; its server knows
	}
	for _, key := range s.maintainers {
		if key == author {
			return nil
		}
	}
	return fmt.Errorf("%s is no maintainer of the repository: its announcement, by %s, does not list it", nip19.EncodeNpub(author), nip19.EncodeNpub(repo.PubKey))
}

// checkState reads a state as a server does. One with a fault would be accepted
// and then wait for ever for a push that meets it.
func checkState(e *host.Event) error {
	state, err := e.State()
	if err != nil {
		return errors.New(strings.TrimPrefix(err.Error(), "invalid: "))
	}
	for _, f := range state.Faults {
		return fmt.Errorf("no server can have the ref %q: %s", f.Ref, f.Reason)
	}
	return nil
}

// setTime gives an event its time. The time is after that of the newest known version: of two in
// one second the one with the lower id would count.
func (s *signing) setTime(e *host.Event, newest int64) error {
	e.CreatedAt = s.time()
	if e.CreatedAt > newest {
		return nil
	}
	if s.cmd.Flags().Changed("created-at") {
		return fmt.Errorf("the value of option created-at must be more than %d, the time of the newest version", newest)
	}
	e.CreatedAt = newest + 1
	return nil
}

// errOlder says that a state or an announcement did not replace what is there.
var errOlder = errors.New("a relay has a newer version than this one, which it may not serve yet: wait until its data is there, or sign with a later --created-at")

// sendVersion sends a signed state or announcement. It returns whether a relay holds it until its
// data arrives. Older says that a relay has a newer version, which may not be served yet; then
// the answers are not shown.
func sendVersion(cmd *cobra.Command, how *sending, e *host.Event, addresses []string, key signer) (held, older bool, err error) {
	p := newPublisher(cmd, how, addresses, key)
	answers := p.send(cmd.Context(), e)
	for _, a := range answers {
		older = older || a.err == nil && supersededBy(a.Reason)
		held = held || a.err == nil && strings.HasPrefix(a.Reason, "purgatory:")
	}
	if older {
		_ = p.close()
		return false, true, nil
	}
	return held, false, errors.Join(p.write(e, answers), p.close())
}

// supersededBy reports whether a relay's reason says that it has a newer version.
func supersededBy(reason string) bool {
	prefix, text, _ := strings.Cut(reason, ": ")
	return (prefix == "duplicate" || prefix == "replaced") && strings.Contains(text, "newer")
}

// event returns the state that was planned, not signed.
func (p *statePlan) event(identifier string) (*host.Event, error) {
	e := &host.Event{Kind: grasp.KindState, Tags: host.Tags{{"d", identifier}}}
	for _, ref := range p.refs() {
		e.Tags = append(e.Tags, host.Tag{ref, p.next[ref]})
	}
	if p.head != "" {
		e.Tags = append(e.Tags, host.Tag{"HEAD", "ref: " + p.head})
	}
	return e, checkState(e)
}

// statePlan is a new state together with the one in effect. Refs are objects by name.
type statePlan struct {
	now, next     map[string]string
	nowHead, head string
	kept          int // refs of the state in effect that are not in the local repository
}

// planState returns the state in effect, nil if there is none, with the local refs over it.
// Refs that the local repository lacks stay; prune removes them.
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

// put sets a ref of the new state, or removes it if the object is empty. The object of HEAD is the
// branch that it names.
func (p *statePlan) put(ref, object string) {
	switch {
	case ref == headKey:
		p.head = object
	case object == "":
		delete(p.next, ref)
	default:
		p.next[ref] = object
	}
}

// changes returns what the plan changes, for put.
func (p *statePlan) changes() map[string]string {
	added, moved, removed := p.difference()
	list := map[string]string{}
	for _, ref := range slices.Concat(added, moved, removed) {
		list[ref] = p.next[ref]
	}
	if p.head != p.nowHead {
		list[headKey] = p.head
	}
	return list
}

func (p *statePlan) check() error {
	if len(p.next) == 0 {
		return errors.New("the state would have no branches and no tags, which means that its author does not track the repository any more")
	}
	return nil
}

// setHead moves HEAD to a branch that was asked for. Otherwise HEAD stays. In a first state
// it is that of the local repository, or the only branch.
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
