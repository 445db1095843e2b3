package testkit

import (
	"context"
	"errors"
	"io"
	"net"
	"testing"
)

func TestNetwork(t *testing.T) {
	n := NewNetwork()
	if _, err := n.Dial(t.Context(), "tcp", "a.example:80"); err == nil {
		t.Error("nobody listens, and a connection is made")
	}
	l := n.Listen("a.example:80")
	if l.Addr().String() != "a.example:80" {
		t.Errorf("it listens at %v", l.Addr())
	}
	done := make(chan string, 1)
	go func() {
		c, err := l.Accept()
		if err != nil {
			done <- err.Error()
			return
		}
		text, _ := io.ReadAll(c)
		done <- string(text)
	}()
	c, err := n.Dial(t.Context(), "tcp", "a.example:80")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(c, "hello"); err != nil {
		t.Fatal(err)
	}
	_ = c.Close()
	if got := <-done; got != "hello" {
		t.Errorf("%q came", got)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := n.Dial(ctx, "tcp", "a.example:80"); !errors.Is(err, context.Canceled) {
		t.Errorf("nobody accepts, and the context is over: %v", err)
	}
	again := n.Listen("a.example:80") // takes the address over
	_ = l.Close()
	if _, err := l.Accept(); !errors.Is(err, net.ErrClosed) {
		t.Errorf("a closed listener accepts: %v", err)
	}
	go func() { _, _ = again.Accept() }()
	if _, err := n.Dial(t.Context(), "tcp", "a.example:80"); err != nil {
		t.Error(err)
	}
	_ = again.Close()
	if _, err := n.Dial(t.Context(), "tcp", "a.example:80"); err == nil {
		t.Error("nobody listens any more, and a connection is made")
	}
}
