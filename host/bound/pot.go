package bound

import (
	"container/list"
	"net/netip"
	"sync"
)

// Pot limits an amount that is held at one time. It is safe for concurrent use.
type Pot struct {
	spec Spec

	mu        sync.Mutex // guards the fields below, and those of each Hold
	used      int64
	strangers int64 // of used, outside the part for known people
	narrow    map[netip.Prefix]*account
	wide      map[netip.Prefix]*account
}

// account is what one prefix holds.
type account struct {
	amount int64     // as strangers do
	known  int64     // in the part for known people
	number int       // of the holds
	holds  list.List // of *Hold that may be evicted, the idlest first; only in Pot.narrow
}

// Hold is a part of a Pot that somebody has.
type Hold struct {
	pot          *Pot
	narrow, wide netip.Prefix
	amount       int64
	known        bool // it is in the part for known people
	evict        func()
	element      *list.Element // in account.holds; nil if it cannot be evicted
	released     bool
}

// NewPot returns a pot. A Spec that makes no sense is a mistake of the program.
func NewPot(spec Spec) *Pot {
	if spec.Network == 0 {
		spec.Network = Share(spec.Total)
	}
	if err := spec.check(); err != nil {
		panic(err)
	}
	return &Pot{spec: spec, narrow: make(map[netip.Prefix]*account), wide: make(map[netip.Prefix]*account)}
}

// Spec returns the row of the pot in the table of bounds.
func (p *Pot) Spec() Spec { return p.spec }

// Used returns the amount that is held now.
func (p *Pot) Used() int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.used
}

// Acquire takes an amount for a holder, who must release it. It fails with [ErrShare] or
// [ErrFull] and never waits.
//
// If evict is not nil, the hold gives way when somebody from a lighter network needs room:
// Acquire then calls evict once, from the goroutine of the one who needs it, without a lock.
// The amount counts as free from then on. evict must not block.
func (p *Pot) Acquire(by Holder, amount int64, evict func()) (*Hold, error) {
	h := &Hold{pot: p, amount: amount, evict: evict}
	h.narrow, h.wide = networks(by.Addr)
	evicted, err := p.acquire(h, by.Known)
	for _, victim := range evicted {
		victim.evict()
	}
	if err != nil {
		return nil, err
	}
	return h, nil
}

// acquire takes the amount of h, and returns the holds that gave way.
func (p *Pot) acquire(h *Hold, known bool) (evicted []*Hold, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if known && p.fitsKnown(h) {
		h.known = true
		p.add(h)
		return nil, nil
	}
	if p.over(p.narrow[h.narrow], h) || p.over(p.wide[h.wide], h) {
		return nil, ErrShare
	}
	for p.strangers+h.amount > p.spec.Total-p.spec.Known {
		victim := p.victim(h)
		if victim == nil {
			return evicted, ErrFull
		}
		p.remove(victim)
		evicted = append(evicted, victim)
	}
	p.add(h)
	return evicted, nil
}

// fitsKnown reports whether h fits in the part for known people. REQUIRES: mu.
func (p *Pot) fitsKnown(h *Hold) bool {
	if p.used-p.strangers+h.amount > p.spec.Known {
		return false
	}
	share := Share(p.spec.Known)
	for _, a := range []*account{p.narrow[h.narrow], p.wide[h.wide]} {
		if h.narrow.IsValid() && a != nil && a.known+h.amount > share {
			return false
		}
	}
	return !h.narrow.IsValid() || h.amount <= share
}

// over reports whether an account would hold more than a network may. REQUIRES: mu.
func (p *Pot) over(a *account, h *Hold) bool {
	if !h.narrow.IsValid() {
		return false
	}
	amount := h.amount
	if a != nil {
		amount += a.amount
	}
	return amount > p.spec.Network
}

// victim returns the idlest hold of the heaviest network, if that is heavier than the network
// of h will be; else nil. The neighbourhood counts first, then the network. REQUIRES: mu.
func (p *Pot) victim(h *Hold) *Hold {
	var heaviest *Hold
	var most, inIt int64
	for _, a := range p.narrow {
		if a.holds.Len() == 0 {
			continue
		}
		idlest := a.holds.Front().Value.(*Hold)
		if weight := p.wide[idlest.wide].amount; weight > most || weight == most && a.amount > inIt {
			heaviest, most, inIt = idlest, weight, a.amount
		}
	}
	own := h.amount
	if a := p.wide[h.wide]; a != nil {
		own += a.amount
	}
	if most <= own {
		return nil
	}
	return heaviest
}

// add counts h. REQUIRES: mu.
func (p *Pot) add(h *Hold) {
	p.used += h.amount
	if !h.known {
		p.strangers += h.amount
	}
	if !h.narrow.IsValid() {
		return
	}
	for _, a := range []*account{open(p.narrow, h.narrow), open(p.wide, h.wide)} {
		a.number++
		a.count(h, h.amount)
	}
	if h.evict != nil && !h.known {
		h.element = p.narrow[h.narrow].holds.PushBack(h)
	}
}

// open returns the account of a prefix, which it makes if there is none.
func open(accounts map[netip.Prefix]*account, prefix netip.Prefix) *account {
	a := accounts[prefix]
	if a == nil {
		a = new(account)
		accounts[prefix] = a
	}
	return a
}

func (a *account) count(h *Hold, amount int64) {
	if h.known {
		a.known += amount
	} else {
		a.amount += amount
	}
}

// remove counts h no longer. REQUIRES: mu.
func (p *Pot) remove(h *Hold) {
	if h.released {
		return
	}
	h.released = true
	p.used -= h.amount
	if !h.known {
		p.strangers -= h.amount
	}
	if !h.narrow.IsValid() {
		return
	}
	narrow, wide := p.narrow[h.narrow], p.wide[h.wide]
	if h.element != nil {
		narrow.holds.Remove(h.element)
		h.element = nil
	}
	if narrow.count(h, -h.amount); narrow.close() {
		delete(p.narrow, h.narrow)
	}
	if wide.count(h, -h.amount); wide.close() {
		delete(p.wide, h.wide)
	}
}

// close counts one hold less, and reports whether it was the last.
func (a *account) close() bool {
	a.number--
	return a.number == 0
}

// Release gives the part back. Further calls do nothing.
func (h *Hold) Release() {
	h.pot.mu.Lock()
	defer h.pot.mu.Unlock()
	h.pot.remove(h)
}

// Touch says that the holder is active: others of its network give way before it.
func (h *Hold) Touch() {
	h.pot.mu.Lock()
	defer h.pot.mu.Unlock()
	if h.element != nil {
		h.pot.narrow[h.narrow].holds.MoveToBack(h.element)
	}
}

// Grow changes the amount by n, which may be negative but for the amount itself. It fails as
// Acquire does, and never evicts.
func (h *Hold) Grow(n int64) error {
	p := h.pot
	p.mu.Lock()
	defer p.mu.Unlock()
	if h.released {
		return ErrFull
	}
	more := &Hold{narrow: h.narrow, wide: h.wide, amount: n}
	if n > 0 {
		switch {
		case h.known && !p.fitsKnown(more):
			return ErrFull
		case !h.known && (p.over(p.narrow[h.narrow], more) || p.over(p.wide[h.wide], more)):
			return ErrShare
		case !h.known && p.strangers+n > p.spec.Total-p.spec.Known:
			return ErrFull
		}
	}
	h.amount += n
	p.used += n
	if !h.known {
		p.strangers += n
	}
	if h.narrow.IsValid() {
		p.narrow[h.narrow].count(h, n)
		p.wide[h.wide].count(h, n)
	}
	return nil
}
