package daemon

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	_ "embed"

	"talon/host"
	"talon/host/bound"
	"talon/internal/recent"
)

const (
	// sessionCookie has the key of a reader and when the session ends, with a code that only this
	// service can make. sessionTime is how long it counts.
	sessionCookie = "talon-reader"
	sessionTime   = 12 * time.Hour

	// maxSignIns bounds the sign-ins that are remembered: none counts twice.
	maxSignIns = 10_000

	aboutSignIn = "signin" // under which the store keeps the secret of cookies
	keySignIn   = "secret"
)

//go:embed signin.html
var signInPage string

//go:embed signin.js
var signInScript string

// signIn lets browsers sign in. The page of [signIn.ask] has an extension sign an event (NIP-07), or
// takes one from the fragment of a link that `talon git-credential link` made. [signIn.accept] takes
// the event, once, and sets a cookie. All nodes of a relay accept the same cookies.
type signIn struct {
	proof
	store secretStore

	mu   sync.Mutex // guards used
	used recent.Map[host.ID, struct{}]
}

// secretStore keeps the secret of cookies.
type secretStore interface {
	Relay(ctx context.Context, about, url string) ([]byte, error)
	SaveRelays(ctx context.Context, about string, relays map[string][]byte) error
}

func newSignIn(p proof, store secretStore) *signIn {
	s := &signIn{proof: p, store: store}
	s.used.Size = maxSignIns
	return s
}

// Bounds returns the rows of the table of bounds.
func (*signIn) Bounds() []bound.Spec {
	return []bound.Spec{{
		Name: "sign-ins of browsers that were used", Unit: "events", Total: maxSignIns,
		Yields: "the oldest: it could be used again for the rest of its ten minutes",
	}}
}

// ask sends the page on which a browser signs in.
func (s *signIn) ask(w http.ResponseWriter) {
	sum := sha256.Sum256([]byte(signInScript))
	to := w.Header()
	to.Set("Content-Type", "text/html; charset=utf-8")
	to.Set("Content-Security-Policy", "default-src 'none'; script-src 'sha256-"+base64.StdEncoding.EncodeToString(sum[:])+
		"'; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'")
	to.Set("Referrer-Policy", "no-referrer")
	to.Set("X-Content-Type-Options", "nosniff")
	to.Set("WWW-Authenticate", "Nostr") // a scheme for which browsers ask nobody
	w.WriteHeader(http.StatusUnauthorized)
	_, _ = io.WriteString(w, strings.Replace(signInPage, "SCRIPT", signInScript, 1))
}

// accept takes the event of somebody who signs in.
func (s *signIn) accept(w http.ResponseWriter, r *http.Request) {
	refuse := func(status int, why string) { http.Error(w, why, status) }
	text, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxPassword))
	if err != nil {
		refuse(http.StatusBadRequest, fmt.Sprintf("read the event that signs in: %v", err))
		return
	}
	e, ok := s.authorization(text)
	if !ok {
		refuse(http.StatusUnauthorized, "signing in takes an event of kind 27235 (NIP-98) that is not older than 10 minutes")
		return
	}
	u, ok := s.named(e)
	if !ok || strings.TrimSuffix(u.EscapedPath(), "/") != authPrefix || !hasMethod(e, http.MethodPost) {
		refuse(http.StatusUnauthorized, "the event must have the tag method POST, and the tag u with the URL of this service and the path /auth/")
		return
	}
	if s.verify(e) != nil {
		refuse(http.StatusUnauthorized, "the event is not signed by its author")
		return
	}
	if !s.first(e.ID) {
		refuse(http.StatusUnauthorized, "this link or event was used before: make another one")
		return
	}
	value, err := s.cookie(r.Context(), e.PubKey, s.now().Add(sessionTime))
	if err != nil {
		refuse(http.StatusInternalServerError, "the server cannot sign anybody in now")
		return
	}
	http.SetCookie(w, &http.Cookie{
		Name: sessionCookie, Value: value, Path: authPrefix + "/", HttpOnly: true, Secure: u.Scheme == "https", SameSite: http.SameSiteLaxMode,
	})
	w.WriteHeader(http.StatusNoContent)
}

func hasMethod(e *host.Event, method string) bool {
	for _, tag := range e.Tags {
		if len(tag) > 1 && tag[0] == "method" {
			return strings.EqualFold(tag[1], method)
		}
	}
	return false
}

// first reports whether an event signs in for the first time.
func (s *signIn) first(id host.ID) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.used.Has(id) {
		return false
	}
	s.used.Add(id, struct{}{}, 1)
	return true
}

// cookie returns the value of the cookie of a key until a time.
func (s *signIn) cookie(ctx context.Context, key host.PubKey, until time.Time) (string, error) {
	secret, err := s.secret(ctx, true)
	if err != nil {
		return "", err
	}
	b := binary.BigEndian.AppendUint64(key[:], uint64(until.Unix()))
	return base64.RawURLEncoding.EncodeToString(append(b, code(secret, b)...)), nil
}

// code returns what proves that this service has made a cookie.
func code(secret, cookie []byte) []byte {
	h := hmac.New(sha256.New, secret)
	h.Write(cookie)
	return h.Sum(nil)
}

// reader returns the key by which the cookie of a request has signed in.
func (s *signIn) reader(r *http.Request) (key host.PubKey, ok bool) {
	const signed = len(key) + 8
	c, err := r.Cookie(sessionCookie)
	if err != nil {
		return key, false
	}
	b, err := base64.RawURLEncoding.DecodeString(c.Value)
	if err != nil || len(b) != signed+sha256.Size {
		return key, false
	}
	secret, err := s.secret(r.Context(), false)
	if err != nil || secret == nil || !hmac.Equal(code(secret, b[:signed]), b[signed:]) {
		return key, false
	}
	copy(key[:], b)
	return key, s.now().Unix() < int64(binary.BigEndian.Uint64(b[len(key):signed]))
}

// secret returns the secret of cookies. If there is none, it makes one or returns nil.
func (s *signIn) secret(ctx context.Context, make bool) (secret []byte, err error) {
	text, err := s.store.Relay(ctx, aboutSignIn, keySignIn)
	if err != nil {
		return nil, fmt.Errorf("read the secret of cookies: %w", err)
	}
	if text == nil {
		if !make {
			return nil, nil
		}
		secret = newSecret()
		if text, err = json.Marshal(secret); err != nil {
			return nil, err
		}
		if err := s.store.SaveRelays(ctx, aboutSignIn, map[string][]byte{keySignIn: text}); err != nil {
			return nil, fmt.Errorf("save the secret of cookies: %w", err)
		}
		return secret, nil
	}
	if err := json.Unmarshal(text, &secret); err != nil {
		return nil, fmt.Errorf("read the secret of cookies: %w", err)
	}
	return secret, nil
}

func newSecret() []byte {
	b := make([]byte, sha256.Size)
	_, _ = rand.Read(b) // it never fails: it ends the process instead
	return b
}
