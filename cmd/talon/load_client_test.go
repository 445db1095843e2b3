//go:build linux

package main_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"runtime"
	"testing"
	"time"

	"github.com/gobwas/httphead"
	"github.com/gobwas/ws"
)

// peer is a websocket client that costs next to nothing, because it shares the
// processors with what it measures: it sends frames that were made before, and
// looks at the first bytes of those that it gets.
type peer struct {
	net.Conn
	buf  []byte
	r, w int
	got  int // bytes received so far
}

const peerBuffer = 64 << 10

var (
	eventPrefix  = []byte(`["EVENT"`)
	eosePrefix   = []byte(`["EOSE"`)
	authPrefix   = []byte(`["AUTH"`)
	closedPrefix = []byte(`["CLOSED"`)
	countPrefix  = []byte(`["COUNT"`)
	okPrefix     = []byte(`["OK","`)
	negMsgPrefix = []byte(`["NEG-MSG","n","`)
)

// dial connects to the server. With deflate it offers
// compression, and fails unless the server takes it.
func dial(tb testing.TB, s *server, deflate bool) *peer {
	tb.Helper()
	d := ws.Dialer{Timeout: 10 * time.Second}
	if deflate {
		d.Extensions = []httphead.Option{httphead.NewOption("permessage-deflate", map[string]string{
			"server_no_context_takeover": "", "client_no_context_takeover": "",
		})}
	}
	nc, early, hs, err := d.Dial(context.Background(), "ws://"+s.addr)
	if err != nil {
		tb.Fatal(err)
	}
	if deflate && len(hs.Extensions) == 0 {
		tb.Fatal("the server declined compression")
	}
	p := &peer{Conn: nc}
	if early != nil {
		p.buf = make([]byte, peerBuffer)
		p.w, _ = early.Read(p.buf[:early.Buffered()])
	}
	tb.Cleanup(func() { _ = nc.Close() })
	return p
}

// appendFrame appends a text frame. Its mask is zero, which leaves the text as it
// is; the server cannot know.
func appendFrame(b []byte, text string) []byte {
	switch n := len(text); {
	case n < 126:
		b = append(b, 0x81, 0x80|byte(n))
	case n < 1<<16:
		b = binary.BigEndian.AppendUint16(append(b, 0x81, 0x80|126), uint16(n))
	default:
		b = binary.BigEndian.AppendUint64(append(b, 0x81, 0x80|127), uint64(n))
	}
	return append(append(b, 0, 0, 0, 0), text...)
}

func (p *peer) send(tb testing.TB, text string) {
	tb.Helper()
	if _, err := p.Write(appendFrame(nil, text)); err != nil {
		tb.Fatal(err)
	}
}

// put publishes an event, and returns the answer and how long that took.
func (p *peer) put(tb testing.TB, e signed) (f frame, took time.Duration) {
	tb.Helper()
	began := time.Now()
	p.send(tb, `["EVENT",`+string(e.json)+`]`)
	f, err := p.next()
	if err != nil {
		tb.Fatal(err)
	}
	return f, time.Since(began)
}

// stored reports whether a frame is the answer to an event that was stored.
func (f frame) stored() bool {
	text, ok := bytes.CutPrefix(f.text, okPrefix)
	return ok && len(text) >= 70 && string(text[64:70]) == `",true`
}

// frame is a message of the server. It is valid until the next one is read.
type frame struct {
	compressed bool
	text       []byte
}

// next returns the next data frame; pings are left unanswered.
func (p *peer) next() (frame, error) {
	for {
		head, size, ok := p.header()
		if !ok || p.w-p.r < head+size {
			if err := p.fill(head + size); err != nil {
				return frame{}, err
			}
			continue
		}
		first := p.buf[p.r]
		text := p.buf[p.r+head : p.r+head+size]
		p.r += head + size
		switch first & 0x0f {
		case byte(ws.OpText):
			if bytes.HasPrefix(text, authPrefix) {
				continue // nobody asks who this is
			}
			return frame{first&0x40 != 0, text}, nil
		case byte(ws.OpClose):
			return frame{}, fmt.Errorf("the server closed: %q", text)
		}
	}
}

// buffered reports whether next would return without waiting.
func (p *peer) buffered() bool {
	head, size, ok := p.header()
	return ok && p.w-p.r >= head+size
}

// header reads the head of the frame at p.r, if it is here as a whole.
func (p *peer) header() (head, size int, ok bool) {
	b := p.buf[p.r:p.w]
	if len(b) < 2 {
		return 2, 0, false
	}
	switch n := int(b[1] & 0x7f); {
	case n < 126:
		return 2, n, true
	case n == 126 && len(b) >= 4:
		return 4, int(binary.BigEndian.Uint16(b[2:])), true
	case n == 127 && len(b) >= 10:
		return 10, int(binary.BigEndian.Uint64(b[2:])), true
	}
	return 10, 0, false
}

// fill reads more, and makes room for a frame of n bytes.
func (p *peer) fill(n int) error {
	if p.buf == nil {
		p.buf = make([]byte, peerBuffer)
	}
	if p.r > 0 {
		p.w = copy(p.buf, p.buf[p.r:p.w])
		p.r = 0
	}
	if n > len(p.buf) {
		p.buf = append(make([]byte, 0, 2*n), p.buf[:p.w]...)[:2*n]
	}
	got, err := p.Read(p.buf[p.w:])
	p.w += got
	p.got += got
	if got > 0 {
		runtime.Gosched() // to who waits for a small answer beside large ones
		return nil
	}
	if err == nil {
		err = io.ErrNoProgress
	}
	return err
}

// expect reads a message that must start with prefix, and leaves the peer as small
// as it was if there is no other behind it.
func (p *peer) expect(tb testing.TB, prefix []byte) {
	tb.Helper()
	f, err := p.next()
	if err != nil || !bytes.HasPrefix(f.text, prefix) {
		tb.Fatalf("no %s, but %.200s (%v)", prefix, f.text, err)
	}
	if p.r == p.w {
		p.buf, p.r, p.w = nil, 0, 0
	}
}

var errRefused = errors.New("the query was refused")

// query sends a REQ or COUNT and counts the events of its answer.
func (p *peer) query(req []byte) (events int, err error) {
	if _, err := p.Write(req); err != nil {
		return 0, err
	}
	for {
		f, err := p.next()
		if err != nil {
			return events, err
		}
		switch {
		case f.compressed || bytes.HasPrefix(f.text, eventPrefix):
			events++
		case bytes.HasPrefix(f.text, eosePrefix), bytes.HasPrefix(f.text, countPrefix):
			return events, nil
		case bytes.HasPrefix(f.text, closedPrefix):
			return events, fmt.Errorf("%w: %s", errRefused, f.text)
		default:
			return events, fmt.Errorf("unexpected answer: %.200s", f.text)
		}
	}
}

// load is what one connection publishes: EVENT messages one behind the other as
// they go over the wire.
type load struct {
	frames []byte
	ends   []int    // of each frame
	ids    []string // hex
}

// loads deals events out to n connections.
func loads(events []signed, n int) []load {
	list := make([]load, n)
	for i := range events {
		l := &list[i%n]
		l.frames = appendFrame(l.frames, `["EVENT",`+string(events[i].json)+`]`)
		l.ends = append(l.ends, len(l.frames))
		l.ids = append(l.ids, events[i].id)
	}
	return list
}

var errNotStored = errors.New("an event was not answered OK true, in order")

// publish sends a load with a number of events in flight, and adds the time from
// each event to its OK.
func (p *peer) publish(l *load, window int, times []time.Duration) ([]time.Duration, error) {
	sent, answered, at := 0, 0, 0
	began := make([]time.Time, len(l.ends))
	for answered < len(l.ends) {
		if goal := min(len(l.ends), answered+window); goal > sent {
			now := time.Now()
			for ; sent < goal; sent++ {
				began[sent] = now
			}
			if _, err := p.Write(l.frames[at:l.ends[sent-1]]); err != nil {
				return times, err
			}
			at = l.ends[sent-1]
		}
		for {
			f, err := p.next()
			if err != nil {
				return times, err
			}
			text, ok := bytes.CutPrefix(f.text, okPrefix)
			if !ok || len(text) < 70 || string(text[:64]) != l.ids[answered] || string(text[64:70]) != `",true` {
				return times, fmt.Errorf("%w: want %s, got %.200s", errNotStored, l.ids[answered], f.text)
			}
			times = append(times, time.Since(began[answered]))
			answered++
			if !p.buffered() {
				break
			}
		}
	}
	return times, nil
}
