package web

import (
	"net/http"
	"net/netip"
	"strings"

	"talon/sdk/grasp"
)

// client is a git client on the web that opens NIP-19 codes.
const client = "https://gitworkshop.dev/"

// places are the URLs under which the service is reached.
type places struct {
	scheme  string // http or https
	service grasp.Service
}

// places returns the URLs that suit the request.
func (h *Handler) places(r *http.Request) places { return places{h.scheme(r), h.service} }

// git is the URL of a repository.
func (p places) git(path string) string { return p.scheme + "://" + p.service.String() + path }

// relay is the URL of the relay.
func (p places) relay() string {
	return "ws" + strings.TrimPrefix(p.scheme, "http") + "://" + p.service.String()
}

// nostr is the URL of a repository for git with a helper for nostr (git-remote-nostr).
// It is "" if the relay cannot be named there by its host alone.
func (p places) nostr(r grasp.Repo) string {
	if p.scheme == "http" || p.service.Port != "" {
		return ""
	}
	npub, identifier, _ := strings.Cut(strings.TrimSuffix(r.Path(), ".git")[1:], "/")
	return "nostr://" + npub + "/" + p.service.Host + "/" + identifier
}

// scheme returns how the client reached the service: as it did, or as a trusted proxy
// says that it did. Nobody's word is needed for a name without a port: what has no
// certificate is not reached there for long.
func (h *Handler) scheme(r *http.Request) string {
	if r.TLS != nil {
		return "https"
	}
	if h.trusted(r) {
		// The proxy in front has added its word last.
		words := strings.Split(strings.Join(r.Header.Values("X-Forwarded-Proto"), ","), ",")
		switch strings.ToLower(strings.TrimSpace(words[len(words)-1])) {
		case "https", "wss":
			return "https"
		case "http", "ws":
			return "http"
		}
	}
	if h.service.Port == "443" || h.service.Port == "" && public(h.service.Host) {
		return "https"
	}
	return "http"
}

func (h *Handler) trusted(r *http.Request) bool {
	from, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return false
	}
	for _, p := range h.cfg.Proxies {
		if p.Contains(from.Addr().Unmap()) {
			return true
		}
	}
	return false
}

// public reports whether a host has a name that others can look up.
func public(host string) bool {
	_, err := netip.ParseAddr(strings.Trim(host, "[]"))
	return err != nil && strings.Contains(host, ".") && !strings.HasSuffix(host, ".localhost") && !strings.HasSuffix(host, ".local")
}
