package relay

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/gobwas/ws"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"talon/host"
)

// TestBadMessages checks that each malformed message is answered in the form that the client
// expects, and that the connection goes on.
func TestBadMessages(t *testing.T) {
	id := strings.Repeat("ab", 32)
	tests := []struct{ name, send, want string }{
		{"not JSON", `hello`, `["NOTICE","invalid: …"]`},
		{"empty", ``, `["NOTICE","invalid: …"]`},
		{"not an array", `{"a":1}`, `["NOTICE","invalid: …"]`},
		{"empty array", `[]`, `["NOTICE","invalid: …"]`},
		{"unknown verb", `["HELLO","x"]`, `["NOTICE","invalid: unknown verb …"]`},
		{"verb a number", `[1]`, `["NOTICE","invalid: …"]`},
		{"unterminated string", `["REQ","a`, `["NOTICE","invalid: …"]`},
		{"nested deeply", strings.Repeat("[", 5000), `["NOTICE","invalid: …"]`},
		{"REQ nested deeply", `["REQ","a",{"x":` + strings.Repeat("[", 5000), `["CLOSED","a","…"]`},
		{"EVENT without an event", `["EVENT"]`, `["NOTICE","invalid: …"]`},
		{"EVENT of the wrong type", `["EVENT","x"]`, `["NOTICE","invalid: …"]`},
		{"EVENT with an id and no more", `["EVENT",{"id":"` + id + `"}]`, `["OK","` + id + `",false,"invalid: …"]`},
		{"EVENT with over-long hex", `["EVENT",{"id":"` + id + `ab"}]`, `["OK","` + id + `ab",false,"invalid: …"]`},
		{"REQ without an id", `["REQ"]`, `["NOTICE","invalid: …"]`},
		{"REQ with a long id", `["REQ","` + strings.Repeat("x", 65) + `",{}]`, `["CLOSED","` + strings.Repeat("x", 65) + `","invalid: …"]`},
		{"REQ with a huge id", `["REQ","` + strings.Repeat("x", 2000) + `",{}]`, `["NOTICE","invalid: …"]`},
		{"NEG-OPEN with a long id", `["NEG-OPEN","` + strings.Repeat("x", 65) + `",{},"61"]`, `["NEG-ERR","` + strings.Repeat("x", 65) + `","invalid: …"]`},
		{"REQ with an id that is not hex", `["REQ","a",{"#e":["x"]}]`, `["CLOSED","a","invalid: #e …"]`},
		{"REQ with a key that is not hex", `["REQ","a",{"#p":["` + strings.ToUpper(id) + `"]}]`, `["CLOSED","a","invalid: #p …"]`},
		{"NEG-OPEN with two filters", `["NEG-OPEN","n",[{},{}],"61"]`, `["NEG-ERR","n","invalid: NEG-OPEN takes one filter"]`},
		{"NEG-OPEN with a list of one filter", `["NEG-OPEN","n",[{}],"61"]`, `["NEG-MSG","n","…"]`},
		{"REQ without filters", `["REQ","a"]`, `["CLOSED","a","invalid: …"]`},
		{"REQ with a filter of the wrong type", `["REQ","a",[]]`, `["CLOSED","a","invalid: …"]`},
		{"REQ with an unknown element", `["REQ","a",{"near":"x"}]`, `["CLOSED","a","unsupported: …"]`},
		{"REQ with too many filters", `["REQ","a"` + strings.Repeat(",{}", 101) + `]`, `["CLOSED","a","invalid: …"]`},
		{"COUNT with upper-case hex", `["COUNT","a",{"ids":["` + strings.ToUpper(id) + `"]}]`, `["CLOSED","a","invalid: …"]`},
		{"CLOSE without an id", `["CLOSE"]`, `["NOTICE","invalid: …"]`},
		{"AUTH with a string", `["AUTH","x"]`, `["NOTICE","invalid: …"]`},
		{"NEG-OPEN without a message", `["NEG-OPEN","n",{}]`, `["NEG-ERR","n","invalid: …"]`},
		{"NEG-OPEN that is not hex", `["NEG-OPEN","n",{},"xyz"]`, `["NEG-ERR","n","invalid: …"]`},
		{"NEG-OPEN with an empty message", `["NEG-OPEN","n",{},""]`, `["NEG-ERR","n","invalid: …"]`},
		{"NEG-OPEN with a huge varint", `["NEG-OPEN","n",{},"61` + strings.Repeat("ff", 40) + `"]`, `["NEG-ERR","n","invalid: …"]`},
		{"NEG-OPEN that claims 50 million ids", `["NEG-OPEN","n",{},"6100000297eaf000` + id + `"]`, `["NEG-ERR","n","invalid: …"]`},
		{"NEG-MSG without a session", `["NEG-MSG","n","61"]`, `["NEG-ERR","n","closed: …"]`},
	}
	w := newWorld(t)
	c := w.dial()
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c.t = t
			c.ask(tt.send, tt.want)
		})
	}
	c.t = t
	c.ask(`["REQ","still",{}]`, `["EOSE","still"]`)
}

func TestGarbageIsCutOff(t *testing.T) {
	w := newWorld(t, limit(func(l *Limits) { l.BadMessages = 3 }))
	c := w.dial()
	for range 2 {
		c.send("x")
	}
	c.send(`["CLOSE","a"]`) // understood: starts the count again
	for range 3 {
		c.send("x")
	}
	for range 5 {
		c.expect(`["NOTICE","invalid: …"]`)
	}
	if code, _ := c.closed(); code != 1008 {
		t.Errorf("closed with %d", code)
	}
}

func TestOK(t *testing.T) {
	tests := []struct {
		name    string
		verdict host.Verdict
		err     error
		want    string
	}{
		{"stored", host.Verdict{Code: host.Stored}, nil, `true,""`},
		{"duplicate", host.Verdict{Code: host.Duplicate, Reason: "duplicate: have it"}, nil, `true,"duplicate: have it"`},
		{"held", host.Verdict{Code: host.Held, Reason: "purgatory: wait"}, nil, `true,"purgatory: wait"`},
		{"rejected", host.Verdict{Code: host.Rejected, Reason: "blocked: \"no\""}, nil, `false,"blocked: \"no\""`},
		{"shadow", host.Verdict{Code: host.ShadowRejected, Reason: "blocked: secretly"}, nil, `true,""`},
		{"auth", host.Verdict{Code: host.AuthRequired, Reason: "auth-required: who are you"}, nil, `false,"auth-required: who are you"`},
		{"busy", host.Verdict{Code: host.Busy, Reason: "rate-limited: later"}, nil, `false,"rate-limited: later"`},
		{"host failed", host.Verdict{}, errors.New("disk /secret/path is full"), `false,"error: the event could not be stored"`},
		{"database away", host.Verdict{}, fmt.Errorf("begin: %w: /secret/path", host.ErrAway), `false,"` + databaseAway + `"`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(t)
			w.ingest.decide = func(*host.Item) (host.Verdict, error) { return tt.verdict, tt.err }
			c := w.dial()
			e := event(1, 1, 1000, "hi")
			c.publish(e, tt.want)
		})
	}
}

// A message that follows EVENTs waits for their answers, and so sees them.
// TestMoreInEvent: clients that say more with an event are understood.
func TestMoreInEvent(t *testing.T) {
	c := newWorld(t).dial()
	e := event(1, 1, 1, "x")
	c.ask(fmt.Sprintf(`["EVENT",%s,{"more":[1]},2]`, e.JSON), okMessage(e, `true,""`))
	c.ask(fmt.Sprintf(`["EVENT",%s,]`, e.JSON), okMessage(e, `false,"invalid: …"`))
}

func TestOrder(t *testing.T) {
	w := newWorld(t)
	w.ingest.held = make(chan struct{}, 10)
	c := w.dial()
	var events []*host.Event
	for i := range 5 {
		events = append(events, event(1, 1, int64(1000+i), "hi"))
		c.send(eventMessage(events[i]))
	}
	c.send(`["EVENT",{"id":"x"}]`)
	c.send(`["REQ","a",{}]`)
	for range 5 {
		w.ingest.held <- struct{}{}
	}
	for _, e := range events {
		c.expect(okMessage(e, `true,""`))
	}
	c.expect(`["OK","x",false,"invalid: …"]`)
	for i := range 5 {
		c.expect(subMessage("a", events[4-i]))
	}
	c.expect(`["EOSE","a"]`)
}

// No more than the limit is in flight; the rest waits in the socket.
func TestEventsInFlight(t *testing.T) {
	w := newWorld(t, limit(func(l *Limits) { l.EventsInFlight = 2 }))
	w.ingest.held = make(chan struct{})
	maximum := 0
	w.ingest.decide = func(*host.Item) (host.Verdict, error) {
		maximum = max(maximum, len(w.ingest.items)+1)
		return host.Verdict{}, nil
	}
	c := w.dial()
	for i := range 20 {
		c.send(eventMessage(event(1, 1, int64(i), "hi")))
	}
	for i := range 20 {
		w.ingest.held <- struct{}{}
		c.expect(okMessage(event(1, 1, int64(i), "hi"), `true,""`))
	}
	if maximum > 2 {
		t.Errorf("%d events were in flight", maximum)
	}
}

func TestAuthedKeysReachThePipeline(t *testing.T) {
	w := newWorld(t)
	w.ingest.decide = func(it *host.Item) (host.Verdict, error) {
		return host.Verdict{Code: host.Rejected, Reason: fmt.Sprintf("blocked: %d keys", len(it.Authed))}, nil
	}
	c := w.dial()
	e := event(1, 1, 1000, "hi", host.Tag{"-"})
	c.publish(e, `false,"blocked: 0 keys"`)
	for author := range byte(2) {
		a := c.authEvent(w, author)
		c.ask(authMessage(a), okMessage(a, `true,""`))
	}
	c.publish(e, `false,"blocked: 2 keys"`)
}

func TestStoreErrors(t *testing.T) {
	w := newWorld(t)
	w.store.err = errors.New("disk /secret/path is broken")
	c := w.dial()
	c.ask(`["REQ","a",{}]`, `["CLOSED","a","error: the store could not be read"]`)
	c.ask(`["COUNT","b",{}]`, `["CLOSED","b","error: the store could not be read"]`)
	c.ask(`["NEG-OPEN","n",{},"61"]`, `["NEG-ERR","n","error: the store could not be read"]`)
}

// A client over its rate is read more slowly; nothing is lost.
func TestRate(t *testing.T) {
	_, stands := newMoment(host.ClientLimits{}) // or more is allowed while the first are answered
	w := newWorld(t, stands, limit(func(l *Limits) { l.MessageBurst, l.MessagesPerSecond = 5*queryCost, 100*queryCost }))
	c := w.dial()
	for i := range 10 {
		c.send(fmt.Sprintf(`["REQ","s%d",{"kinds":[%d],"limit":0}]`, i, i))
	}
	for i := range 10 {
		if i == 5 {
			c.expect(`["NOTICE","rate-limited: …"]`)
		}
		c.expect(fmt.Sprintf(`["EOSE","s%d"]`, i))
	}
	if n := testutil.ToFloat64(w.relay.metrics.throttled); n == 0 {
		t.Error("reading never paused")
	}
}

// Pings and empty fragments are no way around the rate.
func TestRateOfFrames(t *testing.T) {
	for name, flood := range map[string]string{
		"pings":           strings.Repeat(string(frame(ws.OpPing, true, 0, "")), 12),
		"empty fragments": string(frame(ws.OpText, false, 0, "[")) + strings.Repeat(string(frame(ws.OpContinuation, false, 0, "")), 12),
	} {
		t.Run(name, func(t *testing.T) {
			_, stands := newMoment(host.ClientLimits{}) // or more is allowed while they are read
			w := newWorld(t, stands, limit(func(l *Limits) { l.MessageBurst, l.MessagesPerSecond = 10, 100 }))
			c := w.dial()
			c.write([]byte(flood))
			c.expect(`["NOTICE","rate-limited: …"]`)
		})
	}
}
