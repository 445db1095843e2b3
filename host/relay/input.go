package relay

import (
	"context"
	"errors"
	"io"
	"net/netip"
	"sync"
	"unicode/utf8"

	"github.com/gobwas/ws"
	"github.com/gobwas/ws/wsflate"
	"github.com/klauspost/compress/flate"

	"talon/host/inflate"
)

// input is the reading side of a connection. It belongs to the connection's
// goroutine.
type input struct {
	conn *conn

	// An idle connection waits with these few bytes; only when they fill does it
	// take a buffer.
	first [64]byte

	buf  *readBuffer // nil while idle
	r, w int         // unread bytes of buf

	msg *buffer // a message that is not in buf as one piece
}

// Read reads the bytes that have arrived, and waits if there are none.
func (in *input) Read(p []byte) (int, error) {
	if in.r == in.w {
		if err := in.fill(); err != nil {
			return 0, err
		}
	}
	n := copy(p, in.buf[in.r:in.w])
	in.r += n
	return n, nil
}

// fill waits for input. REQUIRES: nothing unread.
func (in *input) fill() error {
	c := in.conn
	if err := c.beforeRead(); err != nil {
		return err
	}
	n, err := 0, error(nil)
	if in.buf == nil {
		if n, err = c.net.Read(in.first[:]); n > 0 {
			in.buf = readBuffers.Get().(*readBuffer)
			copy(in.buf[:], in.first[:n])
		}
	} else {
		n, err = c.net.Read(in.buf[:])
	}
	in.r, in.w = 0, n
	if n == 0 {
		if err == nil {
			err = io.ErrNoProgress
		}
		return err
	}
	c.relay.metrics.bytesIn.Add(uint64(n))
	c.afterRead(n)
	c.seen.Store(c.relay.cfg.Now().UnixNano())
	return nil
}

// release gives back what the last message and an empty buffer hold.
func (in *input) release() {
	if in.msg != nil {
		in.msg.free()
		in.msg = nil
	}
	if in.r == in.w && in.buf != nil {
		readBuffers.Put(in.buf)
		in.buf, in.r, in.w = nil, 0, 0
	}
}

// next returns the next text message, valid until the following call. Control
// frames are handled on the way. An error is an [*closeReason], or one of the network.
func (in *input) next(ctx context.Context) ([]byte, error) {
	in.release()
	c := in.conn
	limit := c.relay.cfg.Limits.MessageBytes
	var (
		started    bool // a first fragment has been read
		compressed bool
		size       int
	)
	for {
		h, err := ws.ReadHeader(in)
		if err != nil {
			if errors.Is(err, ws.ErrHeaderLengthMSB) || errors.Is(err, ws.ErrHeaderLengthUnexpected) {
				err = protocolError(err)
			}
			return nil, err
		}
		state := ws.StateServerSide
		if started {
			state = state.Set(ws.StateFragmented)
		}
		first := !started && h.OpCode.IsData()
		if c.deflate && first && h.Rsv1() {
			compressed = true
			h.Rsv &^= ws.Rsv(true, false, false)
		}
		if err := ws.CheckHeader(h, state); err != nil {
			return nil, protocolError(err)
		}
		if h.OpCode.IsControl() {
			// Frames that are no messages cost as much as one.
			if err := c.throttle(ctx, 1); err != nil {
				return nil, err
			}
			if err := in.control(h); err != nil {
				return nil, err
			}
			continue
		}
		if h.OpCode == ws.OpBinary {
			return nil, errBinary
		}
		if h.Length > int64(limit-size) {
			return nil, tooBig(limit)
		}
		n := int(h.Length)
		size += n
		if first && h.Fin && n <= in.w-in.r {
			msg := in.buf[in.r : in.r+n]
			in.r += n
			ws.Cipher(msg, h.Mask, 0)
			return in.finish(msg, compressed)
		}
		if !h.Fin {
			if err := c.throttle(ctx, 1); err != nil {
				return nil, err
			}
		}
		if !started || c.partial.Load() == 0 {
			c.partial.Store(c.relay.cfg.Now().UnixNano())
		}
		started = true
		if in.msg == nil {
			in.msg = smallBuffers.Get().(*buffer)
		}
		if err := in.payload(n, h.Mask); err != nil {
			return nil, err
		}
		if h.Fin {
			c.partial.Store(0)
			if len(in.msg.b) > freePartial {
				c.relay.reassembly.release(c)
			}
			return in.finish(in.msg.b, compressed)
		}
	}
}

// payload appends n bytes to the message. The buffer grows with what arrives, not
// with what the header claims.
func (in *input) payload(n int, mask [4]byte) error {
	for done := 0; done < n; {
		if in.r == in.w {
			if err := in.fill(); err != nil {
				return err
			}
		}
		part := in.buf[in.r:min(in.w, in.r+n-done)]
		in.r += len(part)
		ws.Cipher(part, mask, done)
		in.msg.b = append(in.msg.b, part...)
		done += len(part)
		in.conn.relay.reassembly.grow(in.conn, len(in.msg.b))
	}
	return nil
}

// finish decompresses the message and checks that it is text.
func (in *input) finish(msg []byte, compressed bool) ([]byte, error) {
	if compressed {
		plain := getBuffer()
		err := decompress(plain, msg, in.conn.relay.cfg.Limits.MessageBytes)
		in.msg.free()
		in.msg = plain
		if err != nil {
			return nil, err
		}
		msg = plain.b
	}
	if !utf8.Valid(msg) {
		return nil, errUTF8
	}
	return msg, nil
}

// control reads and answers a control frame.
func (in *input) control(h ws.Header) error {
	var payload [ws.MaxControlFramePayloadSize]byte
	p := payload[:h.Length]
	if _, err := io.ReadFull(in, p); err != nil {
		return err
	}
	ws.Cipher(p, h.Mask, 0)
	switch h.OpCode {
	case ws.OpPing:
		return in.conn.pong(p)
	case ws.OpClose:
		if len(p) == 0 {
			return peerClosed(0)
		}
		code, reason := ws.ParseCloseFrameDataUnsafe(p)
		if len(p) == 1 {
			code = 0
		}
		if err := ws.CheckCloseFrameData(code, reason); err != nil {
			return protocolError(err)
		}
		return peerClosed(code)
	}
	return nil
}

// freePartial is what every connection may hold of a message that is not complete,
// uncounted: as much as its read buffer.
const freePartial = readSize

// reassembly counts what all connections together hold of long messages that are not
// complete. Where that is more than Limits.PartialBytes, a connection is closed: of the
// network that holds the most, the one with the most. So whoever fills it makes room
// for others, and a client alone in its network is safe from those of another.
type reassembly struct {
	limit int

	mu    sync.Mutex // guards the fields below
	total int
	held  map[*conn]int
}

func newReassembly(limit int) *reassembly {
	return &reassembly{limit: limit, held: make(map[*conn]int)}
}

// grow records how many bytes of a message a connection holds. If all hold too many together, it
// closes as many connections as that takes.
func (a *reassembly) grow(c *conn, bytes int) {
	if bytes <= freePartial {
		return
	}
	for _, victim := range a.record(c, bytes) {
		victim.closeWith(errCrowded)
	}
}

// record is grow, and returns the connections that must close.
func (a *reassembly) record(c *conn, bytes int) (victims []*conn) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.total += bytes - a.held[c]
	a.held[c] = bytes
	for a.total > a.limit && len(a.held) > 0 {
		victim := a.largest()
		a.remove(victim) // it is closed in a moment, and must not be found again
		victims = append(victims, victim)
	}
	return victims
}

// release notes that a connection holds nothing any more.
func (a *reassembly) release(c *conn) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.remove(c)
}

// remove is release. REQUIRES: mu.
func (a *reassembly) remove(c *conn) {
	a.total -= a.held[c]
	delete(a.held, c)
}

// largest returns the connection with the most bytes, of the network with the most.
// Connections that are not counted by network are each by itself. REQUIRES: mu, and
// there is one.
func (a *reassembly) largest() (limit *conn) {
	networks := make(map[netip.Prefix]int)
	of := func(c *conn) int {
		if c.slot.IsValid() {
			return networks[c.slot]
		}
		return a.held[c]
	}
	for c, n := range a.held {
		if c.slot.IsValid() {
			networks[c.slot] += n
		}
	}
	for c, n := range a.held {
		if limit == nil || of(c) > of(limit) || of(c) == of(limit) && n > a.held[limit] {
			limit = c
		}
	}
	return limit
}

func (a *reassembly) bytes() float64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	return float64(a.total)
}

// deflateParameters keep no window between messages: a connection holds no
// compressor (RFC 7692, 7.1.1).
var deflateParameters = wsflate.Parameters{ServerNoContextTakeover: true, ClientNoContextTakeover: true}

var deflaters = sync.Pool{New: func() any {
	w, err := flate.NewWriter(nil, flate.BestSpeed)
	if err != nil {
		panic(err) // the level is a constant of the library
	}
	return w
}}

type bufferWriter struct{ *buffer }

func (w bufferWriter) Write(p []byte) (int, error) {
	w.b = append(w.b, p...)
	return len(p), nil
}

// appendDeflated appends the parts compressed as one message.
func appendDeflated(b *buffer, parts ...[]byte) {
	w := deflaters.Get().(*flate.Writer)
	w.Reset(bufferWriter{b})
	for _, p := range parts {
		_, _ = w.Write(p) // a buffer does not fail
	}
	_ = w.Flush()
	deflaters.Put(w)
	b.b = b.b[:len(b.b)-len(inflate.SyncTail)]
}

// decompress appends what data decompresses to, at most limit bytes.
func decompress(b *buffer, data []byte, limit int) (err error) {
	b.b, err = inflate.Append(b.b, data, limit)
	switch {
	case errors.Is(err, inflate.ErrTooLong):
		return tooBig(limit)
	case err != nil:
		return errInflate
	}
	return nil
}
