package relay

import (
	"fmt"
	"net/http"
	"net/netip"
	"testing"

	"talon/host"
	"talon/host/bound"
)

// crowd connects two clients from each of eight neighbourhoods, each of which asks once.
func (w *world) crowd(ask, answer string) (all []*client) {
	for n := range 16 {
		c := w.connect(http.Header{"X-Forwarded-For": {fmt.Sprintf("198.51.%d.%d", n/2, n%2)}})
		c.expect(`["AUTH","…"]`)
		c.ask(ask, answer)
		all = append(all, c)
	}
	return all
}

// TestSubscriptionsYield shows that strangers cannot take all subscriptions.
func TestSubscriptionsYield(t *testing.T) {
	w := newWorld(t, behindProxy, limit(func(l *Limits) { l.SubscriptionsTotal = 16 }))
	crowd := w.crowd(`["REQ","a",{}]`, `["EOSE","a"]`)
	crowd[0].ask(`["REQ","b",{}]`, `["CLOSED","b","error: there is no room …"]`)
	newcomer := w.connect(http.Header{"X-Forwarded-For": {"203.0.113.1"}})
	newcomer.expect(`["AUTH","…"]`)
	newcomer.ask(`["REQ","a",{}]`, `["EOSE","a"]`)
	if n := w.relay.pots.subs.Used(); n != 16 {
		t.Errorf("%d subscriptions are counted, want 16", n)
	}
	newcomer.ask(`["REQ","b",{}]`, `["CLOSED","b","error: the relay has …"]`) // it would be as heavy as the others
	newcomer.send(`["CLOSE","a"]`)
	newcomer.ask(`["REQ","b",{}]`, `["EOSE","b"]`)
}

// TestValuesYield shows that strangers cannot take all values of subscriptions, and that a network
// has its share, which a subscription that ends or is replaced gives back.
func TestValuesYield(t *testing.T) {
	w := newWorld(t, behindProxy, limit(func(l *Limits) { l.Values, l.ValuesTotal = 20, 80 }))
	crowd := w.crowd(`["REQ","a",{"kinds":[1,2,3,4]}]`, `["EOSE","a"]`)
	if n := w.relay.pots.values.Used(); n != 80 {
		t.Errorf("%d values are counted, want 80", n)
	}
	crowd[0].ask(`["REQ","b",{"kinds":[1]}]`, `["CLOSED","b","error: the subscriptions of your network may have 10 values in all, …"]`)
	crowd[0].ask(`["REQ","a",{"kinds":[1,2]}]`, `["EOSE","a"]`) // in place of the other
	crowd[0].ask(`["REQ","b",{"kinds":[1]}]`, `["EOSE","b"]`)
	crowd[0].send(`["CLOSE","b"]`)
	crowd[0].ask(`["REQ","a",{"kinds":[1,2,3,4]}]`, `["EOSE","a"]`)
	newcomer := w.connect(http.Header{"X-Forwarded-For": {"203.0.113.1"}})
	newcomer.expect(`["AUTH","…"]`)
	newcomer.ask(`["REQ","a",{"kinds":[1,2,3]}]`, `["EOSE","a"]`)
	if n := w.relay.pots.values.Used(); n != 79 {
		t.Errorf("%d values are counted, want 79: somebody gave way", n)
	}
}

// TestSessionsYield shows that strangers cannot take all negentropy sessions.
func TestSessionsYield(t *testing.T) {
	w := newWorld(t, behindProxy, limit(func(l *Limits) { l.NegSessionsTotal = 16 }))
	crowd := w.crowd(`["NEG-OPEN","n",{},"6100000200"]`, `["NEG-MSG","n","…"]`)
	crowd[0].ask(`["NEG-OPEN","m",{},"6100000200"]`, `["NEG-ERR","m","blocked: your network has …"]`)
	newcomer := w.connect(http.Header{"X-Forwarded-For": {"203.0.113.1"}})
	newcomer.expect(`["AUTH","…"]`)
	newcomer.ask(`["NEG-OPEN","n",{},"6100000200"]`, `["NEG-MSG","n","…"]`)
	ended := 0
	for _, c := range w.relay.all() {
		c.mu.Lock()
		if len(c.neg) == 0 {
			ended++
		}
		c.mu.Unlock()
	}
	if n := w.relay.pots.sessions.Used(); n != 16 || ended != 1 {
		t.Errorf("%d sessions are counted and %d ended, want 16 and 1", n, ended)
	}
}

// TestRecordsYield shows that the sessions of the heaviest network end when no more records
// fit in memory.
func TestRecordsYield(t *testing.T) {
	w := newWorld(t, behindProxy, limit(func(l *Limits) { l.NegRecords, l.NegRecordsTotal = 2*snapshotStep, 4*snapshotStep }))
	for i := range 3 * snapshotStep {
		w.store.put(event(1, host.Kind(i%3), int64(i), ""))
	}
	heavy := w.connect(http.Header{"X-Forwarded-For": {"198.51.100.1"}})
	heavy.expect(`["AUTH","…"]`)
	for kind := range 3 {
		heavy.ask(fmt.Sprintf(`["NEG-OPEN","n%d",{"kinds":[%d]},"6100000200"]`, kind, kind), fmt.Sprintf(`["NEG-MSG","n%d","…"]`, kind))
	}
	newcomer := w.connect(http.Header{"X-Forwarded-For": {"203.0.113.1"}})
	newcomer.expect(`["AUTH","…"]`)
	newcomer.ask(`["NEG-OPEN","n",{"kinds":[0,1]},"6100000200"]`, `["NEG-MSG","n","…"]`)
	heavy.expect(`["NEG-ERR","n0","blocked: others need …"]`)
}

// TestKnownPeople shows that a client that proves the key of a known person has room when
// strangers have taken all that they may, and keeps it.
func TestKnownPeople(t *testing.T) {
	w := newWorld(t, behindProxy, limit(func(l *Limits) { l.SubscriptionsTotal = 128 }), func(_ *Config, w *world) {
		w.holder = func(addr netip.Addr, proven []host.PubKey) bound.Holder {
			return bound.Holder{Addr: addr, Known: len(proven) > 0}
		}
	})
	for n := range 8 { // each of a neighbourhood of its own, with 14 of the 112 that strangers have
		c := w.connect(http.Header{"X-Forwarded-For": {fmt.Sprintf("198.51.%d.1", n)}})
		c.expect(`["AUTH","…"]`)
		for k := range 14 {
			c.ask(fmt.Sprintf(`["REQ","%d",{"kinds":[%d]}]`, k, k), fmt.Sprintf(`["EOSE","%d"]`, k))
		}
	}
	known := w.connect(http.Header{"X-Forwarded-For": {"203.0.113.1"}})
	known.auth = known.list()[1].(string)
	e := known.authEvent(w, 1)
	known.ask(authMessage(e), okMessage(e, `true,""`))
	for k := range 2 {
		known.ask(fmt.Sprintf(`["REQ","%d",{"kinds":[%d]}]`, k, k), fmt.Sprintf(`["EOSE","%d"]`, k))
	}
	if n := w.relay.pots.subs.Used(); n != 114 {
		t.Errorf("%d subscriptions are counted, want 114: nobody gave way", n)
	}
}
