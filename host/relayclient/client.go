// Package relayclient sends events to a relay and asks it for events, as a client of
// NIP-01 does, over one websocket.
//
// Invariants:
//
//  1. The relay is not trusted. Its output is bounded in bytes (the handshake, a
//     message) and in time: every call ends when its context does.
//  2. A message is held in memory as it arrives, not as its header claims.
//  3. After an error the connection is closed, and every later call returns that
//     error.
//  4. A key proves itself (NIP-42) only to a relay that asks for it: never before
//     an answer "auth-required: …".
//
// It does not check the ids and signatures of events, or that they match the request: the
// caller does that. It does not reconnect, and follows no redirect.
package relayclient

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"talon/host"
	"talon/host/negentropy"
	"talon/host/wire"
)

// send sends a text message.
func (c *Conn) send(ctx context.Context, text []byte) error {
	if c.err != nil {
		return c.err
	}
	if err := c.socket.Write(text); err != nil {
		return c.fail(ctx, fmt.Errorf("send: %w", err))
	}
	return nil
}

// next returns the next answer that is for the caller: challenges are remembered
// and notices handed on.
func (c *Conn) next(ctx context.Context) (wire.Answer, error) {
	for {
		text, err := c.read(ctx)
		if err != nil {
			return wire.Answer{}, err
		}
		a, err := c.receive(ctx, text)
		if err != nil || a.Verb != wire.AnswerNotice && a.Verb != wire.OtherAnswer {
			return a, err
		}
		c.notice(a)
	}
}

// read returns the next message.
func (c *Conn) read(ctx context.Context) ([]byte, error) {
	if c.err != nil {
		return nil, c.err
	}
	text, err := c.socket.Read()
	if err != nil {
		return nil, c.fail(ctx, err)
	}
	return text, nil
}

// receive reads an answer, and remembers it if it is a challenge.
func (c *Conn) receive(ctx context.Context, text []byte) (wire.Answer, error) {
	a, err := wire.ParseAnswer(text)
	if err != nil {
		return wire.Answer{}, c.fail(ctx, fmt.Errorf("the relay sent a message that is not understood: %w", err))
	}
	if a.Verb == wire.AnswerAuth {
		c.challenge, c.proven = a.Text, false
	}
	return a, nil
}

// notice hands a notice on.
func (c *Conn) notice(a wire.Answer) {
	if a.Verb == wire.AnswerNotice && c.opts.Notice != nil {
		c.opts.Notice(a.Text)
	}
}

// Query asks for the stored events that a filter (JSON, NIP-01) matches and calls yield
// with each until the relay has sent all of them or yield returns false. It does not check
// the events. A relay that does not answer the query is an error with the reason.
func (c *Conn) Query(ctx context.Context, filter []byte, yield func(e *host.Event) bool) error {
	defer c.bound(ctx)()
	reason, err := c.ask(ctx, filter, yield)
	if err == nil && c.mustProve(reason == "", reason) {
		if err := c.prove(ctx); err != nil {
			return err
		}
		reason, err = c.ask(ctx, filter, yield)
	}
	if err == nil && reason != "" {
		err = errors.New("the relay does not answer: " + reason)
	}
	return err
}

// ask makes one subscription and returns why the relay closed it, "" if it did not.
func (c *Conn) ask(ctx context.Context, filter []byte, yield func(e *host.Event) bool) (string, error) {
	sub, err := c.request(ctx, filter)
	if err != nil {
		return "", err
	}
	for more := true; more; {
		a, err := c.next(ctx)
		if err != nil {
			return "", err
		}
		if a.SubID != sub {
			continue
		}
		switch a.Verb {
		case wire.AnswerEvent:
			more = yield(a.Event)
		case wire.AnswerEOSE:
			more = false
		case wire.AnswerClosed:
			return nonEmpty(a.Text), nil
		}
	}
	return "", c.send(ctx, []byte(`["CLOSE","`+sub+`"]`))
}

// Follow asks for the events that filters match (JSON, NIP-01, a comma between two), and calls
// yield with each, also with those that come later. It calls live once, when the relay has sent
// what it has stored. It returns an error when the context or the connection ends, or when the
// relay closes the subscription. It does not check the events.
func (c *Conn) Follow(ctx context.Context, filters []byte, yield func(e *host.Event), live func()) error {
	defer c.bound(ctx)()
	reason, err := c.follow(ctx, filters, yield, live)
	if err == nil && c.mustProve(false, reason) {
		if err := c.prove(ctx); err != nil {
			return err
		}
		reason, err = c.follow(ctx, filters, yield, live)
	}
	if err == nil {
		err = errors.New("the relay ends the subscription: " + reason)
	}
	return err
}

// follow makes one subscription and returns why the relay closed it.
func (c *Conn) follow(ctx context.Context, filters []byte, yield func(e *host.Event), live func()) (string, error) {
	sub, err := c.request(ctx, filters)
	if err != nil {
		return "", err
	}
	for {
		a, err := c.next(ctx)
		if err != nil {
			return "", err
		}
		if a.SubID != sub {
			continue
		}
		switch a.Verb {
		case wire.AnswerEvent:
			yield(a.Event)
		case wire.AnswerEOSE:
			if live != nil {
				live()
				live = nil
			}
		case wire.AnswerClosed:
			return nonEmpty(a.Text), nil
		}
	}
}

// request sends a REQ and returns its subscription.
func (c *Conn) request(ctx context.Context, filters []byte) (sub string, err error) {
	c.subs++
	sub = "q" + strconv.Itoa(c.subs)
	req := append([]byte(`["REQ","`+sub+`",`), filters...)
	return sub, c.send(ctx, append(req, ']'))
}

// authRequired is how a relay says that it wants to know who asks (NIP-42).
const authRequired = "auth-required:"

// Result is the relay's answer to an event.
type Result struct {
	OK     bool
	Reason string // what the relay says; hostile text
}

// Publish sends an event and returns the relay's answer. If the relay asks for
// authentication, the client authenticates and sends the event once more.
func (c *Conn) Publish(ctx context.Context, e *host.Event) (Result, error) {
	defer c.bound(ctx)()
	res, err := c.submit(ctx, "EVENT", e)
	if err != nil || !c.mustProve(res.OK, res.Reason) {
		return res, err
	}
	if err := c.prove(ctx); err != nil {
		return Result{}, err
	}
	return c.submit(ctx, "EVENT", e)
}

// submit sends an event and waits for its OK.
func (c *Conn) submit(ctx context.Context, verb string, e *host.Event) (Result, error) {
	text := append([]byte(`["`+verb+`",`), e.JSON...)
	if err := c.send(ctx, append(text, ']')); err != nil {
		return Result{}, err
	}
	for {
		a, err := c.next(ctx)
		if err != nil {
			return Result{}, err
		}
		if a.Verb == wire.AnswerOK && a.ID == e.ID {
			return Result{OK: a.OK, Reason: a.Text}, nil
		}
	}
}

// mustProve reports whether a refusal is one that proving the key may lift.
func (c *Conn) mustProve(ok bool, reason string) bool {
	return !ok && !c.proven && c.opts.Prove != nil && strings.HasPrefix(reason, authRequired)
}

// challengeBytes bounds a challenge, which goes into an event that is signed.
const challengeBytes = 1024

// prove answers the relay's challenge, which some relays send only after they
// have asked for it.
func (c *Conn) prove(ctx context.Context) error {
	for c.challenge == "" {
		if _, err := c.next(ctx); err != nil {
			return err
		}
	}
	if len(c.challenge) > challengeBytes {
		return c.fail(ctx, fmt.Errorf("the relay's challenge is longer than %d bytes", challengeBytes))
	}
	e, err := c.opts.Prove(c.url, c.challenge)
	if err != nil {
		return c.fail(ctx, fmt.Errorf("answer the relay's challenge: %w", err))
	}
	res, err := c.submit(ctx, "AUTH", e)
	if err != nil {
		return err
	}
	if !res.OK {
		return c.fail(ctx, errors.New("the relay does not take the proof of the key: "+res.Reason))
	}
	c.proven = true
	return nil
}

// ErrNoNegentropy says that a relay does not compare (NIP-77), or not these events.
var ErrNoNegentropy = errors.New("the relay does not compare events (NIP-77)")

// Reconcile compares the events that match a filter (JSON, NIP-01) with a set. It returns
// the ids that the relay lacks, and those that only the relay has. A relay may name ids
// that it does not have. An error that wraps [ErrNoNegentropy] leaves the connection open.
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
		text, err := c.read(ctx)
		if err != nil {
			return "", "", err
		}
		if verb, id, body, ok := wire.NegAnswer(text); ok && id == sub {
			switch verb {
			case "NEG-MSG":
				return body, "", nil
			case "NEG-ERR", "NEG-ERROR", "CLOSED": // the second is what khatru says
				return "", nonEmpty(body), nil
			}
		}
		a, err := c.receive(ctx, text)
		switch {
		case err != nil:
			return "", "", err
		case first && a.Verb == wire.AnswerNotice:
			return "", nonEmpty(a.Text), nil
		}
		c.notice(a)
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
