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
	"talon/host/relayclient"
	"talon/host/schnorr"
	"talon/host/wire"
	"talon/sdk/nip19"
)

// maxQuery bounds --limit.
const maxQuery = 1_000_000

func eventQueryCommand() *cobra.Command {
	var file string
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
	keyFlag(cmd, &file)
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
		var key *secretKey
		if keyFile(file) != "" {
			k, err := loadKey(file)
			if err != nil {
				return err
			}
			key = &k
		}
		return q.run(cmd, &target{address: args[0], timeout: how.timeout, opts: clientOptions(cmd, args[0], key)})
	}
	return cmd
}

// query is a filter, and how it is sent.
type query struct {
	filter host.Filter
	json   []byte
	limit  int
}

// newQuery reads a filter, puts hex for what stands there as people write it, and
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
	ctx, cancel := context.WithTimeout(cmd.Context(), t.timeout)
	defer cancel()
	conn, err := relayclient.Dial(ctx, t.address, t.opts)
	if err != nil {
		return plainError(t.why(err))
	}
	defer conn.Close()
	out := bufio.NewWriter(cmd.OutOrStdout())
	got, wrong := 0, 0
	var failed error
	err = conn.Query(ctx, q.json, func(e *host.Event) bool {
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
	if wrong > 0 {
		fmt.Fprintf(cmd.ErrOrStderr(), "%d events are not printed: the filter does not match them, or their signature is wrong\n", wrong)
	}
	if err != nil {
		err = plainError(t.why(err))
	}
	return errors.Join(err, failed, out.Flush())
}

// plainError is an error that may quote a relay, as a terminal may see it.
func plainError(err error) error { return errors.New(shown(err.Error())) }
