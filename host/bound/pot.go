package bound

import (
	"net/netip"
	"sync"
	"sync/atomic"

	"talon/host"
	"talon/internal/heap"
)

// Pot limits an amount that is held at one time. It is safe for concurrent use.
type Pot struct {
	spec Spec

	clock atomic.Int64 // counts what was asked for; it dates the activity of holds

	mu        sync.Mutex // guards the fields below, and those of each Hold but active
	used      int64
	strangers int64 // of used, outside the part for known people
	narrow    map[netip.Prefix]*account
	wide      map[netip.Prefix]*account
	keys      map[host.PubKey]int64 // what each key holds in the part for known people
}

// account is what one prefix holds. Holders without a network share the account of the zero
// prefix, which has no limit of its own.
type account struct {
	amount int64            // as strangers do
	known  int64            // in the part for known people
	number int              // of the holds
	holds  heap.Heap[*Hold] // those that may be evicted, the idlest first; only in Pot.narrow
}

// Hold is a part of a Pot that somebody has.
type Hold struct {
	pot          *Pot
	narrow, wide netip.Prefix
	amount       int64
	known        bool // it is in the part for known people
	key          host.PubKey
	evict        func()
	place        int   // in account.holds; -1 if it cannot be evicted now
	seen         int64 // active, when its place in account.holds was found
	kept         bool  // it gives way to nobody any more
	released     bool
	active       atomic.Int64 // Pot.clock when it was active last
}

// NewPot returns a pot. A Spec that makes no sense is a mistake of the program.
func NewPot(spec Spec) *Pot {
	spec = spec.scaled()
	if spec.Network == 0 {
		spec.Network = Share(spec.Total)
	}
	if err := spec.check(); err != nil {
		panic(err)
	}
	return &Pot{
		spec: spec, narrow: make(map[netip.Prefix]*account), wide: make(map[netip.Prefix]*account), keys: make(map[host.PubKey]int64),
	}
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
//
// In a pot with Spec.AnonymousYield, holders without a network count as one network here. Nothing tells
// them apart, so a new one also displaces the idlest of them, if they hold most.
func (p *Pot) Acquire(by Holder, amount int64, evict func()) (*Hold, error) {
	return p.take(by, amount, evict, p.makeRoom)
}

// Displace is Acquire for a state that honest holders leave soon. It makes room where
// Acquire fails: the idlest hold of the holder's own network gives way, or that of another
// network that holds as much.
func (p *Pot) Displace(by Holder, amount int64, evict func()) (*Hold, error) {
	return p.take(by, amount, evict, p.displace)
}

// take acquires an amount. It finds room for a stranger with a function that REQUIRES: mu.
func (p *Pot) take(by Holder, amount int64, evict func(), room func(h *Hold, more int64) ([]*Hold, error)) (*Hold, error) {
	h := &Hold{pot: p, amount: amount, evict: evict, key: by.Key, place: -1}
	h.narrow, h.wide = Networks(by.Addr)
	h.Touch()
	evicted, err := p.acquire(h, by.Known, room)
	for _, victim := range evicted {
		victim.evict()
	}
	if err != nil {
		return nil, err
	}
	return h, nil
}

// acquire takes the amount of h, and returns the holds that gave way.
func (p *Pot) acquire(h *Hold, known bool, room func(h *Hold, more int64) ([]*Hold, error)) (evicted []*Hold, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if known && p.fitsKnown(h, h.amount) {
		h.known = true
	} else if evicted, err = room(h, h.amount); err != nil {
		return evicted, err
	}
	p.add(h)
	return evicted, nil
}

// makeRoom has others give way until a stranger can hold this amount more. REQUIRES: mu.
func (p *Pot) makeRoom(h *Hold, more int64) (evicted []*Hold, err error) {
	if p.over(p.narrow[h.narrow], h, more) || p.over(p.wide[h.wide], h, more) {
		return nil, ErrShare
	}
	minWeight := p.weight(h) + more + 1
	if !h.narrow.IsValid() && p.spec.AnonymousYield {
		minWeight = 1
	}
	return p.evictWhileFull(more, minWeight)
}

// displace is how Displace makes room. REQUIRES: mu.
func (p *Pot) displace(h *Hold, more int64) (evicted []*Hold, err error) {
	for p.over(p.narrow[h.narrow], h, more) || p.over(p.wide[h.wide], h, more) {
		// Of the network if that has too much, else of the whole neighbourhood.
		inNetwork := p.over(p.narrow[h.narrow], h, more)
		var victim *Hold
		for prefix, a := range p.narrow {
			if prefix != h.narrow && (inNetwork || !h.wide.Contains(prefix.Addr())) {
				continue
			}
			if idlest := a.idlest(); idlest != nil && (victim == nil || idlest.active.Load() < victim.active.Load()) {
				victim = idlest
			}
		}
		if victim == nil {
			return evicted, ErrShare
		}
		p.remove(victim)
		evicted = append(evicted, victim)
	}
	others, err := p.evictWhileFull(more, p.weight(h))
	return append(evicted, others...), err
}

// evictWhileFull evicts from networks that hold an amount at least, until a stranger can hold so
// much more. REQUIRES: mu.
func (p *Pot) evictWhileFull(more, minWeight int64) (evicted []*Hold, err error) {
	for p.strangers+more > p.spec.Total-p.spec.Known {
		victim := p.victim(minWeight)
		if victim == nil {
			return evicted, ErrFull
		}
		p.remove(victim)
		evicted = append(evicted, victim)
	}
	return evicted, nil
}

// weight returns what the neighbourhood of h holds. REQUIRES: mu.
func (p *Pot) weight(h *Hold) int64 {
	if a := p.wide[h.wide]; a != nil {
		return a.amount
	}
	return 0
}

// fitsKnown reports whether this amount more of h fits in the part for known people. REQUIRES: mu.
func (p *Pot) fitsKnown(h *Hold, more int64) bool {
	if p.spec.Known == 0 || p.used-p.strangers+more > p.spec.Known {
		return false
	}
	share := Share(p.spec.Known)
	if h.key != (host.PubKey{}) && p.keys[h.key]+more > share {
		return false
	}
	if !h.narrow.IsValid() {
		return true
	}
	for _, a := range []*account{p.narrow[h.narrow], p.wide[h.wide]} {
		if a != nil && a.known+more > share {
			return false
		}
	}
	return more <= share
}

// over reports whether an account would hold more than a network may. REQUIRES: mu.
func (p *Pot) over(a *account, h *Hold, more int64) bool {
	if a != nil {
		more += a.amount
	}
	return h.narrow.IsValid() && more > p.spec.Network
}

// victim returns the idlest hold of the heaviest network, nil if that holds less than an amount.
// The neighbourhood counts first, then the network. Of equal ones, that with the idlest hold
// gives way. REQUIRES: mu.
func (p *Pot) victim(minWeight int64) (victim *Hold) {
	var heaviest, inIt int64
	for _, a := range p.narrow {
		if a.amount == 0 || a.holds.Len() == 0 {
			continue
		}
		weight := p.wide[a.holds.Top().wide].amount
		if weight < heaviest || weight == heaviest && a.amount < inIt {
			continue
		}
		idlest := a.idlest()
		equal := weight == heaviest && a.amount == inIt
		if equal && victim != nil && idlest.active.Load() >= victim.active.Load() {
			continue
		}
		victim, heaviest, inIt = idlest, weight, a.amount
	}
	if victim == nil || heaviest < minWeight {
		return nil
	}
	return victim
}

// idlest returns the hold that was active longest ago, of those that hold something; nil if
// none does. Most holds are looked at only when they come to the top: activity since then
// sends them down.
func (a *account) idlest() *Hold {
	for a.holds.Len() > 0 {
		h := a.holds.Top()
		active := h.active.Load()
		if active == h.seen {
			return h
		}
		h.seen = active
		a.holds.Fix(0)
	}
	return nil
}

// add counts h. REQUIRES: mu.
func (p *Pot) add(h *Hold) {
	p.used += h.amount
	open(p.narrow, h.narrow).number++
	open(p.wide, h.wide).number++
	p.count(h, h.amount)
	p.offer(h)
}

// offer has h give way to others, if it may. REQUIRES: mu.
func (p *Pot) offer(h *Hold) {
	mayYield := h.narrow.IsValid() || p.spec.AnonymousYield
	if h.evict != nil && mayYield && !h.kept && !h.known && h.amount > 0 && h.place < 0 {
		h.seen = h.active.Load()
		p.narrow[h.narrow].holds.Push(h)
	}
}

// withhold has h give way to nobody. REQUIRES: mu.
func (p *Pot) withhold(h *Hold) {
	if h.place >= 0 {
		p.narrow[h.narrow].holds.Remove(h.place)
	}
}

// open returns the account of a prefix, which it makes if there is none.
func open(accounts map[netip.Prefix]*account, prefix netip.Prefix) *account {
	a := accounts[prefix]
	if a == nil {
		a = &account{holds: heap.New(
			func(x, y *Hold) bool { return x.seen < y.seen },
			func(h *Hold, place int) { h.place = place })}
		accounts[prefix] = a
	}
	return a
}

// count counts an amount of h in its part, its network and its neighbourhood. REQUIRES: mu.
func (p *Pot) count(h *Hold, amount int64) {
	switch {
	case !h.known:
		p.strangers += amount
	case h.key != (host.PubKey{}):
		if p.keys[h.key] += amount; p.keys[h.key] == 0 {
			delete(p.keys, h.key)
		}
	}
	p.narrow[h.narrow].count(h, amount)
	p.wide[h.wide].count(h, amount)
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
	p.count(h, -h.amount)
	p.withhold(h)
	if p.narrow[h.narrow].close() {
		delete(p.narrow, h.narrow)
	}
	if p.wide[h.wide].close() {
		delete(p.wide, h.wide)
	}
}

// close counts one hold less, and reports whether it was the last.
func (a *account) close() bool {
	a.number--
	return a.number == 0
}

// Yield has the idlest hold of the heaviest network give way, if that is heavier than the
// network of the one who asks, and reports whether one did. It is for a resource that runs
// out before the pot does.
func (p *Pot) Yield(by Holder) bool {
	h := new(Hold)
	h.narrow, h.wide = Networks(by.Addr)
	p.mu.Lock()
	victim := p.victim(p.weight(h) + 2)
	if victim != nil {
		p.remove(victim)
	}
	p.mu.Unlock()
	if victim == nil {
		return false
	}
	victim.evict()
	return true
}

// Release gives the part back. Further calls do nothing.
func (h *Hold) Release() {
	h.pot.mu.Lock()
	defer h.pot.mu.Unlock()
	h.pot.remove(h)
}

// Touch says that the holder is active: others of its network give way before it. It is cheap.
func (h *Hold) Touch() { h.active.Store(h.pot.clock.Add(1)) }

// Keep says that the hold gives way to nobody from now on. It reports false if it has given
// way already.
func (h *Hold) Keep() bool {
	h.pot.mu.Lock()
	defer h.pot.mu.Unlock()
	h.pot.withhold(h)
	h.kept = true
	return !h.released
}

// Recognise moves the hold to the part for known people if the holder is known now, and the
// hold fits there. It gives way to nobody then.
func (h *Hold) Recognise(by Holder) {
	p := h.pot
	p.mu.Lock()
	defer p.mu.Unlock()
	if !by.Known || h.known || h.released {
		return
	}
	h.key = by.Key
	if !p.fitsKnown(h, h.amount) {
		h.key = host.PubKey{}
		return
	}
	p.withhold(h)
	p.count(h, -h.amount)
	h.known = true
	p.count(h, h.amount)
}

// Grow changes the amount by n, which may be negative but for the amount itself. It fails, and
// has others give way, as [Pot.Acquire] does.
func (h *Hold) Grow(n int64) error { return h.growBy(n, h.pot.makeRoom) }

// GrowAndDisplace adds n to the amount, and makes room as [Pot.Displace] does. The hold itself
// does not give way, and is active.
func (h *Hold) GrowAndDisplace(n int64) error {
	h.Touch()
	return h.growBy(n, h.pot.displace)
}

func (h *Hold) growBy(n int64, room func(h *Hold, more int64) ([]*Hold, error)) error {
	evicted, err := h.grow(n, room)
	for _, victim := range evicted {
		victim.evict()
	}
	return err
}

func (h *Hold) grow(n int64, room func(h *Hold, more int64) ([]*Hold, error)) (evicted []*Hold, err error) {
	p := h.pot
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case h.released:
		return nil, ErrFull
	case n > 0 && h.known && p.fitsKnown(h, n):
	case n > 0 && h.known:
		// The whole of it becomes a stranger's.
		p.count(h, -h.amount)
		h.known = false
		if evicted, err = room(h, h.amount+n); err != nil {
			h.known = true
		}
		p.count(h, h.amount)
		if err != nil {
			return evicted, err
		}
	case n > 0:
		p.withhold(h) // it must not give way for itself
		if evicted, err = room(h, n); err != nil {
			p.offer(h)
			return evicted, err
		}
	}
	h.amount += n
	p.used += n
	p.count(h, n)
	if h.amount == 0 {
		p.withhold(h)
	} else {
		p.offer(h)
	}
	return evicted, nil
}
