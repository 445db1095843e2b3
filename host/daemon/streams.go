package daemon

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"time"

	"talon/host/bound"
)

// maxStreams is how many streams one connection of HTTP/2 may have at the same time.
const maxStreams = 100

// streams counts each stream of HTTP/2 as a connection of its network: else a network could have a
// hundred times its share of what is under way.
func (c *connections) streams(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ProtoMajor < 2 {
			h.ServeHTTP(w, r)
			return
		}
		ctx, cancel := context.WithCancel(r.Context())
		defer cancel()
		s := &stream{ResponseWriter: w, cancel: cancel}
		defer s.end()
		hold, err := c.pot.Acquire(c.holderOf(r), 1, func() {
			c.yielded.Inc()
			s.yield()
		})
		if err != nil {
			c.refused.Inc()
			w.Header().Set("Retry-After", retryAfter)
			http.Error(w, "Too many requests of your network are under way. Try again later.", http.StatusServiceUnavailable)
			return
		}
		defer hold.Release()
		s.hold = hold
		r = r.WithContext(ctx)
		r.Body = &touchingBody{r.Body, hold}
		h.ServeHTTP(s, r)
	})
}

// holderOf says who the streams of a connection count for.
func (c *connections) holderOf(r *http.Request) bound.Holder {
	at, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return bound.Holder{}
	}
	return c.holder(net.TCPAddrFromAddrPort(at))
}

// stream is the answer of a stream that has a place.
type stream struct {
	http.ResponseWriter
	hold   *bound.Hold
	cancel context.CancelFunc

	mu    sync.Mutex // guards ended, and deadlines of a stream that has not
	ended bool
}

func (s *stream) Write(p []byte) (int, error) {
	n, err := s.ResponseWriter.Write(p)
	if n > 0 {
		s.hold.Touch()
	}
	return n, err
}

// Flush sends what is written.
func (s *stream) Flush() { _ = http.NewResponseController(s.ResponseWriter).Flush() }

// Unwrap lets [http.ResponseController] reach the stream.
func (s *stream) Unwrap() http.ResponseWriter { return s.ResponseWriter }

// yield ends the request, for others need its place: also one that waits for its client.
func (s *stream) yield() {
	s.cancel()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended {
		return
	}
	rc := http.NewResponseController(s.ResponseWriter)
	_ = rc.SetReadDeadline(time.Unix(1, 0))
	_ = rc.SetWriteDeadline(time.Unix(1, 0))
}

// end is called before the server takes the stream back.
func (s *stream) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ended = true
}

// touchingBody is a body whose reads count as activity.
type touchingBody struct {
	io.ReadCloser
	hold *bound.Hold
}

func (b *touchingBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if n > 0 {
		b.hold.Touch()
	}
	return n, err
}
