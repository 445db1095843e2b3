package web

import (
	"bytes"
	"cmp"
	"net/http"
	"strconv"
	"strings"
	"time"

	"talon/host/bound"
	"talon/host/web/code"
)

// reply is a page that was made, and not sent yet.
type reply struct {
	status   int
	kind     string // its content type; empty for HTML
	body     []byte
	etag     string // empty for none
	location string // of a redirect; empty for none
}

const (
	// sendingBytes bounds the large pages that clients have not read yet.
	sendingBytes = 64 << 20

	// largePage is the size from which a page counts. The system takes a smaller one at once.
	largePage = 64 << 10
)

func newSending() *bound.Pot {
	return bound.NewPot(bound.Spec{
		Name: "large pages that clients have not read yet", Unit: "bytes", Total: sendingBytes, Known: bound.KnownPart(sendingBytes),
		Yields: "the network that holds most loses the answer that has moved nothing for longest",
	})
}

// below returns the reply with links that lead to pages below a prefix. The templates write all
// attributes in one form, and escape quotes in texts.
func (a *reply) below(prefix string) *reply {
	out := *a
	if strings.HasPrefix(a.location, "/") && !strings.HasPrefix(a.location, prefix+"/") {
		out.location = prefix + a.location
	}
	if a.kind != "" {
		return &out
	}
	for _, attribute := range []string{` href="`, ` src="`, ` action="`} {
		out.body = bytes.ReplaceAll(out.body, []byte(attribute+"/"), []byte(attribute+prefix+"/"))
		out.body = bytes.ReplaceAll(out.body, []byte(attribute+prefix+prefix+"/"), []byte(attribute+prefix+"/"))
	}
	return &out
}

// send sends a page, or 304 if the browser has it already. It does nothing for nil. REQUIRES: no
// turn is held, since the client may read slowly.
func (h *Handler) send(w http.ResponseWriter, r *http.Request, a *reply) {
	if a == nil {
		return
	}
	if prefix := h.cfg.SignedIn(r); prefix != "" {
		a = a.below(prefix)
	}
	to := w.Header()
	if a.location != "" {
		to.Set("Location", a.location)
	}
	if a.status >= http.StatusInternalServerError {
		to.Set("Cache-Control", "no-store")
	} else {
		code.SetCache(to, "public, no-cache")
	}
	if a.etag != "" {
		to.Set("ETag", a.etag)
		if known := r.Header.Get("If-None-Match"); known == "*" || strings.Contains(known, a.etag) {
			w.WriteHeader(http.StatusNotModified)
			return
		}
	}
	to.Set("Content-Type", cmp.Or(a.kind, "text/html; charset=utf-8"))
	size := len(a.body)
	if r.Method == http.MethodHead {
		size = 0
	}
	reading, err := h.reserve(w, r, size)
	if err != nil {
		to.Del("ETag")
		h.refuseLarge(w)
		return
	}
	defer reading.end()
	to.Set("Content-Length", strconv.Itoa(len(a.body)))
	w.WriteHeader(a.status)
	if r.Method == http.MethodHead {
		return
	}
	for body := a.body; len(body) > 0; {
		n := min(len(body), largePage)
		if _, err := w.Write(body[:n]); err != nil {
			h.cfg.Log.Debug("send a page", "path", r.URL.Path, "err", err)
			return
		}
		body = body[n:]
		reading.moved()
	}
}

// reading is a client that gets a large page, or nil for a small one.
type reading struct{ hold *bound.Hold }

// reserve counts a page of that size. The client loses its connection when others need the room.
func (h *Handler) reserve(w http.ResponseWriter, r *http.Request, size int) (*reading, error) {
	if size < largePage {
		return nil, nil
	}
	controller := http.NewResponseController(w)
	amount := min(int64(size), bound.Share(h.sending.Spec().Total))
	hold, err := h.sending.Displace(h.cfg.Client(r), amount, func() { _ = controller.SetWriteDeadline(time.Unix(1, 0)) })
	if err != nil {
		return nil, err
	}
	return &reading{hold}, nil
}

func (h *Handler) refuseLarge(w http.ResponseWriter) {
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("Retry-After", "5")
	http.Error(w, busy.Title, http.StatusServiceUnavailable)
}

// moved says that the client has read something.
func (r *reading) moved() {
	if r != nil {
		r.hold.Touch()
	}
}

func (r *reading) end() {
	if r != nil {
		r.hold.Release()
	}
}
