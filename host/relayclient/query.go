package relayclient

import (
	"context"
	"errors"
	"strconv"

	"talon/host"
	"talon/host/wire"
)

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
