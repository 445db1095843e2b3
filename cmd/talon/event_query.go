package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/spf13/cobra"

	"talon/host"
	"talon/host/maintainers"
	"talon/host/relayclient"
	"talon/host/schnorr"
	"talon/host/wire"
	"talon/sdk/grasp"
	"talon/sdk/nip19"
)

// maxQuery bounds --limit.
const maxQuery = 1_000_000

func eventQueryCommand() *cobra.Command {
	var who signing
	var how sending
	var limit int
	cmd := &cobra.Command{
		Use:   "query RELAY [FILTER]",
		Short: "Print the events that a relay has stored",
		Long: `Print the events that a relay has stored and that a filter (NIP-01) matches, as JSONL, newest first. Without a filter: all.

In authors and #p of the filter a key may be an npub; in ids and #e an event may be a note or a nevent. What the relay sends is checked: an event that the filter
does not match, or whose signature is wrong, is not printed. A key is only needed for relays that ask for one.`,
		Example: `  talon event query ws://localhost:7777
  talon event query ws://localhost:7777 '{"kinds":[30617],"authors":["npub1…"]}'`,
		Args: func(cmd *cobra.Command, args []string) error {
			if err := relayArgs(cmd, args); err != nil {
				return err
			}
			return cobra.MaximumNArgs(2)(cmd, args)
		},
	}
	who.keyFlags(cmd)
	how.flags(cmd)
	cmd.Flags().IntVar(&limit, "limit", 500, "at most so many events; the filter's own limit counts if it is lower")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := how.check(args[:1]); err != nil {
			return err
		}
		if limit < 1 || limit > maxQuery {
			return fmt.Errorf("the value of option limit must be from 1 to %d", maxQuery)
		}
		text := "{}"
		if len(args) == 2 {
			text = args[1]
		}
		q, err := newQuery([]byte(text), limit)
		if err != nil {
			return fmt.Errorf("the filter is wrong: %w", err)
		}
		key, err := who.openIfNamed()
		if err != nil {
			return err
		}
		if key != nil {
			defer key.close()
		}
		return q.run(cmd, newTarget(cmd, &how, args[0], key))
	}
	return cmd
}

// query is a filter, and how it is sent.
type query struct {
	filter host.Filter
	json   []byte
	limit  int
}

// newQuery reads a filter, replaces keys and ids in the forms that people write by hex, and
// gives it a limit.
func newQuery(text []byte, limit int) (*query, error) {
	lim := wire.Limits{Values: 100_000}
	parts := map[string]json.RawMessage{}
	if err := json.Unmarshal(text, &parts); err != nil {
		// Its reader says what is wrong, in its words.
		if _, err := wire.ParseFilter(text, &lim); err != nil {
			return nil, err
		}
		return nil, err
	}
	for name, part := range parts {
		changed, err := plainList(name, part)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		parts[name] = changed
	}
	q := &query{limit: limit}
	plain, err := json.Marshal(parts)
	if err != nil {
		return nil, err
	}
	if q.filter, err = wire.ParseFilter(plain, &lim); err != nil {
		return nil, err
	}
	if q.filter.Limit >= 0 {
		q.limit = min(limit, q.filter.Limit)
	}
	parts["limit"] = strconv.AppendInt(nil, int64(q.limit), 10)
	q.json, err = json.Marshal(parts)
	return q, err
}

// plainList puts hex for npub, note and nevent in a list of a filter.
func plainList(name string, part json.RawMessage) (json.RawMessage, error) {
	tag, ok := map[string]string{"authors": "p", "#p": "p", "#P": "P", "ids": "e", "#e": "e", "#E": "E", "#q": "q", "#a": "a", "#A": "A"}[name]
	var list []string
	if !ok || json.Unmarshal(part, &list) != nil || !slices.ContainsFunc(list, written) {
		return part, nil // the reader of filters says what is wrong with it
	}
	for i, v := range list {
		plain, err := plainValue(tag, v)
		if err != nil {
			return nil, err
		}
		list[i] = plain
	}
	return json.Marshal(list)
}

// written reports whether a value is longer than hex, or no hex: it may be of NIP-19.
func written(v string) bool {
	_, err := nip19.ParsePubKey(v)
	return err != nil || len(v) != 64
}

func (q *query) run(cmd *cobra.Command, t *target) (err error) {
	defer t.close()
	out := bufio.NewWriter(cmd.OutOrStdout())
	got, wrong := 0, 0
	var failed error
	err = t.ask(cmd.Context(), func(ctx context.Context, c *relayclient.Conn) error {
		return c.Query(ctx, q.json, func(e *host.Event) bool {
			if got++; got > q.limit {
				return false
			}
			if !q.filter.Matches(e) || schnorr.Verify(e) != nil {
				wrong++
				return true
			}
			_, _ = out.Write(e.JSON)
			failed = out.WriteByte('\n')
			return failed == nil
		})
	})
	if wrong > 0 {
		fmt.Fprintf(cmd.ErrOrStderr(), "%d events are not printed: the filter does not match them, or their signature is wrong\n", wrong)
	}
	if err != nil {
		err = plainError(err)
	}
	return errors.Join(err, failed, out.Flush())
}

// served is what relays serve of a repository.
type served struct {
	announced   bool           // the owner's announcement is there
	maintainers []grasp.PubKey // the owner first
	state       *grasp.State   // the one in effect, nil if there is none
	latest      int64          // time of the newest state of a maintainer, with refs or without
}

// Bounds of what relays are asked about one repository.
const (
	maxAuthors = 100 // of one filter
)

// setState notes the newest state of the maintainers, and the time of the newest that says
// nothing of refs.
func (s *served) setState(states []*grasp.State) {
	s.state = grasp.Latest(states, s.maintainers)
	s.latest = 0
	for _, st := range states {
		if slices.Contains(s.maintainers, st.PubKey) {
			s.latest = max(s.latest, st.CreatedAt)
		}
	}
}

// maintainers asks who maintains a repository.
func (a asker) maintainers(ctx context.Context, repo grasp.Repo) (*served, error) {
	s := &served{maintainers: []grasp.PubKey{repo.PubKey}}
	list, err := maintainers.Walk(repo.PubKey, func(authors []grasp.PubKey) (found []maintainers.Announced, err error) {
		events, err := a.events(ctx, grasp.KindAnnouncement, repo.Identifier, authors)
		for _, e := range events {
			if an, err := e.Announcement(); err == nil {
				found = append(found, maintainers.Announced{Announcement: an})
				s.announced = s.announced || an.PubKey == repo.PubKey
			}
		}
		return found, err
	})
	if err == nil && s.announced {
		s.maintainers = maintainers.Graph(list).Maintainers(repo.PubKey)
	}
	return s, err
}

// states asks for the states that some authors signed.
func (a asker) states(ctx context.Context, identifier string, authors []grasp.PubKey) (states []*grasp.State, err error) {
	events, err := a.events(ctx, grasp.KindState, identifier, authors)
	for _, e := range events {
		if st, err := e.State(); err == nil {
			states = append(states, st)
		}
	}
	return states, err
}

// readOwners returns the npubs of those whose announcement of an identifier lists a
// maintainer.
func readOwners(cmd *cobra.Command, how *sending, addresses []string, key signer, identifier string, maintainer grasp.PubKey) ([]string, error) {
	a := newAsker(cmd, how, addresses, key)
	defer a.close()
	events, err := a.events(cmd.Context(), grasp.KindAnnouncement, identifier, nil)
	if err != nil {
		return nil, err
	}
	var owners []string
	for _, e := range events {
		an, err := e.Announcement()
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
type asker []*target

func newAsker(cmd *cobra.Command, how *sending, addresses []string, key signer) asker {
	return newTargets(cmd, how, slices.Sorted(slices.Values(addresses)), key)
}

func (a asker) close() {
	for _, t := range a {
		t.close()
	}
}

// events returns the events of a kind and an identifier that the relays serve, those of
// some authors or of anybody. It checks each event that a relay sends.
func (a asker) events(ctx context.Context, kind host.Kind, identifier string, authors []grasp.PubKey) ([]*host.Event, error) {
	var list []*host.Event
	for _, t := range a {
		some := authors
		for first := true; first || len(some) > 0; first = false {
			n := min(len(some), maxAuthors)
			events, err := t.events(ctx, kind, identifier, some[:n])
			if err != nil {
				return nil, fmt.Errorf("ask %s what it has of the repository: %w", t.address, plainError(err))
			}
			list, some = append(list, events...), some[n:]
		}
	}
	return list, nil
}

func (t *target) events(ctx context.Context, kind host.Kind, identifier string, authors []grasp.PubKey) (list []*host.Event, err error) {
	text, err := json.Marshal(repoFilter(kind, identifier, authors))
	if err != nil {
		return nil, err
	}
	parsed, err := wire.ParseFilter(text, &wire.Limits{Values: 2 * maxAuthors})
	if err != nil {
		return nil, err
	}
	sent := 0
	err = t.ask(ctx, func(ctx context.Context, c *relayclient.Conn) error {
		return c.Query(ctx, text, func(e *host.Event) bool {
			if sent++; sent > maxAnswer {
				return false
			}
			if parsed.Matches(e) && schnorr.Verify(e) == nil {
				list = append(list, e)
			}
			return true
		})
	})
	if err == nil && sent > maxAnswer {
		err = errors.New("it sends more than it was asked for")
	}
	return list, err
}

// maxAnswer bounds the events of one answer about a repository. It has at most one an author.
const maxAnswer = 500

// repoFilter asks for the events of a kind and an identifier, of some authors or of anybody.
func repoFilter(kind host.Kind, identifier string, authors []grasp.PubKey) map[string]any {
	filter := map[string]any{"kinds": []int{int(kind)}, "#d": []string{identifier}, "limit": maxAnswer}
	if len(authors) > 0 {
		var keys []string
		for _, key := range authors {
			keys = append(keys, host.PubKey(key).String())
		}
		filter["authors"] = keys
	}
	return filter
}
