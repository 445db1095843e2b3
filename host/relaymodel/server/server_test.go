package server

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"talon/host"
	"talon/host/relayclient"
	"talon/host/relaymodel"
	"talon/internal/testkit"
)

// serve serves a relay in memory, at relay.example.
func serve(t *testing.T, profile, keys string) (*Server, *testkit.Network) {
	t.Helper()
	p, err := relaymodel.Builtin(profile)
	if err == nil {
		p, err = p.With([]byte(keys))
	}
	if err != nil {
		t.Fatal(err)
	}
	n := testkit.NewNetwork()
	s := New(p, 1)
	web := &http.Server{Handler: s}
	done := make(chan error, 1)
	l := n.Listen("relay.example:80")
	go func() { done <- web.Serve(l) }()
	t.Cleanup(func() {
		_ = web.Close()
		<-done
		s.Close()
	})
	return s, n
}

func dial(t *testing.T, n *testkit.Network) (*relayclient.Socket, error) {
	t.Helper()
	s, err := relayclient.DialSocket(t.Context(), "ws://relay.example", relayclient.SocketOptions{Dial: n.Dial, Compress: true})
	if err == nil {
		t.Cleanup(func() { _ = s.Close() })
	}
	return s, err
}

func read(t *testing.T, s *relayclient.Socket) string {
	t.Helper()
	text, err := s.Read()
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// A client asks, publishes and hears of what is new, compressed or not.
func TestWebsocket(t *testing.T) {
	for _, profile := range []string{"strfry", "khatru", "nostream"} {
		t.Run(profile, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				relay, n := serve(t, profile, "")
				s, err := dial(t, n)
				if err != nil {
					t.Fatal(err)
				}
				if profile == "nostream" && !strings.HasPrefix(read(t, s), `["AUTH",`) {
					t.Error("no challenge")
				}
				long := testkit.NewSigner(1).Event(1, time.Now().Unix(), strings.Repeat("long ", 1000))
				relay.Add(long)
				if err := s.Write([]byte(`["REQ","s",{}]`)); err != nil {
					t.Fatal(err)
				}
				if got, want := read(t, s), fmt.Sprintf(`["EVENT","s",%s]`, long.JSON); got != want {
					t.Errorf("%.100s, want %.100s", got, want)
				}
				if got := read(t, s); got != `["EOSE","s"]` {
					t.Error(got)
				}
				if compressed := s.Received() < int64(len(long.JSON)); compressed != (profile != "khatru") {
					t.Errorf("%d bytes came for %d", s.Received(), len(long.JSON))
				}
				other, err := dial(t, n)
				if err != nil {
					t.Fatal(err)
				}
				fresh := testkit.NewSigner(1).Event(1, time.Now().Unix(), "fresh")
				if err := other.Write(fmt.Appendf(nil, `["EVENT",%s]`, fresh.JSON)); err != nil {
					t.Fatal(err)
				}
				if got := read(t, s); !strings.Contains(got, fresh.ID.String()) {
					t.Error(got)
				}
			})
		})
	}
}

// NIP-11, and a redeploy: connections end, and everything is answered with 502 until
// it is over.
func TestOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, n := serve(t, "strfry", "outage = [{ after-s = 10, for-s = 60, status = 502 }]")
		get := func() (int, string) {
			req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://relay.example/", nil)
			if err != nil {
				t.Fatal(err)
			}
			client := http.Client{Transport: &http.Transport{DialContext: n.Dial, DisableKeepAlives: true}}
			res, err := client.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			defer res.Body.Close()
			text, _ := io.ReadAll(res.Body)
			return res.StatusCode, string(text)
		}
		if status, text := get(); status != 200 || !strings.Contains(text, `"max_subscriptions":200`) {
			t.Errorf("%d: %s", status, text)
		}
		s, err := dial(t, n)
		if err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		if text, err := s.Read(); err == nil || time.Since(began) != 10*time.Second {
			t.Errorf("after %v the relay says %s, %v", time.Since(began), text, err)
		}
		if status, _ := get(); status != 502 {
			t.Errorf("status %d in the outage", status)
		}
		if _, err := dial(t, n); err == nil || !strings.Contains(err.Error(), "502") {
			t.Errorf("a connection in the outage: %v", err)
		}
		time.Sleep(61 * time.Second) // of the test's own clock
		if _, err := dial(t, n); err != nil {
			t.Error(err)
		}
	})
}

// Connections that are reset, dropped immediately and dropped later.
func TestDrops(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		relay, n := serve(t, "strfry", "")
		relay.SetAway(0)
		if _, err := dial(t, n); err == nil {
			t.Error("a relay that is away takes a connection")
		}
	})
	synctest.Test(t, func(t *testing.T) {
		_, n := serve(t, "strfry", "connection = { drop-at-once = true }")
		s, err := dial(t, n)
		if err != nil {
			t.Fatal(err)
		}
		if text, err := s.Read(); err == nil {
			t.Errorf("the relay says %s", text)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		_, n := serve(t, "strfry", "connection = { drop-seconds = 5, drop-code = 1011 }")
		c, err := n.Dial(context.Background(), "tcp", "relay.example:80")
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		go func() {
			_, _ = io.WriteString(c, "GET / HTTP/1.1\r\nHost: relay.example\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n")
		}()
		r := bufio.NewReader(c)
		if _, err := http.ReadResponse(r, nil); err != nil {
			t.Fatal(err)
		}
		frame, _ := io.ReadAll(r)
		if want := "\x88\x02\x03\xf3"; string(frame) != want { // a close frame with 1011
			t.Errorf("the relay ends with %x, want %x", frame, want)
		}
	})
}

// TestSlowClient checks that a client that does not read delays nobody, and is dropped at its
// bound.
func TestSlowClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		relay, n := serve(t, "khatru", "")
		slow, err := dial(t, n)
		if err != nil {
			t.Fatal(err)
		}
		if err := slow.Write([]byte(`["REQ","s",{"limit":0}]`)); err != nil {
			t.Fatal(err)
		}
		quick, err := dial(t, n)
		if err != nil {
			t.Fatal(err)
		}
		if err := quick.Write([]byte(`["REQ","s",{"limit":0}]`)); err != nil {
			t.Fatal(err)
		}
		read(t, quick)
		synctest.Wait()
		large := strings.Repeat("x", 1<<20)
		for i := range 40 {
			e := &host.Event{Kind: 1, ID: host.ID{byte(i)}, Content: large}
			e.JSON = e.AppendJSON(nil)
			relay.Add(e)
			read(t, quick)
		}
		open := 0
		synctest.Wait()
		for { // what was on its way still comes
			if _, err := slow.Read(); err != nil {
				break
			}
		}
		synctest.Wait()
		relay.View(func(r *relaymodel.Relay) { open, _, _ = r.Opened() })
		if open != 1 {
			t.Errorf("%d connections are open, want the quick client's", open)
		}
	})
}
