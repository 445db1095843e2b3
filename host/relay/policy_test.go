package relay

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/gobwas/ws"

	"talon/host"
	"talon/host/wire"
)

// fakePolicy answers by functions; nil ones have no opinion.
type fakePolicy struct {
	connect func(context.Context, *host.Connection) (host.Ruling, error)
	query   func(context.Context, *host.Query) (host.Ruling, error)
}

func (p *fakePolicy) Connect(ctx context.Context, c *host.Connection) (host.Ruling, error) {
	if p.connect == nil {
		return host.Ruling{}, nil
	}
	return p.connect(ctx, c)
}

func (p *fakePolicy) Query(ctx context.Context, q *host.Query) (host.Ruling, error) {
	if p.query == nil {
		return host.Ruling{}, nil
	}
	return p.query(ctx, q)
}

func policy(p *fakePolicy) option { return func(_ *Config, w *world) { w.policy = p } }

func ruling(action host.Action, reason string) func(context.Context, *host.Query) (host.Ruling, error) {
	return func(context.Context, *host.Query) (host.Ruling, error) {
		return host.Ruling{Action: action, Reason: reason}, nil
	}
}

func TestQueryRefused(t *testing.T) {
	tests := []struct {
		name   string
		query  func(context.Context, *host.Query) (host.Ruling, error)
		want   string
		action string        // label of the metric
		time   time.Duration // that a query may take; 0: as by default
	}{
		{"reject", ruling(host.Reject, "restricted: members only"), "restricted: members only", "reject", 0},
		{"reject without a reason", ruling(host.Reject, ""), "blocked: refused by policy", "reject", 0},
		{"hold, which is for events", ruling(host.Hold, "purgatory: wait"), "purgatory: wait", "reject", 0},
		{"auth", ruling(host.RequireAuth, "auth-required: members only"), "auth-required: members only", "auth-required", 0},
		{"auth without the prefix", ruling(host.RequireAuth, "members only"), "auth-required: members only", "auth-required", 0},
		{"auth without a reason", ruling(host.RequireAuth, ""), "auth-required: authenticate first", "auth-required", 0},
		{"an action that does not exist", ruling(200, ""), "blocked: refused by policy", "reject", 0},
		{"failure", func(context.Context, *host.Query) (host.Ruling, error) { return host.Ruling{}, errors.New("broken") },
			"error: the policy could not decide, try again later", "error", 0},
		{"too slow", func(ctx context.Context, _ *host.Query) (host.Ruling, error) {
			<-ctx.Done()
			return host.Ruling{}, ctx.Err()
		},
			"error: this took too long, try again later", "error", 50 * time.Millisecond},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(t, policy(&fakePolicy{query: tt.query}), limit(func(l *Limits) { l.QueryTime = cmp.Or(tt.time, l.QueryTime) }))
			w.publish(event(1, 1, 1000, "secret"))
			c := w.dial()
			c.ask(`["REQ","a",{}]`, fmt.Sprintf(`["CLOSED","a",%q]`, tt.want))
			c.ask(`["COUNT","b",{}]`, fmt.Sprintf(`["CLOSED","b",%q]`, tt.want))
			c.ask(`["NEG-OPEN","c",{},"6100000200"]`, fmt.Sprintf(`["NEG-ERR","c",%q]`, tt.want))
			// Nothing lives on: the next thing that comes is the OK.
			e := event(1, 1, 2000, "live")
			c.publish(e, `true,""`)
			w.store.mu.Lock()
			defer w.store.mu.Unlock()
			if w.store.selects+w.store.counts+w.store.scans > 0 {
				t.Error("the store was asked")
			}
			if n := value(t, w.relay, "talon_relay_queries_refused_total", tt.action); n != 3 {
				t.Errorf("%v refusals are counted, want 3", n)
			}
		})
	}
}

// A client that is shadow-rejected sees a relay in which nothing matches.
func TestQueryShadowRejected(t *testing.T) {
	w := newWorld(t, policy(&fakePolicy{query: ruling(host.ShadowReject, "blocked: not for you")}),
		limit(func(l *Limits) { l.Subscriptions = 2 }))
	have := event(1, 1, 1000, "secret", host.Tag{"t", "x"})
	w.publish(have)
	c := w.dial()
	for _, filters := range []string{`{}`, `{"ids":["` + have.ID.String() + `"]}`, `{"limit":0}`, `{"#t":["x"]},{"kinds":[1]}`} {
		c.ask(`["REQ","a",`+filters+`]`, `["EOSE","a"]`)
		c.send(`["COUNT","n",` + filters + `]`)
		if filters == `{}` {
			c.expect(`["COUNT","n",{"count":0}]`)
		} else {
			c.expect(`["COUNT","n",{"count":0…`)
		}
		live := event(1, 1, 2000, filters, host.Tag{"t", "x"})
		c.send(eventMessage(live))
		c.expect(okMessage(live, `true,""`)) // and no EVENT, now or before the next EOSE
	}
	// Same limits as for everyone.
	c.ask(`["REQ","b",{}]`, `["EOSE","b"]`)
	c.ask(`["REQ","c",{}]`, `["CLOSED","c","error: …"]`)
	// The session has nothing, so the client needs nothing.
	if need := c.sync("n", `{}`); len(need) != 0 {
		t.Errorf("negentropy offers %d events", len(need))
	}
	if n := value(t, w.relay, "talon_relay_queries_refused_total", "shadow-reject"); n != 11 {
		t.Errorf("%v refusals are counted, want 11", n)
	}
}

// TestQueryIsAskedAgain checks that a refused query ends the subscription under its id, and that an
// answer of a policy holds for one query.
func TestQueryIsAskedAgain(t *testing.T) {
	var mu sync.Mutex
	var asked []string
	answers := []host.Ruling{{}, {Action: host.Reject, Reason: "blocked: not twice"}, {Action: host.Accept}}
	w := newWorld(t, policy(&fakePolicy{query: func(_ context.Context, q *host.Query) (host.Ruling, error) {
		mu.Lock()
		defer mu.Unlock()
		asked = append(asked, fmt.Sprintf("%v of %d", q.Verb, len(q.Filters)))
		return answers[len(asked)-1], nil
	}}))
	c := w.dial()
	c.ask(`["REQ","a",{"kinds":[1]}]`, `["EOSE","a"]`)
	c.ask(`["REQ","a",{"kinds":[1]},{}]`, `["CLOSED","a","blocked: not twice"]`)
	e := event(1, 1, 1000, "x")
	c.publish(e, `true,""`)
	c.ask(`["REQ","a",{"kinds":[1]}]`, subMessage("a", e), `["EOSE","a"]`)
	mu.Lock()
	defer mu.Unlock()
	if got, want := strings.Join(asked, ", "), "req of 1, req of 2, req of 1"; got != want {
		t.Errorf("asked %s, want %s", got, want)
	}
}

func TestQueryKnowsTheClient(t *testing.T) {
	asked := make(chan host.Query, 1)
	w := newWorld(t, policy(&fakePolicy{query: func(_ context.Context, q *host.Query) (host.Ruling, error) {
		asked <- *q
		if len(q.Client.Authed) == 0 {
			return host.Ruling{Action: host.RequireAuth}, nil
		}
		return host.Ruling{}, nil
	}}), behindProxy)
	c := w.connect(http.Header{"X-Forwarded-For": {"192.0.2.7"}, "User-Agent": {"tester/1"}, "Origin": {"https://page.example"}})
	c.auth = c.list()[1].(string)
	c.ask(`["REQ","a",{}]`, `["CLOSED","a","auth-required: authenticate first"]`)
	before := <-asked
	for i := range 2 {
		e := c.authEvent(w, byte(i+1))
		c.ask(authMessage(e), okMessage(e, `true,""`))
		c.ask(`["COUNT","n",{}]`, `["COUNT","n",{"count":0}]`)
		q := <-asked
		if q.Verb != host.QueryCount || len(q.Client.Authed) != i+1 || q.Client.Authed[i] != e.PubKey {
			t.Errorf("got %v with the keys %v", q.Verb, q.Client.Authed)
		}
	}
	want := host.Client{Addr: netip.MustParseAddr("192.0.2.7"), UserAgent: "tester/1", Origin: "https://page.example", Path: "/"}
	if got := *before.Client; got.Addr != want.Addr || got.UserAgent != want.UserAgent || got.Origin != want.Origin ||
		got.Path != want.Path || got.Authed != nil {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

func TestConnectRuling(t *testing.T) {
	tests := []struct {
		name   string
		ruling host.Ruling
		err    error
		status int
		body   string
		label  string
	}{
		{"no opinion", host.Ruling{}, nil, 101, "", ""},
		{"accept", host.Ruling{Action: host.Accept}, nil, 101, "", ""},
		{"reject", host.Ruling{Action: host.Reject, Reason: "restricted: not from there"}, nil, 403, "restricted: not from there\n", "policy"},
		{"reject without a reason", host.Ruling{Action: host.Reject}, nil, 403, "blocked: refused by policy\n", "policy"},
		{"too often", host.Ruling{Action: host.Reject, Reason: "rate-limited: slower"}, nil, 429, "rate-limited: slower\n", "policy"},
		{"shadow", host.Ruling{Action: host.ShadowReject, Reason: "secret"}, nil, 403, "Forbidden\n", "policy"},
		{"auth, for which it is too early", host.Ruling{Action: host.RequireAuth}, nil, 403, "auth-required: authenticate first\n", "policy"},
		{"failure", host.Ruling{Action: host.Accept}, errors.New("broken"), 503, "error: the policy could not decide, try again later\n", "policy-error"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(t, policy(&fakePolicy{connect: func(context.Context, *host.Connection) (host.Ruling, error) { return tt.ruling, tt.err }}))
			c, answer := w.request(nil)
			if answer.StatusCode != tt.status {
				t.Fatalf("got %s, want %d", answer.Status, tt.status)
			}
			if tt.status == http.StatusSwitchingProtocols {
				c.expect(`["AUTH","…"]`)
				return
			}
			body, err := io.ReadAll(answer.Body)
			if err != nil || string(body) != tt.body {
				t.Errorf("got %q, %v", body, err)
			}
			if retry := answer.Header.Get("Retry-After"); (retry == "") != (tt.status == 403) {
				t.Errorf("Retry-After is %q", retry)
			}
			checkCORS(t, answer.Header)
			wait(t, func() bool { return w.slots() == 0 })
			if n := value(t, w.relay, "talon_relay_connections_rejected_total", tt.label); n != 1 {
				t.Errorf("%v rejections are counted, want 1", n)
			}
		})
	}
}

// A policy that panics keeps one client out, and no slot.
func TestConnectPanics(t *testing.T) {
	w := newWorld(t, policy(&fakePolicy{connect: func(context.Context, *host.Connection) (host.Ruling, error) { panic("bug") }}))
	if _, answer := w.request(nil); answer.StatusCode != http.StatusServiceUnavailable {
		t.Errorf("got %s", answer.Status)
	}
	wait(t, func() bool { return w.slots() == 0 })
	if n := value(t, w.relay, "talon_panics_total", "relay"); n != 1 {
		t.Errorf("%v panics are counted", n)
	}
}

func TestConnectIsCounted(t *testing.T) {
	asked := make(chan host.Connection, 1)
	w := newWorld(t, policy(&fakePolicy{connect: func(_ context.Context, c *host.Connection) (host.Ruling, error) {
		asked <- *c
		return host.Ruling{}, nil
	}}), limit(func(l *Limits) { l.Connections = 16 }),
		behindProxy)
	for _, tt := range []struct {
		addr           string
		open, fromAddr int
	}{{"192.0.2.1", 1, 1}, {"192.0.2.1", 2, 2}, {"2001:db8::1", 3, 1}} {
		w.connect(http.Header{"X-Forwarded-For": {tt.addr}})
		if c := <-asked; c.Open != tt.open || c.FromAddr != tt.fromAddr || c.Client.Addr.String() != tt.addr {
			t.Errorf("from %s: got %+v", tt.addr, c)
		}
	}
	// The relay's own limits come first. An eighth of 16 is two.
	if _, answer := w.request(http.Header{"X-Forwarded-For": {"192.0.2.7"}}); answer.StatusCode != http.StatusTooManyRequests || len(asked) != 0 {
		t.Errorf("%s, and %d questions", answer.Status, len(asked))
	}
}

func TestExcerpt(t *testing.T) {
	long := strings.Repeat("é", 200) // its bytes are cut in the middle of a letter
	for in, want := range map[string]string{
		"":                        "",
		"plain":                   "plain",
		"a\xffb":                  "ab",
		"x" + long:                "x" + long[:254],
		strings.Repeat("\xff", 9): "",
	} {
		got := excerpt(in)
		if got != want || !utf8.ValidString(got) || len(got) > maxHeader {
			t.Errorf("excerpt(%.20q) has %d bytes: %q", in, len(got), got)
		}
	}
}

// Without a policy a query costs nothing more, and a connection keeps no headers.
func TestNoPolicyCostsNothing(t *testing.T) {
	w := newWorld(t)
	c := w.dial()
	c.ask(`["REQ","a",{}]`, `["EOSE","a"]`)
	conn := w.relay.all()[0]
	if conn.client != nil {
		t.Errorf("the connection keeps %+v", conn.client)
	}
	m := &wire.Message{Verb: wire.Req, SubID: "a", Filters: []host.Filter{{Limit: -1}}}
	ctx := context.Background()
	if n := testing.AllocsPerRun(100, func() {
		if !conn.permit(ctx, host.QueryReq, m) {
			t.Error("refused")
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
	w = newWorld(t, policy(&fakePolicy{}))
	w.dial()
	conn = w.relay.all()[0]
	if n := testing.AllocsPerRun(100, func() { conn.permit(ctx, host.QueryReq, m) }); n > 6 {
		t.Errorf("%v allocations with a policy", n)
	}
}

// TestPolicyEnds: a policy ends a connection, and the client gets its answer before.
func TestPolicyEnds(t *testing.T) {
	w := newWorld(t, policy(&fakePolicy{query: func(context.Context, *host.Query) (host.Ruling, error) {
		return host.Ruling{Action: host.Reject, Reason: "rate-limited: go away", End: true}, nil
	}}))
	w.ingest.decide = func(*host.Item) (host.Verdict, error) {
		return host.Verdict{Code: host.Rejected, Reason: "blocked: go away", End: true}, nil
	}
	note := event(1, 1, 1000, "hello")
	for _, test := range []struct{ send, answer, reason string }{
		{eventMessage(note), okMessage(note, `false,"blocked: go away"`), "blocked: go away"},
		{`["REQ","a",{"kinds":[1]}]`, `["CLOSED","a","rate-limited: go away"]`, "rate-limited: go away"},
	} {
		c := w.connect(nil)
		c.expect(`["AUTH","…"]`)
		c.ask(test.send, test.answer)
		if code, text := c.closed(); code != ws.StatusPolicyViolation || text != test.reason {
			t.Errorf("%s: closed with %d %q", test.send, code, text)
		}
	}
}
