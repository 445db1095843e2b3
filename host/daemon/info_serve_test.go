//go:build !race

package daemon

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gobwas/ws"
	"github.com/gobwas/ws/wsutil"

	"talon/host"
	"talon/internal/testkit"
)

// triedElsewhere are the figures of NIP-11 that take much time or many clients. Package relay tries
// them, with a clock of its own.
var triedElsewhere = []string{
	"max_subscription_values_total", "max_subscriptions_total", "max_connections", "max_negentropy_total", "max_messages_per_second",
	"max_message_burst", "max_queue_bytes", "max_events_in_flight", "negentropy_idle_seconds", "max_query_seconds", "max_message_seconds",
	"ping_after_seconds_of_idling",
}

// TestInfoIsTrue tries every figure of NIP-11 that one client can try against a running server
// with every bundled policy. A new figure is tried here or named above.
func TestInfoIsTrue(t *testing.T) {
	plugins := built(t, "plugins/limits", "plugins/pow", "plugins/lists", "plugins/rate", "plugins/readers", "plugins/spam",
		"plugins/trust", "plugins/first-contact", "plugins/grasp", "plugins/open")
	write(t, plugins, "limits.toml", "[config]\nmax_content_bytes = 1000\nmax_tags = 20\nmax_age_seconds = 1000\nmax_future_seconds = 100\n")
	write(t, plugins, "pow.toml", "[config]\nmin_bits = 4\ncommit = false\n")
	write(t, plugins, "readers.toml", "[config]\nneed_auth = true\nprivate_kinds = []\n")
	write(t, plugins, "open.toml", "[config]\nevery = true\n")
	write(t, plugins, "spam.toml", "[config]\nmax_copies = 0\n")
	cfg := defaults(t, plugins)
	cfg.DefaultLimit, cfg.MaxLimit, cfg.Message = 5, 10, 64<<10
	cfg.Values, cfg.SubscriptionValues, cfg.ConnectionsPer, cfg.NegRecords, cfg.NegFrame = 100, 300, 8, 5, 4<<10
	cfg.Proxies = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}
	addr := serveConfig(t, cfg)
	doc := information(t, addr)
	tried := map[string]bool{"auth_required": true, "restricted_writes": true, "payment_required": true}
	limit := func(name string) int {
		t.Helper()
		tried[name] = true
		n, ok := doc.Limitation[name].(float64)
		if !ok {
			t.Fatalf("limitation has no number %s: %v", name, doc.Limitation[name])
		}
		return int(n)
	}
	if doc.Software == "" || !strings.HasPrefix(doc.Software, "https://") {
		t.Errorf("software is %q, want a URL", doc.Software)
	}
	for name, want := range map[string]any{"auth_required": true, "restricted_writes": true, "payment_required": false} {
		if doc.Limitation[name] != want {
			t.Errorf("%s is %v, want %v", name, doc.Limitation[name], want)
		}
	}
	c := dial(t, addr)

	// auth_required
	if answer := c.ask(`["REQ","a",{"limit":1}]`, "CLOSED"); !strings.HasPrefix(answer[2].(string), "auth-required:") {
		t.Errorf("auth_required: got %v", answer)
	}
	c.authenticate(addr)

	// Limits of events. Each event meets one limit exactly, and then exceeds it a little.
	now := time.Now().Unix()
	bits := limit("min_pow_difficulty")
	try := func(name string, within bool, e *host.Event) {
		t.Helper()
		answer := c.ask(`["EVENT",`+string(e.JSON)+`]`, "OK")
		if answer[2] != within {
			t.Errorf("%s: got %v, want %v", name, answer, within)
		}
	}
	tags := func(n int) (list []host.Tag) {
		for i := range n - 1 { // one is for the nonce
			list = append(list, host.Tag{"x", fmt.Sprint(i)})
		}
		return list
	}
	chars := limit("max_content_length")
	try("max_content_length", true, worked(bits, now, strings.Repeat("x", chars)))
	try("max_content_length", false, worked(bits, now, strings.Repeat("x", chars+1)))
	most := limit("max_event_tags")
	try("max_event_tags", true, worked(bits, now, "tags", tags(most)...))
	try("max_event_tags", false, worked(bits, now, "tags", tags(most+1)...))
	// The clock runs during the test.
	past, future := int64(limit("created_at_lower_limit")), int64(limit("created_at_upper_limit"))
	try("created_at_lower_limit", true, worked(bits, time.Now().Unix()-past/2, "old"))
	try("created_at_lower_limit", false, worked(bits, now-past-1, "too old"))
	try("created_at_upper_limit", true, worked(bits, now+future, "to come"))
	try("created_at_upper_limit", false, worked(bits, time.Now().Unix()+2*future, "too late"))
	try("min_pow_difficulty", false, lazy(bits, now))

	// Limits of requests.
	filters := func(n int) string { return `["REQ","f"` + strings.Repeat(`,{"limit":1}`, n) + `]` }
	c.ask(filters(limit("max_filters")), "EOSE")
	c.ask(filters(limit("max_filters")+1), "CLOSED")
	id := strings.Repeat("i", limit("max_subid_length"))
	c.ask(`["REQ","`+id+`",{"limit":1}]`, "EOSE")
	c.ask(`["REQ","`+id+`i",{"limit":1}]`, "CLOSED")
	kinds := func(n int) string {
		return `["REQ","v",{"kinds":[1` + strings.Repeat(",1", n-1) + `],"limit":1}]`
	}
	c.ask(kinds(limit("max_filter_values")), "EOSE")
	c.ask(kinds(limit("max_filter_values")+1), "CLOSED")
	other := dial(t, addr)
	other.authenticate(addr)
	for i := range limit("max_subscriptions") {
		other.ask(fmt.Sprintf(`["REQ","s%d",{"kinds":[%d]}]`, i, i), "EOSE")
	}
	other.ask(`["REQ","one more",{"kinds":[1]}]`, "CLOSED")

	// Pages of stored events.
	for n := range limit("max_limit") + 1 {
		try("an event", true, worked(bits, now-int64(n), fmt.Sprint("page ", n)))
	}
	if n := c.found(`{}`); n != limit("default_limit") {
		t.Errorf("default_limit: got %d events, want %d", n, limit("default_limit"))
	}
	if n := c.found(`{"limit":1000}`); n != limit("max_limit") {
		t.Errorf("max_limit: got %d events, want %d", n, limit("max_limit"))
	}

	// max_message_length
	whole := `["EVENT",{"x":"` + strings.Repeat("x", limit("max_message_length")-18) + `"}]`
	if answer := other.ask(whole, "NOTICE"); len(whole) != limit("max_message_length") || !strings.HasPrefix(answer[1].(string), "invalid:") {
		t.Errorf("max_message_length: %d bytes, got %v", len(whole), answer)
	}
	if !other.cutOff(whole + " ") {
		t.Error("max_message_length: a longer message was read")
	}
	if cost, rate := limit("query_costs_messages"), limit("max_messages_per_second"); limit("max_queries_per_second") != rate/cost {
		t.Errorf("max_queries_per_second is %v, want %d", doc.Limitation["max_queries_per_second"], rate/cost)
	}
	tryConnections(t, addr, limit)
	for name := range doc.Limitation {
		if !tried[name] && !slices.Contains(triedElsewhere, name) {
			t.Errorf("nothing tries %s: %v", name, doc.Limitation[name])
		}
	}
}

// tryConnections tries the figures of one connection, and how many one address may have.
func tryConnections(t *testing.T, addr string, limit func(name string) int) {
	c := dial(t, addr)
	c.authenticate(addr)

	// Subscriptions.
	left, each := limit("max_subscription_values"), limit("max_filter_values")
	for i := 0; left > 0; i++ {
		kinds := make([]string, min(left-1, each)) // the filter itself counts too
		for j := range kinds {
			kinds[j] = fmt.Sprint(i*each + j)
		}
		c.ask(fmt.Sprintf(`["REQ","v%d",{"kinds":[%s],"limit":0}]`, i, strings.Join(kinds, ",")), "EOSE")
		left -= len(kinds) + 1
	}
	c.ask(`["REQ","v",{"kinds":[1],"limit":0}]`, "CLOSED")
	c = dial(t, addr)
	c.authenticate(addr)
	equal := limit("max_equal_subscriptions")
	for i := range equal {
		c.ask(fmt.Sprintf(`["REQ","e%d",{"kinds":[1],"limit":0}]`, i), "EOSE")
	}
	c.ask(`["REQ","e",{"kinds":[1],"limit":0}]`, "CLOSED")

	// Keys. The connection has proven one.
	keys := limit("max_authenticated_keys")
	for n := 2; n <= keys+1; n++ {
		var secret [32]byte
		secret[31] = byte(n)
		e := testkit.SignerOf(secret).Event(22242, time.Now().Unix(), "", host.Tag{"relay", "ws://" + addr + "/"}, host.Tag{"challenge", c.challenge})
		if answer := c.ask(`["AUTH",`+string(e.JSON)+`]`, "OK"); answer[2] != (n <= keys) {
			t.Errorf("max_authenticated_keys: key %d of %d: %v", n, keys, answer)
		}
	}

	// Negentropy: the answer to a client that has nothing lists the ids.
	open := func(id, filter, kind string) []any {
		return c.ask(`["NEG-OPEN","`+id+`",`+filter+`,"6100000200"]`, kind)
	}
	records, frame := limit("max_negentropy_records"), limit("max_negentropy_frame_bytes")
	if answer := open("records", `{"kinds":[1]}`, "NEG-ERR"); !strings.Contains(answer[2].(string), fmt.Sprint(records)) {
		t.Errorf("max_negentropy_records: %v", answer)
	}
	sessions := limit("max_negentropy_sessions")
	for i := range sessions {
		if answer := open(fmt.Sprint("n", i), `{"kinds":[0]}`, "NEG-MSG"); len(answer[2].(string)) > 2*frame {
			t.Errorf("max_negentropy_frame_bytes: %d digits", len(answer[2].(string)))
		}
	}
	open("n", `{"kinds":[0]}`, "NEG-ERR")

	// Garbage.
	bad := limit("max_bad_messages")
	for range bad - 1 {
		c.ask(`["NO SUCH VERB"]`, "NOTICE")
	}
	c.ask(`["COUNT","good",{"kinds":[1]}]`, "COUNT")
	for range bad - 1 {
		c.ask(`["NO SUCH VERB"]`, "NOTICE")
	}
	for range 2 { // the answer to the last one, and the end
		if c.cutOff(`["NO SUCH VERB"]`) {
			bad = 0
			break
		}
	}
	if bad != 0 {
		t.Error("max_bad_messages: one more is answered")
	}

	// Connections of one address. A proxy names another one than loopback, which is exempt.
	most := limit("max_connections_per_address")
	opened := 0
	dialer := ws.Dialer{Header: ws.HandshakeHeaderHTTP{"X-Forwarded-For": {"192.0.2.1"}}}
	for opened <= most {
		conn, _, _, err := dialer.Dial(t.Context(), "ws://"+addr)
		if err != nil {
			break
		}
		defer conn.Close()
		opened++
	}
	if opened != most {
		t.Errorf("max_connections_per_address: %d connections, want %d", opened, most)
	}
}

// TestInfoOfRestrictions has no relay claim that every valid event is stored, where a policy
// refuses strangers.
func TestInfoOfRestrictions(t *testing.T) {
	key := strings.Repeat("ab", 32)
	for name, sidecar := range map[string][2]string{
		"an author list": {"lists.toml", "[config]\nonly_authors = [\"" + key + "\"]\n"},
		"follow lists":   {"trust.toml", "[config]\nanchors = [\"" + key + "\"]\n"},
	} {
		t.Run(name, func(t *testing.T) {
			plugins := built(t, "plugins/lists", "plugins/trust", "plugins/open")
			write(t, plugins, "open.toml", "[config]\nevery = true\n")
			write(t, plugins, sidecar[0], sidecar[1])
			addr := serve(t, plugins)
			doc := information(t, addr)
			if doc.Limitation["restricted_writes"] != true || strings.Contains(doc.Description+doc.Criteria, "very valid event") {
				t.Errorf("got %+v", doc)
			}
			if refused := dial(t, addr).publish(1); refused == "" {
				t.Error("a stranger is not refused")
			}
		})
	}
}

type infoDocument struct {
	Software, Description string
	Criteria              string         `json:"repo_acceptance_criteria"`
	Limitation            map[string]any `json:"limitation"`
}

func information(t *testing.T, addr string) (doc infoDocument) {
	t.Helper()
	req, err := http.NewRequest(http.MethodGet, "http://"+addr+"/", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Accept", "application/nostr+json")
	answer, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	if err := json.NewDecoder(answer.Body).Decode(&doc); err != nil {
		t.Fatal(err)
	}
	return doc
}

// authenticate proves a key.
func (c *client) authenticate(addr string) {
	c.t.Helper()
	c.ask(`["REQ","auth",{}]`, "CLOSED") // a challenge comes before it
	e := testkit.NewSigner(1).Event(22242, time.Now().Unix(), "", host.Tag{"relay", "ws://" + addr + "/"}, host.Tag{"challenge", c.challenge})
	if answer := c.ask(`["AUTH",`+string(e.JSON)+`]`, "OK"); answer[2] != true {
		c.t.Fatalf("AUTH: %v", answer)
	}
}

// found returns how many stored events answer a query.
func (c *client) found(filter string) int {
	c.t.Helper()
	before := c.events
	c.ask(`["REQ","found",`+filter+`]`, "EOSE")
	return c.events - before
}

// cutOff reports whether the relay ends the connection after a message.
func (c *client) cutOff(message string) bool {
	c.t.Helper()
	_ = wsutil.WriteClientText(c.net, []byte(message)) // the relay may close before it has read all
	_ = c.net.SetReadDeadline(testkit.Deadline(c.t))
	_, err := wsutil.ReadServerText(struct {
		io.Reader
		io.Writer
	}{c.in, c.net})
	return err != nil
}

// worked returns an event with some bits of work.
func worked(bits int, at int64, content string, tags ...host.Tag) *host.Event {
	return withBits(at, content, tags, func(n int) bool { return n >= bits })
}

// lazy returns an event with too little work.
func lazy(bits int, at int64) *host.Event {
	return withBits(at, "lazy", nil, func(n int) bool { return n < bits })
}

func withBits(at int64, content string, tags []host.Tag, enough func(bits int) bool) *host.Event {
	for n := 0; ; n++ {
		e := testkit.NewSigner(1).Event(1, at, content, append(slices.Clip(tags), host.Tag{"nonce", fmt.Sprint(n), "4"})...)
		zeros := 0
		for i := 0; i < 256 && e.ID[i/8]>>(7-i%8)&1 == 0; i++ {
			zeros++
		}
		if enough(zeros) {
			return e
		}
	}
}
