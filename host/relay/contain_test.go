package relay

import (
	"encoding/json"
	"errors"
	"net/http"
	"testing"

	"talon/host"
)

// corrupt makes the next event that a subscription of the only connection gets a panic, under the
// lock of that connection.
func (w *world) corrupt() {
	c := w.only()
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, s := range c.subs {
		s.answered.seq, s.answered.unpublished = 1<<40, []*watch{nil}
	}
}

// An event whose delivery panics closes that connection. All others get it, and it stays the last
// panic.
func TestPanicInDelivery(t *testing.T) {
	w := newWorld(t)
	bad := w.dial()
	bad.ask(`["REQ","a",{"limit":0}]`, `["EOSE","a"]`)
	w.corrupt()
	good := w.dial()
	good.ask(`["REQ","b",{"limit":0}]`, `["EOSE","b"]`)
	for n := range 3 {
		e := event(1, 1, int64(n), "")
		w.publish(e)
		good.expect(eventIn("b", e))
	}
	if code, reason := bad.closed(); code != 1011 || reason != "internal error" {
		t.Errorf("closed with %d %q", code, reason)
	}
	good.ask(`["REQ","c",{"limit":0}]`, `["EOSE","c"]`) // the index is not locked
	if n := value(t, w.relay, "talon_panics_total", "relay"); n != 1 {
		t.Errorf("%v panics are counted", n)
	}
}

// A panic in the search for subscriptions costs the one event, and in snapshots all snapshots.
func TestPanicInPublish(t *testing.T) {
	w := newWorld(t)
	c := w.dial()
	c.ask(`["REQ","a",{"limit":0}]`, `["EOSE","a"]`)
	lost, e := event(1, 7, 1, ""), event(1, 1, 2, "")
	w.relay.index.mu.Lock()
	w.relay.index.buckets[string(kindKey(nil, 7))] = &bucket{list: []*posting{nil}}
	w.relay.index.mu.Unlock()
	w.relay.snapshots.mu.Lock()
	w.relay.snapshots.byFilter["broken"] = &snapshot{cached: true, key: "broken"} // note panics: it has no family
	w.relay.snapshots.mu.Unlock()
	w.publish(lost)
	w.publish(e)
	c.expect(eventIn("a", lost), eventIn("a", e))
	c.ask(`["REQ","b",{"limit":0}]`, `["EOSE","b"]`)
	w.relay.snapshots.mu.Lock()
	defer w.relay.snapshots.mu.Unlock()
	if n := len(w.relay.snapshots.byFilter); n != 0 {
		t.Errorf("%d snapshots are kept that may lack an event", n)
	}
	if n := value(t, w.relay, "talon_panics_total", "relay"); n != 3 { // note, the account of what it broke, match
		t.Errorf("%v panics are counted", n)
	}
}

// An answer that panics in the pipeline closes its connection, which waits for it no longer.
func TestPanicInAnswer(t *testing.T) {
	w := newWorld(t)
	w.ingest.decide = func(it *host.Item) (host.Verdict, error) {
		if it.Event.Kind == 7 {
			return host.Verdict{Code: 200}, errors.Join() // there is no such code
		}
		return host.Verdict{Code: host.Stored}, nil
	}
	bad, good := w.dial(), w.dial()
	bad.send(eventMessage(event(1, 7, 1, "")))
	if code, _ := bad.closed(); code != 1011 {
		t.Errorf("closed with %d", code)
	}
	good.publish(event(1, 1, 2, ""), `true,""`)
	good.net.Close()
	wait(t, func() bool { return w.slots() == 0 })
}

// A request that panics before the websocket is open gives its slot back.
func TestPanicInHandshake(t *testing.T) {
	w := newWorld(t, func(c *Config, _ *world) { c.Limits.CompressFrom = 1 })
	handler := w.relay.panics.Handler(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		w.relay.upgrade(panicking{rw}, r)
	}))
	w.server.Config.Handler = handler
	if _, answer := w.request(nil); answer == nil || answer.StatusCode != http.StatusInternalServerError {
		t.Errorf("got %v", answer)
	}
	wait(t, func() bool { return w.slots() == 0 })
}

type panicking struct{ http.ResponseWriter }

func (panicking) Unwrap() http.ResponseWriter { panic("planted") }

func eventIn(sub string, e *host.Event) string {
	id, _ := json.Marshal(sub)
	return `["EVENT",` + string(id) + `,` + string(e.JSON) + `]`
}
