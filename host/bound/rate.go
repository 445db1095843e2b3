package bound

import (
	"math"
	"net/netip"
	"sync"
	"time"
)

// Rate limits what each network uses in an hour. What it used fades away evenly, so that a
// network that is over its share may go on little by little. An amount may go over the
// share, since some costs are known only afterwards. Loopback, and clients without an
// address, have no limit. It is safe for concurrent use.
type Rate struct {
	spec Spec
	now  func() time.Time

	mu   sync.Mutex // guards used
	used map[netip.Prefix]usage
}

// usage is what a network had used at a time.
type usage struct {
	amount float64
	at     time.Time
}

// maxNetworks limits how many networks a Rate knows. It forgets those first that have used
// little.
const maxNetworks = 10_000

// NewRate returns a rate. Spec.Network is the share of each hour, and 0 for no limit.
func NewRate(spec Spec, now func() time.Time) *Rate {
	if err := spec.check(); err != nil {
		panic(err)
	}
	return &Rate{spec: spec, now: now, used: make(map[netip.Prefix]usage)}
}

// Spec returns the row of the rate in the table of bounds.
func (r *Rate) Spec() Spec { return r.spec }

func (r *Rate) hourly() float64 { return float64(r.spec.Network) }

// counts returns the prefix that counts a client. It is invalid if nothing does.
func (r *Rate) counts(client netip.Addr) netip.Prefix {
	if r.spec.Network <= 0 {
		return netip.Prefix{}
	}
	narrow, _ := Networks(client)
	return narrow
}

// Wait returns the time until a client may go on; 0 if it may now.
func (r *Rate) Wait(client netip.Addr) time.Duration {
	network := r.counts(client)
	if !network.IsValid() {
		return 0
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	over := r.counting(network, r.now()) - r.hourly()
	if over < 0 {
		return 0
	}
	// The client then has a tenth of its hour, and not a moment.
	return time.Duration((over/r.hourly() + 0.1) * float64(time.Hour))
}

// Left returns what a client may use now. It is very large for a client without limit.
func (r *Rate) Left(client netip.Addr) int64 {
	network := r.counts(client)
	if !network.IsValid() {
		return math.MaxInt64
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return max(0, r.spec.Network-int64(r.counting(network, r.now())))
}

// Charge adds to the use of a client.
func (r *Rate) Charge(client netip.Addr, amount float64) {
	network := r.counts(client)
	if !network.IsValid() || amount <= 0 {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.charge(network, amount, r.now())
}

// Reserve charges an amount that a client is about to use if that much is left, and returns
// 0; otherwise it returns the time until it is.
func (r *Rate) Reserve(client netip.Addr, amount float64) time.Duration {
	network := r.counts(client)
	if !network.IsValid() {
		return 0
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	now := r.now()
	if over := r.counting(network, now) + amount - r.hourly(); over > 0 {
		return time.Duration(over / r.hourly() * float64(time.Hour))
	}
	r.charge(network, amount, now)
	return 0
}

// charge is Charge at a time. REQUIRES: mu.
func (r *Rate) charge(network netip.Prefix, amount float64, now time.Time) {
	if _, there := r.used[network]; !there && len(r.used) >= maxNetworks {
		r.evict(now)
	}
	r.used[network] = usage{r.counting(network, now) + amount, now}
}

// counting returns what still counts of what a network has used. REQUIRES: mu.
func (r *Rate) counting(network netip.Prefix, now time.Time) float64 {
	u := r.used[network]
	return max(0, u.amount-max(0, now.Sub(u.at).Hours())*r.hourly())
}

// evict drops the networks that have used no more than the average. REQUIRES: mu.
func (r *Rate) evict(now time.Time) {
	sum := 0.0
	for network := range r.used {
		sum += r.counting(network, now)
	}
	average := sum / float64(len(r.used))
	for network := range r.used {
		if r.counting(network, now) <= average {
			delete(r.used, network)
		}
	}
}
