package relaysync

import (
	"talon/host"
	"talon/sdk/abi"
)

// arrived is an event that is to be looked up and submitted.
type arrived struct {
	event   *host.Event
	request *request
	stored  bool   // it came before the end of stored events
	mark    uint64 // of the retry set, and
	era     uint64 // of refusals, when it was submitted
}

// landed notes that nothing more is to be heard of the event.
func (a *arrived) landed(c *conn) {
	if a.stored {
		a.request.flying--
	}
	c.settle(a.request)
}

// batchEvents is how many events are looked up at once, at most.
const batchEvents = 128

// flush submits what is not stored yet. It waits for the pipeline.
func (c *conn) flush() error {
	if len(c.batch) == 0 {
		return nil
	}
	batch := c.batch
	c.batch = c.batch[:0]
	ids := make([]host.ID, len(batch))
	for i := range batch {
		ids[i] = batch[i].event.ID
	}
	missing, err := c.env.deps.Local.Missing(c.ctx, ids)
	if err != nil {
		if c.ctx.Err() == nil {
			c.env.cfg.Log.Error("look up events", "relay", c.url, "err", err)
		}
		return err
	}
	wanted := make(map[host.ID]bool, len(missing))
	for _, id := range missing {
		wanted[id] = true
	}
	for i := range batch {
		a := batch[i]
		batch[i] = arrived{}
		first, absent := wanted[a.event.ID]
		if first {
			wanted[a.event.ID] = false
			if err := c.submit(a); err != nil {
				return err
			}
			continue
		}
		if !absent {
			c.env.known.add(a.event.ID)
		} // else a copy of one that is not decided yet, and may be forged
		c.env.metrics.dropped.WithLabelValues(dropNames[dropKnown]).Inc()
		a.landed(c)
	}
	return nil
}

func (c *conn) submit(a arrived) error {
	e, purpose := a.event, a.request.purpose
	a.mark = c.env.mark.Load()
	a.request.fresh++
	c.flying++
	c.flyBytes += len(e.JSON)
	a.era = c.env.known.leave(e.ID, c.url)
	return c.env.deps.Ingest.Submit(c.ctx, &host.Item{Event: e, Source: c.source, Done: func(v host.Verdict, err error) {
		c.env.answered(e, v, err, purpose)
		c.do(func() { c.answered(a, v, err) })
	}})
}

// answered notes what became of an event, before anybody else hears of it. It is called
// by the pipeline's goroutine.
func (v *env) answered(e *host.Event, verdict host.Verdict, err error, purpose uint32) {
	v.known.arrive(e.ID)
	if err != nil {
		return
	}
	switch verdict.Code {
	case host.Stored, host.Held:
		v.metrics.events.WithLabelValues(sources[purpose]).Inc()
		v.known.add(e.ID)
	case host.Duplicate, host.Replaced:
		v.known.add(e.ID)
	}
}

// answered notes what became of an event of this connection.
func (c *conn) answered(a arrived, v host.Verdict, err error) {
	c.flying--
	c.flyBytes -= len(a.event.JSON)
	r := a.request
	log := c.env.cfg.Log
	switch {
	case err != nil || v.Code == host.Busy:
		r.failed = true
	case v.Code == host.Stored || v.Code == host.Held:
		if r.kept == 0 {
			r.first = a.event.ID
		}
		r.kept++
		log.Debug("event from a relay", "event", a.event.ID, "kind", a.event.Kind, "relay", c.url, "source", sources[r.purpose], "verdict", v.Code)
	case v.Code == host.Duplicate || v.Code == host.Replaced:
		// An older version of something is not stored, but compared as if it were.
		if a.event.Kind.Class() == host.Replaceable || a.event.Kind.Class() == host.Addressable {
			c.env.known.outdate(a.event, c.env.now())
		}
	case v.Code == host.Relayed:
	default:
		log.Debug("refused an event from a relay", "event", a.event.ID, "kind", a.event.Kind, "relay", c.url, "reason", v.Reason)
		c.refused(a)
	}
	a.landed(c)
}

// forgedWeight is what an event with a wrong id or signature counts.
const forgedWeight = 5

// refused notes an event that the pipeline refused. What is not what its id says must
// not stand in the way of what is: it is only counted.
func (c *conn) refused(a arrived) {
	if err := c.env.deps.Verify(a.event); err != nil {
		if c.strike(dropForged, forgedWeight) != nil {
			c.out.fail(errBreach)
		}
		return
	}
	c.env.known.refuse(a.event, c.env.now(), a.era)
	c.tell(report{refused: &refusedReport{a.event, a.mark}})
}

// gapsOf returns how many of a request's events live sync should have brought.
func gapsOf(purpose uint32, kept int) int {
	if purpose == abi.PurposeReconnect || purpose == abi.PurposeDaily {
		return kept
	}
	return 0
}
