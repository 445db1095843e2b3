package relay

import (
	"context"
	"errors"
	"io"
	"unicode/utf8"

	"github.com/gobwas/ws"
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
