package githttp

import (
	"bytes"
	"compress/flate"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"

	"talon/host/gitrepo"
)

var (
	errTooLarge = errors.New("the body of the request is too large")
	errInflate  = errors.New("the body of the request is not gzip")
	errEncoding = errors.New("the body has a Content-Encoding other than gzip")
)

// body reads what a client sends: inflated, bounded, and only as long as it goes on.
// It belongs to one goroutine at a time.
type body struct {
	rc        *http.ResponseController
	raw       io.Reader
	plain     io.Reader // raw, inflated
	read      int64     // of plain
	remaining int64     // that may still come of it
	stall     time.Duration
	waited    time.Duration // for the bytes below
	moved     int           // since waited began
	in        counter
	err       error

	feeding chan struct{} // closed when a goroutine that reads has ended; nil without one

	mu          sync.Mutex // guards what follows, and the deadline
	done        bool       // raw has ended
	interrupted bool
}

type counter interface{ Add(float64) }

func (h *Handler) openBody(w http.ResponseWriter, r *http.Request, limit int64) (*body, error) {
	b := &body{rc: http.NewResponseController(w), raw: r.Body, remaining: limit, stall: h.limits.Stall, in: h.metrics.received}
	switch r.Header.Get("Content-Encoding") {
	case "", "identity":
		b.plain = rawBody{b}
	case "gzip", "x-gzip":
		b.plain = &lazyGzip{raw: rawBody{b}}
	default:
		return nil, errEncoding
	}
	return b, nil
}

// begin lets the answer begin before the request has ended. From then on the server
// leaves the body to us: drain must be called, as the last of all.
func (b *body) begin() error {
	if err := b.rc.EnableFullDuplex(); err != nil && !errors.Is(err, http.ErrNotSupported) {
		return fmt.Errorf("answer while reading: %w", err)
	}
	return nil
}

// drain reads what is left of the body, for most clients send all of it before they
// look at the answer. If that is too much, the connection ends: net/http would read
// the body's end itself, at the same time as the next request.
func (b *body) drain(l *Limits) {
	late := time.AfterFunc(l.DrainTime, b.interrupt)
	defer late.Stop()
	if b.feeding != nil {
		<-b.feeding
	}
	if !b.ended() {
		_, _ = io.Copy(io.Discard, io.LimitReader(rawBody{b}, l.DrainBytes))
	}
	if b.ended() {
		return
	}
	if conn, _, err := b.rc.Hijack(); err == nil {
		_ = conn.Close()
	}
}

// atEnd reports whether nothing more comes.
func (b *body) atEnd() bool {
	var one [1]byte
	n, err := b.Read(one[:])
	return n == 0 && err == io.EOF
}

// ended reports whether the body was read to its end.
func (b *body) ended() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.done
}

// Read fails with errTooLarge where the bound is passed.
func (b *body) Read(p []byte) (int, error) {
	if b.err != nil {
		return 0, b.err
	}
	// One byte more than allowed tells a body that is too long from one that fits.
	if int64(len(p)) > b.remaining+1 {
		p = p[:b.remaining+1]
	}
	n, err := b.plain.Read(p)
	b.read += int64(n)
	if b.remaining -= int64(n); b.remaining < 0 {
		n, err = n-1, errTooLarge
	}
	b.err = err
	return n, err
}

// interrupt ends a Read that waits, and those that follow. Any goroutine may call it.
func (b *body) interrupt() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.done {
		b.interrupted = true
		_ = b.rc.SetReadDeadline(time.Unix(1, 0))
	}
}

// await sets how long the next Read of raw may wait.
func (b *body) await(d time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.interrupted {
		_ = b.rc.SetReadDeadline(time.Now().Add(d))
	}
}

// finish says that raw has come to its end. The server itself reads on then, to learn whether
// the client goes away, and that may take as long as the answer does.
func (b *body) finish() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.done = true
	_ = b.rc.SetReadDeadline(time.Time{})
}

// rawBody is the body as it comes over the wire.
type rawBody struct{ *body }

func (b rawBody) Read(p []byte) (int, error) {
	b.await(b.stall - b.waited)
	began := time.Now()
	n, err := b.raw.Read(p)
	b.in.Add(float64(n))
	b.waited += time.Since(began)
	if b.moved += n; b.moved >= minProgress {
		b.waited, b.moved = 0, 0
	}
	if err == io.EOF {
		b.finish()
	}
	return n, err
}

// lazyGzip reads the gzip header when the first byte is asked for.
type lazyGzip struct {
	raw io.Reader
	z   *gzip.Reader
}

func (g *lazyGzip) Read(p []byte) (int, error) {
	if g.z == nil {
		z, err := gzip.NewReader(g.raw)
		if err != nil {
			return 0, inflateError(err)
		}
		g.z = z
	}
	n, err := g.z.Read(p)
	return n, inflateError(err)
}

// inflateError tells bytes that are not gzip from a client that is gone.
func inflateError(err error) error {
	var corrupt flate.CorruptInputError
	if errors.Is(err, gzip.ErrHeader) || errors.Is(err, gzip.ErrChecksum) || errors.As(err, &corrupt) {
		return fmt.Errorf("%w: %w", errInflate, err)
	}
	return err
}

// answer writes to a client, which must take what is written.
type answer struct {
	w     http.ResponseWriter
	rc    *http.ResponseController
	stall time.Duration
	out   counter
	begun bool // something was written
	zip   *zip // nil: it goes as it is
}

func (h *Handler) answer(w http.ResponseWriter) *answer {
	return &answer{w: w, rc: http.NewResponseController(w), stall: h.limits.Stall, out: h.metrics.sent}
}

func (a *answer) Write(p []byte) (int, error) {
	a.begun = true
	if a.zip != nil {
		return a.writeZip(p)
	}
	return a.send(p)
}

func (a *answer) send(p []byte) (int, error) {
	_ = a.rc.SetWriteDeadline(time.Now().Add(a.stall))
	n, err := a.w.Write(p)
	a.out.Add(float64(n))
	return n, err
}

// finish sends what was written, and lifts the deadline for what comes next on the
// connection.
func (a *answer) finish() {
	if !a.begun {
		return
	}
	a.endZip()
	_ = a.rc.SetWriteDeadline(time.Now().Add(a.stall))
	if a.rc.Flush() == nil {
		_ = a.rc.SetWriteDeadline(time.Time{})
	}
}

// copyFrom sends what git writes, as it comes: each piece is flushed when there is no
// more to be read behind it.
func (a *answer) copyFrom(r io.Reader) error {
	buf := make([]byte, minProgress)
	for {
		n, err := r.Read(buf)
		if n > 0 {
			if _, err := a.Write(buf[:n]); err != nil {
				return err
			}
			if n < len(buf) && a.zip == nil {
				if err := a.rc.Flush(); err != nil {
					return err
				}
			}
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// maxPkt is the longest pkt-line, its length included.
const maxPkt = 65520

var errPkt = errors.New("a length that no pkt-line has")

// readPkt reads a pkt-line onto the end of buf. The payload is nil for a flush
// packet. What the line takes of the input is len(line) more of buf.
func readPkt(r io.Reader, buf []byte) (line, payload []byte, err error) {
	at := len(buf)
	buf = append(buf, 0, 0, 0, 0)
	if _, err := io.ReadFull(r, buf[at:]); err != nil {
		return buf[:at], nil, err
	}
	n, ok := gitrepo.PktLength(buf[at:])
	if ok && n == 0 {
		return buf, nil, nil
	}
	if n < 4 || n > maxPkt {
		return buf, nil, errPkt
	}
	at += 4
	buf = append(buf, make([]byte, n-4)...)
	if _, err := io.ReadFull(r, buf[at:]); err != nil {
		if err == io.EOF {
			err = io.ErrUnexpectedEOF
		}
		return buf[:at], nil, err
	}
	return buf, buf[at:], nil
}

const flushPkt = "0000"

// maxMessages is how many pieces of what git says wait for the client.
const maxMessages = 64

// progress sends what git reports, and keepalives, to a client that waits for its push
// (side-band 2). It never blocks: what the client does not read in time is dropped.
type progress struct {
	messages chan []byte
	stop     func() // waits until all is said that git has said
}

// startProgress begins to send when the whole request was read: clients do not read before.
func (h *Handler) startProgress(w http.ResponseWriter, out *answer, c *commands, read <-chan struct{}) *progress {
	ended, silent := make(chan struct{}), make(chan struct{})
	v := &progress{messages: make(chan []byte, maxMessages)}
	v.stop = sync.OnceFunc(func() { close(ended); <-silent })
	go func() {
		defer close(silent)
		if c.sideband == 0 {
			return
		}
		select {
		case <-read:
		case <-ended:
			select {
			case <-read:
			default:
				return
			}
		}
		beat := time.NewTicker(h.keepalive)
		defer beat.Stop()
		for {
			pkt := gitrepo.AppendPkt(nil, "\x01") // nothing, in the band of the report
			select {
			case text := <-v.messages:
				pkt = gitrepo.AppendPkt(nil, "\x02", string(text))
			case <-beat.C:
			case <-ended:
				select {
				case text := <-v.messages: // the end of it, as a rule
					pkt = gitrepo.AppendPkt(nil, "\x02", string(text))
				default:
					return
				}
			}
			if !out.begun {
				head(w, pushAnswer)
			}
			if _, err := out.Write(pkt); err != nil || out.rc.Flush() != nil {
				return
			}
		}
	}()
	return v
}

// Write takes what git writes.
func (v *progress) Write(p []byte) (int, error) {
	const maximum = 900 // fits in each kind of side band
	for text := p; len(text) > 0; {
		n := min(len(text), maximum)
		select {
		case v.messages <- bytes.Clone(text[:n]):
		default:
		}
		text = text[n:]
	}
	return len(p), nil
}
