package bound

import (
	"net/netip"
	"sync"
	"time"
)

// Visits limits how often this server contacts others because strangers name them. A held event
// names servers, and nobody has shown yet that they serve what it is about: the servers may be
// somebody's whom the sender wants to disturb.
//
// A visit counts for the one who named the server. Each connection also counts for the address
// that the server's name leads to, so that many names of one address share its part. It is safe
// for concurrent use.
type Visits struct {
	namers, addresses Spec

	mu           sync.Mutex      // makes one step of looking at all parts and charging them
	total        *hourly[string] // of strangers
	unnamed      *hourly[string] // of namers without a network
	known        *hourly[string] // of known people
	knownAuthors *hourly[string] // authors in the part for known people
	networks     *hourly[netip.Prefix]
	authors      *hourly[string]
	addressed    *hourly[netip.Prefix]
}

// Namer is the origin of an event that names a server.
type Namer struct {
	Addr   netip.Addr // of the client that sent it; zero if none did, or that is not known any more
	Author string
	Known  bool // may use the part for known people
}

// Parts of Visits in an hour. A relay and a repository that fail are tried again some ten times
// in an hour, and an honest announcement names a few new servers.
const (
	visitsTotal   = 1024
	visitsNetwork = 16
	visitsAuthor  = 16
	visitsAddress = 32
	visitsUnnamed = visitsTotal / 2 // events that sync brings have no network, and are not let to use all
)

// NewVisits returns the limit for servers of one sort, such as "relays".
func NewVisits(servers string, now func() time.Time) *Visits {
	v := &Visits{
		namers: Spec{
			Name: "visits to " + servers + " that only held events name", Unit: "visits an hour", Total: visitsTotal, Known: KnownPart(visitsTotal), Network: visitsNetwork, Key: visitsAuthor,
			Yields: "the visit that the network, or the author, of the event has named; it comes later",
		},
		addresses: Spec{
			Name: "connections to one address for visits to " + servers, Unit: "connections an hour", Network: visitsAddress,
			Yields: "the connection to the address, or to its /24 or /48; it comes later",
		},
		total:        newHourly[string](visitsTotal-KnownPart(visitsTotal), now),
		known:        newHourly[string](KnownPart(visitsTotal), now),
		knownAuthors: newHourly[string](Share(KnownPart(visitsTotal)), now),
		unnamed:      newHourly[string](visitsUnnamed, now),
		networks:     newHourly[netip.Prefix](visitsNetwork, now),
		authors:      newHourly[string](visitsAuthor, now),
		addressed:    newHourly[netip.Prefix](visitsAddress, now),
	}
	for _, spec := range []*Spec{&v.namers, &v.addresses} {
		if err := spec.check(); err != nil {
			panic(err)
		}
	}
	return v
}

// Bounds returns the rows of the table of bounds.
func (v *Visits) Bounds() []Spec { return []Spec{v.namers, v.addresses} }

// everybody is the only key of a total.
const everybody = "all"

// Wait returns the time until a namer has a visit left; 0 if it has now.
func (v *Visits) Wait(by Namer) time.Duration {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.wait(by)
}

// wait is Wait. REQUIRES: mu.
func (v *Visits) wait(by Namer) time.Duration {
	if by.Known {
		return min(v.waitKnown(by), v.waitStranger(by))
	}
	return v.waitStranger(by)
}

// waitKnown is Wait in the part for known people. REQUIRES: mu.
func (v *Visits) waitKnown(by Namer) time.Duration {
	return max(v.known.until(everybody, 1), v.knownAuthors.until(by.Author, 1))
}

// waitStranger is Wait in the part for everybody. REQUIRES: mu.
func (v *Visits) waitStranger(by Namer) time.Duration {
	wait := max(v.total.until(everybody, 1), v.authors.until(by.Author, 1))
	if _, wide := Networks(by.Addr); wide.IsValid() {
		return max(wait, v.networks.until(wide, 1))
	}
	return max(wait, v.unnamed.until(everybody, 1))
}

// Reserve charges a visit to a namer that has one left, and returns 0; otherwise it returns the
// time until it has.
func (v *Visits) Reserve(by Namer) time.Duration {
	v.mu.Lock()
	defer v.mu.Unlock()
	if wait := v.wait(by); wait > 0 {
		return wait
	}
	if by.Known && v.waitKnown(by) == 0 {
		v.known.add(everybody, 1)
		v.knownAuthors.add(by.Author, 1)
		return 0
	}
	v.total.add(everybody, 1)
	v.authors.add(by.Author, 1)
	if _, wide := Networks(by.Addr); wide.IsValid() {
		v.networks.add(wide, 1)
	} else {
		v.unnamed.add(everybody, 1)
	}
	return 0
}

// Left returns how many visits a namer has left.
func (v *Visits) Left(by Namer) int64 {
	v.mu.Lock()
	defer v.mu.Unlock()
	left := min(v.total.left(everybody), v.authors.left(by.Author))
	if _, wide := Networks(by.Addr); wide.IsValid() {
		left = min(left, v.networks.left(wide))
	} else {
		left = min(left, v.unnamed.left(everybody))
	}
	if by.Known {
		left += min(v.known.left(everybody), v.knownAuthors.left(by.Author))
	}
	return left
}

// ReserveAddress charges a connection to an address and its neighbourhood if both have one left,
// and returns 0; otherwise it returns the time until they have. Loopback has no limit.
func (v *Visits) ReserveAddress(to netip.Addr) time.Duration {
	narrow, wide := Networks(to)
	v.mu.Lock()
	defer v.mu.Unlock()
	if wait := max(v.addressed.until(narrow, 1), v.addressed.until(wide, 1)); wait > 0 {
		return wait
	}
	v.addressed.add(narrow, 1)
	v.addressed.add(wide, 1)
	return 0
}
