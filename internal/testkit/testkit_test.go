package testkit

import (
	"context"
	"errors"
	"io"
	"net"
	"testing"
	"time"
)

func TestCommit(t *testing.T) {
	one, other := NewRepository(t), NewRepository(t)
	if a, b := Commit(t, one, "text"), Commit(t, other, "text"); a != b || len(a) != 40 {
		t.Errorf("the same commit is %s and then %s", a, b)
	}
	if out, err := TryGit(t.Context(), one, "rev-parse", "nothing"); err == nil || out == "" {
		t.Errorf("git says %q, %v about what is not there", out, err)
	}
	if id := Commit(t, NewRepository(t, "--object-format=sha256"), "text"); len(id) != 64 {
		t.Errorf("%s is no id of SHA-256", id)
	}
}

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

// bounded is a test whose binary ends at a time.
type bounded struct {
	testing.TB
	at     time.Time
	failed string
}

func (b *bounded) Deadline() (time.Time, bool) { return b.at, true }

func (b *bounded) Fatalf(format string, _ ...any) {
	b.failed = format
	panic(b)
}

func TestEventually(t *testing.T) {
	asked := 0
	Eventually(t, "the third question", func() bool { asked++; return asked == 3 })
	ch := make(chan int)
	go func() { ch <- 7 }()
	if got := Receive(t, "a number", ch); got != 7 || asked != 3 {
		t.Errorf("received %d, asked %d times", got, asked)
	}
	if left := time.Until(Deadline(&bounded{at: time.Now().Add(time.Hour)})); left > time.Hour-margin {
		t.Errorf("waits for %v of an hour", left)
	}
}

// TestNever checks that waiting for an event that never happens fails the test before go test's own
// limit.
func TestNever(t *testing.T) {
	for name, wait := range map[string]func(b *bounded){
		"eventually": func(b *bounded) { Eventually(b, "never", func() bool { return false }) },
		"receive":    func(b *bounded) { Receive(b, "never", make(chan int)) },
	} {
		t.Run(name, func(t *testing.T) {
			b := &bounded{TB: t, at: time.Now().Add(margin + 20*time.Millisecond)}
			defer func() {
				if recover() != b || b.failed == "" {
					t.Errorf("%q, want it failed", b.failed)
				}
			}()
			wait(b)
		})
	}
}
