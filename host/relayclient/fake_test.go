package relayclient

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"testing"

	"github.com/gobwas/ws"
	"github.com/gobwas/ws/wsutil"

	"talon/host"
	"talon/host/wire"
	"talon/internal/testkit"
)

// fake is one connection at a relay that does what a test says.
type fake struct {
	t   *testing.T
	net net.Conn
}

// listen serves one connection with play, and returns the relay's address. The
// test waits for play to return.
func listen(t *testing.T, play func(f *fake)) string {
	t.Helper()
	return listenRaw(t, func(c net.Conn) {
		if _, err := ws.Upgrade(c); err != nil {
			t.Errorf("upgrade: %v", err)
			return
		}
		play(&fake{t, c})
	})
}

// listenRaw is listen before any handshake.
func listenRaw(t *testing.T, play func(c net.Conn)) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		c, err := l.Accept()
		if err != nil {
			return
		}
		defer c.Close()
		_ = c.SetDeadline(testkit.Deadline(t))
		play(c)
	}()
	t.Cleanup(func() {
		_ = l.Close()
		<-done
	})
	return "ws://" + l.Addr().String()
}

// want reads a message, which must begin so, and returns it.
func (f *fake) want(prefix string) string {
	text, _, err := wsutil.ReadClientData(f.net)
	if err != nil || !strings.HasPrefix(string(text), prefix) {
		f.t.Errorf("the client sent %.200q, %v; want %s", text, err, prefix)
	}
	return string(text)
}

func (f *fake) say(format string, args ...any) {
	_ = wsutil.WriteServerText(f.net, fmt.Appendf(nil, format, args...))
}

// gone waits until the client has closed the connection.
func (f *fake) gone() {
	_, err := io.Copy(io.Discard, f.net)
	f.ended(err)
}

// ended looks at the error with which the connection ended: it must not be that the test's time
// is over.
func (f *fake) ended(err error) {
	if errors.Is(err, os.ErrDeadlineExceeded) {
		f.t.Error("the client does not close the connection")
	}
}

// connect dials a fake.
func connect(t *testing.T, address string, opts Options) *Conn {
	t.Helper()
	c, err := Dial(soon(t), address, opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func soon(t *testing.T) context.Context {
	ctx, cancel := context.WithDeadline(t.Context(), testkit.Deadline(t))
	t.Cleanup(cancel)
	return ctx
}

// event returns an event that n distinguishes from others. Nobody here checks it.
func event(t *testing.T, n byte) *host.Event {
	t.Helper()
	e := &host.Event{ID: host.ID{n}, CreatedAt: int64(n), Kind: 1, Content: "hello"}
	e, err := wire.ParseEvent(e.AppendJSON(nil))
	if err != nil {
		t.Fatal(err)
	}
	return e
}
