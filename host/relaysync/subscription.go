package relaysync

import (
	"slices"

	"talon/host"
	"talon/sdk/abi"
)

// subscription is one that the strategy asked for.
type subscription struct {
	id      string
	serial  uint64
	filters []host.Filter // until it is opened
	live    bool
	purpose uint32
	request *request // nil until it is opened
	gone    bool
}

// subscribe opens a subscription when its turn comes, in place of what has the same
// id.
func (c *conn) subscribe(s *subscription) {
	c.unsubscribe(s.id)
	c.subs[s.id] = s
	if len(c.queue) >= 2*c.env.cfg.Limits.Subscriptions {
		// While the relay wants a rest, a strategy may change its mind without an end.
		c.queue = slices.DeleteFunc(c.queue, func(s *subscription) bool { return s.gone })
	}
	c.queue = append(c.queue, s)
}

// unsubscribe ends a subscription or a historic, silently.
func (c *conn) unsubscribe(id string) {
	if s := c.subs[id]; s != nil {
		s.gone = true
		delete(c.subs, id)
		if s.request != nil {
			c.hangUp(s.request)
		}
	}
	if h := c.hists[id]; h != nil {
		h.abandon(c)
	}
}

// begin opens what waits, as fast as the relay is to be pressed.
func (c *conn) begin() {
	if len(c.queue)+len(c.waiting)+len(c.later) == 0 || c.ticked.Before(c.cool) {
		return
	}
	later := c.later
	c.later = nil
	for _, f := range later {
		f()
	}
	for len(c.queue) > 0 && c.tokens >= 1 {
		s := c.queue[0]
		c.queue[0] = nil
		if c.queue = c.queue[1:]; s.gone {
			continue
		}
		c.tokens--
		s.request = c.ask(s, s.purpose, s.filters, newMatchers(s.filters))
		s.request.live = s.live
		s.filters = nil
	}
	if len(c.queue) == 0 {
		c.queue = nil
	}
	for len(c.waiting) > 0 && c.tokens >= 1 && c.running < c.env.cfg.Limits.Historics {
		h := c.waiting[0]
		c.waiting[0] = nil
		if c.waiting = c.waiting[1:]; h.gone {
			continue
		}
		c.tokens--
		c.running++
		h.start(c)
	}
	if len(c.waiting) == 0 {
		c.waiting = nil
	}
}

func (s *subscription) saw(*request, *digest) bool { return true }

func (s *subscription) complete(c *conn, r *request) {
	c.tell(report{
		serial: s.serial,
		input:  &abi.Eose{Relay: c.url, ID: s.id, Events: uint32(r.events), New: uint32(r.fresh), MinCreatedAt: r.oldest},
		gaps:   gapsOf(r.purpose, r.kept), first: r.first,
	})
}

func (s *subscription) closed(c *conn, _ *request, class uint32, reason string) {
	delete(c.subs, s.id)
	s.gone = true
	c.tell(report{serial: s.serial, input: &abi.Closed{Relay: c.url, ID: s.id, Class: class, Reason: said(reason)}})
}
