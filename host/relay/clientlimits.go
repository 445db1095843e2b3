package relay

import (
	"fmt"
	"time"

	"talon/host"
	"talon/host/wire"
)

// limited says which limit held a client back: one of Config.Clients, or the share of its
// network of live bytes. It is a label.
type limited uint8

const (
	limitedSubscriptions limited = iota
	limitedFilters
	limitedEvents
	limitedQueries
	limitedBytesIn
	limitedBytesOut
	limitedLive
	limitedKinds
)

func (l limited) String() string {
	return [limitedKinds]string{"subscriptions", "filters", "events", "queries", "bytes-in", "bytes-out", "live-bytes"}[l]
}

// lower is a configured limit, or one of clients where that is less; 0 is none.
func lower(configured int, clients int64) int {
	if clients > 0 && clients < int64(configured) {
		return int(clients)
	}
	return configured
}

// minute counts what came since it began, for at most a minute. It belongs to one
// goroutine.
type minute struct {
	began time.Time
	n     int64
}

// allow counts one more. If that is more than the limit, it is not counted, and left
// is how long the minute still lasts.
func (m *minute) allow(limit int64, now time.Time) (left time.Duration, ok bool) {
	past := now.Sub(m.began)
	if past >= time.Minute || past < 0 {
		m.began, m.n, past = now, 0, 0
	}
	if m.n >= limit {
		return time.Minute - past, false
	}
	m.n++
	return 0, true
}

// tokenBucket says how long to wait for what has a rate. It belongs to one goroutine at a time.
type tokenBucket struct {
	tokens float64
	at     time.Time
}

// reserve takes n tokens, and returns how long to wait before going on. The bucket holds a
// burst at most, and is full at first.
func (b *tokenBucket) reserve(n int, burst, perSecond float64, now time.Time) time.Duration {
	if b.at.IsZero() {
		b.tokens = burst
	} else {
		b.tokens = min(burst, b.tokens+max(now.Sub(b.at).Seconds(), 0)*perSecond)
	}
	b.at = now
	b.tokens -= float64(n)
	if b.tokens >= 0 {
		return 0
	}
	return time.Duration(-b.tokens / perSecond * float64(time.Second))
}

// pass takes n bytes that have passed, of those that may in a second, and returns how long to
// wait before the next.
func (b *tokenBucket) pass(n int, perSecond int64, now time.Time) time.Duration {
	return b.reserve(n, float64(perSecond), float64(perSecond), now)
}

// charge takes what an answer turned out to cost: the next message waits for it.
func (b *tokenBucket) charge(records int64) { b.tokens -= float64(records / recordsPerMessage) }

// mayPublish counts an EVENT, or says why it is one too many.
func (c *conn) mayPublish() (refused string) {
	limit := c.relay.cfg.Clients().Events
	if limit <= 0 {
		return ""
	}
	left, ok := c.events.allow(limit, c.relay.cfg.Now())
	if ok {
		return ""
	}
	c.relay.metrics.limited[limitedEvents].Inc()
	return tooManyNow("events", limit, left)
}

// mayAsk counts a query, and reports whether it may be answered; if not, the client
// has had the reason.
func (c *conn) mayAsk(m *wire.Message) bool {
	now := c.relay.cfg.Clients()
	if now.Filters > 0 && int64(len(m.Filters)) > now.Filters {
		c.relay.metrics.limited[limitedFilters].Inc()
		c.refuseQuery(m, fmt.Sprintf("rate-limited: the relay is busy and takes %d filters at once now, ask in parts or try again later", now.Filters))
		return false
	}
	if now.Queries <= 0 {
		return true
	}
	left, ok := c.queries.allow(now.Queries, c.relay.cfg.Now())
	if !ok {
		c.relay.metrics.limited[limitedQueries].Inc()
		c.refuseQuery(m, tooManyNow("queries", now.Queries, left))
	}
	return ok
}

func tooManyNow(what string, limit int64, left time.Duration) string {
	return fmt.Sprintf("rate-limited: the relay is busy and takes %d %s a minute from a client now, try again in %d s",
		limit, what, int64((left+time.Second-1)/time.Second))
}

// refuseQuery answers a query in the way of its verb.
func (c *conn) refuseQuery(m *wire.Message, reason string) {
	if m.Verb == wire.NegOpen {
		c.negErr(m.SubID, reason)
	} else {
		c.refuse(m.SubID, reason)
	}
}

// beforeRead waits until more may come in. Messages of the client wait in the network, so that the
// client slows down itself.
func (c *conn) beforeRead() error {
	limit := c.relay.cfg.Clients().BytesIn
	if limit <= 0 {
		return nil
	}
	now := c.relay.cfg.Now()
	wait := c.paceIn.pass(0, limit, now)
	if wait <= 0 {
		return nil
	}
	c.relay.metrics.limited[limitedBytesIn].Inc()
	// It is not the client who is silent, or takes its time with a message.
	c.seen.Store(now.Add(wait).UnixNano())
	if c.partial.Load() != 0 {
		c.partial.Add(int64(wait))
	}
	if !pause(c.done, wait) {
		return errEnded
	}
	return nil
}

// afterRead counts what came in.
func (c *conn) afterRead(n int) {
	if limit := c.relay.cfg.Clients().BytesIn; limit > 0 {
		c.paceIn.pass(n, limit, c.relay.cfg.Now())
	}
}

// beforeWrite waits until more may go out, but not once the connection is closing. It
// runs in the goroutine that writes: what is published waits in the queue.
func (c *conn) beforeWrite() {
	limit := c.relay.cfg.Clients().BytesOut
	if limit <= 0 {
		return
	}
	wait := c.paceOut.pass(0, limit, c.relay.cfg.Now())
	if wait <= 0 {
		return
	}
	c.relay.metrics.limited[limitedBytesOut].Inc()
	c.setPaced(true)
	pause(c.done, wait)
	c.setPaced(false)
}

// payForLive charges the live events of a batch to the network of the client, and waits if that
// has had its share. It runs in the goroutine that writes.
func (c *conn) payForLive(batch []outgoing) {
	bytes := 0
	for i := range batch {
		if batch[i].prefix != nil {
			bytes += batch[i].size()
		}
	}
	if bytes == 0 {
		return
	}
	if wait := c.relay.pots.live.Take(c.source.Addr, int64(bytes)); wait > 0 {
		c.relay.metrics.limited[limitedLive].Inc()
		c.setPaced(true)
		pause(c.done, wait)
		c.setPaced(false)
	}
}

// afterWrite counts what went out.
func (c *conn) afterWrite(n int) {
	if limit := c.relay.cfg.Clients().BytesOut; limit > 0 {
		c.paceOut.pass(n, limit, c.relay.cfg.Now())
	}
}

func (c *conn) setPaced(on bool) {
	c.mu.Lock()
	c.out.paced = on
	c.mu.Unlock()
}

// full returns why a connection ends whose queue is full: the client gets the reason if
// that is not its own fault. REQUIRES: c.mu.
func (c *conn) full() *closeReason {
	if c.out.paced {
		return errPaced
	}
	return errSlow
}

// noLimits is Config.Clients where there is none.
func noLimits() host.ClientLimits { return host.ClientLimits{} }
