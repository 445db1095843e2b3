package testkit

import (
	"context"
	"fmt"
	"net"
	"sync"
	"syscall"
	"testing"
	"time"
)

// Network is a network in memory: within testing/synctest, time passes while its
// connections wait. Addresses are names with ports, such as relay.example:80.
type Network struct {
	mu        sync.Mutex // guards listeners
	listeners map[string]*memoryListener
}

// NewNetwork returns a network without listeners.
func NewNetwork() *Network { return &Network{listeners: map[string]*memoryListener{}} }

// Listen listens at an address until the listener is closed.
func (n *Network) Listen(address string) net.Listener {
	n.mu.Lock()
	defer n.mu.Unlock()
	l := &memoryListener{of: n, address: address, arriving: make(chan net.Conn), closed: make(chan struct{})}
	n.listeners[address] = l
	return l
}

// Dial connects to an address, as net.Dialer does.
func (n *Network) Dial(ctx context.Context, _, address string) (net.Conn, error) {
	n.mu.Lock()
	l := n.listeners[address]
	n.mu.Unlock()
	if l == nil {
		return nil, fmt.Errorf("dial %s: nobody listens there", address)
	}
	here, there := net.Pipe()
	select {
	case l.arriving <- there:
		return here, nil
	case <-l.closed:
		return nil, fmt.Errorf("dial %s: nobody listens there any more", address)
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

type memoryListener struct {
	of       *Network
	address  string
	arriving chan net.Conn
	closed   chan struct{}
	once     sync.Once
}

func (l *memoryListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.arriving:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *memoryListener) Close() error {
	l.once.Do(func() {
		l.of.mu.Lock()
		if l.of.listeners[l.address] == l {
			delete(l.of.listeners, l.address)
		}
		l.of.mu.Unlock()
		close(l.closed)
	})
	return nil
}

func (l *memoryListener) Addr() net.Addr { return memoryAddr(l.address) }

type memoryAddr string

func (memoryAddr) Network() string  { return "memory" }
func (a memoryAddr) String() string { return string(a) }

// CPU returns the processor time that this process has used. It says what work
// costs on a machine that others use as well, where a clock would say how busy
// they are.
func CPU() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// margin is what is left for a test that has failed to say so, and to clean up.
const margin = 5 * time.Second

// Deadline returns the time by which a wait has failed: a little before go test
// ends the binary, or a day from now if it never does.
func Deadline(t testing.TB) time.Time {
	if t, ok := t.(interface{ Deadline() (time.Time, bool) }); ok {
		if at, ok := t.Deadline(); ok {
			return at.Add(-margin)
		}
	}
	return time.Now().Add(24 * time.Hour)
}

// Eventually waits until done reports true. It is for what other processes and
// the network do; inside a bubble of testing/synctest, time does not pass while
// something is done, and synctest.Wait says when all of it is.
func Eventually(t testing.TB, what string, done func() bool) {
	t.Helper()
	began, deadline := time.Now(), Deadline(t)
	for !done() {
		now := time.Now()
		if now.After(deadline) {
			t.Fatalf("it does not happen: %s", what)
		}
		Pause(now.Sub(began))
	}
}

// Pause sleeps before the next look at a condition, given the time waited so far. Looks become
// rarer with time, and notice the change at most a tenth later.
func Pause(waited time.Duration) {
	time.Sleep(min(max(waited/10, time.Millisecond), 250*time.Millisecond))
}

// Receive returns what comes out of a channel, the zero value when it is closed.
func Receive[T any](t testing.TB, what string, from <-chan T) T {
	t.Helper()
	late := time.NewTimer(time.Until(Deadline(t)))
	defer late.Stop()
	select {
	case v := <-from:
		return v
	case <-late.C:
		t.Fatalf("it does not happen: %s", what)
		panic("not reached")
	}
}
