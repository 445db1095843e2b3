package testkit

import (
	"context"
	"fmt"
	"net"
	"sync"
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
