package daemon

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	_ "embed"

	"talon/host"
	"talon/host/bound"
)

const (
	// sessionCookie has the key of a reader and when the session ends, with a code that only this
	// service can make. sessionTime is how long it counts.
	sessionCookie = "talon-reader"
	sessionTime   = 12 * time.Hour

	// maxSignIns bounds the sign-ins that are remembered: none counts twice. They are forgotten
	// when no event can sign in any more that was signed by then.
	maxSignIns     = 10_000
	rememberSignIn = 2 * authAge

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
	store  secretStore
	holder func(r *http.Request, key host.PubKey) bound.Holder // for whom the sign-in of a key counts
	pot    *bound.Pot

	mu    sync.Mutex // guards the fields below
	used  map[host.ID]*usedSignIn
	order []*usedSignIn // the oldest first, and some that are not in used any more
}

// usedSignIn is an event that signed somebody in.
type usedSignIn struct {
	id   host.ID
	at   time.Time
	hold *bound.Hold // nil while it is made; signIn.mu guards it
}

// secretStore keeps the secret of cookies.
type secretStore interface {
	Relay(ctx context.Context, about, url string) ([]byte, error)
	SaveRelays(ctx context.Context, about string, relays map[string][]byte) error
}

func newSignIn(p proof, store secretStore, holder func(*http.Request, host.PubKey) bound.Holder) *signIn {
	return &signIn{proof: p, store: store, holder: holder, used: make(map[host.ID]*usedSignIn), pot: bound.NewPot(bound.Spec{
		Name: "sign-ins of browsers that were used", Unit: "events", Total: maxSignIns, Known: maxSignIns / 2,
		Yields:         "the oldest of the network that has most: it could be used again for the rest of its ten minutes; here readers of private repositories are known too",
		AnonymousYield: true, // behind a proxy that is not trusted all clients are one
	})}
}

// Bounds returns the rows of the table of bounds.
func (s *signIn) Bounds() []bound.Spec { return []bound.Spec{s.pot.Spec()} }

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
	if err := s.use(e.ID, s.holder(r, e.PubKey)); err != nil {
		refuse(http.StatusUnauthorized, err.Error())
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

// use notes that an event signs in. It fails if the event has done that before.
func (s *signIn) use(id host.ID, by bound.Holder) error {
	x, ok := s.add(id)
	if !ok {
		return errors.New("this link or event was used before: make another one")
	}
	hold, err := s.pot.Displace(by, 1, func() { s.drop(x) })
	if err != nil {
		s.drop(x)
		return errors.New("your network signs in too often: try again in some minutes")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	x.hold = hold
	return nil
}

// add adds an event that signs in now, if it is not among those that were used. It also forgets
// those that are too old to be tried again.
func (s *signIn) add(id host.ID) (x *usedSignIn, ok bool) {
	now := s.now()
	s.mu.Lock()
	defer s.mu.Unlock()
	for len(s.order) > 0 && now.Sub(s.order[0].at) > rememberSignIn {
		if x := s.order[0]; s.used[x.id] == x {
			delete(s.used, x.id)
			if x.hold != nil {
				x.hold.Release()
			}
		}
		s.order = s.order[1:]
	}
	if s.used[id] != nil {
		return nil, false
	}
	if len(s.order) > 2*maxSignIns {
		s.order = slices.DeleteFunc(s.order, func(x *usedSignIn) bool { return s.used[x.id] != x })
	}
	x = &usedSignIn{id: id, at: now}
	s.used[id], s.order = x, append(s.order, x)
	return x, true
}

// drop forgets an event that was used.
func (s *signIn) drop(x *usedSignIn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.used[x.id] == x {
		delete(s.used, x.id)
	}
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
