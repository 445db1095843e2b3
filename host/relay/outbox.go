package relay

import (
	"math"
	"runtime"
	"time"

	"github.com/gobwas/ws"
)

// outgoing is one thing in a queue: a message, a control frame, or frames that are
// ready to be written.
type outgoing struct {
	// prefix, if not nil, stands before body, and "]" after it. Body is shared: it
	// may be the text of an event that many connections send.
	prefix []byte
	body   []byte
	op     ws.OpCode
	live   *liveText // of body, if that is long; nil for all else

	frames *buffer // ready to be written; nothing else is set
}

// perItem is the cost of an item in addition to its text.
const perItem = 64

func (o *outgoing) size() int {
	if o.frames != nil {
		return cap(o.frames.b) + perItem
	}
	return len(o.prefix) + len(o.body) + perItem
}

// outbox is what a connection has to send. The connection's mutex guards it.
type outbox struct {
	items    []outgoing
	taken    int // of items, by the flusher
	queued   int // bytes not taken
	writing  int // bytes taken and not written
	held     int // bytes of live events that wait for their subscription's stored answer
	flushing bool
	sealed   bool // takes nothing more
	broken   bool // the network failed: nothing more can be written
	timedOut bool // a write was
	paced    bool // the flusher waits because of a limit of ours
}

func (o *outbox) bytes() int { return o.queued + o.writing }

// load is all that waits, for whatever it does.
func (o *outbox) load() int { return o.bytes() + o.held }

func (o *outbox) empty() bool { return o.taken == len(o.items) }

// startFlush reports whether the caller must flush, because the queue has items and nobody writes
// them.
func (o *outbox) startFlush() bool {
	if o.flushing || o.empty() || o.broken {
		return false
	}
	o.flushing = true
	return true
}

// dropQueue forgets what has not been taken. REQUIRES: c.mu.
func (c *conn) dropQueue() {
	c.relay.metrics.queueBytes.Sub(float64(c.out.queued))
	c.out.items, c.out.taken, c.out.queued = nil, 0, 0
}

// dequeue returns the next items, about writeSize bytes of them.
func (o *outbox) dequeue() []outgoing {
	from := o.taken
	for o.taken < len(o.items) && o.writing < writeSize {
		n := o.items[o.taken].size()
		o.queued -= n
		o.writing += n
		o.taken++
	}
	return o.items[from:o.taken]
}

// wrote says that the items that were taken last are done with.
func (o *outbox) wrote(batch []outgoing) {
	clear(batch)
	o.writing = 0
	if o.taken > 0 && o.taken == len(o.items) {
		o.taken = 0
		if o.items = o.items[:0]; cap(o.items) > 8 {
			o.items = nil
		}
	}
}

// push queues an item, and reports whether it was taken. It never waits: a queue
// that is full ends the connection. REQUIRES: c.mu.
func (c *conn) push(o outgoing) bool {
	if c.out.sealed {
		return false
	}
	n := o.size()
	if !c.fits(n) {
		return false
	}
	c.out.items = append(c.out.items, o)
	c.out.queued += n
	c.relay.metrics.queueBytes.Add(float64(n))
	return true
}

// fits reports whether n more bytes may wait; if not, the connection ends. REQUIRES: c.mu.
func (c *conn) fits(n int) bool {
	if c.out.load()+n > c.relay.cfg.Limits.QueueBytes {
		c.endLocked(c.full())
		return false
	}
	return true
}

// wakeWriter starts the flusher if there is something to write. REQUIRES: c.mu.
func (c *conn) wakeWriter() {
	if c.out.startFlush() {
		go c.flush(math.MaxInt)
	}
}

// flushHere writes the queued items in the connection's own goroutine, which waits for the client
// in any case. Another goroutine for each piece would cost more than the write. Items that are
// queued during the write are left to another goroutine.
func (c *conn) flushHere() {
	c.mu.Lock()
	limit := c.out.queued
	mine := c.out.startFlush()
	c.mu.Unlock()
	if mine {
		c.flush(limit)
	}
}

// send queues a text message and starts to write it.
func (c *conn) send(kind outKind, text []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.push(outgoing{op: ws.OpText, body: text}) {
		c.relay.metrics.out[kind].Inc()
		c.wakeWriter()
	}
}

// flush writes until the queue is empty, or at least the given number of bytes has been
// written. It is a goroutine of its own, which exists only while there is something to
// write, unless flushHere calls it.
func (c *conn) flush(limit int) {
	defer c.recovered()
	scratch := getBuffer()
	defer scratch.free()
	for {
		batch, size := c.nextBatch(limit)
		if len(batch) == 0 {
			return
		}
		c.payForLive(batch)
		err := c.write(scratch, batch)
		limit -= size
		c.wrote(batch, err)
		c.relay.metrics.queueBytes.Sub(float64(size))
		if size >= writeSize {
			// A client that reads without a pause would keep a processor for 10 ms at a
			// time.
			runtime.Gosched()
		}
	}
}

// nextBatch takes the next items, and returns how many bytes they have. Without any, this goroutine
// is not the flusher any more.
func (c *conn) nextBatch(limit int) (batch []outgoing, size int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if limit <= 0 && !c.out.empty() && !c.out.broken {
		go c.flush(math.MaxInt)
		return nil, 0
	}
	batch = c.out.dequeue()
	if len(batch) == 0 || c.out.broken {
		c.out.flushing = false
		c.spaceCond.Broadcast()
		return nil, 0
	}
	return batch, c.out.writing
}

// wrote notes that a batch was written, or could not be.
func (c *conn) wrote(batch []outgoing, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.out.wrote(batch)
	if err != nil {
		c.breakLocked()
	}
	c.spaceCond.Broadcast()
}

// breakLocked gives up the network. REQUIRES: c.mu.
func (c *conn) breakLocked() {
	c.dropQueue()
	c.out.broken, c.out.sealed = true, true
	cause := cutPeer // it left
	if c.out.timedOut {
		cause = cutSlow // it took nothing
	}
	c.endLocked(&closeReason{cause: cause})
}

// write writes the items as few pieces, each within the write time.
func (c *conn) write(scratch *buffer, batch []outgoing) error {
	for i := range batch {
		o := &batch[i]
		switch {
		case o.frames != nil:
			if err := c.writeAll(scratch); err != nil {
				return err
			}
			err := c.writeAll(o.frames)
			o.frames.free()
			if err != nil {
				return err
			}
		case o.prefix != nil:
			if err := c.writeLive(scratch, o); err != nil {
				return err
			}
		case o.op == ws.OpText:
			c.appendText(scratch, o.body)
		default:
			appendHeader(scratch, o.op, 0, len(o.body))
			scratch.b = append(scratch.b, o.body...)
		}
	}
	return c.writeAll(scratch)
}

func (c *conn) writeAll(b *buffer) error {
	p := b.b
	b.b = b.b[:0]
	return c.writeBytes(p)
}

// writeBytes writes p in pieces, each within the write time.
func (c *conn) writeBytes(p []byte) error {
	for len(p) > 0 {
		c.beforeWrite()
		c.mu.Lock()
		wait := c.relay.cfg.Limits.WriteTime
		if c.ended != nil && c.ended.discard {
			wait = lingerTime
		}
		err := c.net.SetWriteDeadline(time.Now().Add(wait))
		c.mu.Unlock()
		if err != nil {
			return err
		}
		n, err := c.net.Write(p[:min(len(p), writeSize)])
		c.relay.metrics.bytesOut.Add(uint64(n))
		c.afterWrite(n)
		c.written.Store(c.relay.cfg.Now().UnixNano())
		if err != nil {
			if isTimeout(err) {
				c.mu.Lock()
				c.out.timedOut = true
				c.mu.Unlock()
			}
			return err
		}
		p = p[n:]
	}
	return nil
}

var closingBracket = []byte{']'}

// appendText appends the frame of a text message made of parts.
func (c *conn) appendText(b *buffer, parts ...[]byte) {
	n := 0
	for _, p := range parts {
		n += len(p)
	}
	if c.deflate && n >= c.relay.cfg.Limits.CompressFrom {
		packed := getBuffer()
		appendDeflated(packed, parts...)
		fits := len(packed.b) < n
		if fits {
			appendHeader(b, ws.OpText, ws.Rsv(true, false, false), len(packed.b))
			b.b = append(b.b, packed.b...)
		}
		packed.free()
		if fits {
			return
		}
	}
	appendHeader(b, ws.OpText, 0, n)
	for _, p := range parts {
		b.b = append(b.b, p...)
	}
}

// appendHeader appends the header of a frame that is not masked (RFC 6455, 5.2).
func appendHeader(b *buffer, op ws.OpCode, rsv byte, n int) {
	first := 0x80 | rsv<<4 | byte(op)
	switch {
	case n < 126:
		b.b = append(b.b, first, byte(n))
	case n <= 0xffff:
		b.b = append(b.b, first, 126, byte(n>>8), byte(n))
	default:
		b.b = append(b.b, first, 127,
			byte(n>>56), byte(n>>48), byte(n>>40), byte(n>>32), byte(n>>24), byte(n>>16), byte(n>>8), byte(n))
	}
}

// waitLocked waits on the connection's condition until ready, but not after the
// time is over. REQUIRES: c.mu.
func (c *conn) waitLocked(limit time.Duration, ready func() bool) {
	late := false
	timer := time.AfterFunc(limit, func() {
		c.mu.Lock()
		late = true
		c.spaceCond.Broadcast()
		c.mu.Unlock()
	})
	defer timer.Stop()
	for !ready() && !late {
		c.spaceCond.Wait()
	}
}
