package relay

import (
	"context"
	"time"

	"talon/host"
	"talon/host/wire"
)

// count answers a COUNT (NIP-45): the exact number, and a HyperLogLog where the
// filter defines one.
func (c *conn) count(ctx context.Context, id string, filters []host.Filter) {
	began := time.Now()
	ctx, cancel := context.WithTimeout(ctx, c.relay.cfg.Limits.QueryTime)
	defer cancel()
	ask := make([]host.Filter, 0, len(filters))
	for _, f := range filters {
		if !f.Empty() {
			f.Limit = -1 // counting has no page
			ask = append(ask, f)
		}
	}
	ask = c.readBy(ask)
	var n int64
	var err error
	if len(ask) > 0 {
		n, err = c.relay.deps.Store.Count(ctx, ask, c.now())
	}
	var registers []byte
	if offset, ok := hllOffset(filters); ok && err == nil {
		var h hyperLogLog
		if len(ask) > 0 {
			err = c.relay.deps.Store.Authors(ctx, ask, c.now(), func(author host.PubKey) { h.add(offset, &author) })
		}
		registers = h[:]
	}
	if err != nil {
		c.refuse(id, c.storeFailed(ctx, "count events", err))
		return
	}
	c.spent.charge(n)
	c.send(outCount, wire.AppendCount(nil, id, n, registers))
	ended := time.Now()
	c.relay.metrics.countTime.Observe(ended.Sub(began).Seconds())
	c.relay.slowest.note(began, ended, c.source.Addr, "COUNT", filters...)
}
