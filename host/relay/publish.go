package relay

import "talon/host"

// Publish sends events to the subscriptions that match. It is called after each
// commit, in the order of commits, and waits for no client.
func (r *Relay) Publish(events []host.Published) {
	r.publishing.Lock()
	defer r.publishing.Unlock()
	r.snapshots.published(events)

	r.batch++
	last := int64(0)
	touched := r.pendingWake[:0]
	r.index.mu.RLock()
	for i := range events {
		p := &events[i]
		last = max(last, p.Seq)
		if p.Event.Kind == host.KindAuth {
			continue // NIP-42: never broadcast
		}
		r.stamp++
		r.keys = r.index.match(p.Event, r.keys, func(w *watch) {
			s := w.sub
			if s.stamp == r.stamp || !w.matches(p.Event) {
				return
			}
			s.stamp = r.stamp
			c := s.conn
			if c.deliver(s, p) && c.wokenBatch != r.batch {
				c.wokenBatch = r.batch
				touched = append(touched, c)
			}
		})
	}
	r.index.mu.RUnlock()
	r.publishedSeq.Store(max(last, r.publishedSeq.Load()))

	// Each connection is woken once, so that what a batch has for it goes out in
	// one piece.
	for i, c := range touched {
		c.mu.Lock()
		c.wakeWriter()
		c.mu.Unlock()
		touched[i] = nil
	}
	r.pendingWake = touched
}

// deliver queues a live event, and reports whether the connection must be woken.
func (c *conn) deliver(s *subscription, p *host.Published) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if s.phase != loading {
		return s.phase == live && c.deliverLocked(s, p)
	}
	n := len(p.Event.JSON) + perItem
	if c.ended != nil {
		return false
	}
	if c.out.bytes()+c.heldBytes+n > c.relay.cfg.Limits.QueueBytes {
		c.endLocked(c.full())
		return false
	}
	s.held = append(s.held, *p)
	c.heldBytes += n
	return false
}

// deliverLocked queues an event unless the stored answer has it. REQUIRES: c.mu.
func (c *conn) deliverLocked(s *subscription, p *host.Published) bool {
	if s.answered.has(p) {
		return false
	}
	if !c.push(outgoing{prefix: s.prefix, body: p.Event.JSON}) {
		return false
	}
	c.relay.metrics.live.Inc()
	c.relay.metrics.out[outEvent].Inc()
	if c.out.queued > writeSize {
		c.wakeWriter()
	}
	return true
}
