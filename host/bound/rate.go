package bound

import (
	"math"
	"net/netip"
	"sync"
	"time"
)

// Rate limits what each network uses in an hour. The use fades away evenly, so that a network
// that is over its share may go on little by little. An amount may go over the
// share, since some costs are known only afterwards. Loopback, and clients without an
// address, have no limit. It is safe for concurrent use.
type Rate struct {
	spec     Spec
	networks *hourly[netip.Prefix]
}

// NewRate returns a rate. Spec.Network is the share of each hour, and 0 for no limit.
func NewRate(spec Spec, now func() time.Time) *Rate {
	if err := spec.check(); err != nil {
		panic(err)
	}
	return &Rate{spec: spec, networks: newHourly[netip.Prefix](spec.Network, now)}
}

// Spec returns the row of the rate in the table of bounds.
func (r *Rate) Spec() Spec { return r.spec }

// Wait returns the time until a client may go on; 0 if it may now.
func (r *Rate) Wait(client netip.Addr) time.Duration { return r.networks.wait(network(client)) }

// Left returns what a client may use now. It is very large for a client without limit.
func (r *Rate) Left(client netip.Addr) int64 { return r.networks.left(network(client)) }

// Charge adds to the use of a client.
func (r *Rate) Charge(client netip.Addr, amount float64) { r.networks.add(network(client), amount) }

// Reserve charges an amount that a client is about to use if that much is left, and returns
// 0; otherwise it returns the time until it is.
func (r *Rate) Reserve(client netip.Addr, amount float64) time.Duration {
	return r.networks.reserve(network(client), amount)
}

// network returns the prefix that counts a client. It is invalid if nothing does.
func network(client netip.Addr) netip.Prefix {
	narrow, _ := Networks(client)
	return narrow
}

// KeyRate is a Rate of authors or owners, each by its key. The empty key has no limit.
type KeyRate struct {
	spec Spec
	keys *hourly[string]
}

// NewKeyRate returns a rate. Spec.Key is the share of each hour, and 0 for no limit.
func NewKeyRate(spec Spec, now func() time.Time) *KeyRate {
	if err := spec.check(); err != nil {
		panic(err)
	}
	return &KeyRate{spec: spec, keys: newHourly[string](spec.Key, now)}
}

// Spec returns the row of the rate in the table of bounds.
func (r *KeyRate) Spec() Spec { return r.spec }

// Wait returns the time until a key may go on; 0 if it may now.
func (r *KeyRate) Wait(key string) time.Duration { return r.keys.wait(key) }

// Charge adds to the use of a key.
func (r *KeyRate) Charge(key string, amount float64) { r.keys.add(key, amount) }

// Left returns what a key may use now. It is very large for a key without limit.
func (r *KeyRate) Left(key string) int64 { return r.keys.left(key) }

// Reserve charges an amount that a key is about to use if that much is left, and returns 0;
// otherwise it returns the time until it is.
func (r *KeyRate) Reserve(key string, amount float64) time.Duration {
	return r.keys.reserve(key, amount)
}

// hourly limits what each of several holders uses in an hour. The zero key has no limit. It
// is safe for concurrent use.
type hourly[K comparable] struct {
	share int64 // of each holder and hour; 0 for no limit
	now   func() time.Time

	mu   sync.Mutex // guards used
	used map[K]usage
}

// usage is what a holder had used at a time.
type usage struct {
	amount float64
	at     time.Time
}

// maxHolders limits how many holders a rate knows. It forgets those first that have used
// little.
const maxHolders = 10_000

func newHourly[K comparable](share int64, now func() time.Time) *hourly[K] {
	return &hourly[K]{share: share, now: now, used: make(map[K]usage)}
}

// limits reports whether a key has a limit.
func (h *hourly[K]) limits(key K) bool {
	var none K
	return h.share > 0 && key != none
}

func (h *hourly[K]) wait(key K) time.Duration {
	if !h.limits(key) {
		return 0
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	over := h.counting(key, h.now()) - float64(h.share)
	if over < 0 {
		return 0
	}
	// The holder then has a tenth of its hour, and not a moment.
	return h.time(over) + time.Hour/10
}

func (h *hourly[K]) left(key K) int64 {
	if !h.limits(key) {
		return math.MaxInt64
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	return max(0, h.share-int64(h.counting(key, h.now())))
}

func (h *hourly[K]) add(key K, amount float64) {
	if !h.limits(key) || amount <= 0 {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.charge(key, amount, h.now())
}

func (h *hourly[K]) reserve(key K, amount float64) time.Duration {
	if !h.limits(key) {
		return 0
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	now := h.now()
	if over := h.counting(key, now) + amount - float64(h.share); over > 0 {
		return h.time(over)
	}
	h.charge(key, amount, now)
	return 0
}

// until returns the time until an amount is left; 0 if it is now.
func (h *hourly[K]) until(key K, amount float64) time.Duration {
	if !h.limits(key) {
		return 0
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.time(max(0, h.counting(key, h.now())+amount-float64(h.share)))
}

// time returns how long an amount takes to fade away.
func (h *hourly[K]) time(amount float64) time.Duration {
	return time.Duration(amount / float64(h.share) * float64(time.Hour))
}

// charge adds to the use of a key. REQUIRES: mu.
func (h *hourly[K]) charge(key K, amount float64, now time.Time) {
	if _, there := h.used[key]; !there && len(h.used) >= maxHolders {
		h.evict(now)
	}
	h.used[key] = usage{h.counting(key, now) + amount, now}
}

// counting returns what still counts of what a key has used. REQUIRES: mu.
func (h *hourly[K]) counting(key K, now time.Time) float64 {
	u := h.used[key]
	return max(0, u.amount-float64(max(0, now.Sub(u.at).Hours())*float64(h.share)))
}

// evict drops the keys that have used no more than the average. REQUIRES: mu.
func (h *hourly[K]) evict(now time.Time) {
	sum := 0.0
	for key := range h.used {
		sum += h.counting(key, now)
	}
	average := sum / float64(len(h.used))
	for key := range h.used {
		if h.counting(key, now) <= average {
			delete(h.used, key)
		}
	}
}
