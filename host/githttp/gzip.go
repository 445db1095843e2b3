package githttp

import (
	"compress/gzip"
	"net/http"
	"strconv"
	"strings"
	"sync"
)

// gzipFrom is the size from which what a client may have compressed is: a smaller
// advertisement fits a packet or two anyway.
const gzipFrom = 1400

// zippers are gzip.Writers that nobody uses: one takes most of a megabyte. Names of refs
// are what shrinks, at any level.
var zippers = sync.Pool{New: func() any {
	z, err := gzip.NewWriterLevel(nil, gzip.BestSpeed)
	if err != nil {
		panic(err) // the level is a constant
	}
	return z
}}

// zip compresses an answer that is longer than gzipFrom.
type zip struct {
	held []byte       // the start of the answer, until it is known how long it is
	w    *gzip.Writer // nil until then
}

// offer lets the answer be compressed if the client takes that.
func (a *answer) offer(r *http.Request) {
	a.w.Header().Add("Vary", "Accept-Encoding")
	if r.Method != http.MethodHead && acceptsGzip(r.Header) {
		a.zip = new(zip)
	}
}

// writeZip compresses p, or keeps it while the answer is short.
func (a *answer) writeZip(p []byte) (int, error) {
	z := a.zip
	if z.w != nil {
		return z.w.Write(p)
	}
	z.held = append(z.held, p...)
	if len(z.held) < gzipFrom {
		return len(p), nil
	}
	a.w.Header().Set("Content-Encoding", "gzip")
	z.w = zippers.Get().(*gzip.Writer)
	z.w.Reset(sent{a})
	held := z.held
	z.held = nil
	if _, err := z.w.Write(held); err != nil {
		return 0, err
	}
	return len(p), nil
}

// endZip sends what has not been sent.
func (a *answer) endZip() {
	z := a.zip
	a.zip = nil
	switch {
	case z == nil:
	case z.w == nil:
		_, _ = a.send(z.held)
	default:
		_ = z.w.Close() // a client that is gone
		z.w.Reset(nil)
		zippers.Put(z.w)
	}
}

// sent is what goes to the client as it is.
type sent struct{ *answer }

func (s sent) Write(p []byte) (int, error) { return s.send(p) }

// acceptsGzip reports whether a client takes gzip (RFC 9110, 12.5.3).
func acceptsGzip(h http.Header) bool {
	any := false
	for _, line := range h.Values("Accept-Encoding") {
		for coding := range strings.SplitSeq(line, ",") {
			name, parameters, _ := strings.Cut(coding, ";")
			name = strings.ToLower(strings.TrimSpace(name))
			switch name {
			case "gzip", "x-gzip":
				return wanted(parameters)
			case "*":
				any = wanted(parameters)
			}
		}
	}
	return any
}

// wanted reports whether the parameters of a coding do not give it the weight 0.
func wanted(parameters string) bool {
	for p := range strings.SplitSeq(parameters, ";") {
		name, value, _ := strings.Cut(p, "=")
		if strings.EqualFold(strings.TrimSpace(name), "q") {
			q, err := strconv.ParseFloat(strings.TrimSpace(value), 64)
			return err == nil && q > 0
		}
	}
	return true
}
