package relay

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"testing"

	"talon/host"
)

func TestInfo(t *testing.T) {
	w := newWorld(t, func(c *Config, _ *world) {
		c.Info = Info{
			Name: "name", Description: "what \"it\" is", PubKey: "ab", Contact: "mailto:x", Icon: "https://i", Software: "https://s", Version: "1",
			Limitation: map[string]any{"max_event_tags": 7, "auth_required": true},
			Extra:      map[string]any{"supported_grasps": []string{"GRASP-01"}},
		}
	})
	for _, accept := range []string{
		"application/nostr+json", "text/html, application/nostr+json;q=0.9", "Application/Nostr+JSON",
	} {
		req, _ := http.NewRequest(http.MethodGet, w.server.URL+"/", nil)
		req.Header.Set("Accept", accept)
		answer, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		text, _ := io.ReadAll(answer.Body)
		answer.Body.Close()
		var doc struct {
			Name, Description, PubKey, Contact, Icon, Software, Version string
			NIPs                                                        []int          `json:"supported_nips"`
			Grasps                                                      []string       `json:"supported_grasps"`
			Limitation                                                  map[string]any `json:"limitation"`
		}
		if err := json.Unmarshal(text, &doc); err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		if doc.Name != "name" || doc.PubKey != "ab" || doc.Version != "1" || len(doc.Grasps) != 1 ||
			!slices.Equal(doc.NIPs, []int{1, 9, 11, 40, 42, 45, 50, 59, 62, 67, 70, 77}) {
			t.Errorf("got %s", text)
		}
		for name, want := range map[string]any{
			"max_message_length": 3145728.0, "max_subscriptions": 64.0, "max_filters": 100.0, "max_limit": 5000.0,
			"default_limit": 500.0, "max_subid_length": 64.0, "max_event_tags": 7.0, "min_pow_difficulty": 0.0,
			"auth_required": true, "payment_required": false, "restricted_writes": false,
			"max_negentropy_records": 1e6, "max_filter_values": 2000.0,
		} {
			if doc.Limitation[name] != want {
				t.Errorf("%s is %v, want %v", name, doc.Limitation[name], want)
			}
		}
		if answer.Header.Get("Content-Type") != infoType {
			t.Errorf("Content-Type is %q", answer.Header.Get("Content-Type"))
		}
		checkCORS(t, answer.Header)
	}
}

// TestInfoAbout checks that the document shows the current descriptions of the policies.
func TestInfoAbout(t *testing.T) {
	var about []host.Description
	w := newWorld(t, func(c *Config, _ *world) { c.About = func() []host.Description { return about } })
	read := func() (doc map[string]any) {
		t.Helper()
		req := httptest.NewRequest(http.MethodGet, "/", nil)
		req.Header.Set("Accept", infoType)
		answer := httptest.NewRecorder()
		w.relay.ServeHTTP(answer, req)
		if err := json.Unmarshal(answer.Body.Bytes(), &doc); err != nil {
			t.Fatalf("%s: %v", answer.Body, err)
		}
		return doc
	}
	says := func(want map[string]any) {
		t.Helper()
		doc := read()
		for _, name := range []string{"supported_grasps", "repo_acceptance_criteria", "curation"} {
			if got, there := doc[name]; there != (want[name] != nil) || !reflect.DeepEqual(got, want[name]) {
				t.Errorf("%s is %v, want %v", name, got, want[name])
			}
		}
		if text, _ := doc["description"].(string); !strings.HasPrefix(text, "A nostr relay") || strings.Contains(text, "\n") {
			t.Errorf("description is %q", text)
		}
		if got := doc["limitation"].(map[string]any)["restricted_writes"]; got != (want["repo_acceptance_criteria"] != nil) {
			t.Errorf("restricted_writes is %v", got)
		}
		nips, _ := doc["supported_nips"].([]any)
		if got := slices.Contains(nips, any(34.0)); got != (want["supported_grasps"] != nil) || len(nips) < len(supportedNIPs) {
			t.Errorf("supported_nips is %v", nips)
		}
	}
	says(nil)
	about = []host.Description{{}, {Grasps: []string{"GRASP-06", "GRASP-01"}, Criteria: "Birds \"only\"."}}
	says(map[string]any{"supported_grasps": []any{"GRASP-01", "GRASP-06"}, "repo_acceptance_criteria": "Birds \"only\"."})
	about = append(about, host.Description{Grasps: []string{"GRASP-01", "GRASP-05"}, Criteria: "No crows.", Curation: "The owl chooses."})
	says(map[string]any{
		"supported_grasps": []any{"GRASP-01", "GRASP-05", "GRASP-06"}, "repo_acceptance_criteria": "Birds \"only\".\nNo crows.", "curation": "The owl chooses.",
	})
	about = about[:1]
	says(nil)
}

func checkCORS(t *testing.T, h http.Header) {
	t.Helper()
	for _, name := range []string{"Origin", "Headers", "Methods"} {
		if v := h.Get("Access-Control-Allow-" + name); v == "" || name == "Origin" && v != "*" {
			t.Errorf("Access-Control-Allow-%s is %q", name, v)
		}
	}
}

func TestHTTP(t *testing.T) {
	next := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "next") })
	w := newWorld(t, func(c *Config, _ *world) { c.Next = next })
	tests := []struct {
		name, method string
		header       http.Header
		status       int
		body         string
	}{
		{"falls through", "GET", nil, 200, "next"},
		{"other method", "POST", http.Header{"Accept": {infoType}}, 200, "next"},
		{"preflight", "OPTIONS", http.Header{"Origin": {"https://x"}}, 204, ""},
		{"info without a body", "HEAD", http.Header{"Accept": {infoType}}, 200, ""},
		{"websocket without a key", "GET", http.Header{"Upgrade": {"websocket"}, "Connection": {"Upgrade"}, "Sec-Websocket-Version": {"13"}}, 400, "…"},
		{"websocket of another version", "GET", http.Header{
			"Upgrade": {"websocket"}, "Connection": {"Upgrade"}, "Sec-Websocket-Version": {"12"}, "Sec-Websocket-Key": {"dGhlIHNhbXBsZSBub25jZQ=="},
		}, 426, "…"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			req, _ := http.NewRequest(tt.method, w.server.URL+"/", nil)
			req.Header = tt.header
			answer, err := http.DefaultClient.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			defer answer.Body.Close()
			body, _ := io.ReadAll(answer.Body)
			if answer.StatusCode != tt.status || !like(string(body), tt.body) {
				t.Errorf("got %d %s", answer.StatusCode, body)
			}
			checkCORS(t, answer.Header)
		})
	}
	wait(t, func() bool { return w.slots() == 0 }) // the answer comes before the slot is given back
}

// TestEarlyMessage checks that a message right after the request is not lost.
func TestEarlyMessage(t *testing.T) {
	w := newWorld(t)
	c := w.connect(http.Header{"X-Early": {"1"}})
	c.net.Close()
	early := w.dialRaw("GET / HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n" +
		"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n" +
		string(frame(1, true, 0, `["REQ","a",{}]`)))
	early.expect(`["AUTH","…"]`, `["EOSE","a"]`)
}

// TestConnectionCaps shows what an address and a neighbourhood may have, and who gives way for
// a newcomer when all places are taken.
func TestConnectionCaps(t *testing.T) {
	w := newWorld(t, limit(func(l *Limits) { l.Connections, l.ConnectionsPerAddr = 32, 2 }),
		behindProxy)
	from := func(addr string, want int) *client {
		t.Helper()
		c, answer := w.request(http.Header{"X-Forwarded-For": {addr}})
		if answer.StatusCode != want {
			t.Fatalf("from %s: %s, want %d", addr, answer.Status, want)
		}
		return c
	}
	one := from("192.0.2.1", 101)
	from("192.0.2.1", 101)
	from("192.0.2.1", 429)
	from("2001:db8::1", 101)
	from("2001:db8::2:3:4:5", 101)
	from("2001:db8::6", 429)
	one.net.Close()
	wait(t, func() bool { return w.slots() == 3 })
	from("192.0.2.1", 101)
	if n := value(t, w.relay, "talon_relay_connections_rejected_total", "address"); n != 2 {
		t.Errorf("%v rejected for their address", n)
	}

	from("192.0.2.2", 101)
	from("192.0.2.2", 101)
	from("192.0.2.3", 429) // an eighth of 32 is four
	if n := value(t, w.relay, "talon_relay_connections_rejected_total", "network"); n != 1 {
		t.Errorf("%v rejected for their network", n)
	}
	var crowd []*client
	for n := range 6 {
		for i := range 4 {
			crowd = append(crowd, from(fmt.Sprintf("198.51.%d.%d", n, i/2), 101))
		}
	}
	from("2001:db8:1::1", 101)
	from("2001:db8:2::1", 101) // the 32nd
	crowd[0].ask(`["REQ","a",{}]`, `["AUTH","…"]`, `["EOSE","a"]`)
	newcomer := from("203.0.113.1", 101)
	wait(t, func() bool {
		yielded := 0
		for _, c := range w.relay.all() {
			c.mu.Lock()
			if c.ended == errYielded {
				yielded++
			}
			c.mu.Unlock()
		}
		return yielded == 1
	})
	crowd[0].ask(`["REQ","b",{}]`, `["EOSE","b"]`) // it was active
	newcomer.ask(`["REQ","a",{}]`, `["AUTH","…"]`, `["EOSE","a"]`)
}

func (w *world) slots() int {
	w.relay.mu.Lock()
	defer w.relay.mu.Unlock()
	return w.relay.slots
}

func TestClientAddr(t *testing.T) {
	tests := []struct {
		name, remote string
		forwarded    []string
		want         string
	}{
		{"direct", "192.0.2.1:5", nil, "192.0.2.1"},
		{"a header that nobody vouches for", "192.0.2.1:5", []string{"198.51.100.1"}, "192.0.2.1"},
		{"behind a proxy", "10.0.0.1:5", []string{"198.51.100.1"}, "198.51.100.1"},
		{"behind two", "10.0.0.1:5", []string{"203.0.113.9, 198.51.100.1, 10.0.0.2"}, "198.51.100.1"},
		{"in two headers", "10.0.0.1:5", []string{"203.0.113.9", "198.51.100.1"}, "198.51.100.1"},
		{"with a port", "10.0.0.1:5", []string{"[2001:db8::1]:99"}, "2001:db8::1"},
		{"nonsense", "10.0.0.1:5", []string{"203.0.113.9, nonsense"}, "10.0.0.1"},
		{"nobody but proxies", "10.0.0.1:5", []string{"10.0.0.2"}, "10.0.0.2"},
		{"no header", "10.0.0.1:5", nil, "10.0.0.1"},
		{"IPv4 in IPv6", "[::ffff:10.0.0.1]:5", []string{"::ffff:198.51.100.1"}, "198.51.100.1"},
		{"not an address", "pipe", nil, "invalid IP"},
		{"this machine", "127.0.0.1:5", nil, "127.0.0.1"},
		{"a proxy on this machine that is not trusted", "127.0.0.1:5", []string{"198.51.100.1"}, untrustedProxy.String()},
		{"the same over IPv6", "[::1]:5", []string{"127.0.0.1"}, untrustedProxy.String()},
		{"a trusted one", "127.0.0.2:5", []string{"198.51.100.1"}, "198.51.100.1"},
		{"a trusted one that says nonsense", "127.0.0.2:5", []string{"nonsense"}, untrustedProxy.String()},
	}
	r := &Relay{cfg: Config{Proxies: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("127.0.0.2/32")}}}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			req := httptest.NewRequest(http.MethodGet, "/", nil)
			req.RemoteAddr = tt.remote
			req.Header["X-Forwarded-For"] = tt.forwarded
			if got := ClientAddr(req, r.cfg.Proxies).String(); got != tt.want {
				t.Errorf("got %s, want %s", got, tt.want)
			}
		})
	}
}

func TestNewRefusesBadLimits(t *testing.T) {
	for name, set := range map[string]func(*Limits){
		"zero":        func(l *Limits) { l.Subscriptions = 0 },
		"no time":     func(l *Limits) { l.NegIdle = 0 },
		"small parts": func(l *Limits) { l.PartialBytes = 3 * l.MessageBytes },
		"small queue": func(l *Limits) { l.QueueBytes = l.MessageBytes },
		"small frame": func(l *Limits) { l.NegFrameBytes = 100 },
		"no rate":     func(l *Limits) { l.MessagesPerSecond = 0 },
	} {
		l := DefaultLimits
		set(&l)
		if _, err := New(Config{Limits: l}, Deps{}); err == nil || err == errDeps {
			t.Errorf("%s: got %v", name, err)
		}
	}
	if _, err := New(Config{Limits: DefaultLimits}, Deps{}); err != errDeps {
		t.Errorf("without dependencies: got %v", err)
	}
}

// TestInfoFollowsThePolicies checks that the first policy with an answer decides whether writes are
// restricted. All policies together describe a relay that its operator does not describe.
func TestInfoFollowsThePolicies(t *testing.T) {
	open := host.Description{Criteria: "Everything.", Writes: host.WritesOpen}
	grasp := host.Description{Grasps: []string{"GRASP-01"}, Criteria: "Git repositories.", Curation: "Few.", Writes: host.WritesRestricted}
	lists := host.Description{Writes: host.WritesRestricted}
	for name, tt := range map[string]struct {
		about      []host.Description
		given      string
		restricted bool
		text       string
	}{
		"nobody says anything": {nil, "", false, "A nostr relay."},
		"open":                 {[]host.Description{open}, "", false, "A nostr relay. Accepted here: Everything."},
		"open, then grasp":     {[]host.Description{open, grasp}, "", false, "A nostr relay and git server (GRASP-01). Accepted here: Everything. Git repositories. Few."},
		"grasp":                {[]host.Description{grasp}, "", true, "A nostr relay and git server (GRASP-01). Accepted here: Git repositories. Few."},
		"lists, then open":     {[]host.Description{lists, open}, "", true, "A nostr relay. Accepted here: Everything."},
		"lists":                {[]host.Description{lists}, "", true, "A nostr relay. Not every event is accepted here."},
		"criteria alone":       {[]host.Description{{Criteria: "Cats."}}, "", true, "A nostr relay. Accepted here: Cats."},
		"the operator":         {[]host.Description{grasp}, "Mine.", true, "Mine."},
	} {
		c := Config{Limits: DefaultLimits, Info: Info{Description: tt.given}}
		text, err := c.document(tt.about)
		if err != nil {
			t.Fatal(err)
		}
		var doc struct {
			Description string
			Limitation  map[string]any
		}
		if err := json.Unmarshal(text, &doc); err != nil {
			t.Fatal(err)
		}
		if doc.Description != tt.text || doc.Limitation["restricted_writes"] != tt.restricted {
			t.Errorf("%s: %q, restricted_writes %v", name, doc.Description, doc.Limitation["restricted_writes"])
		}
	}
}

// TestWebsocketAtOtherPaths: the relay is at one path (NIP-01). Other requests there are for the
// handler behind it.
func TestWebsocketAtOtherPaths(t *testing.T) {
	w := newWorld(t, func(c *Config, _ *world) {
		c.Next = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "page") })
	})
	for path, want := range map[string]int{"/": 101, "/?x=1": 101, "/x": 404, "//": 404, "/npub1/x.git": 404} {
		req, err := http.NewRequest(http.MethodGet, w.server.URL+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		for name, value := range map[string]string{"Upgrade": "websocket", "Connection": "Upgrade", "Sec-WebSocket-Version": "13", "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ=="} {
			req.Header.Set(name, value)
		}
		answer, err := http.DefaultTransport.RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		answer.Body.Close()
		if answer.StatusCode != want {
			t.Errorf("%s: got %d, want %d", path, answer.StatusCode, want)
		}
		checkCORS(t, answer.Header)
	}
	answer, err := http.Get(w.server.URL + "/x")
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	if text, err := io.ReadAll(answer.Body); err != nil || string(text) != "page" {
		t.Errorf("a plain GET: %q, %v", text, err)
	}
}
