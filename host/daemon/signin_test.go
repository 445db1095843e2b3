package daemon

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"talon/host"
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
	s, n := newSignIn(p, store), byte(0)
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
	if key, ok := reader(newSignIn(p, store)); !ok || key != (host.PubKey{7}) {
		t.Errorf("at another node, or after a restart, the cookie is that of %v, %v", key, ok)
	}
	if key, ok := reader(newSignIn(p, secrets{})); ok {
		t.Errorf("another service takes the cookie as that of %v", key)
	}
	if now = now.Add(sessionTime); func() bool { _, ok := reader(s); return ok }() {
		t.Error("the cookie counts for longer than it should")
	}
}
