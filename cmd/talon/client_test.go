package main

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/gobwas/ws"
	"github.com/gobwas/ws/wsutil"
	"github.com/nbd-wtf/go-nostr"
)

// client is a websocket without manners: it can send what a library would not.
// One goroutine reads and one writes.
type client struct {
	net   net.Conn
	in    *bufio.Reader
	inbox *inbox // of a client that attends; nil: read reads from the connection
}

func open(url string) (*client, error) { return openWith(url, ws.Dialer{}) }

func openWith(url string, d ws.Dialer) (*client, error) {
	// Of a dialer's own, gobwas minds the handshake only without a context.
	limit := patience
	if d.Timeout > 0 {
		limit = d.Timeout
	}
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	conn, early, _, err := d.Dial(ctx, url)
	if err != nil {
		return nil, err
	}
	c := &client{net: conn, in: early}
	if early == nil {
		c.in = bufio.NewReader(conn)
	} else {
		c.in = bufio.NewReader(io.MultiReader(io.LimitReader(early, int64(early.Buffered())), conn))
	}
	return c, nil
}

// connect opens a connection that lasts as long as the test, and attends to it.
func connect(t testing.TB, s *process) *client {
	t.Helper()
	c, err := open(s.url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.close)
	c.attend()
	return c
}

// attend has a goroutine read all that comes. So the server has answers to its pings, however long the
// test does something else.
func (c *client) attend() {
	box := &inbox{more: make(chan struct{}, 1)}
	c.inbox = box
	go func() {
		for {
			text, err := c.receive()
			box.put(text, err)
			if err != nil {
				return
			}
		}
	}()
}

// inbox keeps messages until they are read.
type inbox struct {
	more chan struct{} // something was put in

	mu   sync.Mutex // guards the fields below
	list [][]byte
	err  error // after the list
}

func (b *inbox) put(text []byte, err error) {
	b.mu.Lock()
	if err != nil {
		b.err = err
	} else {
		b.list = append(b.list, text)
	}
	b.mu.Unlock()
	select {
	case b.more <- struct{}{}:
	default:
	}
}

// take returns the next message, or how the connection ended.
func (b *inbox) take() ([]byte, error) {
	late := time.NewTimer(patience)
	defer late.Stop()
	for {
		b.mu.Lock()
		if len(b.list) > 0 {
			text := b.list[0]
			b.list = b.list[1:]
			b.mu.Unlock()
			return text, nil
		}
		err := b.err
		b.mu.Unlock()
		if err != nil {
			return nil, err
		}
		select {
		case <-b.more:
		case <-late.C:
			return nil, fmt.Errorf("no message after %v", patience)
		}
	}
}

func (c *client) close() { _ = c.net.Close() }

// write sends a text message.
func (c *client) write(text []byte) error {
	return c.frame(ws.NewTextFrame(text))
}

// frame sends a frame, masked.
func (c *client) frame(f ws.Frame) error {
	_ = c.net.SetWriteDeadline(time.Now().Add(patience))
	text, err := ws.CompileFrame(ws.MaskFrame(f))
	if err != nil {
		return err
	}
	// In one piece, because read answers pings.
	_, err = c.net.Write(text)
	return err
}

func (c *client) send(t testing.TB, text string) {
	t.Helper()
	if err := c.write([]byte(text)); err != nil {
		t.Fatalf("send %.100s: %v", text, err)
	}
}

// closed says how the server ended the connection.
type closed struct {
	code   ws.StatusCode
	reason string
}

func (c closed) Error() string { return fmt.Sprintf("closed with %d %s", c.code, c.reason) }

// read returns the next message. A close frame is an error of type closed.
func (c *client) read() ([]byte, error) {
	if c.inbox != nil {
		return c.inbox.take()
	}
	_ = c.net.SetReadDeadline(time.Now().Add(patience))
	return c.receive()
}

// receive reads the next message from the connection.
func (c *client) receive() ([]byte, error) {
	text, op, err := wsutil.ReadServerData(struct {
		io.Reader
		io.Writer
	}{c.in, replies{c.net}})
	var end wsutil.ClosedError
	if errors.As(err, &end) {
		return nil, closed{end.Code, end.Reason}
	}
	if err == nil && op != ws.OpText {
		return nil, fmt.Errorf("a message that is not text: %v", op)
	}
	return text, err
}

// next returns the next message with one of the verbs; others are skipped.
func (c *client) next(verbs ...string) (string, error) {
	for {
		text, err := c.read()
		if err != nil {
			return "", err
		}
		if slices.Contains(verbs, verbOf(text)) {
			return string(text), nil
		}
	}
}

// replies are what a websocket answers to pings and close frames. A server that
// has said goodbye need not wait for it.
type replies struct{ io.Writer }

func (r replies) Write(p []byte) (int, error) {
	_, _ = r.Writer.Write(p)
	return len(p), nil
}

func (c *client) mustNext(t testing.TB, verbs ...string) string {
	t.Helper()
	text, err := c.next(verbs...)
	if err != nil {
		t.Fatalf("wait for %v: %v", verbs, err)
	}
	return text
}

func verbOf(text []byte) string {
	var m []json.RawMessage
	var verb string
	if json.Unmarshal(text, &m) == nil && len(m) > 0 {
		_ = json.Unmarshal(m[0], &verb)
	}
	return verb
}

// answer is an OK message.
type answer struct {
	id     string
	ok     bool
	reason string
}

func parseOK(text string) (a answer, err error) {
	var verb string
	err = json.Unmarshal([]byte(text), &[]any{&verb, &a.id, &a.ok, &a.reason})
	return a, err
}

// publish sends an event and returns the answer.
func (c *client) publish(t testing.TB, e *nostr.Event) answer {
	t.Helper()
	c.send(t, string(message(e)))
	a, err := parseOK(c.mustNext(t, "OK"))
	if err != nil {
		t.Fatal(err)
	}
	if a.id != e.ID {
		t.Fatalf("the answer is for event %s, not %s", a.id, e.ID)
	}
	return a
}

// query returns the stored answer to one filter, JSON.
func (c *client) query(t testing.TB, filter string) []*nostr.Event {
	t.Helper()
	c.send(t, `["REQ","query",`+filter+`]`)
	events := c.untilEOSE(t, "query")
	c.send(t, `["CLOSE","query"]`)
	return events
}

func (c *client) untilEOSE(t testing.TB, sub string) []*nostr.Event {
	t.Helper()
	var events []*nostr.Event
	for {
		text := c.mustNext(t, "EVENT", "EOSE", "CLOSED")
		var verb, id string
		var e nostr.Event
		if err := json.Unmarshal([]byte(text), &[]any{&verb, &id, &e}); err != nil && verb == "EVENT" {
			t.Fatalf("%v: %s", err, text)
		}
		switch {
		case id != sub:
		case verb == "EOSE":
			return events
		case verb == "CLOSED":
			t.Fatalf("the query was refused: %s", text)
		default:
			events = append(events, &e)
		}
	}
}

// key returns the secret key of somebody.
func key(name string) string {
	sum := sha256.Sum256([]byte("talon test key of " + name))
	return hex.EncodeToString(sum[:])
}

func pubkey(name string) string {
	pub, err := nostr.GetPublicKey(key(name))
	if err != nil {
		panic(err)
	}
	return pub
}

// signAs completes an event: somebody's, of now unless it has a time.
func signAs(t testing.TB, name string, e nostr.Event) *nostr.Event {
	t.Helper()
	if e.CreatedAt == 0 {
		e.CreatedAt = nostr.Now()
	}
	if err := e.Sign(key(name)); err != nil {
		t.Fatal(err)
	}
	return &e
}

// message returns the EVENT message of an event.
func message(e *nostr.Event) []byte {
	text, err := nostr.EventEnvelope{Event: *e}.MarshalJSON()
	if err != nil {
		panic(err)
	}
	return text
}

// ids returns the ids of events, in order.
func ids(events []*nostr.Event) []string {
	list := make([]string, len(events))
	for i, e := range events {
		list[i] = e.ID
	}
	return list
}
