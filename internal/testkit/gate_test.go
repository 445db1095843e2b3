package testkit

import (
	"io"
	"net"
	"testing"
)

// TestGate: what is written while a gate is frozen arrives when it opens, and a gate that is shut ends connections.
func TestGate(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				_, _ = io.Copy(c, c)
				_ = c.Close()
			}()
		}
	}()
	g := NewGate(t, l.Addr().String())
	dial := func() net.Conn {
		c, err := net.Dial("tcp", g.Address())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
		return c
	}
	echo := func(c net.Conn, text string) error {
		got := make([]byte, len(text))
		_, err := io.ReadFull(c, got)
		if err == nil && string(got) != text {
			t.Errorf("the gate passes %q, want %q", got, text)
		}
		return err
	}
	write := func(c net.Conn, text string) {
		if _, err := io.WriteString(c, text); err != nil {
			t.Fatal(err)
		}
	}
	c := dial()
	write(c, "one")
	if err := echo(c, "one"); err != nil {
		t.Fatal(err)
	}
	g.Freeze()
	write(c, "two")
	answer := make(chan error, 1)
	go func() { answer <- echo(c, "two") }()
	select {
	case err := <-answer:
		t.Fatalf("a frozen gate passes what arrives: %v", err)
	default:
	}
	g.Open()
	if err := Receive(t, "an answer after the gate has opened", answer); err != nil {
		t.Fatal(err)
	}
	g.Shut()
	if _, err := c.Read(make([]byte, 1)); err == nil {
		t.Error("a connection survives that the gate is shut")
	}
	if _, err := dial().Read(make([]byte, 1)); err == nil {
		t.Error("a gate that is shut takes a connection")
	}
	g.Open()
	c = dial()
	write(c, "three")
	if err := echo(c, "three"); err != nil {
		t.Fatal(err)
	}
}
