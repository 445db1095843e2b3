package relayclient

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"strings"
	"testing"

	"github.com/gobwas/httphead"
	"github.com/gobwas/ws"
	"github.com/gobwas/ws/wsflate"
	"github.com/klauspost/compress/flate"

	"talon/host/inflate"
)

// packing is a server that compresses as it was asked.
func packing(t *testing.T, p wsflate.Parameters, play func(f *fake)) string {
	return listenRaw(t, func(c net.Conn) {
		u := ws.Upgrader{Negotiate: func(o httphead.Option) (httphead.Option, error) {
			if string(o.Name) != "permessage-deflate" {
				t.Errorf("the client offers %s", o.Name)
			}
			return p.Option(), nil
		}}
		if _, err := u.Upgrade(c); err != nil {
			t.Error(err)
			return
		}
		play(&fake{t, c})
	})
}

func packed(t *testing.T, text []byte) ws.Frame {
	f, err := wsflate.CompressFrame(ws.NewTextFrame(text))
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func TestCompressed(t *testing.T) {
	text := []byte(`["NOTICE","` + strings.Repeat("compressible ", 1000) + `"]`)
	address := packing(t, offered, func(f *fake) {
		whole := packed(t, text)
		_ = ws.WriteFrame(f.net, whole)
		// In fragments; only the first says that the message is compressed.
		half := len(whole.Payload) / 2
		first := ws.NewFrame(ws.OpText, false, whole.Payload[:half])
		first.Header.Rsv = ws.Rsv(true, false, false)
		_ = ws.WriteFrame(f.net, first)
		_ = ws.WriteFrame(f.net, ws.NewPingFrame(nil))
		_ = ws.WriteFrame(f.net, ws.NewFrame(ws.OpContinuation, true, whole.Payload[half:]))
		_ = ws.WriteFrame(f.net, ws.NewTextFrame([]byte("plain")))
		_ = ws.WriteFrame(f.net, packed(t, bytes.Repeat([]byte("x"), 20_001)))
		f.gone()
	})
	s, err := DialSocket(soon(t), address, SocketOptions{Compress: true, MessageBytes: 20_000})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for _, want := range []string{string(text), string(text), "plain"} {
		if got, err := s.Read(); err != nil || string(got) != want {
			t.Fatalf("%.50q, %v; want %.50q", got, err, want)
		}
	}
	// A small message that grows beyond the bound.
	if got, err := s.Read(); !errors.Is(err, ErrWebsocket) {
		t.Errorf("%d bytes, %v", len(got), err)
	}
	if n := s.Received(); n < 100 || n > 2000 {
		t.Errorf("%d bytes received", n)
	}
}

// A server may keep its window although it was asked not to.
func TestCompressedWithWindow(t *testing.T) {
	var stream bytes.Buffer
	w, err := flate.NewWriter(&stream, flate.BestSpeed)
	if err != nil {
		t.Fatal(err)
	}
	var texts []string
	random := rand.New(rand.NewPCG(1, 2))
	for n := range 40 {
		text := fmt.Sprintf(`["EVENT","s%d",%q]`, n, strings.Repeat("the same text ", 20)+fmt.Sprintf("%x", random.Uint64()))
		switch {
		case n%8 == 3: // longer than the window
			text += strings.Repeat(fmt.Sprintf("%x", random.Uint64()), 3000)
		case n%8 == 5:
			text = "x"
		}
		texts = append(texts, text)
	}
	address := packing(t, wsflate.Parameters{ClientNoContextTakeover: true}, func(f *fake) {
		for n, text := range texts {
			stream.Reset()
			_, _ = w.Write([]byte(text))
			_ = w.Flush()
			frame := ws.NewTextFrame(bytes.TrimSuffix(stream.Bytes(), []byte(inflate.SyncTail)))
			frame.Header.Rsv = ws.Rsv(true, false, false)
			_ = ws.WriteFrame(f.net, frame)
			if n%5 == 0 {
				_ = ws.WriteFrame(f.net, ws.NewTextFrame([]byte("plain")))
			}
		}
		f.gone()
	})
	s, err := DialSocket(soon(t), address, SocketOptions{Compress: true, MessageBytes: 100_000})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for n, want := range texts {
		if got, err := s.Read(); err != nil || string(got) != want {
			t.Fatalf("message %d: %.50q, %v; want %.50q", n, got, err, want)
		}
		if n%5 == 0 {
			if got, err := s.Read(); err != nil || string(got) != "plain" {
				t.Fatalf("after message %d: %.50q, %v", n, got, err)
			}
		}
	}
}

func TestCompressionRefused(t *testing.T) {
	for name, tt := range map[string]struct {
		p    wsflate.Parameters
		play func(f *fake)
		read bool
	}{
		"no deflate": {p: offered, read: true, play: func(f *fake) {
			bad := ws.NewTextFrame([]byte{0xff, 0xff, 0xff})
			bad.Header.Rsv = ws.Rsv(true, false, false)
			_ = ws.WriteFrame(f.net, bad)
			f.gone()
		}},
		"a compressed continuation": {p: offered, read: true, play: func(f *fake) {
			_ = ws.WriteFrame(f.net, ws.NewFrame(ws.OpText, false, []byte("x")))
			bad := ws.NewFrame(ws.OpContinuation, true, []byte("x"))
			bad.Header.Rsv = ws.Rsv(true, false, false)
			_ = ws.WriteFrame(f.net, bad)
			f.gone()
		}},
	} {
		t.Run(name, func(t *testing.T) {
			s, err := DialSocket(soon(t), packing(t, tt.p, tt.play), SocketOptions{Compress: true})
			if err == nil {
				defer s.Close()
				if !tt.read {
					t.Fatal("it was taken")
				}
				_, err = s.Read()
			}
			if !errors.Is(err, ErrWebsocket) && !errors.Is(err, ErrHandshake) {
				t.Errorf("%v", err)
			}
		})
	}
}
