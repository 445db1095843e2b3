package relay

import (
	"context"
	"crypto/sha256"
	"fmt"
	"strings"
	"testing"

	"talon/host"
)

func (c *client) authEvent(w *world, author byte) *host.Event {
	return event(author, host.KindAuth, w.now().Unix(), "",
		host.Tag{"relay", "ws" + strings.TrimPrefix(w.server.URL, "http")},
		host.Tag{"challenge", c.auth})
}

func TestAuth(t *testing.T) {
	tests := []struct {
		name   string
		change func(*host.Event)
		want   string
	}{
		{"right", func(*host.Event) {}, `true,""`},
		{"wrong kind", func(e *host.Event) { e.Kind = 22243 }, `false,"invalid: …"`},
		{"old", func(e *host.Event) { e.CreatedAt -= 700 }, `false,"invalid: created_at …"`},
		{"early", func(e *host.Event) { e.CreatedAt += 700 }, `false,"invalid: created_at …"`},
		{"a little early", func(e *host.Event) { e.CreatedAt += 500 }, `true,""`},
		{"absurd date", func(e *host.Event) { e.CreatedAt = 1<<63 - 1 }, `false,"invalid: created_at …"`},
		{"no tags", func(e *host.Event) { e.Tags = nil }, `false,"invalid: the challenge tag is missing"`},
		{"no relay", func(e *host.Event) { e.Tags = e.Tags[1:] }, `false,"invalid: the relay tag is missing"`},
		{"no value", func(e *host.Event) { e.Tags[1] = host.Tag{"challenge"} }, `false,"invalid: the challenge tag is missing"`},
		{"another challenge", func(e *host.Event) { e.Tags[1][1] = strings.Repeat("00", 32) }, `false,"invalid: the challenge …"`},
		{"another relay", func(e *host.Event) { e.Tags[0][1] = "wss://evil.example" }, `false,"invalid: the relay tag names …"`},
		{"not a URL", func(e *host.Event) { e.Tags[0][1] = "\x00" }, `false,"invalid: the relay tag names …"`},
		{"changed after signing", nil, `false,"invalid: …"`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(t)
			c := w.dial()
			e := c.authEvent(w, 1)
			if tt.change != nil {
				tt.change(e)
				e.ID = sha256.Sum256(e.AppendCanonical(nil))
			} else {
				e.ID[0] ^= 1
			}
			c.ask(fmt.Sprintf(`["AUTH",%s]`, e.AppendJSON(nil)), okMessage(e, tt.want))
		})
	}
}

func TestAuthKeysAreBounded(t *testing.T) {
	w := newWorld(t, limit(func(l *Limits) { l.AuthedKeys = 2 }))
	c := w.dial()
	for i, want := range []string{`true,""`, `true,""`, `false,"restricted: …"`} {
		e := c.authEvent(w, byte(i))
		c.ask(authMessage(e), okMessage(e, want))
	}
	e := c.authEvent(w, 1) // known already
	c.ask(authMessage(e), okMessage(e, `true,""`))
}

func TestSiteOf(t *testing.T) {
	tests := []struct {
		url, want string
		ok        bool
	}{
		{"wss://Relay.Example.com", "relay.example.com", true},
		{"wss://relay.example.com/", "relay.example.com", true},
		{"wss://relay.example.com:443/", "relay.example.com", true},
		{"ws://relay.example.com:80", "relay.example.com", true},
		{"WS://relay.example.com.:7334", "relay.example.com:7334", true},
		{"ws://127.0.0.1:7334/", "127.0.0.1:7334", true},
		{"ws://[::1]:7334", "[::1]:7334", true},
		{"ws://[::1]", "[::1]", true},
		{"wss://relay.example.com/other", "relay.example.com", true},
		{"wss://relay.example.com?x=1", "relay.example.com", true},
		{"wss://relay.example.com/other.example.net#x", "relay.example.com", true},
		{"wss://user@relay.example.com", "", false},
		{"https://relay.example.com", "", false},
		{"relay.example.com", "", false},
		{"wss://", "", false},
		{"", "", false},
		{"wss:opaque", "", false},
	}
	for _, tt := range tests {
		got, ok := siteOf(tt.url)
		if ok != tt.ok || ok && got != tt.want {
			t.Errorf("siteOf(%q) = %q, %v, want %q, %v", tt.url, got, ok, tt.want, tt.ok)
		}
	}
}

// The configured name counts, not what the client calls us.
func TestAuthDomain(t *testing.T) {
	w := newWorld(t, func(c *Config, _ *world) { c.Domains = []string{"Relay.Example.com:443", "abcdef.onion:7334"} })
	c := w.dial()
	e := c.authEvent(w, 1) // names the address of the socket
	c.ask(authMessage(e), okMessage(e, `false,"invalid: the relay tag names …"`))
	e = event(1, host.KindAuth, w.now().Unix(), "",
		host.Tag{"relay", "wss://relay.example.com/some/path?user=1"}, host.Tag{"challenge", c.auth})
	c.ask(authMessage(e), okMessage(e, `true,""`))
	e = event(2, host.KindAuth, w.now().Unix(), "",
		host.Tag{"relay", "ws://abcdef.onion:7334"}, host.Tag{"challenge", c.auth})
	c.ask(authMessage(e), okMessage(e, `true,""`))
}

func onDemand(c *Config, _ *world) { c.ChallengeOnConnect = false }

// A client is challenged once, when it must authenticate and before that: some wait for
// it to succeed before they do anything else.
func TestChallengeOnDemand(t *testing.T) {
	for name, ask := range map[string]func(c *client, e *host.Event) (refusal string){
		"REQ": func(c *client, _ *host.Event) string {
			c.send(`["REQ","a",{"kinds":[4]}]`)
			return `["CLOSED","a","auth-required: authenticate first"]`
		},
		"NEG-OPEN": func(c *client, _ *host.Event) string {
			c.send(`["NEG-OPEN","a",{"kinds":[4]},"6100000200"]`)
			return `["NEG-ERR","a","auth-required: authenticate first"]`
		},
		"EVENT": func(c *client, e *host.Event) string {
			c.send(eventMessage(e))
			return okMessage(e, `false,"auth-required: who are you?"`)
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, onDemand, policy(&fakePolicy{query: func(_ context.Context, q *host.Query) (host.Ruling, error) {
				if len(q.Client.Authed) == 0 && len(q.Filters[0].Kinds) > 0 {
					return host.Ruling{Action: host.RequireAuth}, nil
				}
				return host.Ruling{}, nil
			}}))
			protected := event(1, 1, 1, "protected")
			w.ingest.decide = func(it *host.Item) (host.Verdict, error) {
				if it.Event.ID == protected.ID && len(it.Authed) == 0 {
					return host.Verdict{Code: host.AuthRequired, Reason: "auth-required: who are you?"}, nil
				}
				return host.Verdict{Code: host.Stored}, nil
			}
			c := w.connect(nil)
			c.send(`["REQ","all",{}]`)
			c.expect(`["EOSE","all"]`) // and no challenge
			refusal := ask(c, protected)
			c.auth = c.list()[1].(string)
			c.expect(refusal)
			ask(c, protected)
			c.expect(refusal) // the challenge is known
			e := c.authEvent(w, 1)
			c.ask(authMessage(e), okMessage(e, `true,""`))
		})
	}
}

// TestChallengeAfterAUTH checks that a client that proves a key unasked is challenged then.
func TestChallengeAfterAUTH(t *testing.T) {
	w := newWorld(t, onDemand)
	c := w.connect(nil)
	e := c.authEvent(w, 1)
	c.send(authMessage(e))
	c.auth = c.list()[1].(string)
	c.expect(okMessage(e, `false,"invalid: the challenge …"`))
	e = c.authEvent(w, 1)
	c.ask(authMessage(e), okMessage(e, `true,""`))
}
