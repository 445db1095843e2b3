// Package users has the set of known people, who have a part of the shared limits that
// strangers cannot use (package bound).
//
// A key is known in three cases:
//
//   - The operator named it.
//   - It is the owner of a repository that this server has served for seven days.
//   - It is a maintainer of such a repository.
//
// A client proves a key by AUTH. Where a limit sees an address only, the networks of known
// people count. A network is theirs for seven days after a client brought the first accepted
// copy of an event of theirs from it. Events that sync or an import brought do not count. A
// replay does not count either: the event must be an hour old at most, unless the client has
// proven the key.
//
// The set survives a restart: since when a repository has been served, and which networks are
// whose, are rows in the store. Its announcements say who maintains a repository.
//
// Invariants:
//
//  1. The set is bounded: keys of one repository and of one owner, networks of one key, and
//     repositories. Those that came first stay.
//  2. No question to the set does I/O.
package users

import (
	"net/netip"
	"sync"
	"time"

	"talon/host"
	"talon/host/bound"
)

// Bounds of the set.
const (
	ServedFor  = 7 * 24 * time.Hour // after which the people of a repository are known
	NetworkFor = 7 * 24 * time.Hour // for which a network is somebody's
	freshFor   = time.Hour          // age of an event that says where its author is

	maxRepositories = 100_000
	maxKeys         = 32 // of one repository, its owner included
	maxOfOwner      = 64 // keys that the repositories of one owner make known
	maxNetworks     = 8  // of one key
)

// Set is the set of known people. It is safe for concurrent use.
type Set struct {
	cfg   Config
	named map[host.PubKey]struct{}

	mu       sync.RWMutex // guards the fields below
	served   map[host.Address]*repository
	keys     map[host.PubKey]struct{} // of repositories that were served for long enough
	owned    map[netip.Prefix]map[host.PubKey]time.Time
	networks map[host.PubKey]map[netip.Prefix]time.Time // until when each is the key's
	stale    map[string]struct{}                        // identifiers whose repositories are to be read again
	unsaved  map[string][]byte                          // rows, nil for those to delete
}

// repository is one whose announcement is stored.
type repository struct {
	since time.Time
	keys  []host.PubKey // of its people; nil until it was served for long enough
}

// New returns a set that knows the keys that the operator named. Run reads the rest.
func New(cfg Config) *Set {
	s := &Set{
		cfg: cfg, named: make(map[host.PubKey]struct{}), served: make(map[host.Address]*repository), keys: make(map[host.PubKey]struct{}),
		owned: make(map[netip.Prefix]map[host.PubKey]time.Time), networks: make(map[host.PubKey]map[netip.Prefix]time.Time),
		stale: make(map[string]struct{}), unsaved: make(map[string][]byte),
	}
	for _, key := range cfg.Named {
		s.named[key] = struct{}{}
	}
	return s
}

// Holder returns the holder of a client in the shared limits, by its address and the keys that it
// has proven. A nil set knows nobody.
func (s *Set) Holder(addr netip.Addr, proven []host.PubKey) bound.Holder {
	by := bound.Holder{Addr: addr}
	if s == nil {
		return by
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	for _, key := range proven {
		if s.knows(key) {
			by.Known, by.Key = true, key
			return by
		}
	}
	by.Known = s.knowsNetwork(addr)
	return by
}

// Knows reports whether an event may use the part for known people: its author is known, or it
// came from a network of theirs.
func (s *Set) Knows(author host.PubKey, addr netip.Addr) bool {
	if s == nil {
		return false
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.knows(author) || s.knowsNetwork(addr)
}

// KnowsKey reports whether a key is known. The caller has had it proven.
func (s *Set) KnowsKey(key host.PubKey) bool {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.knows(key)
}

// knows reports whether a key is known. REQUIRES: mu.
func (s *Set) knows(key host.PubKey) bool {
	if _, ok := s.named[key]; ok {
		return true
	}
	_, ok := s.keys[key]
	return ok
}

// knowsNetwork reports whether an address is in a network of a known key. REQUIRES: mu.
func (s *Set) knowsNetwork(addr netip.Addr) bool {
	network := host.NetworkOf(addr)
	if !network.IsValid() {
		return false
	}
	now := s.cfg.Now()
	for key, until := range s.owned[network] {
		if now.Before(until) && s.knows(key) {
			return true
		}
	}
	return false
}

// Brought notes that a client has brought the first accepted copy of an event from an address.
// Proven says that it has proven the author's key.
func (s *Set) Brought(e *host.Event, addr netip.Addr, proven bool) {
	if s == nil {
		return
	}
	network := host.NetworkOf(addr)
	now := s.cfg.Now()
	if age := now.Sub(time.Unix(e.CreatedAt, 0)); !network.IsValid() || !proven && age > freshFor {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.knows(e.PubKey) {
		return
	}
	until := now.Add(NetworkFor).Truncate(time.Second)
	if was, ok := s.networks[e.PubKey][network]; ok && until.Sub(was) < time.Hour {
		return // it is not worth a write
	}
	s.setNetwork(e.PubKey, network, until)
	s.unsaved[networkRow(e.PubKey, network)] = encode(until)
	for len(s.networks[e.PubKey]) > maxNetworks {
		s.dropNetwork(e.PubKey, s.oldestNetwork(e.PubKey))
	}
}

// setNetwork makes a network a key's. REQUIRES: mu.
func (s *Set) setNetwork(key host.PubKey, network netip.Prefix, until time.Time) {
	if s.networks[key] == nil {
		s.networks[key] = make(map[netip.Prefix]time.Time)
	}
	if s.owned[network] == nil {
		s.owned[network] = make(map[host.PubKey]time.Time)
	}
	s.networks[key][network], s.owned[network][key] = until, until
}

// oldestNetwork returns the network of a key that ends first. REQUIRES: mu, and there is one.
func (s *Set) oldestNetwork(key host.PubKey) (oldest netip.Prefix) {
	for network, until := range s.networks[key] {
		if !oldest.IsValid() || until.Before(s.networks[key][oldest]) {
			oldest = network
		}
	}
	return oldest
}

// dropNetwork takes a network from a key. REQUIRES: mu.
func (s *Set) dropNetwork(key host.PubKey, network netip.Prefix) {
	if delete(s.networks[key], network); len(s.networks[key]) == 0 {
		delete(s.networks, key)
	}
	if delete(s.owned[network], key); len(s.owned[network]) == 0 {
		delete(s.owned, network)
	}
	s.unsaved[networkRow(key, network)] = nil
}

// Publish notes announcements that are stored now. It does not wait.
func (s *Set) Publish(events []host.Published) {
	for _, p := range events {
		s.changed(p.Event)
	}
}

// Follow notes announcements that have gone. It does not wait.
func (s *Set) Follow(removed []*host.Event, _ []host.HeldChange) {
	for _, e := range removed {
		s.changed(e)
	}
}

// changed has the repositories of an announcement's identifier read again.
func (s *Set) changed(e *host.Event) {
	if e.Kind != host.KindAnnouncement {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stale[e.D()] = struct{}{}
}

// Len returns how many keys and networks are known.
func (s *Set) Len() (keys, networks int) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return len(s.keys) + len(s.named), len(s.owned)
}
