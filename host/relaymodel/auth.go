package relaymodel

import (
	"slices"

	"talon/host"
	"talon/host/wire"
)

// challenge sends the connection's challenge, once.
func (r *Relay) challenge(c *conn) {
	if c.asked || r.profile.Auth.Challenge == "never" {
		return
	}
	c.asked = true
	r.send(c, wire.AppendAuth(nil, c.challenge))
}

// authenticate answers a proof: an event of kind 22242 with the connection's
// challenge. Its signature is not verified.
func (r *Relay) authenticate(c *conn, e *host.Event) {
	p := &r.profile.Auth
	valid := e.Kind == host.KindAuth && e.CheckID() == nil && slices.ContainsFunc(e.Tags, func(t host.Tag) bool {
		return len(t) > 1 && t[0] == "challenge" && t[1] == c.challenge
	})
	if !valid || p.Proof == "refused" {
		r.ok(c, e.ID.String(), false, p.ProofText)
		return
	}
	c.proven = true
	r.ok(c, e.ID.String(), true, "")
}

// needsProof reports whether a client must prove itself before it asks so.
func (r *Relay) needsProof(c *conn, filters []host.Filter) bool {
	p := &r.profile.Auth
	if !p.Read || c.proven {
		return false
	}
	if p.LiveFree && !slices.ContainsFunc(filters, func(f host.Filter) bool { return f.Limit != 0 }) {
		return false
	}
	if p.Kinds == nil {
		return true
	}
	return !slices.ContainsFunc(filters, func(f host.Filter) bool {
		return f.Kinds == nil || slices.ContainsFunc(f.Kinds, func(k host.Kind) bool { return !slices.Contains(p.Kinds, int(k)) })
	})
}

// withholds reports whether some kinds are kept from a client.
func (r *Relay) withholds(c *conn) bool {
	return r.profile.Auth.Read && r.profile.Auth.Kinds != nil && !c.proven
}

func (r *Relay) isWithheld(e *host.Event) bool {
	return slices.Contains(r.profile.Auth.Kinds, int(e.Kind))
}
