package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"talon/host"
	hostgrasp "talon/host/grasp"
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
	f.StringVar(&what.head, "head", "", "the `branch` that HEAD is to name, which clones check out (default as it is)")
	f.BoolVar(&what.prune, "prune", false, "remove the branches and tags that are not in the local repository")
	f.BoolVar(&what.yes, "yes", false, "do not ask before commits are lost")
	printFlag(cmd, &show)
	cmd.RunE = func(cmd *cobra.Command, addresses []string) error {
		return runState(cmd, &who, &how, &what, addresses, show)
	}
	return cmd
}

func runState(cmd *cobra.Command, who *signing, how *sending, what *stating, addresses []string, show bool) error {
	if what.identifier == "" {
		return errors.New("the repository has no identifier: say with --identifier which one it was announced by")
	}
	local, err := readRefs(cmd.Context(), what.dir)
	if err != nil {
		return fmt.Errorf("read the refs of %s: %w", what.dir, err)
	}
	if !show || len(addresses) > 0 {
		if err := errors.Join(relayArgs(cmd, addresses), how.check(addresses)); err != nil {
			return err
		}
	}
	key, err := loadKey(who.keyFile)
	if err != nil {
		return err
	}
	warnKeyInRepository(cmd, who.keyFile)
	now := &served{}
	if len(addresses) > 0 {
		if now, err = what.served(cmd, how, addresses, &key); err != nil {
			return err
		}
	}
	plan, err := planState(now.state, local.refs, what.prune)
	if err != nil {
		return err
	}
	if err := plan.setHead(what.head, local.head); err != nil {
		return err
	}
	plan.write(cmd.ErrOrStderr())
	lost := plan.lost(cmd.Context(), what.dir)
	if len(lost) > 0 && !what.yes {
		if err := confirm(cmd, fmt.Sprintf("Removed or moved back: %s. Sign this?", strings.Join(shorten(lost), ", "))); err != nil {
			return err
		}
	}
	e, err := plan.event(what.identifier)
	if err != nil {
		return err
	}
	if err := who.later(e, now.state); err != nil {
		return err
	}
	if show {
		if _, err := who.sign(e); err != nil {
			return err
		}
		return printEvent(cmd, e)
	}
	_, err = sendVersion(cmd, who, how, e, addresses)
	return err
}

// served returns what relays serve of the repository that the options name.
func (s *stating) served(cmd *cobra.Command, how *sending, addresses []string, key *secretKey) (*served, error) {
	author, err := key.public()
	if err != nil {
		return nil, err
	}
	repo := grasp.Repo{PubKey: author, Identifier: s.identifier}
	if s.owner != "" {
		if repo.PubKey, err = nip19.ParsePubKey(strings.TrimPrefix(s.owner, "nostr:")); err != nil {
			return nil, fmt.Errorf("the owner %.80q is wrong: %w", s.owner, err)
		}
	}
	now, err := readServed(cmd, how, addresses, key, repo)
	if err != nil {
		return nil, err
	}
	if s.owner == "" && !now.announced {
		// A new repository of the author, or somebody else's.
		owners, err := readOwners(cmd, how, addresses, key, s.identifier, author)
		if err != nil {
			return nil, err
		}
		if len(owners) > 0 {
			return nil, fmt.Errorf("the key has announced no repository %q; others have, and list it as a maintainer: say with --owner whose it is (%s)",
				s.identifier, strings.Join(shorten(owners), ", "))
		}
	}
	return now, now.checkAuthor(author, repo)
}

// checkAuthor refuses a state that no server would take.
func (s *served) checkAuthor(author host.PubKey, repo grasp.Repo) error {
	if !s.announced {
		return nil // not yet served; its server knows
	}
	for _, key := range s.maintainers {
		if key == grasp.PubKey(author) {
			return nil
		}
	}
	return fmt.Errorf("%s is no maintainer of the repository: its announcement, by %s, does not list it", nip19.EncodeNpub(author), nip19.EncodeNpub(repo.PubKey))
}

// checkState reads a state as a server does. One with a fault would be accepted
// and then wait for ever for a push that meets it.
func checkState(e *host.Event) error {
	state, err := grasp.ParseState(hostgrasp.Event(e))
	if err != nil {
		return errors.New(strings.TrimPrefix(err.Error(), "invalid: "))
	}
	for _, f := range state.Faults {
		return fmt.Errorf("no server can have the ref %q: %s", f.Ref, f.Reason)
	}
	return nil
}

// later gives a state a time after that of the state in effect: of two in one second
// the one with the lower id would count.
func (s *signing) later(e *host.Event, inEffect *grasp.State) error {
	e.CreatedAt = s.time()
	if inEffect == nil || e.CreatedAt > inEffect.CreatedAt {
		return nil
	}
	if s.cmd.Flags().Changed("created-at") {
		return fmt.Errorf("the value of option created-at must be more than %d, the time of the state in effect", inEffect.CreatedAt)
	}
	e.CreatedAt = inEffect.CreatedAt + 1
	return nil
}

// sendVersion signs a state or an announcement and sends it. A relay may have a newer one that it does not
// serve yet, of the same second perhaps: then the state gets a later time. It returns
// whether a relay holds the state until its data arrives.
func sendVersion(cmd *cobra.Command, who *signing, how *sending, e *host.Event, addresses []string) (held bool, err error) {
	const attempts = 5
	for n := 1; ; n++ {
		key, err := who.sign(e)
		if err != nil {
			return false, err
		}
		p := newPublisher(cmd, how, addresses, &key)
		answers := p.send(cmd.Context(), e)
		older := false
		for _, a := range answers {
			older = older || a.err == nil && supersededBy(a.Reason)
			held = held || a.err == nil && strings.HasPrefix(a.Reason, "purgatory:")
		}
		if older && n < attempts && !who.cmd.Flags().Changed("created-at") {
			_ = p.close()
			e.CreatedAt++
			continue
		}
		err = errors.Join(p.write(e, answers), p.close())
		if err == nil && older {
			err = errors.New("a relay has a newer version than this one, which it may not serve yet: wait until its data is there, or sign with a later --created-at")
		}
		return held, err
	}
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
