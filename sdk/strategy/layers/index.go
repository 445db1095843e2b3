package layers

import (
	"encoding/binary"
	"slices"
	"strings"

	"talon/sdk/strategy"
)

// Bounds of the content of an [Index]. It does not follow more, so that authors of announcements
// cannot decide how much memory a strategy needs.
const (
	MaxRelaysOfRepo  = 64
	MaxRepos         = 1 << 16
	MaxRoots         = 1 << 20
	MaxRelays        = 1 << 13
	MaxAuthors       = 1 << 14
	MaxAuthorsOfRepo = 300
)

// Index has the wanted content: our repositories, the relays that they name, and their root events.
// All have numbers. The number of a removed item is used again.
type Index struct {
	repos     []repo
	byAddress map[string]uint32
	freeRepos []uint32

	relays     []relay
	byURL      map[string]uint32
	freeRelays []uint32

	roots       roots
	owner       []uint32 // of each root number: a repository that has it, or had it
	authors     roots    // keys of those who said something about root events
	moreAuthors Set      // relays from which more authors are wanted than before
	search      int      // repositories that may still be searched: see saidAbout
	mark        []uint64 // a bit for each root or author; all are zero between calls

	// Touched holds the relays from which more is wanted than before. The planner reads it and sets
	// it to the empty set.
	Touched Set

	// Moved holds the repositories that are new, are gone, name other relays, or are wanted on
	// another level than before. Its reader empties it.
	Moved Set

	// Drop is called for each relay from which something is not wanted any more,
	// before the numbers are given out again. It must not keep the sets.
	Drop func(relay uint32, gone Items)

	freed func(gone Items) // called before numbers are given out again
}

type repo struct {
	address string // "": the number is free
	full    bool
	relays  []uint32
	roots   Set
	authors Set // of what is said about its roots
}

type relay struct {
	url   string // "": the number is free
	repos Set    // that name it
}

// Reset empties the index. The seed is for its hash table.
func (x *Index) Reset(seed int64) {
	*x = Index{byAddress: make(map[string]uint32), byURL: make(map[string]uint32), roots: roots{seed: uint64(seed)}, authors: roots{seed: uint64(seed)}, Drop: x.Drop, freed: x.freed}
}

// Relay returns the number of a relay, a new one if it has none; false if there
// are too many.
func (x *Index) Relay(url string) (uint32, bool) {
	if n, ok := x.byURL[url]; ok {
		return n, true
	}
	if url == "" || len(x.byURL) >= MaxRelays {
		return 0, false
	}
	n := uint32(len(x.relays))
	if last := len(x.freeRelays) - 1; last >= 0 {
		n, x.freeRelays = x.freeRelays[last], x.freeRelays[:last]
	} else {
		x.relays = append(x.relays, relay{})
	}
	url = strings.Clone(url)
	x.relays[n].url = url
	x.byURL[url] = n
	return n, true
}

// Forget frees the number of a relay that no repository names.
func (x *Index) Forget(relay uint32) {
	r := &x.relays[relay]
	if r.url == "" || !r.repos.Empty() {
		return
	}
	delete(x.byURL, r.url)
	r.url = ""
	x.freeRelays = append(x.freeRelays, relay)
	x.Touched.Remove(SetOf(relay))
}

// Find returns the number of a relay that has one.
func (x *Index) Find(url string) (uint32, bool) {
	n, ok := x.byURL[url]
	return n, ok
}

// ReposOf returns the repositories that name a relay.
func (x *Index) ReposOf(relay uint32) Set { return x.relays[relay].repos }

// Repo returns the number of a repository that has one.
func (x *Index) Repo(address string) (uint32, bool) {
	n, ok := x.byAddress[address]
	return n, ok
}

// RelaysOf returns the relays that a repository names, if it is followed through
// all layers; none if it is gone. The slice does not change.
func (x *Index) RelaysOf(repo uint32) []uint32 {
	if r := &x.repos[repo]; r.full {
		return r.relays
	}
	return nil
}

// Address returns that of a repository.
func (x *Index) Address(repo uint32) string { return x.repos[repo].address }

// Root returns the id of a root event.
func (x *Index) Root(root uint32) *[32]byte { return x.roots.id(root) }

// Size returns the numbers of repositories and root events.
func (x *Index) Size() (repos, roots int) { return len(x.byAddress), x.roots.used }

// Texts are views, as an input has them.
type Texts interface {
	Next() bool
	Text() string
}

// SetRepo says which relays a repository names now. Only one of level full is
// followed through layers 2 and 3. Relays for which skip says so are left out.
func (x *Index) SetRepo(address string, level uint32, relays Texts, skip func(url string) bool) {
	n, ok := x.byAddress[address]
	if !ok {
		if address == "" || len(x.byAddress) >= MaxRepos {
			return
		}
		n = uint32(len(x.repos))
		if last := len(x.freeRepos) - 1; last >= 0 {
			n, x.freeRepos = x.freeRepos[last], x.freeRepos[:last]
		} else {
			x.repos = append(x.repos, repo{})
		}
		address = strings.Clone(address)
		x.repos[n].address = address
		x.byAddress[address] = n
	}
	var now []uint32
	for relays.Next() && len(now) < MaxRelaysOfRepo {
		url := relays.Text()
		if skip != nil && skip(url) {
			continue
		}
		if relay, ok := x.Relay(url); ok && !slices.Contains(now, relay) {
			now = append(now, relay)
		}
	}
	r := &x.repos[n]
	full := level != strategy.LevelState
	for _, relay := range r.relays {
		if !slices.Contains(now, relay) {
			x.unlink(n, relay)
		} else if r.full && !full {
			x.notify(relay, x.only(n, relay))
		}
	}
	for _, relay := range now {
		if !slices.Contains(r.relays, relay) {
			x.relays[relay].repos.Add(n)
			x.Touched.Add(relay)
		} else if full && !r.full {
			x.Touched.Add(relay)
		}
	}
	if r.full != full || !slices.Equal(r.relays, now) {
		x.Moved.Add(n)
	}
	r.full, r.relays = full, slices.Clip(now)
}

// Known reports whether the repository is in the index.
func (x *Index) Known(address string) bool {
	_, ok := x.byAddress[address]
	return ok
}

// AddRoot says that a root event tags a repository.
func (x *Index) AddRoot(address string, id *[32]byte) {
	x.AddRoots(address, 1, func(int) [32]byte { return *id })
}

// AddRoots records that root events tag a repository. It leaves out those of an unknown repository.
func (x *Index) AddRoots(address string, count int, id func(int) [32]byte) {
	n, ok := x.byAddress[address]
	if !ok {
		return
	}
	r, more := &x.repos[n], false
	for i := range count {
		id := id(i)
		root, free, known := x.roots.find(&id)
		switch {
		case known && r.roots.Has(root), !known && x.roots.used >= MaxRoots:
			continue
		case known:
			x.roots.again(root)
		default:
			root = x.roots.add(&id, free)
		}
		for int(root) >= len(x.owner) {
			x.owner = append(x.owner, 0)
		}
		x.owner[root] = n
		r.roots.Add(root)
		more = true
	}
	if !more || !r.full {
		return
	}
	for _, relay := range r.relays {
		x.Touched.Add(relay)
	}
}

// RemoveRepo forgets a repository.
func (x *Index) RemoveRepo(address string) {
	n, ok := x.byAddress[address]
	if !ok {
		return
	}
	x.detach(n)
	r := &x.repos[n]
	gone := Items{Repos: SetOf(n)}
	for root := range r.roots.All() {
		if x.roots.drop(root) {
			gone.Roots.Add(root)
		}
	}
	for author := range r.authors.All() {
		if x.authors.drop(author) {
			gone.Authors.Add(author)
		}
	}
	if x.freed != nil {
		x.freed(gone)
	}
	delete(x.byAddress, r.address)
	*r = repo{}
	x.freeRepos = append(x.freeRepos, n)
}

// detach takes a repository from all its relays.
func (x *Index) detach(repo uint32) {
	r := &x.repos[repo]
	for _, relay := range r.relays {
		x.unlink(repo, relay)
	}
	r.relays = nil
	x.Moved.Add(repo)
}

// unlink takes a repository from a relay.
func (x *Index) unlink(repo, relay uint32) {
	if x.repos[repo].full {
		x.notify(relay, x.only(repo, relay))
	}
	x.relays[relay].repos.Remove(SetOf(repo))
}

func (x *Index) notify(relay uint32, gone Items) {
	if x.Drop != nil {
		x.Drop(relay, gone)
	}
}

// only returns a repository and those of its roots that no other repository wants
// from the relay. Sets are compared, not roots: events that tag many repositories
// cost no more.
func (x *Index) only(n, relay uint32) Items {
	gone := Items{Repos: SetOf(n)}
	var shared Set
	for root := range x.repos[n].roots.All() {
		if x.roots.uses[root] == 1 {
			gone.Roots.Add(root)
		} else {
			shared.Add(root)
		}
	}
	for other := range x.relays[relay].repos.All() {
		if shared.Empty() {
			break
		}
		if r := &x.repos[other]; other != n && r.full {
			shared.Remove(r.roots)
		}
	}
	gone.Roots.AddSet(shared)
	gone.Authors = x.onlyAuthors(n, relay, x.repos[n].authors)
	return gone
}

// onlyAuthors returns those of a repository's authors that no other repository wants from the relay.
func (x *Index) onlyAuthors(n, relay uint32, authors Set) (gone Set) {
	var shared Set
	for author := range authors.All() {
		if x.authors.uses[author] == 1 {
			gone.Add(author)
		} else {
			shared.Add(author)
		}
	}
	for other := range x.relays[relay].repos.All() {
		if shared.Empty() {
			break
		}
		if r := &x.repos[other]; other != n && r.full {
			shared.Remove(r.authors)
		}
	}
	gone.AddSet(shared)
	return gone
}

// Targets returns the wanted items of one relay.
func (x *Index) Targets(relay uint32) Items { return x.ItemsOf(x.relays[relay].repos) }

// ItemsOf returns the wanted items of these repositories.
func (x *Index) ItemsOf(repos Set) Items {
	var wanted Items
	if need := (x.roots.len() + 63) / 64; need > len(x.mark) {
		x.mark = append(x.mark, make([]uint64, need-len(x.mark))...)
	}
	low, high := len(x.mark), 0
	for n := range repos.All() {
		r := &x.repos[n]
		if !r.full {
			continue
		}
		wanted.Repos.Add(n)
		for _, p := range r.roots.spans {
			for root := p.from; root < p.to; root++ {
				x.mark[root/64] |= 1 << (root % 64)
			}
			low, high = min(low, int(p.from/64)), max(high, int((p.to-1)/64))
		}
	}
	wanted.Roots = spansOf(x.mark, low, high)
	wanted.Authors = x.authorsOf(repos)
	return wanted
}

// authorsOf returns the authors of what is said about the roots of these repositories.
func (x *Index) authorsOf(repos Set) Set {
	if x.authors.used == 0 {
		return Set{}
	}
	if need := (x.authors.len() + 63) / 64; need > len(x.mark) {
		x.mark = append(x.mark, make([]uint64, need-len(x.mark))...)
	}
	low, high := len(x.mark), 0
	for n := range repos.All() {
		r := &x.repos[n]
		if !r.full {
			continue
		}
		for _, p := range r.authors.spans {
			for author := p.from; author < p.to; author++ {
				x.mark[author/64] |= 1 << (author % 64)
			}
			low, high = min(low, int(p.from/64)), max(high, int((p.to-1)/64))
		}
	}
	return spansOf(x.mark, low, high)
}

// pageRoots is the number of ids that are allocated together, so that a growing table copies
// nothing.
const pageRoots = 512

// roots numbers the ids of root events, and finds them again. An id that no
// repository has any more gives its number to the next one.
type roots struct {
	pages []*[pageRoots][32]byte
	uses  []uint16 // of each number: repositories that have it; 0: the number is free
	dates []uint32 // of each number: unix seconds of the latest activity that is known
	free  []uint32 // numbers
	table [segments]segment
	used  int // numbers that are not free
	seed  uint64
}

// id returns the id of a number.
func (r *roots) id(n uint32) *[32]byte { return &r.pages[n/pageRoots][n%pageRoots] }

// len is one more than the highest number.
func (r *roots) len() int { return len(r.uses) }

// segments is the number of parts of the table. Each part grows alone. So growing costs no more in
// a large world, and only one part is in memory twice.
const segments = 256

// segment is a part of the table.
type segment struct {
	slots []uint32 // open addressing; number+1, 0: empty
	used  int
}

// place is the position of a number in the table, or the free position for it.
type place struct {
	in   *segment
	slot uint64
}

// hash mixes bytes of an id with the seed, which authors of events do not know.
func (r *roots) hash(id *[32]byte) uint64 {
	h := (binary.LittleEndian.Uint64(id[:]) ^ r.seed) * 0x9e3779b97f4a7c15
	h ^= binary.LittleEndian.Uint64(id[8:]) + h>>29
	return h * 0xbf58476d1ce4e5b9
}

// segment returns that of a hash.
func (r *roots) segment(hash uint64) *segment { return &r.table[hash>>56] }

// home is the slot of a segment where a hash belongs.
func (s *segment) home(hash uint64) uint64 {
	return (hash >> 24 & 0xffffffff) * uint64(len(s.slots)) >> 32
}

// after is the slot that follows one.
func (s *segment) after(slot uint64) uint64 {
	if slot++; slot < uint64(len(s.slots)) {
		return slot
	}
	return 0
}

// steps is how far it is from one slot on to another.
func (s *segment) steps(from, to uint64) uint64 {
	if to >= from {
		return to - from
	}
	return to + uint64(len(s.slots)) - from
}

// find returns the number of an id; if it has none, the place that is free for it.
func (r *roots) find(id *[32]byte) (n uint32, free place, known bool) {
	hash := r.hash(id)
	s := r.segment(hash)
	if 5*(s.used+1) > 4*len(s.slots) {
		r.grow(s)
	}
	slot := s.home(hash)
	for ; s.slots[slot] != 0; slot = s.after(slot) {
		if n := s.slots[slot] - 1; *r.id(n) == *id {
			return n, place{}, true
		}
	}
	return 0, place{s, slot}, false
}

// again counts one more repository that has the number.
func (r *roots) again(n uint32) {
	if r.uses[n] < maxUses {
		r.uses[n]++
	}
}

// maxUses is as far as uses counts. A number that comes so far is never free
// again.
const maxUses = 1<<16 - 1

// add gives an id a number, after find has returned the place.
func (r *roots) add(id *[32]byte, at place) uint32 {
	n := uint32(len(r.uses))
	if last := len(r.free) - 1; last >= 0 {
		n, r.free = r.free[last], r.free[:last]
	} else {
		r.uses, r.dates = append(r.uses, 0), append(r.dates, 0)
		if n%pageRoots == 0 {
			r.pages = append(r.pages, new([pageRoots][32]byte))
		}
	}
	*r.id(n), r.uses[n], r.dates[n] = *id, 1, 0
	at.in.slots[at.slot] = n + 1
	at.in.used++
	r.used++
	return n
}

// grow makes a segment half as large again.
func (r *roots) grow(s *segment) {
	old := s.slots
	s.slots = make([]uint32, max(16, 3*len(old)/2))
	for _, number := range old {
		if number == 0 {
			continue
		}
		slot := s.home(r.hash(r.id(number - 1)))
		for s.slots[slot] != 0 {
			slot = s.after(slot)
		}
		s.slots[slot] = number
	}
}

// drop counts one repository less that has the number. After the last one it is
// free: it reports whether that is so.
func (r *roots) drop(n uint32) bool {
	if r.uses[n] == maxUses {
		return false
	}
	if r.uses[n]--; r.uses[n] > 0 {
		return false
	}
	r.remove(n)
	r.used--
	r.free = append(r.free, n)
	return true
}

// remove takes a number out of the table and moves up the numbers behind it.
func (r *roots) remove(n uint32) {
	hash := r.hash(r.id(n))
	s := r.segment(hash)
	slot := s.home(hash)
	for s.slots[slot] != n+1 {
		slot = s.after(slot)
	}
	for next := s.after(slot); s.slots[next] != 0; next = s.after(next) {
		home := s.home(r.hash(r.id(s.slots[next] - 1)))
		if s.steps(home, next) >= s.steps(slot, next) {
			s.slots[slot] = s.slots[next]
			slot = next
		}
	}
	s.slots[slot] = 0
	s.used--
}
