package server

import (
	"bufio"
	"bytes"
	"io"
	"net"
	"sync"

	"github.com/gobwas/ws"
	"github.com/gobwas/ws/wsflate"
	"github.com/gobwas/ws/wsutil"
	"github.com/klauspost/compress/flate"

	"talon/host/inflate"
	"talon/host/relaymodel"
)

const (
	maxQueued = 32 << 20 // bytes that a client has not taken
	maxRead   = 64 << 20 // bytes of a client's message, whatever the profile says
)

// conn is one client.
type conn struct {
	server  *Server
	id      uint64
	deflate bool

	mu     sync.Mutex // guards the fields below
	net    net.Conn   // nil until the handshake is done
	frames []ws.Frame // that are to be sent
	queued int        // bytes of these
	ending bool       // nothing more is queued; the connection ends when all is sent
	signal chan struct{}
}

func newConn(s *Server) *conn { return &conn{server: s, signal: make(chan struct{}, 1)} }

// queue takes what the relay does on the connection.
func (c *conn) queue(e relaymodel.Effect) {
	switch {
	case e.Frame != nil:
		c.push(ws.NewTextFrame(e.Frame), false)
	case e.Code != 0:
		c.push(ws.NewCloseFrame(ws.NewCloseFrameBody(ws.StatusCode(e.Code), e.Reason)), true)
	default:
		c.push(ws.Frame{}, true)
	}
}

// push queues a frame; one without an opcode only ends the connection.
func (c *conn) push(f ws.Frame, last bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ending {
		return
	}
	c.ending = last
	if f.Header.OpCode != 0 {
		c.frames = append(c.frames, f)
		if c.queued += len(f.Payload); c.queued > maxQueued {
			c.frames, c.ending = nil, true
		}
	}
	select {
	case c.signal <- struct{}{}:
	default:
	}
}

// abort ends the connection without sending what is queued.
func (c *conn) abort() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.frames, c.ending = nil, true
	if c.net != nil {
		_ = c.net.Close()
	}
	select {
	case c.signal <- struct{}{}:
	default:
	}
}

// begin serves the connection.
func (c *conn) begin(nc net.Conn, early *bufio.Reader) {
	c.mu.Lock()
	c.net = nc
	c.mu.Unlock()
	done := make(chan struct{})
	go func() {
		defer close(done)
		c.write(nc)
	}()
	go func() {
		defer c.server.running.Done()
		c.read(nc, early)
		c.server.gone(c)
		c.abort()
		<-done
	}()
}

// write sends what is queued until the connection ends.
func (c *conn) write(nc net.Conn) {
	defer nc.Close()
	out := bufio.NewWriterSize(nc, 16<<10)
	for {
		c.mu.Lock()
		frames, ending := c.frames, c.ending
		c.frames, c.queued = nil, 0
		c.mu.Unlock()
		for _, f := range frames {
			if ws.WriteFrame(out, c.packed(f)) != nil {
				return
			}
		}
		if out.Flush() != nil || ending {
			return
		}
		<-c.signal
	}
}

// packed compresses a frame where that was agreed upon.
func (c *conn) packed(f ws.Frame) ws.Frame {
	if !c.deflate || f.Header.OpCode != ws.OpText || len(f.Payload) < c.server.profile.Connection.CompressFrom {
		return f
	}
	w := compressors.Get().(*flate.Writer)
	defer compressors.Put(w)
	var b bytes.Buffer
	w.Reset(&b)
	if _, err := w.Write(f.Payload); err != nil || w.Flush() != nil {
		return f
	}
	f.Payload = bytes.TrimSuffix(b.Bytes(), []byte(inflate.SyncTail))
	f.Header.Length = int64(len(f.Payload))
	f.Header.Rsv = ws.Rsv(true, false, false)
	return f
}

var compressors = sync.Pool{New: func() any {
	w, err := flate.NewWriter(nil, flate.BestSpeed)
	if err != nil {
		panic(err) // the level is one of the library's
	}
	return w
}}

// read hands on what the client sends until the connection ends.
func (c *conn) read(nc net.Conn, early *bufio.Reader) {
	var compressed wsflate.MessageState
	state := ws.StateServerSide
	if c.deflate {
		state = state.Set(ws.StateExtended)
	}
	r := wsutil.Reader{Source: early, State: state, MaxFrameSize: maxRead}
	if c.deflate {
		r.Extensions = []wsutil.RecvExtension{&compressed}
	}
	r.OnIntermediate = c.control
	for {
		h, err := r.NextFrame()
		if err != nil {
			return
		}
		if h.OpCode.IsControl() {
			if c.control(h, &r) != nil {
				return
			}
			continue
		}
		text, err := io.ReadAll(io.LimitReader(&r, maxRead+1))
		if err != nil || len(text) > maxRead {
			return
		}
		if compressed.IsCompressed() {
			if text, err = inflate.Append(nil, text, maxRead); err != nil {
				return
			}
		}
		c.server.receive(c, text)
	}
}

// control answers a control frame.
func (c *conn) control(h ws.Header, r io.Reader) error {
	payload, err := io.ReadAll(r)
	if err != nil {
		return err
	}
	switch h.OpCode {
	case ws.OpPing:
		c.push(ws.NewPongFrame(payload), false)
	case ws.OpClose:
		c.push(ws.NewCloseFrame(payload), true)
	}
	return nil
}
