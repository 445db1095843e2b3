package relay

import (
	"net/netip"
	"sync"
)

// freePartial is what every connection may hold of a message that is not complete,
// uncounted: as much as its read buffer.
const freePartial = readSize

// reassembly counts what all connections together hold of long messages that are not
// complete. Where that is more than Limits.PartialBytes, a connection is closed: of the
// network that holds the most, the one with the most. So whoever fills it makes room
// for others, and a client alone in its network is safe from those of another.
type reassembly struct {
	limit int

	mu    sync.Mutex // guards the fields below
	total int
	held  map[*conn]int
}

func newReassembly(limit int) *reassembly {
	return &reassembly{limit: limit, held: make(map[*conn]int)}
}

// grow notes that a connection holds so many bytes of a message.
func (a *reassembly) grow(c *conn, bytes int) {
	if bytes <= freePartial {
		return
	}
	a.mu.Lock()
	a.total += bytes - a.held[c]
	a.held[c] = bytes
	var victim *conn
	if a.total > a.limit {
		victim = a.largest()
		a.remove(victim) // it is closed in a moment, and must not be found again
	}
	a.mu.Unlock()
	if victim != nil {
		victim.end(errCrowded)
	}
}

// release notes that a connection holds nothing any more.
func (a *reassembly) release(c *conn) {
	a.mu.Lock()
	a.remove(c)
	a.mu.Unlock()
}

// remove is release. REQUIRES: mu.
func (a *reassembly) remove(c *conn) {
	a.total -= a.held[c]
	delete(a.held, c)
}

// largest returns the connection with the most bytes, of the network with the most.
// Connections that are not counted by network are each by itself. REQUIRES: mu, and
// there is one.
func (a *reassembly) largest() (most *conn) {
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
		if most == nil || of(c) > of(most) || of(c) == of(most) && n > a.held[most] {
			most = c
		}
	}
	return most
}

func (a *reassembly) bytes() float64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	return float64(a.total)
}
