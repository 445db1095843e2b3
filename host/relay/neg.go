package relay

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"talon/host"
	"talon/host/negentropy"
	"talon/host/wire"
)

// negSession is one reconciliation with a client (NIP-77).
type negSession struct {
	server *negentropy.Server
	snap   *snapshot
	used   time.Time
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
	if !c.relay.takeSession() {
		c.negErr(id, "blocked: the relay has too many negentropy sessions, try again later")
		return
	}
	s, reason := c.newSession(ctx, f)
	if reason != "" {
		c.relay.freeSession()
		c.negErr(id, reason)
		return
	}
	c.mu.Lock()
	if c.neg == nil {
		c.neg = make(map[string]*negSession)
	}
	c.neg[strings.Clone(id)] = s // the message is not kept
	c.mu.Unlock()
	c.relay.metrics.negOpened.Inc()
	c.reconcile(id, s, msg)
}

// newSession prepares a session, or says why not.
func (c *conn) newSession(ctx context.Context, f host.Filter) (*negSession, string) {
	l := &c.relay.cfg.Limits
	ctx, cancel := context.WithTimeout(ctx, negBuildFactor*l.QueryTime)
	defer cancel()
	snap, fresh, err := c.relay.snapshots.acquire(ctx, f)
	switch {
	case errors.Is(err, errTooManyRecords):
		c.spent.charge(int64(l.NegRecords))
		return nil, fmt.Sprintf("blocked: the filter selects more than %d records, ask for less", l.NegRecords)
	case errors.Is(err, errSnapshotsFull):
		return nil, "blocked: too many records are being reconciled, try again later"
	case err != nil:
		return nil, c.storeFailed(ctx, "read negentropy snapshot", err)
	}
	if fresh {
		c.spent.charge(int64(snap.set.Len()))
	}
	server, err := negentropy.NewServer(snap.set, l.NegFrameBytes)
	if err != nil {
		c.relay.snapshots.release(snap)
		c.relay.cfg.Log.Error("open negentropy session", "err", err)
		return nil, "error: the session could not be opened"
	}
	return &negSession{server: server, snap: snap}, ""
}

// negBuildFactor is how many times longer than a query a snapshot may take: it may
// have to wait for others.
const negBuildFactor = 3

// negMsg answers a message of a session.
func (c *conn) negMsg(id string, msg []byte) {
	c.mu.Lock()
	s := c.neg[id]
	c.mu.Unlock()
	if s == nil {
		c.negErr(id, "closed: there is no such session")
		return
	}
	c.reconcile(id, s, msg)
}

func (c *conn) reconcile(id string, s *negSession, msg []byte) {
	reply, err := s.server.Reconcile(msg)
	c.mu.Lock()
	s.used = c.relay.cfg.Now()
	c.mu.Unlock()
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
		c.relay.snapshots.release(s.snap)
		c.relay.freeSession()
	}
}

func (c *conn) closeSessions() {
	for _, id := range c.sessionsBefore(time.Time{}) {
		c.closeSession(id)
	}
}

// expireSessions ends those that have been silent for too long.
func (c *conn) expireSessions(now time.Time) {
	for _, id := range c.sessionsBefore(now.Add(-c.relay.cfg.Limits.NegIdle)) {
		c.negErr(id, "closed: the session was idle for too long")
	}
}

// sessionsBefore returns the sessions that were last used before a time, or all if
// it is zero.
func (c *conn) sessionsBefore(t time.Time) []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	var ids []string
	for id, s := range c.neg {
		// A session that was never used is being opened.
		if t.IsZero() || !s.used.IsZero() && s.used.Before(t) {
			ids = append(ids, id)
		}
	}
	return ids
}

func (r *Relay) takeSession() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.sessions >= r.cfg.Limits.NegSessionsTotal {
		return false
	}
	r.sessions++
	r.metrics.negSessions.Inc()
	return true
}

func (r *Relay) freeSession() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.sessions--
	r.metrics.negSessions.Dec()
}
