package relay

import (
	"cmp"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"talon/host"
	"talon/host/bound"
	"talon/host/wire"
)

const (
	// A query that takes less is not noted.
	slowFrom = 100 * time.Millisecond

	// slowKept is how many of them are remembered, and slowFor how long.
	slowKept = 20
	slowFor  = 2 * time.Minute

	// maxSlowText bounds the filters of one, in bytes.
	maxSlowText = 300
)

// SlowQuery is a query that took long.
type SlowQuery struct {
	At      time.Time
	Took    time.Duration
	Addr    netip.Addr // of the client
	Verb    string     // REQ, COUNT or NEG-OPEN
	Filters string     // as JSON, cut
}

// slowest remembers the queries that took longest, of the last minutes.
type slowest struct {
	mu   sync.Mutex  // guards list
	list []SlowQuery // the longest first
}

// note notes a query that began at a time, if it took long.
func (s *slowest) note(began, now time.Time, addr netip.Addr, verb string, filters ...host.Filter) {
	took := now.Sub(began)
	if took < slowFrom {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.dropLocked(now)
	if len(s.list) == slowKept && s.list[slowKept-1].Took >= took {
		return
	}
	var text []byte
	for i := range filters {
		if text = wire.AppendFilter(append(text, ' '), &filters[i]); len(text) > maxSlowText {
			break
		}
	}
	q := SlowQuery{At: now, Took: took, Addr: addr, Verb: verb, Filters: strings.ToValidUTF8(string(text[min(1, len(text)):min(len(text), maxSlowText)]), "")}
	at, _ := slices.BinarySearchFunc(s.list, q, func(a, b SlowQuery) int { return cmp.Compare(b.Took, a.Took) })
	s.list = slices.Insert(s.list, at, q)
	s.list = s.list[:min(len(s.list), slowKept)]
}

// dropLocked forgets those that are too old. REQUIRES: mu.
func (s *slowest) dropLocked(now time.Time) {
	s.list = slices.DeleteFunc(s.list, func(q SlowQuery) bool { return now.Sub(q.At) > slowFor })
}

func (s *slowest) get(now time.Time) []SlowQuery {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.dropLocked(now)
	return slices.Clone(s.list)
}

// Clients says who is connected, and what takes long.
type Clients struct {
	Connections, Subscriptions int
	Networks                   []bound.Count[netip.Prefix] // with most connections; the zero prefix is loopback
	Slow                       []SlowQuery                 // of the last two minutes, the longest first
}

// Clients returns who is connected: the networks with most connections, at most limit. It does not
// change what Telemetry returns.
func (r *Relay) Clients(limit int) Clients {
	var c Clients
	networks := bound.Largest[netip.Prefix]{Size: max(r.cfg.Limits.Connections, 1)}
	for _, conn := range r.all() {
		c.Connections++
		networks.Add(host.NetworkOf(conn.source.Addr), 1)
	}
	c.Networks = networks.Top(limit)
	r.index.mu.RLock()
	c.Subscriptions = r.index.subs
	r.index.mu.RUnlock()
	c.Slow = r.slowest.get(time.Now())
	c.Slow = c.Slow[:min(len(c.Slow), limit)]
	return c
}
