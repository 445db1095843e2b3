// Package server puts a relay of package relaymodel on the network: it answers HTTP
// (NIP-11, outages), upgrades to websockets, hands frames to the model and sends what
// that returns. It holds the clock, the goroutines and the lock that the model has not.
//
// Invariants:
//
//  1. Calls of the model are serialised, and what they return is sent in that order.
//  2. A client that does not read does not delay others. The server queues its
//     messages, and ends its connection at more than 32 MiB.
//  3. [Server.Close] ends all connections and waits for their goroutines.
package server

import (
	"bufio"
	"bytes"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"time"

	"github.com/gobwas/httphead"
	"github.com/gobwas/ws"
	"github.com/gobwas/ws/wsflate"
	"github.com/gobwas/ws/wsutil"
	"github.com/klauspost/compress/flate"

	"talon/host"
	"talon/host/inflate"
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

// Update calls f with the relay and the time, and carries out the effects that it returns.
func (s *Server) Update(f func(r *relaymodel.Relay, now int64) []relaymodel.Effect) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.apply(f(s.relay, time.Now().UnixMilli()))
}

// View calls f with the relay, which it must not change.
func (s *Server) View(f func(r *relaymodel.Relay)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f(s.relay)
}

// Add publishes events at the relay.
func (s *Server) Add(events ...*host.Event) {
	for _, e := range events {
		s.Update(func(r *relaymodel.Relay, now int64) []relaymodel.Effect { return r.Add(e, now) })
	}
}

// SetAway begins an outage with an HTTP status, 0 for connections that are reset; -1
// ends it.
func (s *Server) SetAway(status int) {
	s.Update(func(r *relaymodel.Relay, now int64) []relaymodel.Effect { return r.SetAway(status, now) })
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
	s.Update(func(r *relaymodel.Relay, now int64) (effects []relaymodel.Effect) {
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
		s.View(func(r *relaymodel.Relay) { text = r.InfoDocument() })
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

// upgrade turns a request into a websocket. The relay knows of the connection before the
// client does, so messages wait until the upgrade ends.
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
	s.Update(func(r *relaymodel.Relay, now int64) []relaymodel.Effect { return r.Receive(c.id, frame, now) })
}

// gone forgets a connection.
func (s *Server) gone(c *conn) {
	s.Update(func(r *relaymodel.Relay, now int64) []relaymodel.Effect {
		delete(s.conns, c.id)
		return r.Gone(c.id, now)
	})
}

const (
	maxQueued = 32 << 20 // bytes that a client has not taken
	maxRead   = 64 << 20 // bytes of a client's message, whatever the profile says
)

// conn is one client.
type conn struct {
	server  *Server
	id      uint64
	deflate bool

	mu      sync.Mutex // guards the fields below
	net     net.Conn   // nil until the handshake is done
	frames  []ws.Frame // that are to be sent
	queued  int        // bytes of these
	closing bool       // nothing more is queued; the connection ends when all is sent
	signal  chan struct{}
}

func newConn(s *Server) *conn { return &conn{server: s, signal: make(chan struct{}, 1)} }

// queue takes what the relay does on the connection.
func (c *conn) queue(e relaymodel.Effect) {
	switch {
	case e.Frame != nil:
		c.push(ws.NewTextFrame(e.Frame), false)
	case e.Code != 0:
		c.push(ws.NewCloseFrame(ws.NewCloseFrameBody(ws.StatusCode(e.Code), e.Reason)), true)
	default:
		c.push(ws.Frame{}, true)
	}
}

// push queues a frame; one without an opcode only ends the connection.
func (c *conn) push(f ws.Frame, last bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closing {
		return
	}
	c.closing = last
	if f.Header.OpCode != 0 {
		c.frames = append(c.frames, f)
		if c.queued += len(f.Payload); c.queued > maxQueued {
			c.frames, c.closing = nil, true
		}
	}
	select {
	case c.signal <- struct{}{}:
	default:
	}
}

// abort ends the connection without sending what is queued.
func (c *conn) abort() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.frames, c.closing = nil, true
	if c.net != nil {
		_ = c.net.Close()
	}
	select {
	case c.signal <- struct{}{}:
	default:
	}
}

// begin serves the connection.
func (c *conn) begin(nc net.Conn, early *bufio.Reader) {
	c.mu.Lock()
	c.net = nc
	c.mu.Unlock()
	done := make(chan struct{})
	go func() {
		defer close(done)
		c.write(nc)
	}()
	go func() {
		defer c.server.running.Done()
		c.read(nc, early)
		c.server.gone(c)
		c.abort()
		<-done
	}()
}

// write sends what is queued until the connection ends.
func (c *conn) write(nc net.Conn) {
	defer nc.Close()
	out := bufio.NewWriterSize(nc, 16<<10)
	for {
		c.mu.Lock()
		frames, ending := c.frames, c.closing
		c.frames, c.queued = nil, 0
		c.mu.Unlock()
		for _, f := range frames {
			if ws.WriteFrame(out, c.packed(f)) != nil {
				return
			}
		}
		if out.Flush() != nil || ending {
			return
		}
		<-c.signal
	}
}

// packed compresses a frame where that was agreed upon.
func (c *conn) packed(f ws.Frame) ws.Frame {
	if !c.deflate || f.Header.OpCode != ws.OpText || len(f.Payload) < c.server.profile.Connection.CompressFrom {
		return f
	}
	w := compressors.Get().(*flate.Writer)
	defer compressors.Put(w)
	var b bytes.Buffer
	w.Reset(&b)
	if _, err := w.Write(f.Payload); err != nil || w.Flush() != nil {
		return f
	}
	f.Payload = bytes.TrimSuffix(b.Bytes(), []byte(inflate.SyncTail))
	f.Header.Length = int64(len(f.Payload))
	f.Header.Rsv = ws.Rsv(true, false, false)
	return f
}

var compressors = sync.Pool{New: func() any {
	w, err := flate.NewWriter(nil, flate.BestSpeed)
	if err != nil {
		panic(err) // the level is one of the library's
	}
	return w
}}

// read hands on what the client sends until the connection ends.
func (c *conn) read(nc net.Conn, early *bufio.Reader) {
	var compressed wsflate.MessageState
	state := ws.StateServerSide
	if c.deflate {
		state = state.Set(ws.StateExtended)
	}
	r := wsutil.Reader{Source: early, State: state, MaxFrameSize: maxRead}
	if c.deflate {
		r.Extensions = []wsutil.RecvExtension{&compressed}
	}
	r.OnIntermediate = c.control
	for {
		h, err := r.NextFrame()
		if err != nil {
			return
		}
		if h.OpCode.IsControl() {
			if c.control(h, &r) != nil {
				return
			}
			continue
		}
		text, err := io.ReadAll(io.LimitReader(&r, maxRead+1))
		if err != nil || len(text) > maxRead {
			return
		}
		if compressed.IsCompressed() {
			if text, err = inflate.Append(nil, text, maxRead); err != nil {
				return
			}
		}
		c.server.receive(c, text)
	}
}

// control answers a control frame.
func (c *conn) control(h ws.Header, r io.Reader) error {
	payload, err := io.ReadAll(r)
	if err != nil {
		return err
	}
	switch h.OpCode {
	case ws.OpPing:
		c.push(ws.NewPongFrame(payload), false)
	case ws.OpClose:
		c.push(ws.NewCloseFrame(payload), true)
	}
	return nil
}
