package relay

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"talon/host"
	"talon/host/bound"
	"talon/host/negentropy"
	"talon/host/wire"
)

// negSession is one reconciliation with a client (NIP-77).
type negSession struct {
	server *negentropy.Server
	snap   *snapshot

	hold, records *bound.Hold // what it has of the pots

	// The connection's mutex guards the fields below.
	used    time.Time // when the last message came
	yielded bool      // others need its place
}

// negOpen starts a session, in place of one with the same id, and answers its
// first message.
func (c *conn) negOpen(ctx context.Context, id string, f host.Filter, msg []byte) {
	c.closeSession(id)
	l := &c.relay.cfg.Limits
	c.mu.Lock()
	open := len(c.neg)
	c.mu.Unlock()
	if open >= l.NegSessions {
		c.negErr(id, "blocked: too many negentropy sessions on this connection, close one first")
		return
	}
	s, refused := c.newSession(ctx, f)
	if refused != "" {
		c.negErr(id, refused)
		return
	}
	c.mu.Lock()
	yielded := s.yielded
	if !yielded {
		if c.neg == nil {
			c.neg = make(map[string]*negSession)
		}
		c.neg[strings.Clone(id)] = s // the message is not kept
	}
	c.mu.Unlock()
	if yielded {
		c.endSession(s)
		c.negErr(id, "blocked: others need the place of this session, try again later")
		return
	}
	c.relay.metrics.negOpened.Inc()
	c.reconcile(id, s, msg)
}

// newSession prepares a session, or says why not.
func (c *conn) newSession(ctx context.Context, f host.Filter) (_ *negSession, refused string) {
	s := &negSession{used: c.relay.cfg.Now()}
	if refused := c.takeSession(s); refused != "" {
		return nil, refused
	}
	ready := false
	defer func() {
		if ready {
			return
		}
		// Also after a panic.
		c.endSession(s)
	}()
	l := &c.relay.cfg.Limits
	ctx, cancel := context.WithTimeout(ctx, negBuildFactor*l.QueryTime)
	defer cancel()
	reader := c.reader()
	if f.Limit >= 0 {
		f.Reader = reader // the newest of all that the client receives
	}
	snap, cost, err := c.relay.snapshots.acquire(ctx, f)
	for range maxYields {
		if !errors.Is(err, errSnapshotsFull) || !c.relay.pots.records.Yield(c.holder()) {
			break
		}
		snap, cost, err = c.relay.snapshots.acquire(ctx, f)
	}
	switch {
	case errors.Is(err, errTooManyRecords):
		c.spent.charge(int64(l.NegRecords))
		return nil, fmt.Sprintf("blocked: the filter selects more than %d records, ask for less", l.NegRecords)
	case errors.Is(err, errSnapshotsFull):
		return nil, "blocked: too many records are being reconciled, try again later"
	case err != nil:
		return nil, c.storeFailed(ctx, "read negentropy snapshot", err)
	}
	s.snap = snap
	c.spent.charge(int64(cost))
	set := snap.set
	if reader != nil && f.Limit < 0 {
		own, err := c.ownRecords(ctx, f, reader)
		switch {
		case errors.Is(err, errTooManyRecords), err == nil && set.Len()+len(own) > l.NegRecords:
			return nil, fmt.Sprintf("blocked: the filter selects more than %d records, ask for less", l.NegRecords)
		case err != nil:
			return nil, c.storeFailed(ctx, "read negentropy records", err)
		}
		if len(own) > 0 {
			set = set.With(own...)
		}
	}
	if refused := c.takeRecords(s, set.Len()); refused != "" {
		return nil, refused
	}
	if s.server, err = negentropy.NewServer(set, l.NegFrameBytes); err != nil {
		c.relay.cfg.Log.Error("open negentropy session", "err", err)
		return nil, "error: the session could not be opened"
	}
	ready = true
	return s, ""
}

// ownRecords returns the records of what a filter selects for the reader and not for everybody.
// They come on top of the set that all clients share.
func (c *conn) ownRecords(ctx context.Context, f host.Filter, reader *host.Reader) (own []negentropy.Item, err error) {
	if f.Empty() {
		return nil, nil
	}
	only := *reader
	only.WithheldOnly = true
	f.Reader = &only
	limit := c.relay.cfg.Limits.NegRecords
	_, _, err = c.relay.deps.Store.Scan(ctx, f, limit+1, c.now(), func(createdAt int64, id host.ID) {
		own = append(own, negentropy.Item{CreatedAt: uint64(createdAt), ID: id})
	})
	c.spent.charge(int64(len(own)))
	if len(own) > limit {
		return nil, errTooManyRecords
	}
	return own, err
}

// maxYields is how many sessions of heavier networks end for one that is opened.
const maxYields = 8

// negBuildFactor is how many times longer than a query a snapshot may take: it may
// have to wait for others.
const negBuildFactor = 3

// negMsg answers a message of a session.
func (c *conn) negMsg(id string, msg []byte) {
	c.mu.Lock()
	s := c.neg[id]
	if s != nil {
		s.used = c.relay.cfg.Now()
		s.hold.Touch()
		s.records.Touch()
	}
	c.mu.Unlock()
	if s == nil {
		c.negErr(id, "closed: there is no such session")
		return
	}
	c.reconcile(id, s, msg)
}

func (c *conn) reconcile(id string, s *negSession, msg []byte) {
	reply, err := s.server.Reconcile(msg)
	switch {
	case errors.Is(err, negentropy.ErrMessage):
		c.negErr(id, "invalid: "+err.Error())
	case err != nil:
		c.relay.cfg.Log.Error("reconcile", "err", err)
		c.negErr(id, "error: the message could not be answered")
	default:
		c.relay.metrics.negRounds.Inc()
		c.send(outNegMsg, wire.AppendNegMsg(make([]byte, 0, 32+len(id)+2*len(reply)), id, reply))
	}
}

// negErr refuses or ends a session.
func (c *conn) negErr(id, reason string) {
	c.closeSession(id)
	c.relay.metrics.negRefused.Inc()
	c.send(outNegErr, wire.AppendNegErr(nil, id, reason))
}

// closeSession ends a session, if there is one with this id.
func (c *conn) closeSession(id string) {
	c.mu.Lock()
	s := c.neg[id]
	delete(c.neg, id)
	c.mu.Unlock()
	if s != nil {
		c.endSession(s)
	}
}

func (c *conn) closeSessions() {
	c.mu.Lock()
	all := c.neg
	c.neg = nil
	c.mu.Unlock()
	for _, s := range all {
		c.endSession(s)
	}
}

// endSession gives back what a session holds that is in no map any more.
func (c *conn) endSession(s *negSession) {
	if s.snap != nil {
		c.relay.snapshots.release(s.snap)
	}
	c.freeSession(s)
}

// expireSessions ends sessions that have been silent for too long. The goroutine of the connection
// runs at the same time, and may open another session under the same id at any moment. So one step
// removes the session and queues its NEG-ERR.
func (c *conn) expireSessions(now time.Time) {
	for _, s := range c.dropIdle(now) {
		c.endSession(s)
	}
}

// dropIdle removes the sessions that have been silent for too long, and returns them.
func (c *conn) dropIdle(now time.Time) (idle []*negSession) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for id, s := range c.neg {
		if now.Sub(s.used) <= c.relay.cfg.Limits.NegIdle {
			continue
		}
		idle = append(idle, s)
		c.dropSession(id, "closed: the session was idle for too long")
	}
	return idle
}
