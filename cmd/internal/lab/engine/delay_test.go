package engine_test

import (
	"net"
	"sync"
	"time"
)

// delayed is a connection on which everything takes a while, in both directions.
type delayed struct {
	net.Conn
	latency time.Duration
	out, in chan packet
	rest    []byte // of what was read
	once    sync.Once
	closed  chan struct{}
}

type packet struct {
	due  time.Time
	data []byte
	err  error
}

func newDelayed(c net.Conn, latency time.Duration) *delayed {
	const room = 1 << 16
	d := &delayed{Conn: c, latency: latency, out: make(chan packet, room), in: make(chan packet, room), closed: make(chan struct{})}
	go func() {
		for {
			select {
			case p := <-d.out:
				time.Sleep(time.Until(p.due))
				if _, err := c.Write(p.data); err != nil {
					return
				}
			case <-d.closed:
				return
			}
		}
	}()
	go func() {
		for {
			b := make([]byte, 64<<10)
			n, err := c.Read(b)
			select {
			case d.in <- packet{time.Now().Add(latency), b[:n], err}:
			case <-d.closed:
				return
			}
			if err != nil {
				return
			}
		}
	}()
	return d
}

func (d *delayed) Write(b []byte) (int, error) {
	select {
	case d.out <- packet{due: time.Now().Add(d.latency), data: append([]byte(nil), b...)}:
		return len(b), nil
	case <-d.closed:
		return 0, net.ErrClosed
	}
}

func (d *delayed) Read(b []byte) (int, error) {
	for len(d.rest) == 0 {
		select {
		case p := <-d.in:
			time.Sleep(time.Until(p.due))
			if d.rest = p.data; p.err != nil && len(p.data) == 0 {
				return 0, p.err
			}
		case <-d.closed:
			return 0, net.ErrClosed
		}
	}
	n := copy(b, d.rest)
	d.rest = d.rest[n:]
	return n, nil
}

func (d *delayed) Close() error {
	d.once.Do(func() { close(d.closed) })
	return d.Conn.Close()
}
