package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"talon/host"
	hostgrasp "talon/host/grasp"
	"talon/host/relayclient"
	"talon/host/schnorr"
	"talon/host/wire"
	"talon/sdk/grasp"
	"talon/sdk/nip19"
)

// served is what relays serve of a repository.
type served struct {
	announced   bool           // the owner's announcement is there
	maintainers []grasp.PubKey // the owner first
	state       *grasp.State   // the one in effect, nil if there is none
}

// Bounds of what relays are asked about one repository.
const (
	maxAuthors    = 100 // of one filter
	maxKeys       = 1000
	maintainDepth = 20 // announcements that are followed one after the other
)

// readServed asks relays for the announcements of a repository's maintainers and for
// the newest state that one of them signed. Each relay must answer: a state that is
// made without what one of them knows would take it away.
func readServed(cmd *cobra.Command, how *sending, addresses []string, key *secretKey, repo grasp.Repo) (*served, error) {
	a := newAsker(cmd, how, addresses, key)
	defer a.close()
	s := &served{}
	var announcements []*grasp.Announcement
	asked := map[grasp.PubKey]bool{}
	next := []grasp.PubKey{repo.PubKey}
	for range maintainDepth {
		events, err := a.events(cmd.Context(), grasp.KindAnnouncement, repo.Identifier, next)
		if err != nil {
			return nil, err
		}
		for _, key := range next {
			asked[key] = true
		}
		for _, e := range events {
			if an, err := grasp.ParseAnnouncement(hostgrasp.Event(e)); err == nil {
				announcements = append(announcements, an)
				s.announced = s.announced || an.PubKey == repo.PubKey
			}
		}
		next = nil
		s.maintainers = grasp.NewGraph(announcements).Maintainers(repo.PubKey)
		for _, key := range s.maintainers {
			if !asked[key] && len(asked)+len(next) < maxKeys {
				next = append(next, key)
			}
		}
		if len(next) == 0 {
			break
		}
	}
	if !s.announced {
		s.maintainers = []grasp.PubKey{repo.PubKey}
	}
	events, err := a.events(cmd.Context(), grasp.KindState, repo.Identifier, s.maintainers)
	if err != nil {
		return nil, err
	}
	var states []*grasp.State
	for _, e := range events {
		if st, err := grasp.ParseState(hostgrasp.Event(e)); err == nil {
			states = append(states, st)
		}
	}
	s.state = grasp.Latest(states, s.maintainers)
	return s, nil
}

// readOwners returns the npubs of those whose announcement of an identifier lists a
// maintainer.
func readOwners(cmd *cobra.Command, how *sending, addresses []string, key *secretKey, identifier string, maintainer grasp.PubKey) ([]string, error) {
	a := newAsker(cmd, how, addresses, key)
	defer a.close()
	events, err := a.events(cmd.Context(), grasp.KindAnnouncement, identifier, nil)
	if err != nil {
		return nil, err
	}
	var owners []string
	for _, e := range events {
		an, err := grasp.ParseAnnouncement(hostgrasp.Event(e))
		if err != nil || an.PubKey == maintainer || !slices.Contains(an.Maintainers, maintainer) {
			continue
		}
		if npub := nip19.EncodeNpub(an.PubKey); !slices.Contains(owners, npub) {
			owners = append(owners, npub)
		}
	}
	return owners, nil
}

// asker asks relays for events, over one connection each.
type asker struct {
	targets []*target
	conns   []*relayclient.Conn
}

func newAsker(cmd *cobra.Command, how *sending, addresses []string, key *secretKey) *asker {
	a := &asker{}
	for _, address := range slices.Compact(slices.Sorted(slices.Values(addresses))) {
		a.targets = append(a.targets, &target{address: address, timeout: how.timeout, opts: clientOptions(cmd, address, key)})
	}
	a.conns = make([]*relayclient.Conn, len(a.targets))
	return a
}

func (a *asker) close() {
	for _, c := range a.conns {
		if c != nil {
			_ = c.Close()
		}
	}
}

// events returns the events of a kind and an identifier that the relays serve, those
// of some authors or of anybody. What a relay sends is checked.
func (a *asker) events(ctx context.Context, kind host.Kind, identifier string, authors []grasp.PubKey) ([]*host.Event, error) {
	var list []*host.Event
	for i, t := range a.targets {
		some := authors
		for first := true; first || len(some) > 0; first = false {
			n := min(len(some), maxAuthors)
			events, err := a.ask(ctx, i, kind, identifier, some[:n])
			if err != nil {
				return nil, fmt.Errorf("ask %s what it has of the repository: %w", t.address, plainError(t.why(err)))
			}
			list, some = append(list, events...), some[n:]
		}
	}
	return list, nil
}

func (a *asker) ask(ctx context.Context, i int, kind host.Kind, identifier string, authors []grasp.PubKey) (list []*host.Event, err error) {
	const maximum = 500 // of one query, which has at most one event an author
	t := a.targets[i]
	ctx, cancel := context.WithTimeout(ctx, t.timeout)
	defer cancel()
	if a.conns[i] == nil {
		if a.conns[i], err = relayclient.Dial(ctx, t.address, t.opts); err != nil {
			return nil, err
		}
	}
	filter := map[string]any{"kinds": []int{int(kind)}, "#d": []string{identifier}, "limit": maximum}
	if len(authors) > 0 {
		var keys []string
		for _, key := range authors {
			keys = append(keys, host.PubKey(key).String())
		}
		filter["authors"] = keys
	}
	text, err := json.Marshal(filter)
	if err != nil {
		return nil, err
	}
	parsed, err := wire.ParseFilter(text, &wire.Limits{Values: 2 * maxAuthors})
	if err != nil {
		return nil, err
	}
	sent := 0
	err = a.conns[i].Query(ctx, text, func(e *host.Event) bool {
		if sent++; sent > maximum {
			return false
		}
		if parsed.Matches(e) && schnorr.Verify(e) == nil {
			list = append(list, e)
		}
		return true
	})
	if err == nil && sent > maximum {
		err = errors.New("it sends more than it was asked for")
	}
	return list, err
}
