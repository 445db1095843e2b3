// Package server puts a relay of package relaymodel on the network: it answers HTTP
// (NIP-11, outages), upgrades to websockets, hands frames to the model and sends what
// that returns. It holds the clock, the goroutines and the lock that the model has not.
//
// Invariants:
//
//  1. Calls of the model are serialised, and what they return is sent in that order.
//  2. A client that does not read delays nobody else: what it has not taken is queued,
//     and more than 32 MiB of it end its connection.
//  3. [Server.Close] ends all connections and waits for their goroutines.
package server

import (
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"time"

	"github.com/gobwas/httphead"
	"github.com/gobwas/ws"
	"github.com/gobwas/ws/wsflate"

	"talon/host"
	"talon/host/relaymodel"
)

// Server serves one relay.
type Server struct {
	profile *relaymodel.Profile
	running sync.WaitGroup // goroutines of connections

	mu     sync.Mutex // guards the fields below
	relay  *relaymodel.Relay
	conns  map[uint64]*conn
	timer  *time.Timer
	closed bool
}

// New returns a server of a relay with a profile, which starts now.
func New(p *relaymodel.Profile, seed uint64) *Server {
	return &Server{profile: p, relay: relaymodel.New(p, seed, time.Now().UnixMilli()), conns: map[uint64]*conn{}}
}

// Do calls f with the relay and the time, and carries out the effects that it returns.
func (s *Server) Do(f func(r *relaymodel.Relay, now int64) []relaymodel.Effect) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.apply(f(s.relay, time.Now().UnixMilli()))
}

// Look calls f with the relay, which it must not change.
func (s *Server) Look(f func(r *relaymodel.Relay)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f(s.relay)
}

// Add publishes events at the relay.
func (s *Server) Add(events ...*host.Event) {
	for _, e := range events {
		s.Do(func(r *relaymodel.Relay, now int64) []relaymodel.Effect { return r.Add(e, now) })
	}
}

// SetAway begins an outage with an HTTP status, 0 for connections that are reset; -1
// ends it.
func (s *Server) SetAway(status int) {
	s.Do(func(r *relaymodel.Relay, now int64) []relaymodel.Effect { return r.SetAway(status, now) })
}

// Close ends all connections. There are no others afterwards.
func (s *Server) Close() {
	s.mu.Lock()
	s.closed = true
	if s.timer != nil {
		s.timer.Stop()
	}
	for _, c := range s.conns {
		c.abort()
	}
	s.mu.Unlock()
	s.running.Wait()
}

// ServeHTTP answers requests as the relay's profile says.
func (s *Server) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	status := 0
	s.Do(func(r *relaymodel.Relay, now int64) (effects []relaymodel.Effect) {
		status, effects = r.Status(now)
		return effects
	})
	switch {
	case status != http.StatusOK:
		refuse(w, status)
	case strings.EqualFold(req.Header.Get("Upgrade"), "websocket"):
		s.upgrade(w, req)
	default:
		var text []byte
		s.Look(func(r *relaymodel.Relay) { text = r.InfoDocument() })
		if text == nil {
			http.NotFound(w, req)
			return
		}
		w.Header().Set("Access-Control-Allow-Origin", "*")
		w.Header().Set("Content-Type", "application/nostr+json")
		_, _ = w.Write(text)
	}
}

// refuse answers with a status, or resets the connection where that is 0.
func refuse(w http.ResponseWriter, status int) {
	if status != 0 {
		http.Error(w, http.StatusText(status), status)
		return
	}
	if nc, _, err := http.NewResponseController(w).Hijack(); err == nil {
		if tcp, ok := nc.(*net.TCPConn); ok {
			_ = tcp.SetLinger(0)
		}
		_ = nc.Close()
	}
}

// upgrade makes a websocket of a request. The relay knows of the connection before the
// client does; what it sends meanwhile waits.
func (s *Server) upgrade(w http.ResponseWriter, req *http.Request) {
	from, _ := netip.ParseAddrPort(req.RemoteAddr)
	c := newConn(s)
	status := 0
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		refuse(w, 0)
		return
	}
	var effects []relaymodel.Effect
	c.id, status, effects = s.relay.Open(from.Addr(), time.Now().UnixMilli())
	if status == http.StatusSwitchingProtocols {
		s.conns[c.id] = c
		s.running.Add(1)
	}
	s.apply(effects)
	s.mu.Unlock()
	if status != http.StatusSwitchingProtocols {
		refuse(w, status)
		return
	}
	deflate := wsflate.Extension{Parameters: wsflate.Parameters{ServerNoContextTakeover: true, ClientNoContextTakeover: true}}
	up := ws.HTTPUpgrader{Negotiate: func(o httphead.Option) (httphead.Option, error) {
		if !s.profile.Connection.Compression {
			return httphead.Option{}, nil
		}
		accepted, err := deflate.Negotiate(o)
		if err != nil {
			return httphead.Option{}, nil // another offer may follow
		}
		return accepted, nil
	}}
	nc, rw, _, err := up.Upgrade(req, w)
	if err != nil {
		if nc != nil {
			_ = nc.Close()
		}
		s.gone(c)
		s.running.Done()
		return
	}
	_, c.deflate = deflate.Accepted()
	c.begin(nc, rw.Reader)
}

// apply queues what the relay sends, and sets the timer. REQUIRES: mu.
func (s *Server) apply(effects []relaymodel.Effect) {
	for _, e := range effects {
		if c := s.conns[e.Conn]; c != nil {
			c.queue(e)
		}
	}
	at, ok := s.relay.Next()
	if !ok || s.closed {
		return
	}
	wait := max(0, time.Until(time.UnixMilli(at)))
	if s.timer == nil {
		s.timer = time.AfterFunc(wait, s.turn)
		return
	}
	s.timer.Reset(wait)
}

func (s *Server) turn() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.closed {
		s.apply(s.relay.Turn(time.Now().UnixMilli()))
	}
}

// receive hands a frame of a client to the relay.
func (s *Server) receive(c *conn, frame []byte) {
	s.Do(func(r *relaymodel.Relay, now int64) []relaymodel.Effect { return r.Receive(c.id, frame, now) })
}

// gone forgets a connection.
func (s *Server) gone(c *conn) {
	s.Do(func(r *relaymodel.Relay, now int64) []relaymodel.Effect {
		delete(s.conns, c.id)
		return r.Gone(c.id, now)
	})
}
