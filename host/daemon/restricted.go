package daemon

import (
	"bytes"
	"context"
	"encoding/base64"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"talon/host"
	"talon/host/audience"
	"talon/host/bound"
	"talon/host/githttp"
	"talon/host/gitrepo"
	"talon/host/repos"
	"talon/host/web"
	"talon/host/wire"
	"talon/sdk/grasp"
	"talon/sdk/nip19"
)

// Repositories that are not for everybody: their public paths answer as if they were not here. Those
// who may see them use the same paths below authPrefix. Programs have a NIP-98 event as password,
// browsers a cookie: see [signIn].

const (
	authPrefix = "/auth"

	// kindHTTPAuth is the kind of NIP-98, and authAge is how far its date may be from now.
	kindHTTPAuth host.Kind = 27235
	authAge                = 10 * time.Minute

	maxPassword = 16 << 10
)

// readerKey is the key of a context that says who reads.
type readerKey struct{}

// readerOf returns the reader of a request by its context, nil for a stranger.
func readerOf(ctx context.Context) *host.Reader {
	reader, _ := ctx.Value(readerKey{}).(*host.Reader)
	return reader
}

// provenBy returns the keys that a request below authPrefix has proven.
func provenBy(r *http.Request) []host.PubKey {
	if reader := readerOf(r.Context()); reader != nil {
		return reader.Keys
	}
	return nil
}

// readerHolder returns for whom the sign-in of a key counts. Readers of private repositories are known.
func (d *Daemon) readerHolder(core *Core) func(*http.Request, host.PubKey) bound.Holder {
	return func(r *http.Request, key host.PubKey) bound.Holder {
		keys := []host.PubKey{key}
		by := core.Users.Holder(d.client(r).Addr, keys)
		if core.Audiences.AnyRepository(core.Plugins.Reader(keys)) {
			by.Known, by.Key = true, key
		}
		return by
	}
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
		if !readerOf(ctx).Receives(v.audiences.Repository(a)) {
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

// pageGit shows pages the repositories that the reader of the context may see.
type pageGit struct {
	web.Repositories
	audiences *audience.Audiences
}

// Here implements [web.Repositories].
func (p pageGit) Here(ctx context.Context, repo host.Address) (bool, error) {
	if !readerOf(ctx).Receives(p.audiences.Repository(repo)) {
		return false, nil
	}
	return p.Repositories.Here(ctx, repo)
}

// Repository implements [web.Repositories].
func (p pageGit) Repository(ctx context.Context, repo host.Address) (*gitrepo.Repo, error) {
	if !readerOf(ctx).Receives(p.audiences.Repository(repo)) {
		return nil, nil
	}
	return p.Repositories.Repository(ctx, repo)
}

// Refs implements [web.Repositories].
func (p pageGit) Refs(ctx context.Context, repo host.Address) (refs []grasp.Ref, head string, here bool, err error) {
	if !readerOf(ctx).Receives(p.audiences.Repository(repo)) {
		return nil, "", false, nil
	}
	return p.Repositories.Refs(ctx, repo)
}

// authGit serves repositories below authPrefix to those who prove a key, and everything else as next.
type authGit struct {
	proof
	next   http.Handler
	signIn *signIn
	reader func(keys []host.PubKey) *host.Reader
}

// proof reads the events by which somebody proves a key over HTTP.
type proof struct {
	services []string // host[:port] of this service, all its names
	verify   func(*host.Event) error
	now      func() time.Time
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
	if r.Method == http.MethodPost && rest == "" {
		h.signIn.accept(w, r)
		return
	}
	key, ok := h.authenticate(r, escaped)
	if !ok && (r.Method == http.MethodGet || r.Method == http.MethodHead) {
		key, ok = h.signIn.reader(r)
	}
	if !ok {
		h.refuse(w, r)
		return
	}
	own := r.Clone(context.WithValue(r.Context(), readerKey{}, h.reader([]host.PubKey{key})))
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

// refuse asks for credentials: a browser with a page, programs with a status.
func (h *authGit) refuse(w http.ResponseWriter, r *http.Request) {
	if strings.Contains(r.Header.Get("Accept"), "text/html") {
		h.signIn.ask(w)
		return
	}
	w.Header().Set("WWW-Authenticate", `Basic realm="repositories for their readers: talon git-credential", charset="UTF-8"`)
	http.Error(w, "the password must be a NIP-98 event for the URL of this repository, not older than 10 minutes", http.StatusUnauthorized)
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
	e, ok := h.authorization(text)
	if !ok || !h.covers(e, escaped) || h.verify(e) != nil {
		return key, false
	}
	return e.PubKey, true
}

// authorization reads a NIP-98 event that is not too old. Its signature is not checked.
func (a *proof) authorization(text []byte) (*host.Event, bool) {
	e, err := wire.ParseEvent(bytes.Clone(text))
	if err != nil || e.Kind != kindHTTPAuth {
		return nil, false
	}
	age := a.now().Sub(time.Unix(e.CreatedAt, 0))
	return e, age <= authAge && age >= -authAge
}

// named returns the URL of the first tag u of an event, if it is one of this service.
func (a *proof) named(e *host.Event) (u *url.URL, ok bool) {
	for _, tag := range e.Tags {
		if len(tag) < 2 || tag[0] != "u" {
			continue
		}
		u, err := url.Parse(tag[1])
		return u, err == nil && (u.Scheme == "http" || u.Scheme == "https") && u.RawQuery == "" &&
			slices.ContainsFunc(a.services, func(name string) bool { return strings.EqualFold(u.Host, name) })
	}
	return nil, false
}

// covers reports whether the event names the URL of a repository that a path is below.
func (h *authGit) covers(e *host.Event, escaped string) bool {
	u, ok := h.named(e)
	if !ok {
		return false
	}
	base := strings.TrimSuffix(u.EscapedPath(), "/")
	return strings.HasPrefix(base, authPrefix+"/") && strings.HasSuffix(base, ".git") &&
		(escaped == base || strings.HasPrefix(escaped, base+"/"))
}
