package relayclient

import (
	"context"
	"fmt"

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
