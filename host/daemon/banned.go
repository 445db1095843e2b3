package daemon

import (
	"context"
	"net/netip"
	"time"

	"talon/host/relay"
)

// banned returns why the operator does not let an address in, empty if it may come in.
func (c *Core) banned(addr netip.Addr) string {
	if !addr.IsValid() {
		return ""
	}
	if row := c.Moderation.Address(addr, time.Now().Unix()); row != nil {
		return row.Refusal()
	}
	return ""
}

// closeBanned closes connections from addresses that a new row of the moderation log bans, until ctx
// ends.
func (c *Core) closeBanned(ctx context.Context, relay *relay.Relay) error {
	for {
		changed := c.Moderation.Changed()
		relay.CloseBanned()
		select {
		case <-changed:
		case <-ctx.Done():
			return nil
		}
	}
}
