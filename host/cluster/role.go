package cluster

import (
	"context"
	"errors"
)

// RunAs runs something that one node at a time does, whenever this node is the one. The
// context that run gets ends when the role is lost. If it fails, the role is free, and after a
// moment this node asks for it again. RunAs returns when ctx ends, or run without an error.
func (c *Cluster) RunAs(ctx context.Context, role string, run func(context.Context) error) error {
	for ctx.Err() == nil {
		h, err := c.lock(ctx, "role "+role, roleAsk, roleAsk)
		if ctx.Err() != nil || errors.Is(err, errClosed) {
			break
		}
		if err != nil {
			c.log.Warn("ask for a role", "role", role, "err", err)
			pause(ctx, roleAsk)
			continue
		}
		c.log.Info("this node has a role", "role", role)
		c.setRole(role, true)
		term, end := h.Context(ctx)
		err = run(term)
		end()
		c.setRole(role, false)
		lost := h.Err()
		h.Unlock()
		switch {
		case ctx.Err() != nil, lost == nil && err == nil:
			return err
		case lost != nil:
			c.log.Warn("this node has lost a role", "role", role, "reason", lost)
		default: // the database was away for a moment, say
			c.log.Error("what has a role has failed: it begins anew, on this node or another", "role", role, "err", err)
			pause(ctx, roleAsk)
		}
	}
	return nil
}
