package management

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"time"

	"talon/host"
	"talon/host/wire"
)

const (
	kindAuth = 27235 // NIP-98

	// authTime is how far the date of an authorization may be from the server's clock.
	authTime = time.Minute

	maxAuth = 16 << 10 // bytes of the header
)

func unauthorized(format string, args ...any) error {
	return failure{http.StatusUnauthorized, fmt.Errorf(format, args...)}
}

// signed returns the event that authorizes a request, and its author, who has a role. What it says
// of the body is not checked yet: nobody else has the server read one.
func (h *Handler) signed(r *http.Request) (key host.PubKey, e *host.Event, err error) {
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	switch {
	case !strings.EqualFold(scheme, "Nostr"):
		return key, nil, unauthorized("this needs an Authorization header with the scheme Nostr (NIP-98)")
	case len(token) > maxAuth:
		return key, nil, unauthorized("the authorization has more than %d bytes", maxAuth)
	}
	text, err := base64.StdEncoding.DecodeString(strings.TrimSpace(token))
	if err != nil {
		return key, nil, unauthorized("the authorization is not base64")
	}
	if e, err = wire.ParseEvent(text); err != nil {
		return key, nil, unauthorized("the authorization is not an event: %v", err)
	}
	if h.roleOf(e.PubKey) == nobody {
		return key, nil, failure{http.StatusForbidden, errors.New("this key has no role here: the options operators and moderators name those that have")}
	}
	return e.PubKey, e, h.authorize(r, e)
}

// authorize checks that an event authorizes a request.
func (h *Handler) authorize(r *http.Request, e *host.Event) error {
	if e.Kind != kindAuth {
		return unauthorized("the authorization has kind %d, not %d", e.Kind, kindAuth)
	}
	now := h.cfg.Now()
	if at := time.Unix(e.CreatedAt, 0); at.Before(now.Add(-authTime)) || at.After(now.Add(authTime)) {
		return unauthorized("the authorization is dated %d, and the clock here says %d: more than %v apart", e.CreatedAt, now.Unix(), authTime)
	}
	if method := first(e, "method"); !strings.EqualFold(method, r.Method) {
		return unauthorized("the authorization is for the method %.20q, the request has %s", method, r.Method)
	}
	if at := first(e, "u"); !h.here(at, r) {
		return unauthorized("the authorization is for the URL %.200q, which is none of %q: the option domain names the addresses of this relay", at, h.names(r))
	}
	if err := h.cfg.Verify(e); err != nil {
		return unauthorized("the authorization is not signed by its author: %v", err)
	}
	return nil
}

// acceptOnce checks that an event authorizes a body, and that it does so for the first time.
func (h *Handler) acceptOnce(e *host.Event, body []byte) error {
	sum := sha256.Sum256(body)
	if payload := first(e, "payload"); !strings.EqualFold(payload, hex.EncodeToString(sum[:])) {
		return unauthorized("the authorization needs a tag payload with the SHA-256 of the body")
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.used.Has(e.ID) {
		return unauthorized("this authorization was used before: sign another one")
	}
	h.used.Add(e.ID, struct{}{}, 1)
	return nil
}

// first returns the value of the first tag of a name.
func first(e *host.Event, name string) string {
	for _, tag := range e.Tags {
		if len(tag) > 1 && tag[0] == name {
			return tag[1]
		}
	}
	return ""
}

// here reports whether a URL is that of a request. Clients write the address of the relay with the
// scheme of websockets or of HTTP.
func (h *Handler) here(at string, r *http.Request) bool {
	u, err := url.Parse(at)
	if err != nil {
		return false
	}
	port := ""
	switch strings.ToLower(u.Scheme) {
	case "http", "ws":
		port = ":80"
	case "https", "wss":
		port = ":443"
	default:
		return false
	}
	names := h.names(r)
	plain := func(s string) string { return strings.TrimSuffix(strings.ToLower(s), port) }
	named := slices.ContainsFunc(names, func(name string) bool { return plain(u.Host) == plain(name) })
	return named && strings.Trim(u.Path, "/") == strings.Trim(r.URL.Path, "/")
}

// names returns the host[:port] under which a request may name this relay. Without domains it is the
// address that the client has connected to. The header Host does not count: another relay could pass
// on a request that its operator signed for it.
func (h *Handler) names(r *http.Request) []string {
	if len(h.cfg.Domains) > 0 {
		return h.cfg.Domains
	}
	local, _ := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
	if local == nil {
		return nil
	}
	at, err := netip.ParseAddrPort(local.String())
	if err != nil {
		return nil
	}
	at = netip.AddrPortFrom(at.Addr().Unmap().WithZone(""), at.Port())
	list := []string{at.String()}
	if at.Addr().IsLoopback() {
		list = append(list, fmt.Sprintf("localhost:%d", at.Port()))
	}
	return list
}
