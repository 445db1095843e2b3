package attack

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"time"

	"talon/host/relayclient"
)

// Target is the server under attack, as attackers know it.
type Target struct {
	Listen string // host:port
	Repo   string // path of an honest maintainer's repository, /npub/name.git
	Dir    string // folder for files of the attackers
	Blob   int    // bytes of the large files that attackers push
}

func (t *Target) url(path string) string { return "http://" + t.Listen + path }

// attacker returns the nth address of attackers. Each has a /24 of its own.
func attacker(n int) string { return fmt.Sprintf("198.18.%d.%d", n%256, 7+n/256) }

// forwarded is the header of a request from an address behind the trusted proxy.
func forwarded(address string) http.Header { return http.Header{"X-Forwarded-For": {address}} }

// dialTime bounds the time to connect.
const dialTime = 20 * time.Second

// dial opens a websocket from an address.
func (t *Target) dial(ctx context.Context, address string) (*relayclient.Socket, error) {
	ctx, cancel := context.WithTimeout(ctx, dialTime)
	defer cancel()
	return relayclient.DialSocket(ctx, "ws://"+t.Listen, relayclient.SocketOptions{Header: forwarded(address)})
}

// connect opens a TCP connection. The local addresses are spread over 127.0.0.0/24, so that the
// ports of one suffice.
func (t *Target) connect(ctx context.Context, n int) (net.Conn, error) {
	d := net.Dialer{Timeout: dialTime, LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, byte(2+n%200))}}
	return d.DialContext(ctx, "tcp", t.Listen)
}

// post writes the head of a POST and the first bytes of its body, and returns the connection.
func (t *Target) post(ctx context.Context, address string, n int, path, kind string, length int64, body []byte) (net.Conn, error) {
	c, err := t.connect(ctx, n)
	if err != nil {
		return nil, err
	}
	_ = c.SetWriteDeadline(time.Now().Add(dialTime))
	_, err = fmt.Fprintf(c, "POST %s HTTP/1.1\r\nHost: %s\r\nX-Forwarded-For: %s\r\nContent-Type: application/x-%s-request\r\nContent-Length: %d\r\n\r\n%s",
		path+"/"+kind, t.Listen, address, kind, length, body)
	if err != nil {
		_ = c.Close()
		return nil, err
	}
	return c, nil
}

// get requests a path, and returns the status and the length of the body.
func get(ctx context.Context, client *http.Client, url, address string) (status int, length int64, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return 0, 0, err
	}
	req.Header = forwarded(address)
	resp, err := client.Do(req)
	if err != nil {
		return 0, 0, err
	}
	defer resp.Body.Close()
	length, err = io.Copy(io.Discard, resp.Body)
	return resp.StatusCode, length, err
}

// Figures that are a state and not a count.
const (
	figureOpen = "open"
	figurePeak = "peak"
)

// holdAll opens n connections, at most 64 at once, and keeps each until the context ends or
// hold returns. It returns how many were open at the end of the context.
func holdAll(ctx context.Context, n int, hold func(ctx context.Context, i int, opened func()) error) Figures {
	var mu sync.Mutex
	var open, peak, failed int64
	count := func(p *int64, by int64) {
		mu.Lock()
		defer mu.Unlock()
		*p += by
		peak = max(peak, open)
	}
	turns := make(chan struct{}, 64)
	var wg sync.WaitGroup
	for i := range n {
		select {
		case turns <- struct{}{}:
		case <-ctx.Done():
		}
		if ctx.Err() != nil {
			break
		}
		wg.Go(func() {
			var once sync.Once
			release := func() { once.Do(func() { <-turns }) }
			defer release()
			opened := false
			err := hold(ctx, i, func() { opened = true; count(&open, 1); release() })
			if opened && ctx.Err() == nil {
				count(&open, -1)
			}
			if err != nil && ctx.Err() == nil {
				count(&failed, 1)
			}
		})
	}
	<-ctx.Done()
	mu.Lock()
	f := Figures{figureOpen: open, figurePeak: peak, "ended": failed}
	mu.Unlock()
	wg.Wait()
	return f
}
