package devnet

import (
	"errors"
	"io"
	"log"
	"math/rand/v2"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// exchange is where the connections of one server arrive: it can cut them off, delay
// and break them.
type exchange struct {
	net.Listener
	latency time.Duration
	drop    float64
	dropped atomic.Int64
	sent    atomic.Int64 // bytes

	mu    sync.Mutex // guards the fields below
	down  bool
	lines map[*line]struct{}
}

func newExchange(l net.Listener, latency time.Duration, drop float64) *exchange {
	return &exchange{Listener: l, latency: latency, drop: drop, lines: map[*line]struct{}{}}
}

// site is an HTTP server whose connections arrive at an exchange.
type site struct {
	exchange *exchange
	server   *http.Server
}

func newSite(x *exchange, h http.Handler) site {
	return site{x, &http.Server{Handler: h, ReadHeaderTimeout: 10 * time.Second, ErrorLog: log.New(io.Discard, "", 0)}}
}

// serve answers until close.
func (s *site) serve() error {
	if err := s.server.Serve(s.exchange); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

func (s *site) close() error { return errors.Join(s.server.Close(), s.exchange.close()) }

// Accept returns connections while the server is up, and resets others.
func (x *exchange) Accept() (net.Conn, error) {
	for {
		c, err := x.Listener.Accept()
		if err != nil {
			return nil, err
		}
		x.mu.Lock()
		if x.down {
			x.mu.Unlock()
			reset(c)
			continue
		}
		l := newLine(c, x)
		x.lines[l] = struct{}{}
		x.mu.Unlock()
		return l, nil
	}
}

// close ends listening, which a server does only if it has served.
func (x *exchange) close() error {
	if err := x.Listener.Close(); !errors.Is(err, net.ErrClosed) {
		return err
	}
	return nil
}

// cut makes the server unreachable, or reachable again.
func (x *exchange) cut(down bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.down = down
	if down {
		for l := range x.lines {
			reset(l.Conn)
		}
	}
}

// state returns whether the server can be reached, and by how many it is.
func (x *exchange) state() (up bool, connections int) {
	x.mu.Lock()
	defer x.mu.Unlock()
	return !x.down, len(x.lines)
}

// reset ends a connection as a machine does that was switched off and on.
func reset(c net.Conn) {
	if tcp, ok := c.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
	_ = c.Close()
}

// line is one connection. It delivers late what is written to it.
type line struct {
	net.Conn
	of    *exchange
	late  chan parcel // nil if nothing is late
	ended chan struct{}
	once  sync.Once
}

// parcel is bytes that are due.
type parcel struct {
	data []byte
	due  time.Time
}

// underWay bounds the parcels of one line, which bounds what a slow reader costs.
const underWay = 4096

func newLine(c net.Conn, x *exchange) *line {
	l := &line{Conn: c, of: x, ended: make(chan struct{})}
	if x.latency > 0 {
		l.late = make(chan parcel, underWay)
		go l.deliver()
	}
	return l
}

func (l *line) deliver() {
	for {
		select {
		case <-l.ended:
			return
		case p := <-l.late:
			select {
			case <-l.ended:
				return
			case <-time.After(time.Until(p.due)):
			}
			if _, err := l.Conn.Write(p.data); err != nil {
				_ = l.Close()
			}
		}
	}
}

func (l *line) Write(b []byte) (int, error) {
	if l.of.drop > 0 && rand.Float64() < l.of.drop { //nolint:gosec // no secret
		l.of.dropped.Add(1)
		reset(l.Conn)
		return 0, net.ErrClosed
	}
	l.of.sent.Add(int64(len(b)))
	if l.late == nil {
		return l.Conn.Write(b)
	}
	select {
	case l.late <- parcel{append([]byte(nil), b...), time.Now().Add(l.of.latency)}:
		return len(b), nil
	case <-l.ended:
		return 0, net.ErrClosed
	}
}

func (l *line) Close() error {
	l.once.Do(func() {
		close(l.ended)
		l.of.mu.Lock()
		delete(l.of.lines, l)
		l.of.mu.Unlock()
	})
	return l.Conn.Close()
}
