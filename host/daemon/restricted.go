package daemon

import (
	"bytes"
	"context"
	"encoding/base64"
	"net/http"
	"net/url"
	"strings"
	"time"

	"talon/host"
	"talon/host/audience"
	"talon/host/githttp"
	"talon/host/gitrepo"
	"talon/host/repos"
	"talon/host/web"
	"talon/host/wire"
	"talon/sdk/grasp"
	"talon/sdk/nip19"
)

// Repositories that are not for everybody: their public paths answer as if they were not here. Those
// who may see them use the same paths below authPrefix, with a NIP-98 event as password.

const (
	authPrefix = "/auth"

	// kindHTTPAuth is the kind of NIP-98, and authAge is how far its date may be from now.
	kindHTTPAuth host.Kind = 27235
	authAge                = 10 * time.Minute

	maxPassword = 16 << 10
)

// gitReaderKey is the key of a context that says who reads over git.
type gitReaderKey struct{}

// provenBy returns the keys that a request below authPrefix has proven.
func provenBy(r *http.Request) []host.PubKey {
	if reader, _ := r.Context().Value(gitReaderKey{}).(*host.Reader); reader != nil {
		return reader.Keys
	}
	return nil
}

// signedIn returns authPrefix for a request that was below it, and "" for others.
func signedIn(r *http.Request) string {
	if len(provenBy(r)) == 0 {
		return ""
	}
	return authPrefix
}

// visibleGit finds the repositories that the reader of the context may see.
type visibleGit struct {
	*repos.Reconciler
	audiences *audience.Audiences
}

// Find implements [githttp.Repositories].
func (v visibleGit) Find(ctx context.Context, parts []string, use githttp.Use) (*gitrepo.Repo, error) {
	if a, ok := addressOfPath(parts); ok {
		reader, _ := ctx.Value(gitReaderKey{}).(*host.Reader)
		if !reader.Receives(v.audiences.Repository(a)) {
			return nil, gitrepo.ErrNotFound
		}
	}
	return v.Reconciler.Find(ctx, parts, use)
}

// addressOfPath returns the address of the repository at a path, NPUB/ID.git with or without prs in
// front.
func addressOfPath(parts []string) (a host.Address, ok bool) {
	if len(parts) < 2 {
		return a, false
	}
	identifier, ok := strings.CutSuffix(parts[len(parts)-1], ".git")
	key, err := nip19.DecodeNpub(parts[len(parts)-2])
	return host.Address{Kind: grasp.KindAnnouncement, PubKey: key, D: identifier}, ok && err == nil
}

// publicGit shows pages the repositories that are for everybody.
type publicGit struct {
	web.Repositories
	audiences *audience.Audiences
}

// Here implements [web.Repositories].
func (p publicGit) Here(ctx context.Context, repo host.Address) (bool, error) {
	if p.audiences.Repository(repo) != nil {
		return false, nil
	}
	return p.Repositories.Here(ctx, repo)
}

// Repository implements [web.Repositories].
func (p publicGit) Repository(ctx context.Context, repo host.Address) (*gitrepo.Repo, error) {
	if p.audiences.Repository(repo) != nil {
		return nil, nil
	}
	return p.Repositories.Repository(ctx, repo)
}

// Refs implements [web.Repositories].
func (p publicGit) Refs(ctx context.Context, repo host.Address) (refs []grasp.Ref, head string, here bool, err error) {
	if p.audiences.Repository(repo) != nil {
		return nil, "", false, nil
	}
	return p.Repositories.Refs(ctx, repo)
}

// authGit serves repositories below authPrefix to those who prove a key, and everything else as next.
type authGit struct {
	next    http.Handler
	service string // host[:port] of this service
	verify  func(*host.Event) error
	reader  func(keys []host.PubKey) *host.Reader
	now     func() time.Time
}

// ServeHTTP answers 401 to every path below authPrefix without valid credentials, whether or not it
// exists.
func (h *authGit) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	escaped := r.URL.EscapedPath()
	rest, ok := strings.CutPrefix(escaped, authPrefix+"/")
	if !ok {
		h.next.ServeHTTP(w, r)
		return
	}
	githttp.CORS(w.Header())
	w.Header().Set("Cache-Control", "private, no-store")
	if r.Method == http.MethodOptions {
		w.WriteHeader(http.StatusNoContent)
		return
	}
	key, ok := h.authenticate(r, escaped)
	if !ok {
		w.Header().Set("WWW-Authenticate", `Basic realm="repositories for their readers: talon git-credential", charset="UTF-8"`)
		http.Error(w, "the password must be a NIP-98 event for the URL of this repository, not older than 10 minutes", http.StatusUnauthorized)
		return
	}
	own := r.Clone(context.WithValue(r.Context(), gitReaderKey{}, h.reader([]host.PubKey{key})))
	own.Header.Del("Authorization")
	own.URL.RawPath = "/" + rest
	path, err := url.PathUnescape(own.URL.RawPath)
	if err != nil {
		http.NotFound(w, r)
		return
	}
	own.URL.Path = path
	h.next.ServeHTTP(w, own)
}

// authenticate returns the key that the password of a request proves for its path.
func (h *authGit) authenticate(r *http.Request, escaped string) (key host.PubKey, ok bool) {
	_, password, ok := r.BasicAuth()
	if !ok || len(password) > maxPassword {
		return key, false
	}
	text := []byte(password)
	if !strings.HasPrefix(password, "{") {
		var err error
		if text, err = base64.StdEncoding.DecodeString(password); err != nil {
			return key, false
		}
	}
	e, err := wire.ParseEvent(bytes.Clone(text))
	if err != nil || e.Kind != kindHTTPAuth {
		return key, false
	}
	if age := h.now().Sub(time.Unix(e.CreatedAt, 0)); age > authAge || age < -authAge {
		return key, false
	}
	if !h.covers(e, escaped) || h.verify(e) != nil {
		return key, false
	}
	return e.PubKey, true
}

// covers reports whether the event names the URL of a repository that a path is below.
func (h *authGit) covers(e *host.Event, escaped string) bool {
	for _, tag := range e.Tags {
		if len(tag) < 2 || tag[0] != "u" {
			continue
		}
		u, err := url.Parse(tag[1])
		if err != nil || u.Scheme != "http" && u.Scheme != "https" || !strings.EqualFold(u.Host, h.service) || u.RawQuery != "" {
			return false
		}
		base := strings.TrimSuffix(u.EscapedPath(), "/")
		return strings.HasPrefix(base, authPrefix+"/") && strings.HasSuffix(base, ".git") &&
			(escaped == base || strings.HasPrefix(escaped, base+"/"))
	}
	return false
}
