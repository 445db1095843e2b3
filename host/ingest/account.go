package ingest

import (
	"net/netip"
	"time"

	"talon/host"
	"talon/host/bound"
)

const (
	// maxSlowNetwork bounds, of the decisions that maxSlow bounds, those of one network.
	maxSlowNetwork = maxSlow / 4

	// maxSlowKnown is how many of them only known people may have.
	maxSlowKnown = maxSlow / 4
)

// Bounds returns the rows of the table of bounds.
func (p *Pipeline) Bounds() []bound.Spec {
	return []bound.Spec{{
		Name: "decisions under way that are slow", Unit: "decisions", Total: maxSlow, Known: maxSlowKnown, Network: maxSlowNetwork,
		Yields: "nobody; networks take turns",
	}, p.vanished.unknown.Spec()}
}

// accountKey is a network, a neighbourhood, or the proven key of a known person.
type accountKey struct {
	prefix netip.Prefix
	author host.PubKey
}

// account is what the decisions of one network, one neighbourhood or one known person have used.
// All lanes of a network together get the time of one lane, however many connections the network
// opens, and so do all networks of a neighbourhood. Loopback has no account.
type account struct {
	accountKey
	lanes   int           // that are charged to it
	busy    int           // of those that have work
	used    time.Duration // virtual time
	slowing int           // slow decisions under way
	waiting []*lane       // slow lanes with work that left their heap, since slowing was at its bound
}

// payers are the accounts of a lane, nil for none: its network, and its neighbourhood or the key
// that makes the client known.
type payers [2]*account

// openAccounts returns the accounts of a client.
func (c *class) openAccounts(by bound.Holder) (p payers) {
	narrow, wide := bound.Networks(by.Addr)
	keys := [len(p)]accountKey{{prefix: narrow}, {prefix: wide}}
	if by.Key != (host.PubKey{}) {
		keys[1] = accountKey{author: by.Key}
	}
	for i, key := range keys {
		if key == (accountKey{}) {
			continue
		}
		a := c.accounts[key]
		if a == nil {
			a = &account{accountKey: key, used: c.clock}
			c.accounts[key] = a
		}
		a.lanes++
		p[i] = a
	}
	return p
}

// closeAccounts undoes openAccounts.
func (c *class) closeAccounts(p *payers) {
	for _, a := range p {
		if a == nil {
			continue
		}
		if a.lanes--; a.lanes == 0 {
			delete(c.accounts, a.accountKey)
		}
	}
}

// raise has accounts start no earlier than a virtual time: a network that was idle does not
// save up time.
func (p *payers) raise(start time.Duration) {
	for _, a := range p {
		if a != nil {
			a.used = max(a.used, start)
		}
	}
}

func (p *payers) countSlow(n int) {
	for _, a := range p {
		if a != nil {
			a.slowing += n
		}
	}
}

// full returns the account that has as many slow decisions under way as it may, nil for none.
func (p *payers) full() *account {
	for _, a := range p {
		if a != nil && a.slowing >= maxSlowNetwork {
			return a
		}
	}
	return nil
}

// charge counts time against a lane, its accounts and its class. REQUIRES: mu.
func (s *schedule) charge(l *lane, took time.Duration) {
	s.chargeClass(l.class, took)
	l.used += took
	for _, a := range l.payers {
		if a != nil {
			a.used += took
		}
	}
}

// laneKey orders lanes: by the most that the lane, its network or its neighbourhood has used,
// then among the networks of one neighbourhood, then among the lanes of one network.
type laneKey struct{ first, network, own time.Duration }

func (l *lane) currentKey() laneKey {
	k := laneKey{first: l.used, own: l.used}
	if network := l.payers[0]; network != nil {
		k.network = network.used
	}
	for _, a := range l.payers {
		if a != nil {
			k.first = max(k.first, a.used)
		}
	}
	return k
}

func (k laneKey) less(other laneKey) bool {
	switch {
	case k.first != other.first:
		return k.first < other.first
	case k.network != other.network:
		return k.network < other.network
	}
	return k.own < other.own
}

// firstSlow returns the lane of a class and a share that may be served next, nil for none. A lane
// whose network has enough slow decisions under way leaves the heap until one of them ends.
// REQUIRES: mu.
func (s *schedule) firstSlow(c *class, sh *share) *lane {
	h := sh.lanes(c)
	for {
		l := h.first()
		if l == nil {
			return nil
		}
		full := l.payers.full()
		if full == nil {
			return l
		}
		h.Pop()
		s.queued--
		full.waiting = append(full.waiting, l)
	}
}

// offerWaiting offers lanes that firstSlow took out, as far as their accounts have room
// again. Every end of a decision calls it, also of one that was not slow: so a lane that
// waits in one account is not forgotten while it waits in the other. REQUIRES: mu.
func (s *schedule) offerWaiting(p *payers) {
	for _, a := range p {
		if a == nil {
			continue
		}
		for n := maxSlowNetwork - a.slowing; n > 0 && len(a.waiting) > 0; n-- {
			l := a.waiting[0]
			a.waiting[0] = nil
			a.waiting = a.waiting[1:]
			l.queued = false
			s.offer(l)
		}
	}
}
