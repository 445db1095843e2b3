package relay

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/gobwas/ws"

	"talon/host"
	"talon/host/negentropy"
	"talon/host/wire"
)

// negSession is one reconciliation with a client (NIP-77).
type negSession struct {
	server *negentropy.Server
	snap   *snapshot
	used   time.Time // when the last message came; guarded by the connection's mutex
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
	if c.neg == nil {
		c.neg = make(map[string]*negSession)
	}
	c.neg[strings.Clone(id)] = s // the message is not kept
	c.mu.Unlock()
	c.relay.metrics.negOpened.Inc()
	c.reconcile(id, s, msg)
}

// newSession prepares a session, or says why not.
func (c *conn) newSession(ctx context.Context, f host.Filter) (s *negSession, refused string) {
	if !c.relay.takeSession() {
		return nil, "blocked: the relay has too many negentropy sessions, try again later"
	}
	var snap *snapshot
	defer func() {
		if s != nil {
			return
		}
		// Also after a panic.
		c.relay.freeSession()
		if snap != nil {
			c.relay.snapshots.release(snap)
		}
	}()
	l := &c.relay.cfg.Limits
	ctx, cancel := context.WithTimeout(ctx, negBuildFactor*l.QueryTime)
	defer cancel()
	snap, cost, err := c.relay.snapshots.acquire(ctx, f)
	switch {
	case errors.Is(err, errTooManyRecords):
		c.spent.charge(int64(l.NegRecords))
		return nil, fmt.Sprintf("blocked: the filter selects more than %d records, ask for less", l.NegRecords)
	case errors.Is(err, errSnapshotsFull):
		return nil, "blocked: too many records are being reconciled, try again later"
	case err != nil:
		return nil, c.storeFailed(ctx, "read negentropy snapshot", err)
	}
	c.spent.charge(int64(cost))
	server, err := negentropy.NewServer(snap.set, l.NegFrameBytes)
	if err != nil {
		c.relay.cfg.Log.Error("open negentropy session", "err", err)
		return nil, "error: the session could not be opened"
	}
	return &negSession{server: server, snap: snap, used: c.relay.cfg.Now()}, ""
}

// negBuildFactor is how many times longer than a query a snapshot may take: it may
// have to wait for others.
const negBuildFactor = 3

// negMsg answers a message of a session.
func (c *conn) negMsg(id string, msg []byte) {
	c.mu.Lock()
	s := c.neg[id]
	if s != nil {
		s.used = c.relay.cfg.Now()
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
	c.relay.snapshots.release(s.snap)
	c.relay.freeSession()
}

// expireSessions ends those that have been silent for too long. It runs beside the
// connection's goroutine, which may open another session under the same id at any
// moment: the session is removed and the client gets its NEG-ERR in one step.
func (c *conn) expireSessions(now time.Time) {
	var idle []*negSession
	c.mu.Lock()
	for id, s := range c.neg {
		if now.Sub(s.used) <= c.relay.cfg.Limits.NegIdle {
			continue
		}
		delete(c.neg, id)
		idle = append(idle, s)
		c.relay.metrics.negRefused.Inc()
		text := wire.AppendNegErr(nil, id, "closed: the session was idle for too long")
		if c.push(outgoing{op: ws.OpText, body: text}) {
			c.relay.metrics.out[outNegErr].Inc()
			c.wakeWriter()
		}
	}
	c.mu.Unlock()
	for _, s := range idle {
		c.endSession(s)
	}
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

// snapshotFamily is a snapshot and its successors. What they share is accounted for once.
// snapshots.mu guards it.
type snapshotFamily struct {
	members []*snapshot // that have a set, the oldest first
	records int         // accounted for, in whole steps
}

// size is how many records the members hold in memory. What two of them share is
// shared by all between them, so that neighbours tell all.
func (l *snapshotFamily) size() int {
	n := 0
	for i, s := range l.members {
		n += s.set.Len()
		if i > 0 {
			n -= s.set.Shared(l.members[i-1].set)
		}
	}
	return n
}

// complete gives the snapshot its set, and accounts for it. It reports false if
// there is no room.
func (ss *snapshots) complete(s *snapshot, set *negentropy.Set) bool {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	s.set = set
	s.line.members = append(s.line.members, s)
	ss.recount(s.line)
	if ss.makeRoom(0) {
		return true
	}
	ss.remove(s)
	s.set = nil
	return false
}

// remove takes the snapshot out of its lineage. REQUIRES: ss.mu, and that no read
// for it is under way.
func (ss *snapshots) remove(s *snapshot) {
	if i := slices.Index(s.line.members, s); i >= 0 {
		s.line.members = slices.Delete(s.line.members, i, i+1)
	}
	ss.recount(s.line)
}

// recount accounts for what the lineage holds now. REQUIRES: ss.mu, and that no
// read for it is under way.
func (ss *snapshots) recount(l *snapshotFamily) {
	steps := (l.size() + snapshotStep - 1) / snapshotStep
	ss.account(l, steps*snapshotStep-l.records)
}

// reserve accounts for n more records of a lineage before they are there.
func (ss *snapshots) reserve(l *snapshotFamily, n int) bool {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	if !ss.makeRoom(n) {
		return false
	}
	ss.account(l, n)
	return true
}

// makeRoom forgets snapshots that nobody uses until there is room for n more
// records, and reports whether there is. REQUIRES: ss.mu.
func (ss *snapshots) makeRoom(n int) bool {
	limit := ss.relay.cfg.Limits.NegRecordsTotal
	for _, idle := range ss.byFilter {
		if ss.records+n <= limit {
			break
		}
		if idle.users == 0 {
			ss.forgetLocked(idle)
		}
	}
	return ss.records+n <= limit
}

// account adds to the records in all. REQUIRES: ss.mu.
func (ss *snapshots) account(l *snapshotFamily, n int) {
	l.records += n
	ss.records += n
	ss.relay.metrics.negRecords.Add(float64(n))
}

// release gives a snapshot back.
func (ss *snapshots) release(s *snapshot) {
	now := ss.relay.cfg.Now()
	ss.mu.Lock()
	defer ss.mu.Unlock()
	s.users--
	s.lastUser = now
	ss.dropLocked(s)
	ss.forgetOldest()
}

// forgetOldest keeps the number of unused snapshots down. REQUIRES: ss.mu.
func (ss *snapshots) forgetOldest() {
	var oldest *snapshot
	idle := 0
	for _, s := range ss.byFilter {
		if s.users > 0 {
			continue
		}
		idle++
		if oldest == nil || s.lastUser.Before(oldest.lastUser) {
			oldest = s
		}
	}
	if idle > snapshotsIdle {
		ss.forgetLocked(oldest)
	}
}

// forget takes the snapshot out of the cache; those who use it keep it.
func (ss *snapshots) forget(s *snapshot) {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	ss.forgetLocked(s)
}

// REQUIRES: ss.mu.
func (ss *snapshots) forgetLocked(s *snapshot) {
	if s.cached {
		s.cached, s.later = false, nil
		delete(ss.byFilter, s.key)
	}
	ss.dropLocked(s)
}

// dropLocked ends the account of a snapshot that nobody can reach. REQUIRES: ss.mu.
func (ss *snapshots) dropLocked(s *snapshot) {
	if s.users == 0 && !s.cached {
		ss.remove(s)
	}
}

// sweep forgets snapshots that have not been used for a while.
func (ss *snapshots) sweep(now time.Time) {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	for _, s := range ss.byFilter {
		if s.users == 0 && now.Sub(s.lastUser) > snapshotKeep {
			ss.forgetLocked(s)
		}
	}
}
