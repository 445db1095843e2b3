package daemon

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"time"

	"talon/host"
	"talon/host/bound"
)

// secrets keep what a sign-in keeps in the store.
type secrets map[string][]byte

func (s secrets) Relay(_ context.Context, about, url string) ([]byte, error) {
	return s[about+" "+url], nil
}

func (s secrets) SaveRelays(_ context.Context, about string, relays map[string][]byte) error {
	for url, text := range relays {
		s[about+" "+url] = text
	}
	return nil
}

// nobody counts sign-ins for clients without a network.
func nobody(*http.Request, host.PubKey) bound.Holder { return bound.Holder{} }

// TestSignIn tries the events by which browsers sign in, and the cookies that they get.
func TestSignIn(t *testing.T) {
	now := time.Unix(1_700_000_000, 0)
	store := secrets{}
	var wrong error
	p := proof{
		services: []string{"git.example.com"},
		verify:   func(*host.Event) error { return wrong },
		now:      func() time.Time { return now },
	}
	s, n := newSignIn(p, store, nobody), byte(0)
	signed := func(kind host.Kind, at int64, u, method string) string {
		n++
		e := &host.Event{ID: host.ID{n}, PubKey: host.PubKey{7}, CreatedAt: at, Kind: kind, Tags: host.Tags{{"u", u}, {"method", method}}}
		return string(e.AppendJSON(nil))
	}
	post := func(body string) *http.Response {
		w := httptest.NewRecorder()
		s.accept(w, httptest.NewRequest("POST", "/auth/", strings.NewReader(body)))
		return w.Result()
	}
	const here = "https://git.example.com/auth/"
	for _, tt := range []struct {
		name, body string
		err        error
	}{
		{"nothing", "", nil},
		{"another kind", signed(1, now.Unix(), here, "POST"), nil},
		{"too old", signed(27235, now.Unix()-601, here, "POST"), nil},
		{"another service", signed(27235, now.Unix(), "https://evil.example/auth/", "POST"), nil},
		{"another path", signed(27235, now.Unix(), here+"npub1x/y.git", "POST"), nil},
		{"another method", signed(27235, now.Unix(), here, "GET"), nil},
		{"a wrong signature", signed(27235, now.Unix(), here, "POST"), errors.New("planted")},
		{"too long", strings.Repeat("x", maxPassword+1), nil},
	} {
		if wrong = tt.err; post(tt.body).Header.Get("Set-Cookie") != "" {
			t.Errorf("%s signs in", tt.name)
		}
	}
	wrong = nil
	event := signed(27235, now.Unix(), here, "POST")
	first := post(event)
	if first.StatusCode != http.StatusNoContent || len(first.Cookies()) != 1 || !first.Cookies()[0].Secure {
		t.Fatalf("a good event: status %d, %v", first.StatusCode, first.Header)
	}
	if again := post(event); again.StatusCode != http.StatusUnauthorized {
		t.Errorf("the same event again has status %d", again.StatusCode)
	}
	reader := func(s *signIn) (host.PubKey, bool) {
		r := httptest.NewRequest("GET", "/auth/x", nil)
		r.AddCookie(first.Cookies()[0])
		return s.reader(r)
	}
	if key, ok := reader(newSignIn(p, store, nobody)); !ok || key != (host.PubKey{7}) {
		t.Errorf("at another node, or after a restart, the cookie is that of %v, %v", key, ok)
	}
	if key, ok := reader(newSignIn(p, secrets{}, nobody)); ok {
		t.Errorf("another service takes the cookie as that of %v", key)
	}
	if now = now.Add(sessionTime); func() bool { _, ok := reader(s); return ok }() {
		t.Error("the cookie counts for longer than it should")
	}
}

// TestSignInFlood has strangers of many networks sign in until the server forgets sign-ins. It must not
// forget those of others: their links were seen by somebody.
func TestSignInFlood(t *testing.T) {
	now := time.Unix(1_700_000_000, 0)
	s := newSignIn(proof{now: func() time.Time { return now }}, nil, nil)
	addr := func(n int) netip.Addr { return netip.AddrFrom4([4]byte{20, byte(n >> 8), byte(n), 1}) }
	id := func(who byte, n int) host.ID {
		return host.ID{who, byte(n >> 24), byte(n >> 16), byte(n >> 8), byte(n)}
	}
	stranger := bound.Holder{Addr: netip.MustParseAddr("198.51.100.7")}
	reader := bound.Holder{Addr: addr(3), Known: true, Key: host.PubKey{7}} // the attacker is in the same network
	for who, by := range map[byte]bound.Holder{1: stranger, 2: reader} {
		if err := s.use(id(who, 0), by); err != nil {
			t.Fatal(err)
		}
	}
	for n := range 3 * maxSignIns {
		by := bound.Holder{Addr: addr(n % 50)}
		if n%3 == 0 {
			by = bound.Holder{Addr: addr(n % 50), Known: true, Key: host.PubKey{9, byte(n % 4)}} // readers of their own repositories
		}
		if err := s.use(id(3, n), by); err != nil {
			t.Fatalf("sign-in %d: %v", n, err)
		}
	}
	for who, by := range map[byte]bound.Holder{1: stranger, 2: reader} {
		if s.use(id(who, 0), by) == nil {
			t.Errorf("sign-in %d was used twice", who)
		}
	}
	if len(s.used) > maxSignIns || len(s.order) > 2*maxSignIns+1 || s.pot.Used() != int64(len(s.used)) {
		t.Errorf("%d sign-ins are remembered, %d in order, %d count", len(s.used), len(s.order), s.pot.Used())
	}
	now = now.Add(rememberSignIn + time.Second)
	if err := s.use(id(4, 0), stranger); err != nil || len(s.used) != 1 || len(s.order) != 1 || s.pot.Used() != 1 {
		t.Errorf("%v; later %d are remembered, %d in order, %d count", err, len(s.used), len(s.order), s.pot.Used())
	}
}
