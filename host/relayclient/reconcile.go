package relayclient

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"

	"talon/host"
	"talon/host/negentropy"
	"talon/host/wire"
)

// ErrNoNegentropy says that a relay does not compare (NIP-77), or not these events.
var ErrNoNegentropy = errors.New("the relay does not compare events (NIP-77)")

// Reconcile compares the events that match a filter (JSON, NIP-01) with a set, and
// returns the ids that the relay lacks and those that it has beside them. A relay may
// name ids that it does not have. An error that wraps [ErrNoNegentropy] leaves the
// connection open.
func (c *Conn) Reconcile(ctx context.Context, filter []byte, set *negentropy.Set, limits negentropy.ClientLimits) (have, need []host.ID, err error) {
	defer c.bound(ctx)()
	have, need, reason, err := c.reconcile(ctx, filter, set, limits)
	if err == nil && c.mustProve(reason == "", reason) {
		if err := c.prove(ctx); err != nil {
			return nil, nil, err
		}
		have, need, reason, err = c.reconcile(ctx, filter, set, limits)
	}
	if err == nil && reason != "" {
		err = fmt.Errorf("%w: %s", ErrNoNegentropy, reason)
	}
	return have, need, err
}

// reconcile makes one session and returns why the relay refused it, "" if it did not.
func (c *Conn) reconcile(ctx context.Context, filter []byte, set *negentropy.Set, limits negentropy.ClientLimits) (have, need []host.ID, reason string, err error) {
	client, err := negentropy.NewClient(set, limits)
	if err != nil {
		return nil, nil, "", err
	}
	msg, err := client.Initiate()
	if err != nil {
		return nil, nil, "", err
	}
	c.subs++
	sub := "n" + strconv.Itoa(c.subs)
	text := append(append([]byte(`["NEG-OPEN","`+sub+`",`), filter...), `,"`...)
	text = append(hex.AppendEncode(text, msg), '"', ']')
	for {
		if err := c.send(ctx, text); err != nil {
			return nil, nil, "", err
		}
		body, reason, err := c.negAnswer(ctx, sub, client.Rounds() == 0)
		if err != nil || reason != "" {
			return nil, nil, reason, err
		}
		msg, err := hex.DecodeString(body)
		if err != nil {
			return nil, nil, "its message is not hex", c.closeNeg(ctx, sub)
		}
		reply, done, err := client.Reconcile(msg)
		switch {
		case err != nil:
			return nil, nil, err.Error(), c.closeNeg(ctx, sub)
		case done:
			return client.Have(), client.Need(), "", c.closeNeg(ctx, sub)
		}
		text = wire.AppendNegMsg(nil, sub, reply)
	}
}

func (c *Conn) closeNeg(ctx context.Context, sub string) error {
	return c.send(ctx, []byte(`["NEG-CLOSE","`+sub+`"]`))
}

// negAnswer waits for the answer to a message of negentropy: its hex, or why there is
// none. To the first one many relays answer with a notice.
func (c *Conn) negAnswer(ctx context.Context, sub string, first bool) (body, reason string, err error) {
	for {
		if c.err != nil {
			return "", "", c.err
		}
		text, err := c.socket.Read()
		if err != nil {
			return "", "", c.fail(ctx, err)
		}
		if verb, id, body, ok := wire.NegAnswer(text); ok && id == sub {
			switch verb {
			case "NEG-MSG":
				return body, "", nil
			case "NEG-ERR", "NEG-ERROR", "CLOSED": // the second is what khatru says
				return "", nonEmpty(body), nil
			}
		}
		a, err := wire.ParseAnswer(text)
		if err != nil {
			return "", "", c.fail(ctx, fmt.Errorf("the relay sent a message that is not understood: %w", err))
		}
		switch a.Verb {
		case wire.AnswerAuth:
			c.challenge, c.proven = a.Text, false
		case wire.AnswerNotice:
			if first {
				return "", nonEmpty(a.Text), nil
			}
			if c.opts.Notice != nil {
				c.opts.Notice(a.Text)
			}
		}
	}
}

func nonEmpty(reason string) string {
	if reason == "" {
		return "it gives no reason"
	}
	return reason
}

// publishesAtOnce is how many events are sent before the first is answered.
const publishesAtOnce = 64

// PublishAll sends events and calls yield with the answer to each, in the order of the
// answers. If the relay asks for authentication, the client authenticates and sends them
// once more.
func (c *Conn) PublishAll(ctx context.Context, events []*host.Event, yield func(*host.Event, Result)) error {
	defer c.bound(ctx)()
	flying := make(map[host.ID]*host.Event, publishesAtOnce)
	var again []*host.Event
	for len(events) > 0 || len(flying) > 0 {
		for len(events) > 0 && len(flying) < publishesAtOnce {
			e := events[0]
			events = events[1:]
			if flying[e.ID] != nil {
				continue
			}
			flying[e.ID] = e
			if err := c.send(ctx, append(append([]byte(`["EVENT",`), e.JSON...), ']')); err != nil {
				return err
			}
		}
		a, err := c.next(ctx)
		if err != nil {
			return err
		}
		e := flying[a.ID]
		if a.Verb != wire.AnswerOK || e == nil {
			continue
		}
		delete(flying, a.ID)
		if c.mustProve(a.OK, a.Text) {
			again = append(again, e)
		} else {
			yield(e, Result{OK: a.OK, Reason: a.Text})
		}
		if len(events)+len(flying) == 0 && len(again) > 0 {
			if err := c.prove(ctx); err != nil {
				return err
			}
			events, again = again, nil
		}
	}
	return nil
}
