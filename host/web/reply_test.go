package web

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"talon/host/bound"
	"talon/internal/testkit"
)

// stalled is a client that reads nothing until its connection ends.
type stalled struct {
	*httptest.ResponseRecorder
	writing chan struct{} // closed when the server writes
	once    sync.Once
	ended   chan struct{} // closed when the server cuts it off
	end     sync.Once
}

func newStalled() *stalled {
	return &stalled{ResponseRecorder: httptest.NewRecorder(), writing: make(chan struct{}), ended: make(chan struct{})}
}

func (s *stalled) Write([]byte) (int, error) {
	s.once.Do(func() { close(s.writing) })
	<-s.ended
	return 0, http.ErrHandlerTimeout
}

// SetWriteDeadline ends the connection, if the time is over.
func (s *stalled) SetWriteDeadline(t time.Time) error {
	if !t.After(time.Now()) {
		s.end.Do(func() { close(s.ended) })
	}
	return nil
}

func byAddress(c *Config) {
	c.Client = func(r *http.Request) bound.Holder {
		return bound.Holder{Addr: netip.MustParseAddrPort(r.RemoteAddr).Addr()}
	}
}

// TestSlowReadersHoldNoTurn has more clients that do not read than pages are made at a time, of
// pages and of both sorts of code. Others get theirs.
func TestSlowReadersHoldNoTurn(t *testing.T) {
	w := newWorld(t, byAddress)
	w.serveCodeOf("nest", workTree(t, map[string]string{"x": "x\n"}))
	base := "/" + npub("owl") + "/nest"
	for _, path := range []string{"/search?q=", base + "/tree/main?", base + "/blame/main/x?"} {
		var all sync.WaitGroup
		var clients []*stalled
		for i := range max(maxBuilds, runtime.NumCPU()) + 2 {
			s := newStalled()
			r := httptest.NewRequest(http.MethodGet, fmt.Sprint(path, "n", i), nil) // each page is made for itself
			r.RemoteAddr = "203.0.113.1:1234"
			all.Go(func() { w.ServeHTTP(s, r) })
			testkit.Receive(t, "a client gets the page "+path, s.writing)
			clients = append(clients, s)
		}
		r := httptest.NewRequest(http.MethodGet, path, nil)
		r.RemoteAddr = "192.0.2.1:1234"
		got := httptest.NewRecorder()
		if w.ServeHTTP(got, r); got.Code != http.StatusOK {
			t.Errorf("%s: another client gets status %d", path, got.Code)
		}
		for _, s := range clients {
			_ = s.SetWriteDeadline(time.Time{})
		}
		all.Wait()
	}
}

// TestLargePagesAreBounded has one network ask for large pages and read nothing. It has its share
// of the memory for these, and loses the connection that has moved nothing for longest.
func TestLargePagesAreBounded(t *testing.T) {
	w := newWorld(t, byAddress)
	page := &reply{status: http.StatusOK, body: []byte(strings.Repeat("x", 5<<20))}
	var all sync.WaitGroup
	ask := func(addr string) *stalled {
		s := newStalled()
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.RemoteAddr = addr + ":1234"
		all.Go(func() { w.send(s, r, page) })
		testkit.Receive(t, "a client gets the page", s.writing)
		return s
	}
	var last *stalled
	for range 20 {
		before := last
		last = ask("203.0.113.1")
		if before != nil {
			testkit.Receive(t, "the end of the answer before", before.ended)
		}
		if used := w.sending.Used(); used > bound.Share(sendingBytes) {
			t.Fatalf("the network holds %d bytes", used)
		}
	}
	// A page that is larger than a share is sent, too.
	page = &reply{status: http.StatusOK, body: []byte(strings.Repeat("x", 9<<20))}
	other := ask("192.0.2.1")
	_ = last.SetWriteDeadline(time.Time{})
	_ = other.SetWriteDeadline(time.Time{})
	all.Wait()
	if used := w.sending.Used(); used != 0 {
		t.Errorf("%d bytes are held at the end", used)
	}
}
