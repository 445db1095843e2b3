package relay

import (
	"slices"

	"talon/host"
)

// Events that are not for everybody take a way of their own to subscriptions. It begins at the
// keys that clients have proven, so that it costs nothing per subscriber.

// provenConn is a connection whose client has proven keys. index.mu guards it.
type provenConn struct {
	keys []host.PubKey
	subs map[*subscription]struct{}
}

// reader returns who reads on the connection: nil is everybody.
func (c *conn) reader() *host.Reader {
	if len(c.authed) == 0 || c.relay.deps.Audiences == nil {
		return nil
	}
	return c.relay.deps.Audiences.Reader(c.authed)
}

// readBy returns the filters as asked by the client of the connection.
func (c *conn) readBy(filters []host.Filter) []host.Filter {
	if r := c.reader(); r != nil {
		for i := range filters {
			filters[i].Reader = r
		}
	}
	return filters
}

// prove notes the keys of a connection, and gives it its part of what is withheld from others.
func (x *index) prove(c *conn) {
	x.mu.Lock()
	defer x.mu.Unlock()
	p := x.proven[c]
	if p == nil {
		p = &provenConn{subs: make(map[*subscription]struct{})}
		x.proven[c] = p
		for _, s := range c.subs {
			p.subs[s] = struct{}{}
		}
	}
	for _, key := range c.authed[len(p.keys):] {
		if x.readers[key] == nil {
			x.readers[key] = make(map[*conn]struct{})
		}
		x.readers[key][c] = struct{}{}
	}
	p.keys = c.authed
}

// forgetConn forgets the keys of a connection.
func (x *index) forgetConn(c *conn) {
	x.mu.Lock()
	defer x.mu.Unlock()
	p := x.proven[c]
	if p == nil {
		return
	}
	delete(x.proven, c)
	for _, key := range p.keys {
		if delete(x.readers[key], c); len(x.readers[key]) == 0 {
			delete(x.readers, key)
		}
	}
}

// audience calls found with each connection whose client receives an event of the audience. Of a set
// it looks at the members or at those who read, whichever are fewer. REQUIRES: x.mu for reading.
func (x *index) audience(a *host.Audience, sets Audiences, found func(*conn, *provenConn)) {
	seen := make(map[*conn]struct{})
	of := func(key host.PubKey) {
		for c := range x.readers[key] {
			if _, twice := seen[c]; !twice {
				seen[c] = struct{}{}
				found(c, x.proven[c])
			}
		}
	}
	for _, key := range a.Keys {
		of(key)
	}
	if a.Set == "" {
		return
	}
	if sets.AudienceSet(a.Set, len(x.readers), of) <= len(x.readers) {
		return
	}
	for key := range x.readers {
		if sets.InAudienceSet(a.Set, key) {
			of(key)
		}
	}
}

// publishWithheld queues an event that is not for everybody for the subscriptions of those who
// receive it. REQUIRES: r.publishing, and r.index.mu for reading.
func (r *Relay) publishWithheld(p *host.Published) {
	if r.deps.Audiences == nil || len(r.index.readers) == 0 {
		return
	}
	r.index.audience(p.Event.Audience, r.deps.Audiences, func(c *conn, proven *provenConn) {
		defer c.failed()
		for s := range proven.subs {
			if !slices.ContainsFunc(s.watches, func(w watch) bool { return w.filter.Matches(p.Event) }) {
				continue
			}
			if c.deliver(s, p, nil) && c.wokenBatch != r.batch {
				c.wokenBatch = r.batch
				r.pendingWake = append(r.pendingWake, c)
			}
		}
	})
}

// endReconciliations ends the open negentropy sessions whose filter matches one of the events, which
// were taken down, or of which the audience has changed: the sets of the sessions may offer their ids
// to those who do not receive them any more.
func (r *Relay) endReconciliations(events ...*host.Event) {
	for _, e := range events {
		r.snapshots.forgetMatching(e)
	}
	for _, c := range r.all() {
		matches := func(f *host.Filter) bool { return slices.ContainsFunc(events, f.Matches) }
		for _, s := range c.dropSessions(matches) {
			c.endSession(s)
		}
	}
}

// TakenDown ends the open negentropy sessions that may offer events which an operator or their author
// has taken down.
func (r *Relay) TakenDown(removed []*host.Event) {
	r.contain(func() { r.endReconciliations(removed...) })
}

// dropSessions removes the sessions with one of these filters, and returns them.
func (c *conn) dropSessions(of func(*host.Filter) bool) (list []*negSession) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for id, s := range c.neg {
		if s.snap != nil && of(&s.snap.filter) {
			list = append(list, s)
			c.dropSession(id, "closed: the events have changed, open the session again")
		}
	}
	return list
}

// forgetMatching takes the snapshots that match an event out of the cache.
func (ss *snapshots) forgetMatching(e *host.Event) {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	for _, s := range ss.byFilter {
		if s.filter.Matches(e) {
			ss.forgetLocked(s)
		}
	}
}
