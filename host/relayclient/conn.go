package relayclient

import (
	"context"
	"errors"
	"io"

	"talon/host"
)

// Options are the options of a connection. The zero value is a client without a key.
type Options struct {
	// MessageBytes bounds one message of the relay; 0 is 4 MiB.
	MessageBytes int

	// Prove returns the event of kind 22242 that answers a challenge of the relay
	// (NIP-42). Without it the client does not authenticate.
	Prove func(relay, challenge string) (*host.Event, error)

	// Notice gets the text of each NOTICE, from the goroutine that makes the call.
	Notice func(text string)

	// Compress takes compressed messages.
	Compress bool
}

// Conn is a connection to a relay. Its methods must not run at the same time.
type Conn struct {
	url    string
	opts   Options
	socket *Socket

	challenge string // the last one; empty if there was none
	proven    bool   // the challenge was answered, and the relay said OK
	subs      int    // subscriptions that were made
	err       error  // what ended the connection
}

// Received returns the bytes that the relay has sent.
func (c *Conn) Received() int64 { return c.socket.Received() }

// Close sends a close frame and closes the connection.
func (c *Conn) Close() error {
	if c.err == nil {
		c.err = errClosed
		return c.socket.Goodbye()
	}
	return c.socket.Close()
}

// fail ends the connection with an error, the first of which stays.
func (c *Conn) fail(ctx context.Context, err error) error {
	if c.err == nil {
		if ctx.Err() != nil {
			err = ctx.Err()
		} else if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			err = errors.New("the relay closed the connection")
		}
		c.err = err
		_ = c.socket.Close()
	}
	return c.err
}

// bound makes the context end what the connection does, until stop is called.
func (c *Conn) bound(ctx context.Context) (stop func()) {
	release := context.AfterFunc(ctx, func() { _ = c.socket.Close() })
	return func() {
		if !release() {
			_ = c.fail(ctx, errClosed)
		}
	}
}

// Dial connects to a relay. The context bounds the time to connect, no more.
func Dial(ctx context.Context, address string, opts Options) (*Conn, error) {
	s, err := DialSocket(ctx, address, SocketOptions{MessageBytes: opts.MessageBytes, Compress: opts.Compress})
	if err != nil {
		return nil, err
	}
	return &Conn{url: address, opts: opts, socket: s}, nil
}
