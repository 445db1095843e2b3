package engine

import "talon/host/relaysync/session"

// Plant has a function change what the sessions of a run do.
func (c *Config) Plant(change func(session.Effect) session.Effect) { c.plant = change }
