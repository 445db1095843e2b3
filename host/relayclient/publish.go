package relayclient

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"talon/host"
	"talon/host/wire"
)

// authRequired is how a relay says that it wants to know who asks (NIP-42).
const authRequired = "auth-required:"

// Result is the relay's answer to an event.
type Result struct {
	OK     bool
	Reason string // what the relay says; hostile text
}

// Publish sends an event and returns the relay's answer. If the relay wants to
// know who sends it, the client proves its key and sends the event once more.
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
