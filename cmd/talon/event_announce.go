package main

import (
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"unicode"

	"github.com/spf13/cobra"

	"talon/host"
	"talon/host/relayclient"
	"talon/sdk/grasp"
	"talon/sdk/nip19"
)

// announcing are the options of an announcement; their names are NIP-34's.
type announcing struct {
	name, identifier, description, unique string
	clone, relay, web, maintainer, server []string
	dir                                   string // of the repository that is announced
}

func eventAnnounceCommand() *cobra.Command {
	var who signing
	var how sending
	var what announcing
	var show bool
	cmd := &cobra.Command{
		Use:   "announce [RELAY...]",
		Short: "Announce a git repository (NIP-34)",
		Long: `Sign a repository announcement (kind 30617, NIP-34) and send it to relays.

--server names a GRASP server, one that is both relay and git server: its clone URL, http(s)://HOST/NPUB/IDENTIFIER.git, and its relay URL go into the
announcement, and the announcement goes to it. A new announcement with the same identifier replaces the old one, all of it.

In a git repository it adds the first commit, by which others know the repository from one of the same name.

On standard output are the answers, a line for each, and then the URL of the repository at each server.`,
		Example: `  talon event announce --key alice.key --name 'My demo' --server ws://localhost:7777
  talon event announce --key alice.key --name demo --maintainer npub1… --server wss://one.example --server wss://two.example
  talon event announce --key alice.key --name demo --clone https://git.example/demo.git --relay wss://relay.example wss://relay.example`,
		Args: cobra.ArbitraryArgs,
	}
	who.flags(cmd)
	how.flags(cmd)
	f := cmd.Flags()
	f.StringVar(&what.name, "name", "", "the repository's `name`, for people")
	f.StringVar(&what.identifier, "identifier", "", "the repository's `identifier` (tag d), part of its URLs (default the name in lower case, with - for what is no letter or digit)")
	f.StringVar(&what.description, "description", "", "a short description, one line of `text`")
	f.StringArrayVar(&what.server, "server", nil, "the `url` of a GRASP server, ws://HOST[:PORT] or wss://HOST; may be repeated")
	f.StringArrayVar(&what.clone, "clone", nil, "a `url` to clone from; may be repeated")
	f.StringArrayVar(&what.relay, "relay", nil, "a relay `url` where the repository's events are; may be repeated")
	f.StringArrayVar(&what.web, "web", nil, "a `url` of a page for people; may be repeated")
	f.StringArrayVar(&what.maintainer, "maintainer", nil, "another maintainer, an `npub`; may be repeated")
	f.StringVar(&what.unique, "earliest-unique-commit", "", "the `commit` that tells the repository from others (default the first of the repository in --git)")
	f.StringVar(&what.dir, "git", ".", "the `folder` of the local repository, if there is one")
	printFlag(cmd, &show)
	cmd.RunE = func(cmd *cobra.Command, addresses []string) error {
		key, author, err := who.identity()
		if err != nil {
			return err
		}
		defer key.close()
		if !cmd.Flags().Changed("earliest-unique-commit") {
			what.unique = earliestCommit(cmd.Context(), what.dir)
		}
		e, err := what.event(author)
		if err != nil {
			return err
		}
		addresses = append(slices.Clone(what.server), addresses...)
		if !show {
			if err := relayArgs(cmd, addresses); err != nil {
				return err
			}
			if err := how.check(addresses); err != nil {
				return err
			}
		}
		if err := what.send(cmd, &who, &how, e, addresses, key, show); err != nil || show {
			return err
		}
		for _, s := range what.server {
			if u, err := serverClone(s, author, e.D()); err == nil {
				fmt.Fprintln(cmd.OutOrStdout(), u)
			}
		}
		return nil
	}
	return cmd
}

func printFlag(cmd *cobra.Command, show *bool) {
	cmd.Flags().BoolVar(show, "print", false, "print the signed event and send it nowhere")
}

// send signs the announcement and sends it, or prints it. A relay may have a newer one that it
// does not serve yet: then the announcement gets a later time, for it replaces all of that one.
func (a *announcing) send(cmd *cobra.Command, who *signing, how *sending, e *host.Event, addresses []string, key signer, show bool) error {
	const attempts = 5
	e.CreatedAt = who.time()
	for n := 1; ; n++ {
		if err := key.sign(e); err != nil {
			return err
		}
		if show {
			return printEvent(cmd, e)
		}
		_, older, err := sendVersion(cmd, how, e, addresses, key)
		switch {
		case err != nil || !older:
			return err
		case n == attempts || cmd.Flags().Changed("created-at"):
			return errOlder
		}
		e.CreatedAt++
	}
}

// event returns the announcement, not signed. A wrong option is an error here, where its
// author sees it. Otherwise it would make a repository that is hard to find.
func (a *announcing) event(author host.PubKey) (*host.Event, error) {
	id := a.identifier
	if id == "" {
		if a.name == "" {
			return nil, errors.New("the repository has no name: say it with --name")
		}
		if id = identifierOf(a.name); id == "" {
			return nil, fmt.Errorf("the name %q has no letter or digit to make an identifier of: say one with --identifier", a.name)
		}
	}
	if err := grasp.CheckIdentifier(id); err != nil {
		return nil, err
	}
	clone, relays := slices.Clone(a.clone), slices.Clone(a.relay)
	for _, s := range a.server {
		u, err := serverClone(s, author, id)
		if err != nil {
			return nil, fmt.Errorf("the server %q is wrong: %w", s, err)
		}
		clone, relays = append(clone, u), append(relays, strings.TrimSuffix(s, "/"))
	}
	for _, r := range a.relay {
		if err := relayclient.CheckURL(r); err != nil {
			return nil, fmt.Errorf("the relay %q is wrong: %w", r, err)
		}
	}
	for _, u := range slices.Concat(a.clone, a.web) {
		if err := checkWebURL(u); err != nil {
			return nil, err
		}
	}
	maintainers, err := hexKeys(a.maintainer)
	if err != nil {
		return nil, err
	}
	unique, whole := grasp.ParseObject(a.unique)
	if a.unique != "" && !whole {
		return nil, fmt.Errorf("the commit %q is wrong: it must have 40 or 64 hex digits, as git rev-list --max-parents=0 HEAD prints them", a.unique)
	}

	e := &host.Event{Kind: grasp.KindAnnouncement, Tags: host.Tags{{"d", id}}}
	add := func(name string, values ...string) {
		if len(values) > 0 && values[0] != "" { // no tag for what was not said
			e.Tags = append(e.Tags, append(host.Tag{name}, values...))
		}
	}
	add("name", a.name)
	add("description", a.description)
	add("web", a.web...)
	add("clone", clone...)
	add("relays", relays...)
	add("r", unique, "euc")
	add("maintainers", maintainers...)
	return e, nil
}

// checkWebURL refuses what nobody else could open, and does not repeat passwords.
func checkWebURL(text string) error {
	u, err := url.Parse(text)
	if err != nil || u.Scheme == "" || u.Host == "" {
		return fmt.Errorf("the URL %q is wrong: it must be whole, such as https://example.com/demo.git", text)
	}
	if _, has := u.User.Password(); has {
		return fmt.Errorf("the URL %q is wrong: everybody would read its password", u.Redacted())
	}
	return nil
}

// serverClone returns the URL at which a GRASP server has a repository.
func serverClone(server string, author host.PubKey, id string) (string, error) {
	if err := relayclient.CheckURL(server); err != nil {
		return "", err
	}
	u, err := url.Parse(server)
	if err != nil {
		return "", err
	}
	if u.Path != "" && u.Path != "/" || u.RawQuery != "" {
		return "", errors.New("it must have no path: a GRASP server is at /")
	}
	scheme := map[string]string{"ws": "http", "wss": "https"}[u.Scheme]
	return scheme + "://" + u.Host + grasp.Repo{PubKey: author, Identifier: id}.Path(), nil
}

// identifierOf makes an identifier of a name.
func identifierOf(name string) string {
	words := strings.FieldsFunc(strings.ToLower(name), func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) })
	return strings.Join(words, "-")
}

func hexKeys(list []string) ([]string, error) {
	var keys []string
	for _, text := range list {
		key, err := nip19.ParsePubKey(strings.TrimPrefix(text, "nostr:"))
		if err != nil {
			return nil, fmt.Errorf("the maintainer %.80q is wrong: %w", text, err)
		}
		keys = append(keys, host.PubKey(key).String())
	}
	return keys, nil
}
