package relay

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/gobwas/ws"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"talon/host"
)

func TestSilentConnection(t *testing.T) {
	w := newWorld(t)
	c := w.dial()
	now := w.now()
	l := DefaultLimits
	w.relay.sweep(now.Add(l.PingInterval / 2)) // too early
	for range 3 {
		w.relay.sweep(now.Add(l.PingInterval + time.Second))
	}
	if f, err := c.next(); err != nil || f.Header.OpCode != ws.OpPing {
		t.Fatalf("got %v, %v, want a ping", f.Header, err)
	}
	c.write(frame(ws.OpPong, true, 0, ""))
	c.send(`["CLOSE","x"]`)
	c.send(`["REQ","a",{}]`)
	if f, err := c.next(); err != nil || withoutHint(string(f.Payload)) != `["EOSE","a"]` { // and no second ping before it
		t.Fatalf("got %v %q, %v, want EOSE", f.Header, f.Payload, err)
	}
	wait(t, func() bool { return !w.only().busy.Load() }) // who asks is not silent
	idle := func() bool {
		c := w.only()
		c.mu.Lock()
		defer c.mu.Unlock()
		return !c.out.flushing && c.out.empty()
	}
	wait(t, idle)
	w.relay.sweep(w.now().Add(l.PingInterval + time.Second))
	wait(t, idle) // the ping is on its way
	for range 2 { // one look is not enough
		w.relay.sweep(w.now().Add(l.PingInterval + l.PongTime + 2*time.Second))
	}
	if code, _ := c.closed(); code != 1008 {
		t.Errorf("closed with %d", code)
	}
}

// TestPingsAfterSilence: a client that answers is never cut off, however late the looks are, and a
// client that sends but gets nothing is pinged too.
func TestPingsAfterSilence(t *testing.T) {
	w := newWorld(t)
	c := w.dial()
	c.ask(`["REQ","a",{}]`, `["EOSE","a"]`)
	conn := w.only()
	wait(t, func() bool { return !conn.busy.Load() })
	now, l := w.now(), DefaultLimits
	ping := func(at time.Time) {
		t.Helper()
		w.relay.sweep(at)
		if f, err := c.next(); err != nil || f.Header.OpCode != ws.OpPing {
			t.Fatalf("got %v, %v, want a ping", f.Header, err)
		}
	}
	ping(now.Add(10 * l.PingInterval)) // the process was paused: no reason to cut off at once
	w.relay.sweep(now.Add(20 * l.PingInterval))
	conn.seen.Store(now.Add(20 * l.PingInterval).UnixNano()) // as by a pong
	conn.written.Store(now.UnixNano())
	ping(now.Add(20*l.PingInterval + time.Second)) // it sends, and gets nothing
	conn.seen.Store(now.Add(21 * l.PingInterval).UnixNano())
	conn.written.Store(now.Add(21 * l.PingInterval).UnixNano())
	w.relay.sweep(now.Add(22*l.PingInterval - time.Millisecond))
	c.ask(`["REQ","a",{}]`, `["EOSE","a"]`) // and no ping before it
}

// TestUnfinishedMessage checks that a message without an end holds its memory only for a time.
func TestUnfinishedMessage(t *testing.T) {
	w := newWorld(t)
	c := w.dial()
	c.write(frame(ws.OpText, true, 0, "[\"REQ\"")[:8])
	wait(t, func() bool { return w.relay.all()[0].partial.Load() != 0 })
	w.relay.sweep(w.now().Add(DefaultLimits.MessageTime / 2))
	w.relay.sweep(w.now().Add(DefaultLimits.MessageTime + time.Second))
	if code, _ := c.closed(); code != 1008 {
		t.Errorf("closed with %d", code)
	}
}

// On shutdown what is in flight is answered, then every client gets a close frame.
func TestShutdown(t *testing.T) {
	w := newWorld(t)
	w.ingest.held = make(chan struct{})
	c, idle := w.dial(), w.dial()
	e := event(1, 1, 1000, "hi")
	c.send(eventMessage(e))
	wait(t, func() bool { return value(t, w.relay, "talon_relay_events_in_flight", "") == 1 })
	ended := make(chan struct{})
	go func() { w.stop(); close(ended) }()
	if code, _ := idle.closed(); code != 1001 {
		t.Errorf("closed with %d", code)
	}
	w.ingest.held <- struct{}{}
	c.expect(okMessage(e, `true,""`))
	if code, _ := c.closed(); code != 1001 {
		t.Errorf("closed with %d", code)
	}
	c.net.Close()
	idle.net.Close()
	<-ended
	if _, answer := w.request(nil); answer.StatusCode != http.StatusServiceUnavailable {
		t.Errorf("after shutdown: %s", answer.Status)
	}
}

// A panic ends its connection alone.
func TestPanic(t *testing.T) {
	w := newWorld(t)
	w.store.selecting = func() { panic("of the store") }
	other := w.dial()
	c := w.dial()
	c.send(`["REQ","a",{}]`)
	if code, reason := c.closed(); code != 1011 || reason != "internal error" {
		t.Errorf("closed with %d %q", code, reason)
	}
	other.ask(`["COUNT","a",{}]`, `["COUNT","a",{"count":0}]`)
	if n := value(t, w.relay, "talon_panics_total", "relay"); n != 1 {
		t.Errorf("%v panics were counted", n)
	}
}

// Nothing is left of connections that came and went.
func TestNothingIsLeft(t *testing.T) {
	w := newWorld(t)
	for i := range 20 {
		c := w.dial()
		c.ask(`["REQ","a",{"limit":0}]`, `["EOSE","a"]`)
		e := event(1, 1, int64(i), "hi")
		c.send(eventMessage(e))
		switch i % 3 {
		case 0:
			c.net.Close()
		case 1:
			c.write(frame(ws.OpClose, true, 0, ""))
			c.closed()
		case 2:
			c.write(frame(3, true, 0, ""))
			c.closed()
		}
	}
	wait(t, func() bool {
		return w.slots() == 0 && value(t, w.relay, "talon_relay_events_in_flight", "") == 0 && value(t, w.relay, "talon_relay_queue_bytes", "") == 0
	})
	for _, name := range []string{"connections", "subscriptions"} {
		if n := value(t, w.relay, "talon_relay_"+name, ""); n != 0 {
			t.Errorf("%s is %v", name, n)
		}
	}
	if w.relay.slots != 0 || w.relay.index.subs != 0 || len(w.relay.index.buckets) != 0 {
		t.Errorf("%d slots, %d subscriptions, %d buckets", w.relay.slots, w.relay.index.subs, len(w.relay.index.buckets))
	}
}

// FuzzConnection feeds bytes to a connection: it must end, without a panic.
func FuzzConnection(f *testing.F) {
	for _, text := range []string{
		`["EVENT",{}]`, eventMessage(event(1, 1, 1, "hi")), `["REQ","a",{"kinds":[1]},{"#t":["x"],"limit":1}]`,
		`["COUNT","a",{"#e":["x"]}]`, `["CLOSE","a"]`, `["NEG-OPEN","n",{},"6100000200"]`, `["NEG-MSG","n","61"]`, `["AUTH",{}]`,
	} {
		f.Add(frame(ws.OpText, true, 0, text))
		f.Add(append(frame(ws.OpText, false, 0, text[:5]), frame(ws.OpContinuation, true, 0, text[5:])...))
		f.Add(frame(ws.OpText, true, 4, deflated(text)))
	}
	f.Add(frame(ws.OpClose, true, 0, closeBody(1000, "bye")))
	f.Add(frame(ws.OpPing, true, 0, "x"))
	store := &fakeStore{}
	relay, err := New(Config{Limits: DefaultLimits}, Deps{
		Ingest: refusing{}, Store: store, Verify: func(*host.Event) error { return errors.New("no") },
	})
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		ours, theirs := net.Pipe()
		c := relay.newConn(host.Source{}.Addr)
		c.deflate = true
		if refused := relay.admit(c); refused != admitted {
			t.Fatal(refused)
		}
		relay.open(c, ours)
		drained := make(chan struct{})
		go func() { io.Copy(io.Discard, theirs); close(drained) }()
		theirs.SetWriteDeadline(time.Now().Add(5 * time.Second))
		theirs.Write(data)
		theirs.Close()
		<-drained
		wait(t, func() bool { return len(relay.all()) == 0 })
		if n := testutil.ToFloat64(relay.panics.Collector()); n != 0 {
			t.Fatal("a connection panicked")
		}
	})
}

// refusing answers every event with a refusal.
type refusing struct{}

func (refusing) Submit(_ context.Context, it *host.Item) error {
	it.Done(host.Verdict{Code: host.Rejected, Reason: "blocked: fuzz"}, nil)
	return nil
}
