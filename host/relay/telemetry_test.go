package relay

import (
	"testing"
	"time"

	"talon/host"
)

func TestTelemetry(t *testing.T) {
	m, option := newMoment(host.ClientLimits{})
	w := newWorld(t, option)
	w.ingest.held = make(chan struct{}, 10)
	c := w.dial()
	c.ask(`["REQ","a",{"limit":0,"kinds":[5]}]`, `["EOSE","a"]`)
	c.ask(`["COUNT","b",{}]`, `["COUNT","b",…]`)
	first, second := event(1, 1, 1, ""), event(1, 1, 2, "")
	c.send(eventMessage(first))
	c.send(eventMessage(second))
	w.ingest.held <- struct{}{}
	c.expect(okMessage(first, `true,""`))
	// The server counts bytes after the client may have read them.
	wait(t, func() bool { return w.relay.metrics.inFlight.Load() == 1 && w.relay.metrics.bytesOut.Load() >= 2*100 })
	m.pass(2 * time.Second)
	got := w.relay.Telemetry()
	if got.BytesIn < 2*100 || got.BytesOut < 100 || got.AnswerTime <= 0 {
		t.Errorf("%+v", got)
	}
	got.BytesIn, got.BytesOut, got.AnswerTime = 0, 0, 0
	want := Telemetry{Interval: 2 * time.Second, Connections: 1, Subscriptions: 1, Events: 1, Queries: 1, InFlight: 1}
	if got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	// Nothing has passed since: no rates, and no division by the time.
	want = Telemetry{Connections: 1, Subscriptions: 1, InFlight: 1}
	if got := w.relay.Telemetry(); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	w.ingest.held <- struct{}{}
	c.expect(okMessage(second, `true,""`))
	c.net.Close()
	wait(t, func() bool { return w.slots() == 0 })
	m.pass(time.Second)
	if got := w.relay.Telemetry(); got.Connections != 0 || got.Subscriptions != 0 || got.Events != 0 || got.InFlight != 0 || got.AnswerTime <= 0 {
		t.Errorf("%+v", got)
	}
}

func TestTelemetrySlowClients(t *testing.T) {
	w := newWorld(t)
	c := w.dial()
	c.ask(`["REQ","a",{"limit":0}]`, `["EOSE","a"]`)
	conn := w.only()
	conn.mu.Lock()
	conn.out.held = w.relay.cfg.Limits.QueueBytes/2 + 1
	conn.mu.Unlock()
	if n := w.relay.Telemetry().SlowClients; n != 1 {
		t.Errorf("%d clients with a long queue", n)
	}
	conn.mu.Lock()
	conn.out.held = 0
	conn.mu.Unlock()
	conn.closeWith(errSlow)
	c.net.Close()
	wait(t, func() bool { return w.slots() == 0 })
	if n := w.relay.Telemetry().SlowClients; n != 1 {
		t.Errorf("%d clients were cut off", n)
	}
	if n := w.relay.Telemetry().SlowClients; n != 0 {
		t.Errorf("%d clients are still called slow", n)
	}
}

func TestTimes(t *testing.T) {
	before := -1
	for d := time.Duration(0); d < 400*24*time.Hour; d += d/50 + time.Microsecond {
		n := class(d)
		if n < before || n > before+1 {
			t.Fatalf("%v is in class %d, after %d", d, n, before)
		}
		before = n
		if end := longest(n); end <= d || end > d+d/4+time.Microsecond {
			t.Fatalf("%v is in a class that ends at %v", d, end)
		}
	}
	var all times
	if got := all.drain(); got != 0 {
		t.Errorf("nothing took %v", got)
	}
	for range 990 {
		all.add(time.Millisecond)
	}
	for range 10 {
		all.add(time.Second)
	}
	if got := all.drain(); got < time.Millisecond || got > 1250*time.Microsecond {
		t.Errorf("99 in 100 took %v", got)
	}
	all.add(time.Millisecond)
	all.add(time.Second)
	all.add(1 << 62)
	if got := all.drain(); got < 25*24*time.Hour {
		t.Errorf("the longest of three took %v", got)
	}
	all.add(-time.Second)
	if got := all.drain(); got != time.Microsecond {
		t.Errorf("a clock that goes back: %v", got)
	}
}
