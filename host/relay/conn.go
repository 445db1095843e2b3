package relay

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gobwas/ws"

	"talon/host"
)

// lingerTime bounds how long a closed connection is kept so that the client can
// read why.
const lingerTime = time.Second

// yieldAfter is how long a connection handles messages before it lets others have its processor.
// The runtime would let it go on for 10 ms, or until it has no more of them. With hundreds of
// connections that send much at once, a message of somebody else would wait for all these.
const yieldAfter = 100 * time.Microsecond

// conn is one websocket connection.
type conn struct {
	relay   *Relay
	net     net.Conn
	deflate bool
	cancel  context.CancelFunc
	done    <-chan struct{} // closed by cancel

	peer
	activity
	lacking atomic.Bool // endMissed has ended subscriptions of subs
	parts   parts       // of what all connections share

	// The connection's goroutine owns the fields below.
	in     input
	bad    int // messages in a row that were not understood
	subs   map[string]*subscription
	values int // of the filters of subs
	allowance

	paceOut tokenBucket // belongs to the goroutine that writes

	// wokenBatch belongs to the goroutine that publishes: the last batch that queued
	// something here.
	wokenBatch uint64

	mu        sync.Mutex // guards the fields below
	spaceCond sync.Cond  // something was written, answered or ended
	out       outbox
	inFlight  int // EVENTs submitted and not answered
	inBytes   int
	ended     *closeReason // why the connection closes; nil while it is open
	ping      ping
	neg       map[string]*negSession
}

// peer is who is at the other end. The connection's goroutine owns what it proves.
type peer struct {
	source *host.Source
	slot   netip.Prefix
	share  *host.Share // of the address, on loopback of the connection

	sites      []string // AUTH must name one of these host[:port]
	challenge  [32]byte
	challenged atomic.Bool // the challenge has been sent
	authed     []host.PubKey
	client     *host.Client // for the policy, nil if there is none; not changed but replaced
}

// activity is what sweep looks at. Times are in unix nanoseconds.
type activity struct {
	seen    atomic.Int64 // of the last input
	written atomic.Int64 // of the last output
	partial atomic.Int64 // when a message began that is not complete; 0 if none
	busy    atomic.Bool  // handling a message
}

// allowance is what the client has used of what it may send.
type allowance struct {
	spent  tokenBucket // of Limits, in messages
	warned bool        // has been warned that it is over its rate

	// Of these the limits come from Config.Clients.
	paceIn          tokenBucket
	events, queries minute
}

// serve reads and handles messages until the connection ends.
func (c *conn) serve(ctx context.Context) {
	defer c.relay.disconnected(c)
	err := c.loop(ctx)
	c.cancel()
	c.finish(err)
}

func (c *conn) loop(ctx context.Context) (err error) {
	defer func() {
		if p := recover(); p != nil {
			_ = c.relay.panics.Record(p)
			err = errPanicked
		}
	}()
	if c.relay.cfg.ChallengeOnConnect {
		c.sendChallenge()
	}
	var yielded time.Time
	for {
		msg, err := c.in.next(ctx)
		if err != nil {
			return err
		}
		c.busy.Store(true)
		err = c.handle(ctx, msg)
		now := c.relay.cfg.Now()
		c.seen.Store(now.UnixNano())
		c.parts.conn.Touch()
		c.busy.Store(false)
		if err != nil {
			return err
		}
		if now.Sub(yielded) >= yieldAfter {
			runtime.Gosched()
			yielded = now
		}
	}
}

// closeWith closes the connection; the first reason counts.
func (c *conn) closeWith(e *closeReason) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.endLocked(e)
}

// endLocked wakes the connection's goroutine, which does the rest in finish.
// REQUIRES: c.mu.
func (c *conn) endLocked(e *closeReason) {
	if c.ended != nil {
		return
	}
	c.ended = e
	if e.discard {
		c.dropQueue()
		_ = c.net.SetWriteDeadline(time.Now().Add(lingerTime)) // a closed socket is as good
	}
	c.out.sealed = c.out.sealed || e.discard
	c.spaceCond.Broadcast()
	c.cancel()
	_ = c.net.SetReadDeadline(time.Unix(1, 0))
}

// finish says goodbye, if there is someone to hear it, and closes.
func (c *conn) finish(err error) {
	c.unsubscribeAll()
	c.relay.index.forgetConn(c)
	c.closeSessions()
	c.relay.reassembly.release(c)

	e, open := c.sayGoodbye(err)
	if open && e.cause != cutPeer {
		c.linger()
	}
	_ = c.net.Close() // nothing is left to lose
	c.relay.metrics.disconnects[e.cause].Inc()
	c.relay.cfg.Log.Debug("connection closed", "source", c.source.Addr, "err", e)
	c.abandonQueue()
	c.in.release()
}

// sayGoodbye sends what is queued and the close frame. It returns why the connection closes, and
// whether the client may still read.
func (c *conn) sayGoodbye(err error) (e *closeReason, open bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ended == nil {
		c.ended = &closeReason{cause: cutPeer}
		errors.As(err, &c.ended)
	}
	e = c.ended
	open = !c.out.broken && e.code != 0
	if open {
		drain := c.relay.cfg.Limits.DrainTime
		c.waitLocked(drain, func() bool {
			return c.inFlight == 0 || c.out.broken || e.discard || e.cause == cutPeer
		})
		c.out.sealed = true
		body := ws.NewCloseFrameBody(e.code, e.reason)
		c.out.items = append(c.out.items, outgoing{op: ws.OpClose, body: body})
		n := len(body) + perItem
		c.out.queued += n
		c.relay.metrics.queueBytes.Add(float64(n))
		c.wakeWriter()
		c.waitLocked(drain, func() bool { return !c.out.flushing })
		open = !c.out.broken
	}
	c.out.sealed = true
	return e, open
}

// abandonQueue drops what cannot be written any more.
func (c *conn) abandonQueue() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.dropQueue()
	c.out.broken = true
}

// linger reads and forgets for a moment: closing a socket with unread input would
// reset it, and the client might never see the close frame.
func (c *conn) linger() {
	if half, ok := c.net.(interface{ CloseWrite() error }); ok && half.CloseWrite() != nil {
		return
	}
	if c.net.SetReadDeadline(time.Now().Add(c.relay.linger)) != nil {
		return
	}
	waste := readBuffers.Get().(*readBuffer)
	defer readBuffers.Put(waste)
	for {
		if _, err := c.net.Read(waste[:]); err != nil {
			return
		}
	}
}

// pong answers a ping.
func (c *conn) pong(payload []byte) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.push(outgoing{op: ws.OpPong, body: append([]byte(nil), payload...)}) {
		c.wakeWriter()
	}
	return c.openLocked()
}

// openLocked returns errEnded if the connection is closing. REQUIRES: c.mu.
func (c *conn) openLocked() error {
	if c.ended != nil {
		return errEnded
	}
	return nil
}

// waitAnswered waits until every EVENT of this connection has been answered.
func (c *conn) waitAnswered() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	for c.inFlight > 0 && c.ended == nil {
		c.spaceCond.Wait()
	}
	return c.openLocked()
}

// waitRoom waits until the queue has at most limit bytes.
func (c *conn) waitRoom(limit int) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	for c.out.bytes() > limit && c.ended == nil {
		c.spaceCond.Wait()
	}
	return c.openLocked()
}

// sweep looks after a connection that may be silent: pings, and limits on time.
func (c *conn) sweep(now time.Time) {
	l := &c.relay.cfg.Limits
	c.expireSessions(now)
	if began := c.partial.Load(); began != 0 && !c.busy.Load() && now.Sub(time.Unix(0, began)) > l.MessageTime {
		c.closeWith(errDawdling)
		return
	}
	if c.late(now) {
		c.closeWith(errIdle)
	}
}

// ping is one that was sent. The connection's mutex guards it.
type ping struct {
	at      time.Time // when it was sent; zero: none is on its way
	overdue bool      // its time was over at the last look
}

// late pings a client that has sent nothing for the ping interval, or got nothing: a proxy closes
// a connection on which one side is silent. It reports whether the client has not answered in
// time. A client has more time while output waits for it, or while the relay handles its message.
// It is late at the second look only: this process may have paused.
func (c *conn) late(now time.Time) bool {
	l := &c.relay.cfg.Limits
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.out.paced || c.busy.Load() {
		c.seen.Store(now.UnixNano())
	}
	seen := time.Unix(0, c.seen.Load())
	switch {
	case c.ping.at.IsZero() || !seen.Before(c.ping.at):
		c.ping = ping{}
		idle := min(c.seen.Load(), c.written.Load())
		if now.Sub(time.Unix(0, idle)) >= l.PingInterval && c.push(outgoing{op: ws.OpPing}) {
			c.ping.at = now
			c.wakeWriter()
		}
	case c.out.flushing:
		c.ping = ping{at: now}
	case now.Sub(c.ping.at) > l.PongTime:
		late := c.ping.overdue
		c.ping.overdue = true
		return late
	}
	return false
}

// recovered ends the connection whose writer panicked. Other goroutines than its own defer it, or
// [conn.failed]; what they change of a connection ends with it.
func (c *conn) recovered() {
	if p := recover(); p != nil {
		_ = c.relay.panics.Record(p)
		c.mu.Lock()
		defer c.mu.Unlock()
		c.out.flushing = false
		c.out.broken = true
		c.endLocked(errPanicked)
	}
}

// failed ends the connection that something else than its writer panicked about. The client may
// still read why.
func (c *conn) failed() {
	if p := recover(); p != nil {
		_ = c.relay.panics.Record(p)
		c.closeWith(errPanicked)
	}
}

func isTimeout(err error) bool { return errors.Is(err, os.ErrDeadlineExceeded) }
