package githttp

import (
	"net/netip"
	"sync"
	"time"

	"talon/host"
)

// Budget bounds what the clients of each network use of something in an hour. What is
// left comes back little by little. It goes below zero: what something costs is known
// only after it. Loopback, and clients without an address, have no bound.
type Budget struct {
	hourly float64 // 0: no bound
	now    func() time.Time

	mu   sync.Mutex // guards used
	used map[netip.Prefix]usage
}

// usage is what a network had used at a time.
type usage struct {
	amount float64
	at     time.Time
}

// maxNetworks bounds how many networks are remembered. Those that have used little are
// forgotten first.
const maxNetworks = 10_000

// NewBudget returns a budget of so much in an hour, 0 for no bound.
func NewBudget(hourly float64, now func() time.Time) *Budget {
	return &Budget{hourly: hourly, now: now, used: make(map[netip.Prefix]usage)}
}

// Wait returns how long it takes until a client may go on; 0 if it may.
func (b *Budget) Wait(client netip.Addr) time.Duration {
	network := host.NetworkOf(client)
	if b.hourly <= 0 || !network.IsValid() {
		return 0
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	over := b.counting(network, b.now()) - b.hourly
	if over < 0 {
		return 0
	}
	// It is to have a tenth of its hour then, and not a moment.
	return time.Duration((over/b.hourly + 0.1) * float64(time.Hour))
}

// Charge adds what a client has used.
func (b *Budget) Charge(client netip.Addr, amount float64) {
	network := host.NetworkOf(client)
	if b.hourly <= 0 || !network.IsValid() || amount <= 0 {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	now := b.now()
	if _, known := b.used[network]; !known && len(b.used) >= maxNetworks {
		b.forget(now)
	}
	b.used[network] = usage{b.counting(network, now) + amount, now}
}

// counting returns what counts of what a network has used. REQUIRES: mu.
func (b *Budget) counting(network netip.Prefix, now time.Time) float64 {
	u := b.used[network]
	return max(0, u.amount-max(0, now.Sub(u.at).Hours())*b.hourly)
}

// forget drops the networks that have used no more than they do on average. REQUIRES: mu.
func (b *Budget) forget(now time.Time) {
	sum := 0.0
	for network := range b.used {
		sum += b.counting(network, now)
	}
	average := sum / float64(len(b.used))
	for network := range b.used {
		if b.counting(network, now) <= average {
			delete(b.used, network)
		}
	}
}
