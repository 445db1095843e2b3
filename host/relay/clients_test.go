package relay

import (
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"talon/host"
)

// moment is the time and the limits for clients, which a test changes.
type moment struct {
	passed atomic.Int64
	limits atomic.Pointer[host.ClientLimits]
}

func (m *moment) set(l host.ClientLimits) { m.limits.Store(&l) }

func (m *moment) pass(d time.Duration) { m.passed.Add(int64(d)) }

func newMoment(l host.ClientLimits) (*moment, option) {
	m := &moment{}
	m.set(l)
	return m, func(c *Config, _ *world) {
		start := time.Unix(1_700_000_000, 0)
		c.Now = func() time.Time { return start.Add(time.Duration(m.passed.Load())) }
		c.Clients = func() host.ClientLimits { return *m.limits.Load() }
	}
}

func (w *world) held(by limited) float64 {
	w.t.Helper()
	return value(w.t, w.relay, "talon_relay_limited_total", by.String())
}

func TestEventsInAMinute(t *testing.T) {
	m, option := newMoment(host.ClientLimits{Events: 2})
	w := newWorld(t, option)
	a, b := w.dial(), w.dial()
	n := int64(0)
	publish := func(c *client, want string) {
		t.Helper()
		n++
		e := event(1, 1, n, "")
		c.publish(e, want)
	}
	publish(a, `true,""`)
	m.pass(20 * time.Second)
	publish(a, `true,""`)
	publish(a, `false,"rate-limited: the relay is busy and takes 2 events a minute from a client now, try again in 40 s"`)
	publish(b, `true,""`) // another client is not limited by it
	a.ask(`["REQ","q",{"limit":0}]`, `["EOSE","q"]`)
	a.send(`["CLOSE","q"]`)
	m.pass(40 * time.Second)
	publish(a, `true,""`)
	m.set(host.ClientLimits{Events: 1})
	publish(a, `false,"rate-limited: …"`)
	m.set(host.ClientLimits{})
	publish(a, `true,""`)
	if n := w.held(limitedEvents); n != 2 {
		t.Errorf("%v events were refused", n)
	}
	if n := value(t, w.relay, "talon_relay_ok_total", "busy"); n != 2 {
		t.Errorf("%v answers say busy", n)
	}
}

func TestQueriesInAMinute(t *testing.T) {
	m, option := newMoment(host.ClientLimits{Queries: 3})
	w := newWorld(t, option)
	c := w.dial()
	c.ask(`["REQ","a",{}]`, `["EOSE","a"]`)
	c.ask(`["COUNT","b",{}]`, `["COUNT","b",…]`)
	c.ask(`["NEG-OPEN","n",{},"61"]`, `["NEG-MSG","n","…"]`)
	c.send(`["NEG-MSG","n","61"]`) // asks for nothing new
	c.expect(`["NEG-MSG","n","…"]`)
	c.send(`["COUNT","b",{}]`)
	c.expect(`["CLOSED","b","rate-limited: the relay is busy and takes 3 queries a minute from a client now, try again in 60 s"]`)
	c.ask(`["NEG-OPEN","m",{},"61"]`, `["NEG-ERR","m","rate-limited: …"]`)
	w.publish(event(1, 1, 1, "")) // the subscription lives
	c.expect(`["EVENT","a",…]`)
	c.ask(`["REQ","a",{}]`, `["CLOSED","a","rate-limited: …"]`)
	w.publish(event(1, 1, 2, "")) // and not after CLOSED
	m.pass(time.Minute)
	c.ask(`["COUNT","b",{}]`, `["COUNT","b",{"count":2}]`)
	if n := w.held(limitedQueries); n != 3 {
		t.Errorf("%v queries were refused", n)
	}
}

func TestFiltersAtOnce(t *testing.T) {
	m, option := newMoment(host.ClientLimits{Filters: 1})
	w := newWorld(t, option)
	c := w.dial()
	c.send(`["REQ","a",{"kinds":[1]},{"kinds":[2]}]`)
	c.expect(`["CLOSED","a","rate-limited: the relay is busy and takes 1 filters at once now, ask in parts or try again later"]`)
	c.ask(`["COUNT","a",{"kinds":[1]},{"kinds":[2]}]`, `["CLOSED","a","rate-limited: …"]`)
	c.ask(`["REQ","a",{"kinds":[1]}]`, `["EOSE","a"]`)
	m.set(host.ClientLimits{Filters: 1000}) // what is configured holds
	c.ask(`["REQ","a"`+strings.Repeat(`,{}`, DefaultLimits.Wire.Filters+1)+`]`, `["CLOSED","a","invalid: …"]`)
	if n := w.held(limitedFilters); n != 2 {
		t.Errorf("%v queries were refused", n)
	}
}

// A lower limit closes nothing that is open.
func TestFewerSubscriptions(t *testing.T) {
	m, option := newMoment(host.ClientLimits{})
	w := newWorld(t, option, limit(func(l *Limits) { l.Subscriptions = 3 }))
	c := w.dial()
	subscribe := func(id, want string) {
		t.Helper()
		c.ask(fmt.Sprintf(`["REQ",%q,{"limit":0}]`, id), want)
	}
	subscribe("a", `["EOSE","a"]`)
	subscribe("b", `["EOSE","b"]`)
	m.set(host.ClientLimits{Subscriptions: 1})
	subscribe("c", `["CLOSED","c","error: …"]`)
	subscribe("b", `["EOSE","b"]`) // in place of the other
	w.publish(event(1, 1, 1, ""))
	c.expect(`["EVENT",…`, `["EVENT",…`)
	c.send(`["CLOSE","a"]`)
	c.send(`["CLOSE","b"]`)
	subscribe("c", `["EOSE","c"]`)
	m.set(host.ClientLimits{Subscriptions: 1000})
	subscribe("d", `["EOSE","d"]`)
	subscribe("e", `["EOSE","e"]`)
	subscribe("f", `["CLOSED","f","error: …"]`) // the configured limit
	if n := w.held(limitedSubscriptions); n != 1 {
		t.Errorf("%v subscriptions were refused because of the moment", n)
	}
}

func TestFewerConnections(t *testing.T) {
	m, option := newMoment(host.ClientLimits{Connections: 1})
	w := newWorld(t, option, limit(func(l *Limits) { l.ConnectionsPerAddr = 2 }),
		behindProxy)
	from := func(addr string, want int) {
		t.Helper()
		if _, answer := w.request(http.Header{"X-Forwarded-For": {addr}}); answer.StatusCode != want {
			t.Errorf("from %s: %s, want %d", addr, answer.Status, want)
		}
	}
	from("192.0.2.1", 101)
	from("192.0.2.1", 429)
	from("192.0.2.2", 101)
	m.set(host.ClientLimits{Connections: 1000})
	from("192.0.2.1", 101)
	from("192.0.2.1", 429)
}

// TestPacedOut checks a connection that may get no more bytes for now. It keeps nobody waiting, is
// not taken for dead, and closes immediately.
func TestPacedOut(t *testing.T) {
	m, option := newMoment(host.ClientLimits{})
	w := newWorld(t, option)
	slow := w.dial()
	conn := w.only()
	other := w.dial()
	slow.ask(`["REQ","s",{"limit":0,"kinds":[1]}]`, `["EOSE","s"]`)
	// The server counts bytes after the client may have read them.
	wait(t, func() bool { conn.mu.Lock(); defer conn.mu.Unlock(); return !conn.out.flushing })
	m.set(host.ClientLimits{BytesOut: 1})
	first, second := event(1, 1, 1, "first"), event(1, 1, 2, "second")
	w.publish(first)
	slow.expect(subMessage("s", first)) // what a second holds may be exceeded once
	w.publish(second)
	wait(t, func() bool { conn.mu.Lock(); defer conn.mu.Unlock(); return conn.out.paced })
	m.set(host.ClientLimits{})

	e := event(1, 2, 3, "")
	other.publish(e, `true,""`)
	w.relay.sweep(w.relay.cfg.Now().Add(time.Hour))
	if seen := w.relay.Telemetry().SlowClients; seen != 0 {
		t.Errorf("%d clients are slow", seen)
	}
	go w.stop()
	slow.expect(subMessage("s", second))
	if code, reason := slow.closed(); code != 1001 {
		t.Errorf("closed with %d %s", code, reason)
	}
}

// only returns the one connection that there is.
func (w *world) only() *conn {
	w.t.Helper()
	all := w.relay.all()
	if len(all) != 1 {
		w.t.Fatalf("%d connections", len(all))
	}
	return all[0]
}

// A client that subscribed to more than it may get now is closed with the reason.
func TestPacedOutQueueFull(t *testing.T) {
	m, option := newMoment(host.ClientLimits{})
	w := newWorld(t, option, limit(func(l *Limits) { l.MessageBytes, l.QueueBytes = 100<<10, 1<<20 }))
	c := w.dial()
	c.ask(`["REQ","s",{"limit":0}]`, `["EOSE","s"]`)
	conn := w.only()
	m.set(host.ClientLimits{BytesOut: 1})
	text := strings.Repeat("x", 50_000)
	w.publish(event(1, 1, 1, text), event(1, 1, 2, text))
	wait(t, func() bool { conn.mu.Lock(); defer conn.mu.Unlock(); return conn.out.paced })
	for i := range 30 {
		w.publish(event(1, 1, int64(3+i), text))
	}
	if code, reason := c.closed(); code != 1008 || !strings.HasPrefix(reason, "rate-limited:") {
		t.Errorf("closed with %d %s", code, reason)
	}
	wait(t, func() bool { return value(t, w.relay, "talon_relay_connections_closed_total", "limited") == 1 })
}

// TestPacedIn checks that messages beyond the client's bytes wait outside.
func TestPacedIn(t *testing.T) {
	m, option := newMoment(host.ClientLimits{BytesIn: 1})
	w := newWorld(t, option)
	eager := w.dial()
	eager.send(`["REQ","a",{"limit":0}]`)
	wait(t, func() bool { return w.held(limitedBytesIn) >= 1 })
	m.set(host.ClientLimits{})
	other := w.dial()
	other.ask(`["REQ","b",{"limit":0}]`, `["EOSE","b"]`)
	w.relay.sweep(w.relay.cfg.Now().Add(30 * time.Second))
	go w.stop()
	if code, reason := eager.closed(); code != 1001 {
		t.Errorf("closed with %d %s", code, reason)
	}
}

func TestBucket(t *testing.T) {
	start := time.Unix(1000, 0)
	type step struct {
		at               time.Duration
		n                int
		burst, perSecond float64
		want             time.Duration
	}
	for name, steps := range map[string][]step{
		"bytes": {
			{0, 100, 100, 100, 0},
			{0, 50, 100, 100, 500 * time.Millisecond},
			{0, 0, 100, 100, 500 * time.Millisecond},
			{250 * time.Millisecond, 0, 100, 100, 250 * time.Millisecond},
			{250 * time.Millisecond, 0, 50, 50, 500 * time.Millisecond}, // half as much from now on
			{750 * time.Millisecond, 0, 50, 50, 0},
			{time.Hour, 50, 50, 50, 0}, // no more than a second's is saved up
			{time.Hour, 1, 50, 50, 20 * time.Millisecond},
			{time.Minute, 0, 50, 50, 20 * time.Millisecond}, // the clock went back
			{2 * time.Hour, 1 << 30, 1 << 40, 1 << 40, 0},
		},
		"messages": {
			{0, 10, 10, 2, 0},
			{0, 1, 10, 2, 500 * time.Millisecond},
			{500 * time.Millisecond, 1, 10, 2, 500 * time.Millisecond},
			{2 * time.Second, 1, 10, 2, 0},
			{time.Hour, 10, 10, 2, 0}, // no more than the burst is saved up
			{time.Hour, 4, 10, 2, 2 * time.Second},
		},
	} {
		var b tokenBucket
		for i, s := range steps {
			if got := b.reserve(s.n, s.burst, s.perSecond, start.Add(s.at)); got != s.want {
				t.Errorf("%s, step %d: wait %v, want %v", name, i, got, s.want)
			}
		}
	}
}

// Under a flood each connection gets what it may, and not one event more.
func TestOverload(t *testing.T) {
	_, option := newMoment(host.ClientLimits{Events: 10})
	w := newWorld(t, option)
	const clients, events = 20, 50
	list := make([]*client, clients)
	for i := range list {
		list[i] = w.dial()
		go func() {
			for n := range events {
				e := event(byte(i), 1, int64(n), "", host.Tag{"n", fmt.Sprint(i)})
				list[i].send(eventMessage(e))
			}
		}()
	}
	for i, c := range list {
		stored, refused := 0, 0
		for range events {
			switch answer := c.list(); {
			case answer[2] == true:
				stored++
			case strings.HasPrefix(answer[3].(string), "rate-limited: "):
				refused++
			}
		}
		if stored != 10 || refused != events-10 {
			t.Errorf("client %d: %d stored, %d refused", i, stored, refused)
		}
	}
	if n := w.held(limitedEvents); n != clients*(events-10) {
		t.Errorf("%v events were refused", n)
	}
}
