package ingest

import (
	"net/netip"
	"time"

	"talon/host/bound"
)

// maxSlowNetwork bounds, of the decisions that maxSlow bounds, those of one network.
const maxSlowNetwork = maxSlow / 4

// Bounds returns the rows of the table of bounds.
func (p *Pipeline) Bounds() []bound.Spec {
	return []bound.Spec{{
		Name: "decisions under way that are slow", Unit: "decisions", Total: maxSlow, Network: maxSlowNetwork,
		Yields: "nobody; networks take turns",
	}, p.vanished.unknown.Spec()}
}

// account is what the decisions of one network or one neighbourhood have used. All lanes of
// a network together get the time of one lane, however many connections the network opens,
// and so do all networks of a neighbourhood. Loopback has no account.
type account struct {
	prefix  netip.Prefix
	lanes   int           // that are charged to it
	used    time.Duration // virtual time
	slowing int           // slow decisions under way
	waiting []*lane       // slow lanes with work that left their heap, since slowing was at its bound
}

// payers are the accounts of a lane: its network and its neighbourhood, nil for none.
type payers [2]*account

// openAccounts returns the accounts of an address. REQUIRES: mu.
func (s *schedule) openAccounts(addr netip.Addr) (p payers) {
	narrow, wide := bound.Networks(addr)
	if !narrow.IsValid() {
		return p
	}
	for i, prefix := range [...]netip.Prefix{narrow, wide} {
		a := s.accounts[prefix]
		if a == nil {
			a = &account{prefix: prefix, used: s.clock}
			s.accounts[prefix] = a
		}
		a.lanes++
		p[i] = a
	}
	return p
}

// closeAccounts undoes openAccounts. REQUIRES: mu.
func (s *schedule) closeAccounts(p *payers) {
	for _, a := range p {
		if a == nil {
			continue
		}
		if a.lanes--; a.lanes == 0 {
			delete(s.accounts, a.prefix)
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

// charge counts time against a lane and its accounts.
func (l *lane) charge(took time.Duration) {
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
		k.first = max(l.used, network.used, l.payers[1].used)
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

// firstSlow returns the lane of a share that may be served next, nil for none. A lane whose
// network has enough slow decisions under way leaves the heap until one of them ends.
// REQUIRES: mu.
func (s *schedule) firstSlow(sh *share) *lane {
	for {
		l := sh.slow.first()
		if l == nil {
			return nil
		}
		full := l.payers.full()
		if full == nil {
			return l
		}
		sh.slow.Pop()
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
