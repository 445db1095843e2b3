package relay

import (
	"net/netip"
	"sync"

	"talon/host/bound"
)

// freePartial is what every connection may hold of a message that is not complete,
// uncounted: as much as its read buffer.
const freePartial = readSize

// reassembly counts the bytes of incomplete long messages of all connections. Above
// Limits.PartialBytes a connection is closed: the one with the most bytes, in the network with the
// most. So a client that fills it makes room for others, and a client alone in its network is safe
// from those of another.
type reassembly struct {
	spec bound.Spec // of the table of bounds; its total is Limits.PartialBytes

	mu    sync.Mutex // guards the fields below
	total int
	held  map[*conn]int
}

// grow records how many bytes of a message a connection holds. If all hold too many together, it
// closes as many connections as that takes.
func (a *reassembly) grow(c *conn, bytes int) {
	if bytes <= freePartial {
		return
	}
	for _, victim := range a.record(c, bytes) {
		victim.closeWith(errCrowded)
	}
}

// record is grow, and returns the connections that must close.
func (a *reassembly) record(c *conn, bytes int) (victims []*conn) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.total += bytes - a.held[c]
	a.held[c] = bytes
	for int64(a.total) > a.spec.Total && len(a.held) > 0 {
		victim := a.largest()
		a.remove(victim) // it is closed in a moment, and must not be found again
		victims = append(victims, victim)
	}
	return victims
}

// release notes that a connection holds nothing any more.
func (a *reassembly) release(c *conn) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.remove(c)
}

// remove is release. REQUIRES: mu.
func (a *reassembly) remove(c *conn) {
	a.total -= a.held[c]
	delete(a.held, c)
}

// largest returns the connection with the highest number of bytes, in the network with the highest
// number. A connection that is not counted by network counts as one. REQUIRES: mu, and there is
// one.
func (a *reassembly) largest() (heaviest *conn) {
	networks := make(map[netip.Prefix]int)
	of := func(c *conn) int {
		if c.slot.IsValid() {
			return networks[c.slot]
		}
		return a.held[c]
	}
	for c, n := range a.held {
		if c.slot.IsValid() {
			networks[c.slot] += n
		}
	}
	for c, n := range a.held {
		if heaviest == nil || of(c) > of(heaviest) || of(c) == of(heaviest) && n > a.held[heaviest] {
			heaviest = c
		}
	}
	return heaviest
}

func (a *reassembly) bytes() float64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	return float64(a.total)
}

func newReassembly(limit int) *reassembly {
	return &reassembly{held: make(map[*conn]int), spec: bound.Spec{
		Name: "long messages that are not complete", Unit: "bytes", Total: int64(limit),
		Yields: "the connection that holds most, of the network that holds most",
	}}
}
