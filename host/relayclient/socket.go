package relayclient

import (
	"bufio"
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gobwas/httphead"
	"github.com/gobwas/ws"
	"github.com/gobwas/ws/wsflate"

	"talon/host/inflate"
)

// SocketOptions are the options of a websocket. The zero value is one without compression
// that connects to any address.
type SocketOptions struct {
	// MessageBytes bounds one message of the relay, also after decompression; 0 is
	// 4 MiB.
	MessageBytes int

	// Compress offers to take compressed messages (permessage-deflate, RFC 7692). Outgoing
	// messages are not compressed.
	Compress bool

	// Dial makes the network connection, such as that of a netguard.Guard; nil is
	// net.Dialer.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)

	// TLS is used for wss; nil is the default.
	TLS *tls.Config

	// UserAgent goes into the handshake.
	UserAgent string

	// Header has further fields of the handshake.
	Header http.Header
}

func (o *SocketOptions) setDefaults() { o.MessageBytes = cmp.Or(o.MessageBytes, 4<<20) }

// Socket is a websocket to a relay that is not trusted: text messages in both
// directions. One goroutine reads; any may write.
type Socket struct {
	net        net.Conn
	in         *bufio.Reader
	maxMessage int             // bytes of a message
	deflate    bool            // messages of the relay may be compressed
	window     *inflate.Window // nil: the relay keeps none between messages

	received atomic.Int64 // bytes of frames, as they came

	writing sync.Mutex // held for one frame
}

// DialSocket connects to a relay. The context bounds the time to connect, no more.
func DialSocket(ctx context.Context, address string, opts SocketOptions) (*Socket, error) {
	u, err := parseURL(address)
	if err != nil {
		return nil, err
	}
	opts.setDefaults()
	bounded := new(handshake)
	d := ws.Dialer{
		NetDial:   opts.Dial,
		TLSConfig: opts.TLS,
		WrapConn: func(c net.Conn) net.Conn {
			bounded.Conn, bounded.remaining = c, handshakeBytes
			return bounded
		},
	}
	header := opts.Header.Clone()
	if opts.UserAgent != "" {
		if header == nil {
			header = http.Header{}
		}
		header.Set("User-Agent", opts.UserAgent)
	}
	if header != nil {
		d.Header = ws.HandshakeHeaderHTTP(header)
	}
	if opts.Compress {
		d.Extensions = []httphead.Option{offered.Option()}
	}
	conn, early, shaken, err := d.Dial(ctx, u.String())
	if err != nil {
		return nil, dialError(ctx, err)
	}
	bounded.done()
	s := newSocket(conn, early, opts.MessageBytes)
	if err := s.agree(shaken.Extensions); err != nil {
		_ = conn.Close()
		return nil, fmt.Errorf("connect: %w", err)
	}
	return s, nil
}

// ErrHandshake is wrapped by errors of a server that answers, but not as a
// websocket does.
var ErrHandshake = errors.New("no relay is at this address")

// StatusError says that a server answered the handshake with another status than
// 101. It is an ErrHandshake.
type StatusError struct{ Status int }

func (e *StatusError) Error() string {
	if e.Status == http.StatusServiceUnavailable {
		return "the server is not ready: it answers with HTTP status 503"
	}
	return fmt.Sprintf("no relay is at this address: the server answers with HTTP status %d", e.Status)
}

func (e *StatusError) Unwrap() error { return ErrHandshake }

func dialError(ctx context.Context, err error) error {
	var status ws.StatusError
	switch {
	case ctx.Err() != nil:
		err = ctx.Err()
	case errors.As(err, &status):
		err = &StatusError{int(status)}
	case errors.Is(err, errHandshake), errors.Is(err, ws.ErrMalformedResponse), errors.As(err, new(ws.ProtocolError)),
		errors.Is(err, ws.ErrHandshakeBadProtocol), errors.Is(err, ws.ErrHandshakeBadUpgrade), errors.Is(err, ws.ErrHandshakeBadConnection),
		errors.Is(err, ws.ErrHandshakeBadSecAccept), errors.Is(err, ws.ErrHandshakeBadExtensions), errors.Is(err, ws.ErrHandshakeBadSubProtocol):
		err = fmt.Errorf("%w: %w", ErrHandshake, err)
	}
	return fmt.Errorf("connect: %w", err)
}

// offered asks for messages without a window between them, so that a connection holds no
// decompressor (RFC 7692, 7.1.1).
var offered = wsflate.Parameters{ServerNoContextTakeover: true, ClientNoContextTakeover: true}

// agree notes how the server compresses. Some servers keep a window although they were asked not
// to (uWebSockets, as strfry has it): the socket then keeps it too.
func (s *Socket) agree(list []httphead.Option) error {
	if len(list) == 0 {
		return nil
	}
	var p wsflate.Parameters
	if err := p.Parse(list[0]); err != nil || len(list) > 1 {
		return fmt.Errorf("%w: its compression is not the one that was offered", ErrHandshake)
	}
	s.deflate = true
	if !p.ServerNoContextTakeover {
		s.window = new(inflate.Window)
	}
	return nil
}

// newSocket makes the client's side of a websocket. The reader, if there is one,
// holds what came with the handshake.
func newSocket(conn net.Conn, early *bufio.Reader, limit int) *Socket {
	if early == nil {
		early = bufio.NewReader(conn)
	}
	return &Socket{net: conn, in: early, maxMessage: limit}
}

// Received returns the bytes of all frames so far.
func (s *Socket) Received() int64 { return s.received.Load() }

// Read returns the next text message. Control frames are handled on the way. The
// message belongs to the caller.
func (s *Socket) Read() ([]byte, error) {
	var msg []byte
	started, packed := false, false
	for {
		h, err := ws.ReadHeader(s.in)
		if err != nil {
			return nil, err
		}
		s.received.Add(int64(ws.HeaderSize(h)) + h.Length)
		state := ws.StateClientSide
		if started {
			state = state.Set(ws.StateFragmented)
		}
		first := !started && !h.OpCode.IsControl()
		if s.deflate && first && h.Rsv == ws.Rsv(true, false, false) {
			packed = true
			h.Rsv = 0
		}
		if err := ws.CheckHeader(h, state); err != nil {
			return nil, fmt.Errorf("%w: %w", ErrWebsocket, err)
		}
		if h.OpCode.IsControl() {
			if err := s.control(h); err != nil {
				return nil, err
			}
			continue
		}
		if h.OpCode == ws.OpBinary {
			return nil, errBinary
		}
		if h.Length > int64(s.maxMessage-len(msg)) {
			return nil, s.tooLong()
		}
		if msg, err = s.payload(msg, int(h.Length)); err != nil {
			return nil, err
		}
		if h.Fin {
			if packed {
				return s.inflate(msg)
			}
			return msg, nil
		}
		started = true
	}
}

// ErrWebsocket is wrapped by errors about what no relay may send.
var ErrWebsocket = errors.New("the relay breaks the websocket protocol")

var errBinary = fmt.Errorf("%w: the relay sent a binary message", ErrWebsocket)

// sizeError says that a message is too long. It is an ErrWebsocket, though no rule of
// that protocol is broken: nothing more can be read.
type sizeError struct{ max int }

func (e *sizeError) Error() string {
	return fmt.Sprintf("the relay sent a message of more than %d bytes", e.max)
}

func (e *sizeError) Unwrap() error { return ErrWebsocket }

func (s *Socket) tooLong() error { return &sizeError{s.maxMessage} }

// payload appends n bytes of input to msg, which grows with what arrives.
func (s *Socket) payload(msg []byte, n int) ([]byte, error) {
	for n > 0 {
		if _, err := s.in.Peek(1); err != nil {
			return nil, err
		}
		part, _ := s.in.Peek(min(n, s.in.Buffered()))
		msg = append(msg, part...)
		n -= len(part)
		_, _ = s.in.Discard(len(part))
	}
	return msg, nil
}

// control reads and answers a control frame, whose length was checked.
func (s *Socket) control(h ws.Header) error {
	p := make([]byte, h.Length)
	if _, err := io.ReadFull(s.in, p); err != nil {
		return err
	}
	switch h.OpCode {
	case ws.OpPing:
		return s.write(ws.NewPongFrame(p), writeTime)
	case ws.OpClose:
		if code, reason := ws.ParseCloseFrameData(p); reason != "" {
			return fmt.Errorf("the relay closed the connection (%d): %s", code, reason)
		}
		return io.EOF
	}
	return nil
}

// writeTime bounds the sending of one frame.
const writeTime = 30 * time.Second

// Write sends a text message.
func (s *Socket) Write(text []byte) error { return s.write(ws.NewTextFrame(text), writeTime) }

// Ping sends a ping: [Socket.Received] grows when the relay answers.
func (s *Socket) Ping() error { return s.write(ws.NewPingFrame(nil), writeTime) }

func (s *Socket) write(f ws.Frame, limit time.Duration) error {
	frame, err := ws.CompileFrame(ws.MaskFrame(f))
	if err != nil {
		return err
	}
	s.writing.Lock()
	defer s.writing.Unlock()
	_ = s.net.SetWriteDeadline(time.Now().Add(limit))
	_, err = s.net.Write(frame)
	return err
}

// goodbyeTime bounds the close frame: nothing depends on it.
const goodbyeTime = time.Second

// Goodbye sends a close frame, and closes the connection. It waits for a write that is
// under way.
func (s *Socket) Goodbye() error {
	_ = s.write(ws.NewCloseFrame(ws.NewCloseFrameBody(ws.StatusNormalClosure, "")), goodbyeTime)
	return s.net.Close()
}

// Close ends the connection immediately, also during a read or a write. It may be called
// more than once.
func (s *Socket) Close() error { return s.net.Close() }

// handshake is a connection that reads a limited number of bytes until done is called.
type handshake struct {
	net.Conn
	remaining int // -1: no bound
}

// handshakeBytes bounds what a relay may send before the first message.
const handshakeBytes = 64 << 10

var errHandshake = fmt.Errorf("the server sends more than %d bytes before the first message", handshakeBytes)

func (h *handshake) Read(p []byte) (int, error) {
	switch {
	case h.remaining < 0:
		return h.Conn.Read(p)
	case h.remaining == 0:
		return 0, errHandshake
	}
	n, err := h.Conn.Read(p[:min(len(p), h.remaining)])
	h.remaining -= n
	return n, err
}

func (h *handshake) done() { h.remaining = -1 }

// CheckURL returns an error if the address of a relay is not valid: ws://host[:port] or
// wss://host[:port], with or without a path. It does not quote the address.
func CheckURL(address string) error {
	_, err := parseURL(address)
	return err
}

func parseURL(address string) (*url.URL, error) {
	u, err := url.ParseRequestURI(address)
	switch {
	case err != nil || u.Scheme != "ws" && u.Scheme != "wss" || u.Host == "":
		return nil, errors.New("it must be written as ws://host:port or wss://host")
	case u.User != nil:
		return nil, errors.New("it must not have a user name or a password")
	case strings.Contains(address, "#"):
		return nil, errors.New("it must not have a fragment (#)")
	}
	return u, nil
}

var errClosed = errors.New("the connection is closed")

// inflate decompresses a message. It bounds the size of the result.
func (s *Socket) inflate(packed []byte) ([]byte, error) {
	grow := inflate.Append
	if s.window != nil {
		grow = s.window.Append
	}
	msg, err := grow(make([]byte, 0, min(4*len(packed)+64, s.maxMessage+1)), packed, s.maxMessage)
	switch {
	case errors.Is(err, inflate.ErrTooLong):
		return nil, s.tooLong()
	case err != nil:
		return nil, fmt.Errorf("%w: %w", ErrWebsocket, err)
	}
	return msg, nil
}
