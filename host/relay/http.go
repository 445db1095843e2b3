package relay

import (
	"context"
	"crypto/rand"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"time"

	"github.com/gobwas/httphead"
	"github.com/gobwas/ws"
	"github.com/gobwas/ws/wsflate"

	"talon/host"
)

// handshakeTime bounds the writing of the handshake's answer.
const handshakeTime = 10 * time.Second

// ServeHTTP accepts websockets, answers NIP-11, and passes other requests to Config.Next. Every
// answer has the headers of Config.CORS.
func (r *Relay) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	r.cfg.CORS(w.Header())
	if r.refuseBanned(w, req) {
		return
	}
	switch {
	case req.Method == http.MethodOptions:
		w.WriteHeader(http.StatusNoContent)
	case wantsWebsocket(req) && req.URL.Path != "/":
		http.Error(w, "The relay is at the path /.", http.StatusNotFound) // NIP-01: one relay, one path
	case wantsWebsocket(req):
		r.upgrade(w, req)
	case wantsInfo(req):
		r.serveInfo(w, req)
	default:
		r.cfg.Next.ServeHTTP(w, req)
	}
}

func wantsWebsocket(req *http.Request) bool {
	return strings.EqualFold(req.Header.Get("Upgrade"), "websocket")
}

// upgrade takes the connection from net/http. The goroutine that served the
// request ends here, and with it net/http's buffers.
func (r *Relay) upgrade(w http.ResponseWriter, req *http.Request) {
	addr := ClientAddr(req, r.cfg.Proxies)
	c := r.newConn(addr)
	if refused := r.admit(c); refused != admitted {
		r.metrics.rejected[refused].Inc()
		w.Header().Set("Retry-After", "60")
		http.Error(w, refused.text(), refused.status())
		return
	}
	opened := false
	defer func() {
		if !opened {
			r.release(c) // also after a panic
		}
	}()
	if r.deps.Policy != nil {
		c.client = newClient(addr, req)
		if refused := r.welcome(c, req); refused != nil {
			r.metrics.rejected[refused.refusal].Inc()
			if refused.status != http.StatusForbidden {
				w.Header().Set("Retry-After", "60")
			}
			http.Error(w, refused.text, refused.status)
			return
		}
	}
	nc, err := r.handshake(w, req, c)
	if err != nil {
		r.metrics.rejected[badHandshake].Inc()
		r.cfg.Log.Debug("refuse websocket", "source", addr, "err", err)
		if nc != nil {
			_ = nc.Close() // the answer has been written, or cannot be
		}
		return
	}
	opened = true
	r.open(c, nc)
}

func (r *Relay) newConn(addr netip.Addr) *conn {
	source := &host.Source{Origin: host.FromClient, Addr: addr}
	c := &conn{relay: r, peer: peer{source: source, slot: host.NetworkOf(addr)}}
	c.spaceCond.L = &c.mu
	c.in.conn = c
	return c
}

// handshake answers the upgrade request. A non-nil net.Conn is the caller's also
// with an error.
func (r *Relay) handshake(w http.ResponseWriter, req *http.Request, c *conn) (net.Conn, error) {
	names := r.cfg.Domains
	if len(names) == 0 {
		names = []string{req.Host}
	}
	for _, name := range names {
		s, _ := site(name)
		c.sites = append(c.sites, s)
	}
	if _, err := rand.Read(c.challenge[:]); err != nil {
		return nil, err
	}
	deflate := wsflate.Extension{Parameters: deflateParameters}
	up := ws.HTTPUpgrader{
		Timeout: handshakeTime,
		Header:  w.Header().Clone(),
		Negotiate: func(opt httphead.Option) (httphead.Option, error) {
			if r.cfg.Limits.CompressFrom == 0 {
				return httphead.Option{}, nil
			}
			// An offer that is not understood is declined, not an error: another
			// may follow, and there is always no compression.
			accepted, err := deflate.Negotiate(opt)
			if err != nil {
				return httphead.Option{}, nil
			}
			return accepted, nil
		},
	}
	nc, rw, _, err := up.Upgrade(req, w)
	if err != nil {
		return nc, err
	}
	_, c.deflate = deflate.Accepted()
	// Bytes that the client sent right after its request.
	if n := rw.Reader.Buffered(); n > 0 {
		early, err := rw.Reader.Peek(min(n, readSize))
		if err != nil {
			return nc, err
		}
		c.in.buf = readBuffers.Get().(*readBuffer)
		c.in.w = copy(c.in.buf[:], early)
	}
	return nc, nil
}

// open starts a connection that has been admitted.
func (r *Relay) open(c *conn, nc net.Conn) {
	ctx, cancel := context.WithCancel(host.WithShare(context.Background(), c.share))
	c.net, c.cancel, c.done = nc, cancel, ctx.Done()
	c.seen.Store(r.cfg.Now().UnixNano())
	c.written.Store(r.cfg.Now().UnixNano())
	r.mu.Lock()
	r.conns[c] = struct{}{}
	closing := r.closing
	r.mu.Unlock()
	r.metrics.accepted.Inc()
	r.metrics.open.Inc()
	if closing {
		c.closeWith(errShutdown)
	}
	if c.parts.yielded.Load() {
		c.closeWith(errYielded)
	}
	c.closeIfBanned() // since it was let in
	go c.serve(ctx)
}
