package relayclient

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"talon/host"
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
		if c.err != nil {
			return wire.Answer{}, c.err
		}
		text, err := c.socket.Read()
		if err != nil {
			return wire.Answer{}, c.fail(ctx, err)
		}
		a, err := wire.ParseAnswer(text)
		if err != nil {
			return wire.Answer{}, c.fail(ctx, fmt.Errorf("the relay sent a message that is not understood: %w", err))
		}
		switch a.Verb {
		case wire.AnswerAuth:
			c.challenge, c.proven = a.Text, false
			return a, nil
		case wire.AnswerNotice:
			if c.opts.Notice != nil {
				c.opts.Notice(a.Text)
			}
		case wire.OtherAnswer:
		default:
			return a, nil
		}
	}
}

// Query asks for the stored events that a filter (JSON, NIP-01) matches and calls
// yield with each until the relay has sent all of them or yield returns false.
// What the relay sends is not checked. A relay that does not answer the query is an
// error with the reason.
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
	c.subs++
	sub := "q" + strconv.Itoa(c.subs)
	req := append([]byte(`["REQ","`+sub+`",`), filter...)
	if err := c.send(ctx, append(req, ']')); err != nil {
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
			if a.Text == "" {
				return "it gives no reason", nil
			}
			return a.Text, nil
		}
	}
	return "", c.send(ctx, []byte(`["CLOSE","`+sub+`"]`))
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
