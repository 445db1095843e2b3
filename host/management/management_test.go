package management

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"talon/host"
	"talon/host/moderation"
	"talon/host/moderation/reports"
)

// world is a handler, and the log that it writes.
type world struct {
	t      *testing.T
	log    moderation.Log
	server *httptest.Server
	now    time.Time
	signs  int // signatures that were verified
	number int64
	ids    byte
}

var (
	owner  = host.PubKey{1}
	helper = host.PubKey{2}
	other  = host.PubKey{3}
)

func newWorld(t *testing.T) *world {
	w := &world{t: t, now: time.Unix(1_700_000_000, 0)}
	h := New(Config{
		Operators: []host.PubKey{owner}, Moderators: []host.PubKey{helper, owner}, Log: &w.log,
		Queue: func(context.Context, int) ([]reports.Item, error) {
			return []reports.Item{{Target: moderation.EventTarget(host.ID{1}), Type: "spam", Reason: "look"}, {Target: moderation.AuthorTarget(owner)}}, nil
		},
		Moderate: func(_ context.Context, list []moderation.Row) ([]moderation.Row, error) {
			for i := range list {
				if err := list[i].Check(); err != nil {
					return nil, err
				}
				w.number++
				list[i].Number, list[i].At = w.number, w.now.Unix()
			}
			w.log.Apply(list)
			return list, nil
		},
		Verify: func(e *host.Event) error {
			w.signs++
			if e.Content == "forged" {
				return errors.New("bad signature")
			}
			return nil
		},
		Now: func() time.Time { return w.now }, Logger: slog.New(slog.DiscardHandler),
	})
	w.server = httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if !Wants(r) {
			t.Errorf("%s %s is not for the API", r.Method, r.Header.Get("Content-Type"))
		}
		h.ServeHTTP(rw, r)
	}))
	t.Cleanup(w.server.Close)
	return w
}

// authorization returns the event that authorizes a body, after change.
func (w *world) authorization(key host.PubKey, body string, change func(*host.Event)) string {
	sum := sha256.Sum256([]byte(body))
	w.ids++
	e := &host.Event{
		ID: host.ID{w.ids, 1}, PubKey: key, Kind: kindAuth, CreatedAt: w.now.Unix(),
		Tags: host.Tags{{"u", w.server.URL + "/"}, {"method", "POST"}, {"payload", hex.EncodeToString(sum[:])}},
	}
	if change != nil {
		change(e)
	}
	return "Nostr " + base64.StdEncoding.EncodeToString(e.AppendJSON(nil))
}

func (w *world) post(body, authorization string) (status int, a answer) {
	w.t.Helper()
	req, err := http.NewRequest(http.MethodPost, w.server.URL, strings.NewReader(body))
	if err != nil {
		w.t.Fatal(err)
	}
	req.Header.Set("Content-Type", ContentType+"; charset=utf-8")
	if authorization != "" {
		req.Header.Set("Authorization", authorization)
	}
	got, err := http.DefaultClient.Do(req)
	if err != nil {
		w.t.Fatal(err)
	}
	defer got.Body.Close()
	var text bytes.Buffer
	if _, err := text.ReadFrom(got.Body); err != nil {
		w.t.Fatal(err)
	}
	if err := json.Unmarshal(text.Bytes(), &a); err != nil || got.Header.Get("Content-Type") != ContentType {
		w.t.Fatalf("%s is no JSON answer: %v", &text, err)
	}
	if (got.StatusCode == http.StatusOK) != (a.Error == "") {
		w.t.Errorf("%s with the error %q", got.Status, a.Error)
	}
	return got.StatusCode, a
}

// call calls a method with a fresh authorization.
func (w *world) call(key host.PubKey, method string, params ...any) (int, answer) {
	w.t.Helper()
	if params == nil {
		params = []any{}
	}
	body, err := json.Marshal(map[string]any{"method": method, "params": params})
	if err != nil {
		w.t.Fatal(err)
	}
	return w.post(string(body), w.authorization(key, string(body), nil))
}

// want calls a method of the operator and compares the result.
func (w *world) want(result any, method string, params ...any) {
	w.t.Helper()
	status, a := w.call(owner, method, params...)
	got, _ := json.Marshal(a.Result)
	want, err := json.Marshal(result)
	if err != nil {
		w.t.Fatal(err)
	}
	if status != http.StatusOK || string(got) != string(want) {
		w.t.Errorf("%s %v: %d %s %s, want %s", method, params, status, got, a.Error, want)
	}
}

// TestMethods calls each method, and asks the log what it has brought about.
func TestMethods(t *testing.T) {
	w := newWorld(t)
	event := &host.Event{ID: host.ID{9}, PubKey: other, Kind: 4242, CreatedAt: 1}
	barred := func(want bool) {
		t.Helper()
		if row := w.log.Event(event, w.now.Unix()); (row != nil) != want {
			t.Errorf("the event is barred by %v, want that it is: %t", row, want)
		}
	}
	type object = map[string]string
	key, id := other.String(), event.ID.String()
	none := []int{}

	w.want(none, "listbannedpubkeys")
	w.want(true, "banpubkey", key, "spam")
	barred(true)
	w.want([]object{{"pubkey": key, "reason": "spam"}}, "listbannedpubkeys")
	w.want(true, "unbanpubkey", key)
	barred(false)
	w.want(true, "banpubkey", key)
	w.want(true, "allowpubkey", key, "a friend")
	barred(false)
	w.want(none, "listbannedpubkeys")
	w.want([]object{{"pubkey": key, "reason": "a friend"}}, "listallowedpubkeys")
	w.want(true, "banpubkey", key)
	w.want(none, "listallowedpubkeys")
	w.want(true, "unbanpubkey", key)
	w.want(true, "allowpubkey", key)
	w.want(true, "unallowpubkey", key)
	w.want(none, "listallowedpubkeys")

	w.want(true, "banevent", id, "a scam")
	barred(true)
	w.want([]object{{"id": id, "reason": "a scam"}}, "listbannedevents")
	w.want(true, "allowevent", id)
	barred(false)
	w.want(none, "listbannedevents")
	w.want([]object{{"id": id, "reason": ""}}, "listallowedevents")

	w.want(true, "disallowkind", 4242)
	barred(true)
	w.want([]int{4242}, "listdisallowedkinds")
	w.want(true, "allowkind", 4242)
	barred(false)
	w.want([]int{4242}, "listallowedkinds")

	address := netip.MustParseAddr("192.0.2.7")
	w.want(true, "blockip", "192.0.2.7", "a flood")
	w.want(true, "blockip", "2001:db8::/32")
	if w.log.Address(address, w.now.Unix()) == nil || w.log.Address(netip.MustParseAddr("2001:db8::1"), w.now.Unix()) == nil {
		t.Error("blocked addresses come in")
	}
	w.want([]object{{"ip": "2001:db8::/32", "reason": ""}, {"ip": "192.0.2.7", "reason": "a flood"}}, "listblockedips")
	w.want(true, "unblockip", "192.0.2.7")
	if w.log.Address(address, w.now.Unix()) != nil {
		t.Error("an address stays blocked")
	}
	rows := w.log.Rows(0)
	if rows[0].By != owner.String() || rows[len(rows)-1].Action != moderation.Unban {
		t.Errorf("the log: %+v", rows)
	}

	for _, wrong := range []struct {
		method string
		params []any
	}{
		{"banpubkey", nil}, {"banpubkey", []any{"x"}}, {"banpubkey", []any{7}}, {"banpubkey", []any{key, 7}}, {"banpubkey", []any{key, strings.Repeat("x", 1001)}},
		{"banevent", []any{"x"}}, {"disallowkind", []any{65536}}, {"disallowkind", []any{1.5}}, {"disallowkind", []any{"1"}}, {"blockip", []any{"example.com"}}, {"blockip", []any{4}},
		{"changerelayname", []any{"x"}}, {"rm", nil},
	} {
		if status, a := w.call(owner, wrong.method, wrong.params...); status != http.StatusBadRequest || a.Error == "" {
			t.Errorf("%+v: %d %q", wrong, status, a.Error)
		}
	}
	if n := len(w.log.Rows(0)); n != len(rows) {
		t.Errorf("refused requests have made %d rows", n-len(rows))
	}
}

// TestRoles: a moderator bans events and authors, and nobody else does anything.
func TestRoles(t *testing.T) {
	w := newWorld(t)
	_, all := w.call(owner, "supportedmethods")
	_, some := w.call(helper, "supportedmethods")
	names := func(a answer) (list []string) {
		for _, v := range a.Result.([]any) {
			list = append(list, v.(string))
		}
		return list
	}
	if len(names(all)) != len(methods)+1 || len(names(some)) >= len(names(all)) || names(all)[0] != "supportedmethods" {
		t.Errorf("supported: %v, and of a moderator %v", all.Result, some.Result)
	}
	for name := range methods {
		var params []any
		switch {
		case strings.HasSuffix(name, "kind"):
			params = []any{7}
		case strings.HasSuffix(name, "ip"):
			params = []any{"192.0.2.1"}
		default:
			params = []any{host.ID{5}.String()}
		}
		want := http.StatusOK
		if !slices.Contains(names(some), name) {
			want = http.StatusForbidden
		}
		if status, a := w.call(helper, name, params...); status != want {
			t.Errorf("%s of a moderator: %d %s, want %d", name, status, a.Error, want)
		}
		before := w.signs
		if status, _ := w.call(other, name, params...); status != http.StatusForbidden || w.signs != before {
			t.Errorf("%s of a stranger: %d, and %d signatures verified", name, status, w.signs-before)
		}
	}
}

// TestAuthorization: only a fresh event of this request authorizes it, once.
func TestAuthorization(t *testing.T) {
	w := newWorld(t)
	const body = `{"method":"supportedmethods","params":[]}`
	tag := func(name string, value ...string) func(*host.Event) {
		return func(e *host.Event) {
			e.Tags = slices.DeleteFunc(e.Tags, func(t host.Tag) bool { return t[0] == name })
			if value != nil {
				e.Tags = append(e.Tags, append(host.Tag{name}, value...))
			}
		}
	}
	for name, change := range map[string]func(*host.Event){
		"kind":            func(e *host.Event) { e.Kind = 22242 },
		"too old":         func(e *host.Event) { e.CreatedAt -= 61 },
		"of the future":   func(e *host.Event) { e.CreatedAt += 61 },
		"no URL":          tag("u"),
		"another server":  tag("u", "http://other.example/"),
		"another path":    tag("u", w.server.URL+"/other"),
		"another scheme":  tag("u", strings.Replace(w.server.URL, "http", "ftp", 1)),
		"no method":       tag("method"),
		"another method":  tag("method", "GET"),
		"no payload":      tag("payload"),
		"another payload": tag("payload", strings.Repeat("0", 64)),
		"a forged one":    func(e *host.Event) { e.Content = "forged" },
	} {
		if status, a := w.post(body, w.authorization(owner, body, change)); status != http.StatusUnauthorized || a.Result != nil {
			t.Errorf("%s: %d %+v", name, status, a)
		}
	}
	for _, header := range []string{"", "Basic eDp5", "Nostr", "Nostr ???", "Nostr e30=", "Nostr " + strings.Repeat("A", maxAuth+1)} {
		if status, _ := w.post(body, header); status != http.StatusUnauthorized {
			t.Errorf("%.20q: %d", header, status)
		}
	}
	for _, url := range []string{w.server.URL, strings.Replace(w.server.URL, "http", "ws", 1) + "/"} {
		if status, a := w.post(body, w.authorization(owner, body, tag("u", url))); status != http.StatusOK {
			t.Errorf("%s: %d %s", url, status, a.Error)
		}
	}
	once := w.authorization(owner, body, nil)
	first, _ := w.post(body, once)
	if again, a := w.post(body, once); first != http.StatusOK || again != http.StatusUnauthorized {
		t.Errorf("an authorization that is used twice: %d, %d %s", first, again, a.Error)
	}
	for body, want := range map[string]int{"[]": 400, "": 400, `{"method":7}`: 400, fmt.Sprintf(`{"method":%q}`, strings.Repeat("x", maxBody)): 413} {
		if status, _ := w.post(body, w.authorization(owner, body, nil)); status != want {
			t.Errorf("%.20q: %d, want %d", body, status, want)
		}
	}
}

// TestForwarded: an authorization that an operator signed for another relay is worth nothing here,
// also if that relay passes it on under its own name.
func TestForwarded(t *testing.T) {
	w := newWorld(t)
	const body = `{"method":"supportedmethods","params":[]}`
	for name, want := range map[string]int{
		"evil.example": http.StatusUnauthorized,
		"192.0.2.7":    http.StatusUnauthorized,
		strings.TrimPrefix(w.server.URL, "http://"):                       http.StatusOK,
		strings.Replace(w.server.URL, "http://127.0.0.1", "localhost", 1): http.StatusOK,
	} {
		req, err := http.NewRequest(http.MethodPost, w.server.URL, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		req.Host = name
		req.Header.Set("Content-Type", ContentType)
		req.Header.Set("Authorization", w.authorization(owner, body, func(e *host.Event) { e.Tags[0][1] = "http://" + name + "/" }))
		got, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		got.Body.Close()
		if got.StatusCode != want {
			t.Errorf("a request for %s: %s, want %d", name, got.Status, want)
		}
	}
}

// unreadable is the body of a stranger.
type unreadable struct{ t *testing.T }

func (u unreadable) Read([]byte) (int, error) {
	u.t.Error("the server reads the body of a stranger")
	return 0, errors.New("not read")
}

// TestBodiesOfStrangers names the key of an operator without its signature: the server does not read
// the body, so strangers cannot fill memory with bodies that come slowly.
func TestBodiesOfStrangers(t *testing.T) {
	w := newWorld(t)
	for name, e := range map[string]*host.Event{
		"a forged event": {PubKey: owner, Kind: kindAuth, CreatedAt: w.now.Unix(), Content: "forged", Tags: host.Tags{{"u", w.server.URL + "/"}, {"method", "POST"}}},
		"an old event":   {PubKey: owner, Kind: kindAuth, CreatedAt: 1, Tags: host.Tags{{"u", w.server.URL + "/"}, {"method", "POST"}}},
	} {
		e.JSON = e.AppendJSON(nil)
		r := httptest.NewRequest(http.MethodPost, w.server.URL+"/", unreadable{t})
		local := w.server.Listener.Addr()
		r = r.WithContext(context.WithValue(r.Context(), http.LocalAddrContextKey, local))
		r.Header.Set("Content-Type", ContentType)
		r.Header.Set("Authorization", "Nostr "+base64.StdEncoding.EncodeToString(e.JSON))
		got := httptest.NewRecorder()
		if w.server.Config.Handler.ServeHTTP(got, r); got.Code != http.StatusUnauthorized {
			t.Errorf("%s: status %d, want 401", name, got.Code)
		}
	}
}
