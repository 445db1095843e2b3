package githttp

import (
	"bytes"
	"compress/flate"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
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
	over      error     // if more comes
	stall     time.Duration
	waited    time.Duration // for the bytes below
	moved     int           // since waited began
	in        counter
	err       error

	due     time.Time     // when all that is read now must be here, but for 32 KiB in each second more; zero for no bound
	counted int64         // bytes of raw since due was set
	feeding chan struct{} // closed when a goroutine that reads has ended; nil without one

	mu          sync.Mutex // guards what follows, and the deadline
	done        bool       // raw has ended
	interrupted bool
}

type counter interface{ Add(float64) }

func (h *Handler) openBody(w http.ResponseWriter, r *http.Request, limit int64) (*body, error) {
	b := &body{rc: http.NewResponseController(w), raw: r.Body, remaining: limit, over: errTooLarge, stall: h.limits.Stall, in: h.metrics.received}
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

// drain reads what is left of the body, up to a number of bytes and a time, for most
// clients send all of it before they
// look at the answer. If that is too much, the connection ends: net/http would read
// the body's end itself, at the same time as the next request.
func (b *body) drain(bytes int64, limit time.Duration) {
	late := time.AfterFunc(limit, b.interrupt)
	defer late.Stop()
	if b.feeding != nil {
		<-b.feeding
	}
	if !b.ended() && !errors.Is(b.err, os.ErrDeadlineExceeded) { // one that came to a halt is not waited for
		_, _ = io.Copy(io.Discard, io.LimitReader(rawBody{b}, bytes))
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

// bound lets at most these bytes more come. If more come, reads fail with an error.
func (b *body) bound(bytes int64, over error) {
	if bytes < b.remaining {
		b.remaining, b.over = max(bytes, 0), over
	}
}

// Read fails where the bound is passed.
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
		n, err = n-1, b.over
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

// limitTime bounds the time in which the client must send what is read from now on: d, and a
// second more for each 32 KiB. 0 lifts the bound.
func (b *body) limitTime(d time.Duration) {
	b.due, b.counted = time.Time{}, 0
	if d > 0 {
		b.due = time.Now().Add(d)
	}
}

// follow ends the reads when others need the place of a task.
func (b *body) follow(t *gitrepo.Task) { onDisplaced(t, b.interrupt) }

// onDisplaced calls f when others need the place of a task.
func onDisplaced(t *gitrepo.Task, f func()) (stop func() bool) {
	return context.AfterFunc(t.Context(), func() {
		if errors.Is(context.Cause(t.Context()), gitrepo.ErrDisplaced) {
			f()
		}
	})
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
	limit := b.stall - b.waited
	if !b.due.IsZero() {
		limit = min(limit, time.Until(b.due)+time.Duration(b.counted>>15)*time.Second)
	}
	b.await(limit)
	began := time.Now()
	n, err := b.raw.Read(p)
	b.in.Add(float64(n))
	b.counted += int64(n)
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

	task   *gitrepo.Task // of the git whose output is sent; nil for none
	unbind func() bool   // ends what follow began

	mu  sync.Mutex // guards cut, and the deadline
	cut bool       // the client is not waited for

	packets packets // that were sent
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

// follow has others get the slot of a task while the client does not read. It cuts the client
// off when they need the task's place. Nil ends that.
func (a *answer) follow(t *gitrepo.Task) {
	if a.unbind != nil {
		a.unbind()
		a.unbind = nil
	}
	if a.task = t; t != nil {
		a.unbind = onDisplaced(t, a.cutOff)
	}
}

// cutOff ends the answer soon. Any goroutine may call it while the request is served.
func (a *answer) cutOff() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.cut = true
	_ = a.rc.SetWriteDeadline(time.Now().Add(cutTime))
}

// cutTime is how long a client that is cut off has to read why.
const cutTime = time.Second

// await calls f, which writes to the client.
func (a *answer) await(f func() error) (err error) {
	a.mu.Lock()
	if !a.cut {
		_ = a.rc.SetWriteDeadline(time.Now().Add(a.stall))
	}
	a.mu.Unlock()
	if a.task == nil {
		return f()
	}
	lost := a.task.Await(func() { err = f() })
	if lost != nil && err == nil && !errors.Is(lost, gitrepo.ErrDisplaced) { // the client gets what git has written
		err = lost
	}
	return err
}

func (a *answer) send(p []byte) (n int, err error) {
	err = a.await(func() error {
		n, err = a.w.Write(p)
		return err
	})
	a.out.Add(float64(n))
	a.packets.add(p[:n])
	return n, err
}

// finish sends what was written, and lifts the deadline for what comes next on the
// connection.
func (a *answer) finish() {
	if !a.begun {
		return
	}
	a.follow(nil)
	a.endZip()
	if a.await(a.rc.Flush) == nil {
		_ = a.rc.SetWriteDeadline(time.Time{})
	}
}

// flush sends what was written, unless it is compressed.
func (a *answer) flush() error {
	if a.zip != nil {
		return nil
	}
	return a.await(a.rc.Flush)
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
			if n < len(buf) {
				if err := a.flush(); err != nil {
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

// writeError ends an answer that has begun with an error that git shows, if the client has
// read all packets that it was sent.
func (a *answer) writeError(reason string) {
	if text := a.packets.appendError(nil, reason); text != nil {
		_, _ = a.Write(text)
	}
}

// packets follows the pkt-lines of an answer, so that an error can be said between two.
type packets struct {
	head  []byte // the beginning of a line whose length is not known yet
	left  int    // bytes that are missing of the line
	first bool   // the next byte is the first of a payload
	band  byte   // the side band of the last line; 0 for none
	none  bool   // the answer is of other things than pkt-lines
}

// add follows bytes of the answer.
func (k *packets) add(p []byte) {
	for len(p) > 0 && !k.none {
		if k.left > 0 {
			if k.first {
				k.band, k.first = 0, false
				if p[0] == 1 || p[0] == 2 {
					k.band = p[0]
				}
			}
			n := min(k.left, len(p))
			k.left -= n
			p = p[n:]
			continue
		}
		n := min(4-len(k.head), len(p))
		k.head = append(k.head, p[:n]...)
		p = p[n:]
		if len(k.head) < 4 {
			return
		}
		length, ok := gitrepo.PktLength(k.head)
		k.head, k.none = k.head[:0], !ok
		k.left, k.first = max(0, length-4), true
	}
}

// appendError appends an error to an answer. It returns nil in the middle of a line, and
// where an error is not understood.
func (k *packets) appendError(buf []byte, reason string) []byte {
	switch {
	case k.none || k.left > 0 || len(k.head) > 0:
		return nil
	case k.band > 0:
		return gitrepo.AppendPkt(buf, "\x03", oneLine(reason), "\n")
	}
	return appendError(buf, reason)
}

// maxPkt is the longest pkt-line, its length included.
const maxPkt = 65520

var errPkt = errors.New("a length that no pkt-line has")

// readPkt reads a pkt-line onto the end of buf. The payload is nil for a flush packet. The line
// adds len(line) bytes to buf.
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
		defer func() {
			if p := recover(); p != nil {
				_ = h.cfg.Panics.Record(p) // the client hears nothing more before the report
			}
		}()
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
