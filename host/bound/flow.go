package bound

import (
	"net/netip"
	"sync"
	"time"
)

// Flow limits what each network takes in a second. A network that is over its share waits, and
// nobody else does. Loopback, and clients without an address, have no limit. It is safe for
// concurrent use.
type Flow struct {
	spec  Spec
	burst float64 // seconds' worth of what a network may take at once
	now   func() time.Time

	mu    sync.Mutex // guards taken
	taken map[netip.Prefix]debt
}

// debt is what a network had taken at a time beyond what it had been given since.
type debt struct {
	amount float64
	at     time.Time
}

// NewFlow returns a flow. Spec.Network is the share of a second, and the burst is how many
// seconds' worth of it may go at once.
func NewFlow(spec Spec, burst time.Duration, now func() time.Time) *Flow {
	if err := spec.check(); err != nil {
		panic(err)
	}
	return &Flow{spec: spec, burst: burst.Seconds(), now: now, taken: make(map[netip.Prefix]debt)}
}

// Spec returns the row of the flow in the table of bounds.
func (f *Flow) Spec() Spec { return f.spec }

// Take takes an amount for a client, and returns how long it must wait afterwards. The network
// and the neighbourhood of the client count, each by itself.
func (f *Flow) Take(client netip.Addr, amount int64) time.Duration {
	narrow, wide := Networks(client)
	if !narrow.IsValid() || f.spec.Network <= 0 {
		return 0
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	now := f.now()
	return max(f.take(narrow, amount, now), f.take(wide, amount, now))
}

// take is Take for one prefix. REQUIRES: mu.
func (f *Flow) take(prefix netip.Prefix, amount int64, now time.Time) time.Duration {
	perSecond := float64(f.spec.Network)
	d, there := f.taken[prefix]
	if !there && len(f.taken) >= maxHolders {
		f.forget(now)
	}
	d.amount = f.owed(d, now) + float64(amount)
	d.at = now
	f.taken[prefix] = d
	return time.Duration(max(0, d.amount/perSecond-f.burst) * float64(time.Second))
}

// owed returns what is left of a debt. REQUIRES: mu.
func (f *Flow) owed(d debt, now time.Time) float64 {
	return max(0, d.amount-max(0, now.Sub(d.at).Seconds())*float64(f.spec.Network))
}

// forget drops the networks that owe nothing, and if none does, those that owe less than a
// burst. REQUIRES: mu.
func (f *Flow) forget(now time.Time) {
	for _, least := range []float64{0, f.burst * float64(f.spec.Network)} {
		for prefix, d := range f.taken {
			if f.owed(d, now) <= least {
				delete(f.taken, prefix)
			}
		}
		if len(f.taken) < maxHolders {
			return
		}
	}
}
