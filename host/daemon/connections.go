package daemon

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"slices"
	"sync/atomic"
	"syscall"

	"github.com/prometheus/client_golang/prometheus"

	"talon/host/bound"
	"talon/host/users"
)

const (
	// minReserve is how many file descriptors are kept for the store and git at least.
	minReserve = 256

	// reservePart is the part of all file descriptors that is kept for them, if that is more.
	reservePart = 8

	// besideWebsockets is how many connections there may be that are no websockets.
	besideWebsockets = 10_000
)

// connections limits the TCP connections of the server, so that strangers cannot use up the
// file descriptors that the store and git need.
type connections struct {
	users atomic.Pointer[users.Set] // nil until the database is open, and clients get an answer

	pot      *bound.Pot
	starting *bound.Pot // requests that wait for the daemon to be ready
	proxies  []netip.Prefix

	open             prometheus.Gauge
	refused, yielded prometheus.Counter
}

// newConnections returns the limit for a number of websockets and the other connections that
// come with them. It is lower if the process may not open that number of files.
func newConnections(websockets int, proxies []netip.Prefix, log *slog.Logger) *connections {
	total := websockets + besideWebsockets
	var files syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &files); err == nil {
		most := int(min(files.Cur, 1<<30))
		if spare := max(most-max(minReserve, most/reservePart), minReserve); spare < total {
			total = spare
			if spare < websockets {
				log.Warn("the limit of open files is too low for all connections: raise it (ulimit -n, LimitNOFILE of systemd)",
					"files", most, "connections", spare, "max-connections", websockets)
			}
		}
	}
	return &connections{
		proxies: proxies, starting: newStarting(),
		pot: bound.NewPot(bound.Spec{
			Name: "TCP connections", Unit: "connections", Total: int64(total), Known: bound.KnownPart(int64(total)),
			Yields:         "the network that holds most loses the connection that was idle longest",
			AnonymousYield: true, // a trusted proxy has a connection for each client
		}),
		open:    prometheus.NewGauge(prometheus.GaugeOpts{Name: "talon_http_connections", Help: "Open TCP connections, websockets included."}),
		refused: prometheus.NewCounter(prometheus.CounterOpts{Name: "talon_http_connections_refused_total", Help: "TCP connections that were closed at once: their network had its share, or all places were taken."}),
		yielded: prometheus.NewCounter(prometheus.CounterOpts{Name: "talon_http_connections_yielded_total", Help: "TCP connections that were closed because others needed their place."}),
	}
}

// Collectors returns the metrics, for registration.
func (c *connections) Collectors() []prometheus.Collector {
	return []prometheus.Collector{c.open, c.refused, c.yielded}
}

// Bounds returns the limits for the table of bounds.
func (c *connections) Bounds() []bound.Spec { return []bound.Spec{c.pot.Spec(), c.starting.Spec()} }

// limit returns a listener that accepts within the limit.
func (c *connections) limit(l net.Listener) net.Listener { return limitedListener{l, c} }

type limitedListener struct {
	net.Listener
	all *connections
}

// Accept returns the next connection that has a place. It closes those that have none.
func (l limitedListener) Accept() (net.Conn, error) {
	for {
		nc, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		tcp, ok := nc.(*net.TCPConn)
		if !ok {
			return nil, errors.Join(fmt.Errorf("accept a connection: %T is not TCP", nc), nc.Close())
		}
		c := &limitedConn{TCPConn: tcp, all: l.all}
		if c.hold, err = l.all.pot.Acquire(l.all.holder(tcp.RemoteAddr()), 1, c.yield); err != nil {
			l.all.refused.Inc()
			_ = tcp.SetLinger(0) // nobody waits for what it sends
			_ = tcp.Close()
			continue
		}
		l.all.open.Inc()
		return c, nil
	}
}

// holder says who a connection counts for. Those of a trusted proxy have no network: the
// clients behind it are counted by what it says of them.
func (c *connections) holder(from net.Addr) bound.Holder {
	at, err := netip.ParseAddrPort(from.String())
	if err != nil {
		return bound.Holder{}
	}
	addr := at.Addr().Unmap()
	if slices.ContainsFunc(c.proxies, func(p netip.Prefix) bool { return p.Contains(addr) }) {
		return bound.Holder{}
	}
	return c.users.Load().Holder(addr, nil)
}

// limitedConn is a connection that has a place.
type limitedConn struct {
	*net.TCPConn
	all  *connections
	hold *bound.Hold
}

func (c *limitedConn) Read(p []byte) (int, error) {
	n, err := c.TCPConn.Read(p)
	if n > 0 {
		c.hold.Touch()
	}
	return n, err
}

func (c *limitedConn) Write(p []byte) (int, error) {
	n, err := c.TCPConn.Write(p)
	if n > 0 {
		c.hold.Touch()
	}
	return n, err
}

// Close closes the connection and gives its place back. Only the first call closes it.
func (c *limitedConn) Close() error {
	err := c.TCPConn.Close()
	if err == nil {
		c.hold.Release()
		c.all.open.Dec()
	}
	return err
}

// yield closes the connection, for others need its place.
func (c *limitedConn) yield() {
	c.all.yielded.Inc()
	_ = c.Close()
}
