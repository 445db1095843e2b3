package relay

import (
	"context"
	"errors"
	"time"

	"talon/host"
	"talon/host/wire"
)

// answersAhead bounds the answers that a client has not read, and asks on. Unlike the
// live events in the queue, they are in memory once for each connection.
const answersAhead = 2 << 20

// handle does what one message asks for. An error ends the connection.
func (c *conn) handle(ctx context.Context, text []byte) error {
	l := &c.relay.cfg.Limits
	// A client that asks without reading the answers waits here, not in memory.
	if err := c.waitRoom(min(l.QueueBytes/2, answersAhead)); err != nil {
		return err
	}
	c.forgetMissed()
	m, bad := wire.ParseMessage(text, &l.Wire)
	c.relay.metrics.in[m.Verb].Inc()
	if err := c.throttle(ctx, cost(&m, len(text))); err != nil {
		return err
	}
	if bad == nil && m.Verb == wire.Event {
		c.bad = 0
		if refused := c.mayPublish(); refused != "" {
			// Not after those in flight: the client knows which it is by the id.
			c.relay.metrics.ok[host.Busy].Inc()
			c.send(outOK, wire.AppendOK(nil, m.Event.ID.String(), false, refused))
			return nil
		}
		return c.event(ctx, m.Event, len(text))
	}
	if err := c.waitAnswered(); err != nil {
		return err
	}
	if bad != nil {
		return c.malformed(&m, bad)
	}
	c.bad = 0
	switch m.Verb {
	case wire.Req:
		if c.mayAsk(&m) && c.permit(ctx, host.QueryReq, &m) {
			return c.req(ctx, m.SubID, m.Filters)
		}
	case wire.Count:
		if c.mayAsk(&m) && c.permit(ctx, host.QueryCount, &m) {
			c.count(ctx, m.SubID, m.Filters)
		}
	case wire.Close:
		c.unsubscribe(m.SubID)
	case wire.Auth:
		c.auth(m.Event)
	case wire.NegOpen:
		if c.mayAsk(&m) && c.permit(ctx, host.QueryNeg, &m) {
			c.negOpen(ctx, m.SubID, m.Filters[0], m.Neg)
		}
	case wire.NegMsg:
		c.negMsg(m.SubID, m.Neg)
	case wire.NegClose:
		c.closeSession(m.SubID)
	}
	return nil
}

// throttle takes a cost from the connection's allowance, and waits if that is used
// up.
func (c *conn) throttle(ctx context.Context, cost int) error {
	l := &c.relay.cfg.Limits
	wait := c.spent.reserve(cost, float64(l.MessageBurst), l.MessagesPerSecond, c.relay.cfg.Now())
	if wait <= 0 {
		return nil
	}
	c.relay.metrics.throttled.Inc()
	if !c.warned {
		c.warned = true
		c.send(outNotice, wire.AppendNotice(nil, "rate-limited: you send faster than this relay answers, it reads more slowly now"))
	}
	if !pause(ctx.Done(), wait) {
		return errEnded
	}
	return nil
}

// malformed answers a message that was not understood, in the place where the
// client looks for the answer.
func (c *conn) malformed(m *wire.Message, err error) error {
	c.relay.metrics.malformed.Inc()
	reason := "error: the message could not be read"
	if werr := (*wire.Error)(nil); errors.As(err, &werr) {
		reason = werr.Reason
	}
	switch {
	case (m.Verb == wire.Event || m.Verb == wire.Auth) && m.EventID != "":
		c.send(outOK, wire.AppendOK(nil, m.EventID, false, reason))
	case (m.Verb == wire.Req || m.Verb == wire.Count) && m.SubID != "":
		c.refuse(m.SubID, reason)
	case (m.Verb == wire.NegOpen || m.Verb == wire.NegMsg) && m.SubID != "":
		c.negErr(m.SubID, reason)
	default:
		c.send(outNotice, wire.AppendNotice(nil, reason))
	}
	if c.bad++; c.bad >= c.relay.cfg.Limits.BadMessages {
		return errGarbage
	}
	return nil
}

// event submits an event that came in a message of size bytes, which live as long
// as it. It waits while too much of this connection is in flight, or the pipeline
// is full.
func (c *conn) event(ctx context.Context, e *host.Event, size int) error {
	l := &c.relay.cfg.Limits
	c.mu.Lock()
	for c.ended == nil && c.inFlight > 0 && (c.inFlight >= l.EventsInFlight || c.inBytes+size > l.EventBytes) {
		c.spaceCond.Wait()
	}
	if err := c.openLocked(); err != nil {
		c.mu.Unlock()
		return err
	}
	c.inFlight++
	c.inBytes += size
	c.mu.Unlock()
	c.relay.metrics.inFlight.Add(1)
	began := time.Now()

	err := c.relay.deps.Ingest.Submit(ctx, &host.Item{
		Event:  e,
		Source: c.source,
		Authed: c.authed,
		Done: func(v host.Verdict, err error) {
			c.relay.metrics.answers.add(time.Since(began))
			c.answer(e, size, v, err)
		},
	})
	if err != nil {
		c.answer(e, size, host.Verdict{Code: host.Busy, Reason: "error: the relay is shutting down"}, nil)
	}
	return nil
}

// answer sends the OK of an event that was in flight. It runs in the pipeline,
// which has logged the error if there is one, and does not wait.
func (c *conn) answer(e *host.Event, size int, v host.Verdict, err error) {
	defer c.failed()
	defer c.answered(size)
	m := c.relay.metrics
	m.inFlight.Add(-1)
	if err != nil {
		v = host.Verdict{Code: host.Busy, Reason: "error: the event could not be stored"}
		if errors.Is(err, host.ErrAway) {
			v.Reason = databaseAway
		}
		if errors.Is(err, host.ErrFull) {
			v.Reason = "error: the server's disk is full, try again later"
		}
		m.okError.Inc()
	} else {
		m.ok[v.Code].Inc()
	}
	if v.Code == host.ShadowRejected {
		v.Reason = ""
	}
	if v.Code == host.AuthRequired {
		c.sendChallenge()
	}
	text := wire.AppendOK(make([]byte, 0, 84+len(v.Reason)), e.ID.String(), v.OK(), v.Reason)
	c.send(outOK, text)
	if v.End {
		c.endByPolicy(v.Reason)
	}
}

// answered notes that one more event of size bytes is in flight no more.
func (c *conn) answered(size int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.inFlight--
	c.inBytes -= size
	c.spaceCond.Broadcast()
}

// pause waits, and reports whether the time is over; if not, done is closed.
func pause(done <-chan struct{}, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-done:
		return false
	}
}

// storeFailed returns the client's message for an error of the store.
func (c *conn) storeFailed(ctx context.Context, what string, err error) string {
	switch {
	case c.relayEnded():
		return "error: the connection is closing"
	case errors.Is(err, context.DeadlineExceeded) || ctx.Err() != nil:
		c.relay.metrics.slowQueries.Inc()
		return "error: this took too long, ask for less"
	}
	c.relay.cfg.Log.Error(what, "source", c.source.Addr, "err", err)
	if errors.Is(err, host.ErrAway) {
		return databaseAway
	}
	return "error: the store could not be read"
}

const databaseAway = "error: the relay's database cannot be reached now, try again later"

func (c *conn) relayEnded() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.ended != nil
}
