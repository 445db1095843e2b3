package daemon

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"talon/internal/testkit"
)

// dialInTime serves a handler within a short time, and connects to it.
func dialInTime(t *testing.T, h http.HandlerFunc) net.Conn {
	t.Helper()
	s := httptest.NewServer(inTime(h, 50*time.Millisecond))
	t.Cleanup(s.CloseClientConnections)
	t.Cleanup(s.Close)
	c, err := net.Dial("tcp", s.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	if err := c.SetReadDeadline(testkit.Deadline(t)); err != nil {
		t.Fatal(err)
	}
	return c
}

// A client announces a body and never sends it. The server would read it before it
// answers, for ever.
func TestNoBody(t *testing.T) {
	for _, path := range []string{"/", "/npub1x/demo.git/git-receive-pack"} {
		for _, method := range []string{"POST", "OPTIONS", "GET"} {
			// A long answer is sent while the handler runs, and holds what the handler holds.
			for _, size := range []int{0, 64 << 10} {
				ended := make(chan struct{})
				c := dialInTime(t, func(w http.ResponseWriter, _ *http.Request) {
					defer close(ended)
					w.WriteHeader(http.StatusNotFound)
					_, _ = w.Write(make([]byte, size))
				})
				if _, err := fmt.Fprintf(c, "%s %s HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n", method, path); err != nil {
					t.Fatal(err)
				}
				if _, err := io.ReadAll(c); err != nil {
					t.Errorf("%s %s, %d bytes: the connection does not end: %v", method, path, size, err)
					_ = c.Close()
				}
				<-ended
			}
		}
	}
}

// A client asks for a page and never reads it.
func TestNoReader(t *testing.T) {
	written := make(chan error, 1)
	c := dialInTime(t, func(w http.ResponseWriter, _ *http.Request) {
		piece := make([]byte, 1<<20)
		for {
			if _, err := w.Write(piece); err != nil {
				written <- err
				return
			}
		}
	})
	if _, err := io.WriteString(c, "GET / HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	testkit.Receive(t, "the server stops writing", written)
}

// deadlines notes what a handler's connection was given.
type deadlines struct {
	http.ResponseWriter
	read, write []bool // whether there is one
}

func (d *deadlines) SetReadDeadline(t time.Time) error {
	d.read = append(d.read, !t.IsZero())
	return nil
}

func (d *deadlines) SetWriteDeadline(t time.Time) error {
	d.write = append(d.write, !t.IsZero())
	return nil
}

// While git is served, the deadlines for writing are those of package githttp. A request
// without a body has no deadline for reading, which would end its context.
func TestDeadlines(t *testing.T) {
	for _, tt := range []struct {
		method, path string
		body         io.Reader
		during       string // the deadlines for reading and writing when the handler begins
		after        string
	}{
		{"GET", "/", nil, "[] [true]", "[] [true]"},
		{"POST", "/", http.NoBody, "[] [true]", "[] [true]"},
		{"GET", "/npub1x/demo.git/info/refs?service=git-upload-pack", nil, "[] [true false]", "[] [true false true]"},
		{"POST", "/npub1x/demo.git/git-upload-pack", io.LimitReader(nil, 0), "[true] [true false]", "[true true] [true false true]"},
		{"POST", "/", io.LimitReader(nil, 0), "[true] [true]", "[true] [true]"},
	} {
		d := &deadlines{ResponseWriter: httptest.NewRecorder()}
		during := ""
		r := httptest.NewRequest(tt.method, tt.path, tt.body)
		if tt.body == nil {
			r.Body = http.NoBody // as a server has it
		}
		inTime(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { during = fmt.Sprint(d.read, d.write) }), time.Minute).ServeHTTP(d, r)
		if after := fmt.Sprint(d.read, d.write); during != tt.during || after != tt.after {
			t.Errorf("%s %s: %s, then %s, want %s, then %s", tt.method, tt.path, during, after, tt.during, tt.after)
		}
	}
}
