package relay

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"testing"

	"github.com/gobwas/ws"
	"github.com/klauspost/compress/flate"

	"talon/host/inflate"
)

// frame compiles a masked frame.
func frame(op ws.OpCode, fin bool, rsv byte, payload string) []byte {
	f := ws.NewFrame(op, fin, []byte(payload))
	f.Header.Rsv = rsv
	return ws.MustCompileFrame(ws.MaskFrame(f))
}

func closeBody(code ws.StatusCode, reason string) string {
	return string(ws.NewCloseFrameBody(code, reason))
}

// TestBadFrames checks that a violation of the websocket protocol ends the connection, with the
// code that names it.
func TestBadFrames(t *testing.T) {
	const rsv1 = 4
	lie := func(n uint64) []byte { // claims n bytes and sends none
		b := []byte{0x81, 0xff}
		b = binary.BigEndian.AppendUint64(b, n)
		return append(b, 0, 0, 0, 0)
	}
	tests := []struct {
		name string
		send [][]byte
		want ws.StatusCode
	}{
		{"not masked", [][]byte{ws.MustCompileFrame(ws.NewTextFrame([]byte("[]")))}, 1002},
		{"reserved bit", [][]byte{frame(ws.OpText, true, 2, "[]")}, 1002},
		{"compressed without negotiation", [][]byte{frame(ws.OpText, true, rsv1, "[]")}, 1002},
		{"reserved data opcode", [][]byte{frame(3, true, 0, "[]")}, 1002},
		{"reserved control opcode", [][]byte{frame(11, true, 0, "")}, 1002},
		{"binary", [][]byte{frame(ws.OpBinary, true, 0, "[]")}, 1003},
		{"binary fragment", [][]byte{frame(ws.OpBinary, false, 0, "[")}, 1003},
		{"over-long ping", [][]byte{frame(ws.OpPing, true, 0, strings.Repeat("x", 126))}, 1002},
		{"fragmented ping", [][]byte{frame(ws.OpPing, false, 0, "x")}, 1002},
		{"continuation of nothing", [][]byte{frame(ws.OpContinuation, true, 0, "x")}, 1002},
		{"text in a fragmented text", [][]byte{frame(ws.OpText, false, 0, "["), frame(ws.OpText, true, 0, "]")}, 1002},
		{"invalid UTF-8", [][]byte{frame(ws.OpText, true, 0, "[\"\xff\"]")}, 1007},
		{"invalid UTF-8 in a fragment", [][]byte{frame(ws.OpText, false, 0, "[\"\xc3"), frame(ws.OpContinuation, true, 0, "x\"]")}, 1007},
		{"claims 50 MB", [][]byte{lie(50 << 20)}, 1009},
		{"claims 2^63-1 bytes", [][]byte{lie(1<<63 - 1)}, 1009},
		{"negative length", [][]byte{lie(1 << 63)}, 1002},
		{"too long", [][]byte{frame(ws.OpText, true, 0, strings.Repeat("x", 1025))}, 1009},
		{"too long in fragments", [][]byte{
			frame(ws.OpText, false, 0, strings.Repeat("x", 1000)), frame(ws.OpContinuation, false, 0, strings.Repeat("x", 1000)),
		}, 1009},
		{"close", [][]byte{frame(ws.OpClose, true, 0, closeBody(1000, "bye"))}, 1000},
		{"close with our own code", [][]byte{frame(ws.OpClose, true, 0, closeBody(4000, ""))}, 4000},
		{"close without a code", [][]byte{frame(ws.OpClose, true, 0, "")}, 1000},
		{"close with half a code", [][]byte{frame(ws.OpClose, true, 0, "x")}, 1002},
		{"close with a reserved code", [][]byte{frame(ws.OpClose, true, 0, closeBody(1005, ""))}, 1002},
		{"close with invalid UTF-8", [][]byte{frame(ws.OpClose, true, 0, closeBody(1000, "\xff"))}, 1002},
	}
	w := newWorld(t, limit(func(l *Limits) { l.MessageBytes = 1024 }))
	other := w.dial()
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c := w.dial()
			c.t = t
			for _, b := range tt.send {
				c.write(b)
			}
			if code, reason := c.closed(); code != tt.want {
				t.Errorf("closed with %d %q, want %d", code, reason, tt.want)
			}
		})
	}
	other.ask(`["REQ","a",{}]`, `["EOSE","a"]`)
}

// A client that sends far too much still reads why it was cut off.
func TestFloodOfOneMessage(t *testing.T) {
	w := newWorld(t)
	c := w.dial()
	big := ws.MustCompileFrame(ws.MaskFrame(ws.NewTextFrame(make([]byte, 50<<20))))
	sent := make(chan error, 1)
	go func() { _, err := c.net.Write(big); sent <- err }()
	if code, reason := c.closed(); code != 1009 {
		t.Errorf("closed with %d %q", code, reason)
	}
	c.net.Close()
	<-sent
}

// Messages arrive whole, however they are cut into frames and segments.
func TestFragments(t *testing.T) {
	w := newWorld(t)
	c := w.dial()
	e := event(1, 1, 1000, strings.Repeat("é", 40_000))
	text := eventMessage(e)
	var stream []byte
	for i := 0; i < len(text); {
		n := min(len(text)-i, rand.IntN(3000))
		op := ws.OpContinuation
		if i == 0 {
			op = ws.OpText
			n = max(n, 1)
		}
		stream = append(stream, frame(op, i+n == len(text), 0, text[i:i+n])...)
		stream = append(stream, frame(ws.OpPing, true, 0, "between")...)
		i += n
	}
	stream = append(stream, frame(ws.OpText, true, 0, `["CLOSE","x"]`)...)
	stream = append(stream, frame(ws.OpText, true, 0, `["REQ","a",{}]`)...)
	for len(stream) > 0 {
		n := min(len(stream), 1+rand.IntN(5000))
		c.write(stream[:n])
		stream = stream[n:]
	}
	c.expect(okMessage(e, `true,""`), subMessage("a", e), `["EOSE","a"]`)
}

func TestPing(t *testing.T) {
	w := newWorld(t)
	c := w.dial()
	c.write(frame(ws.OpPong, true, 0, "nobody asked"))
	c.write(frame(ws.OpPing, true, 0, "hello"))
	f, err := c.next()
	if err != nil || f.Header.OpCode != ws.OpPong || string(f.Payload) != "hello" {
		t.Errorf("got %v %q, %v", f.Header, f.Payload, err)
	}
}

// deflateClient offers compression.
func deflateClient(w *world, offer string) *client {
	c := w.connect(http.Header{"Sec-Websocket-Extensions": {offer}})
	f, err := c.next()
	if err != nil || f.Header.OpCode != ws.OpText {
		w.t.Fatalf("no challenge: %v", err)
	}
	return c
}

func deflated(text string) string {
	var b bytes.Buffer
	w, _ := flate.NewWriter(&b, 9)
	io.WriteString(w, text)
	w.Flush()
	return strings.TrimSuffix(b.String(), inflate.SyncTail)
}

func TestCompression(t *testing.T) {
	offers := []string{
		"permessage-deflate",
		"permessage-deflate; client_max_window_bits",
		"x-unknown; a=b, permessage-deflate; client_no_context_takeover; server_no_context_takeover",
		"permessage-deflate; nonsense=1, permessage-deflate",
	}
	for _, offer := range offers {
		t.Run(offer, func(t *testing.T) {
			w := newWorld(t, limit(func(l *Limits) { l.CompressFrom = 1024 }))
			long := event(1, 1, 1000, strings.Repeat("tell me again ", 200))
			short := event(1, 1, 1001, "short")
			w.publish(long, short)
			c := deflateClient(w, offer)
			for range 2 { // no window is kept between messages
				// In two fragments: the bit stands on the first alone.
				packed := deflated(`["REQ","a",{}]`)
				c.write(frame(ws.OpText, false, 4, packed[:3]))
				c.write(frame(ws.OpContinuation, true, 0, packed[3:]))
				for _, want := range []struct {
					text   string
					packed bool
				}{{subMessage("a", short), false}, {subMessage("a", long), true}, {`["EOSE","a"]`, false}} {
					f, err := c.next()
					if err != nil {
						t.Fatal(err)
					}
					text := plainText(t, &f)
					if withoutHint(text) != want.text || f.Header.Rsv1() != want.packed {
						t.Fatalf("got %s, compressed %v\nwant %s, %v", text, f.Header.Rsv1(), want.text, want.packed)
					}
				}
			}
		})
	}
}

func TestBadCompression(t *testing.T) {
	tests := []struct {
		name string
		send []byte
		want ws.StatusCode
	}{
		{"bomb", frame(ws.OpText, true, 4, deflated(strings.Repeat(" ", 50<<20))), 1009},
		{"damaged", frame(ws.OpText, true, 4, "\xff\xff\xff\xff"), 1007},
		{"cut short", frame(ws.OpText, true, 4, deflated(strings.Repeat("abcdefg", 100))[:8]), 1007},
		{"invalid UTF-8", frame(ws.OpText, true, 4, deflated("\"\xff\"")), 1007},
		{"compressed ping", frame(ws.OpPing, true, 4, "x"), 1002},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(t)
			c := deflateClient(w, "permessage-deflate")
			c.write(tt.send)
			if code, reason := c.closed(); code != tt.want {
				t.Errorf("closed with %d %q, want %d", code, reason, tt.want)
			}
		})
	}
}

func TestCompressionIsDeclined(t *testing.T) {
	w := newWorld(t, limit(func(l *Limits) { l.CompressFrom = 0 }))
	c := deflateClient(w, "permessage-deflate")
	c.write(frame(ws.OpText, true, 4, deflated(`["REQ","a",{}]`)))
	if code, _ := c.closed(); code != 1002 {
		t.Errorf("closed with %d", code)
	}
}

func TestInflateLimit(t *testing.T) {
	for _, n := range []int{0, 1, 99, 100, 101, 5000} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			b := &buffer{}
			err := decompress(b, []byte(deflated(strings.Repeat("x", n))), 100)
			if fits := n <= 100; (err == nil) != fits || fits && len(b.b) != n {
				t.Errorf("got %d bytes, %v", len(b.b), err)
			}
		})
	}
}
