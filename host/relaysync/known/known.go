// Package known stores ids of the events of all relays: those that are here, so that
// copies cost nothing, and those that were refused, so that they are not fetched again.
//
// Only what is proven goes in: an event that the pipeline refused is verified before
// [Set.Refuse], so that a forged copy cannot keep the real one out.
//
// A [Set] has a lock, since the sessions of relays run side by side, and no clock: times
// are unix seconds.
package known

import (
	"cmp"
	"encoding/binary"
	"slices"
	"sync"

	"talon/host"
	"talon/host/relaysync/match"
	"talon/internal/recent"
)

// Set holds ids of the events of all relays, and sessions share it. It holds the ids of
// local events, so that copies from others cost nothing. It holds the ids of refused
// events, so that nobody fetches them again. For events on their way, it holds their
// source.
type Set struct {
	hash match.Hash

	mu         sync.Mutex // guards the fields below
	here       recent.Map[host.ID, struct{}]
	refused    map[host.ID]*refusal
	oldest     *refusal // of the refused, in the order of their refusal
	newest     *refusal
	max        int // refusals that there is room for yet, by their weight
	age        int64
	generation uint64             // how often all refusals were forgotten
	inFlight   map[host.ID]string // submitted and not answered: the relay
	numbered   uint64             // refusals so far, and those before a restart
	written    uint64             // of them, those that Pages has returned
	restored   []waiting          // what restored refusals may wait for, by mark
	restoredAt int64
}

type refusal struct {
	digest match.Digest
	number uint64 // in their order, across restarts
	weight int
	at     int64
	next   *refusal
}

// tagsOfOne is how many tags of an event take the room of another refusal.
const tagsOfOne = 32

// hereIDs is how many ids of events that are here are remembered, at least.
const hereIDs = 1 << 14

// New returns an empty set that remembers up to most refused events, each for age
// seconds.
func New(hash match.Hash, limit int, age int64) *Set {
	return &Set{
		hash:     hash,
		here:     recent.Map[host.ID, struct{}]{Size: hereIDs},
		refused:  make(map[host.ID]*refusal),
		max:      limit,
		age:      age,
		inFlight: make(map[host.ID]string),
	}
}

// Has reports whether an event is here or was refused lately. The id is what a relay
// claims: if it is not the event's, the event is worth nothing anyway.
func (k *Set) Has(id host.ID, now int64) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.hasLocked(id, now)
}

// hasLocked is Has. REQUIRES: mu.
func (k *Set) hasLocked(id host.ID, now int64) bool {
	if k.here.Has(id) {
		return true
	}
	r := k.refused[id]
	return r != nil && now-r.at < k.age
}

// MarkInFlight records that an event is submitted, and returns the generation of the
// policies, for Refuse. One that is on its way from another relay is submitted as well:
// the other copy may be forged.
func (k *Set) MarkInFlight(id host.ID, relay string) (generation uint64) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.inFlight[id] = relay
	return k.generation
}

// Decided records the decision about a submitted event, before it is published.
func (k *Set) Decided(id host.ID, v host.Verdict, err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.inFlight, id)
	if err != nil {
		return
	}
	switch v.Code {
	case host.Stored, host.Held, host.Duplicate, host.Replaced:
		k.addLocked(id)
	}
}

// InFlight returns the relay that an event in flight comes from.
func (k *Set) InFlight(id host.ID) (string, bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	relay, ok := k.inFlight[id]
	return relay, ok
}

// Add records that events are here.
func (k *Set) Add(list ...host.ID) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, id := range list {
		k.addLocked(id)
	}
}

// addLocked notes that an event is here. REQUIRES: mu.
func (k *Set) addLocked(id host.ID) {
	k.here.Add(id, struct{}{}, 1)
	delete(k.refused, id) // its place in the order stays until it is old
}

// Here reports whether an event is known to be here.
func (k *Set) Here(id host.ID) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.here.Has(id)
}

// Remove removes events that are no longer here.
func (k *Set) Remove(list ...host.ID) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, id := range list {
		k.here.Remove(id)
	}
}

// Refuse records that an event, which is what its id says, was refused. If it was
// submitted before Invalidate was called, a policy may have refused it that decides no
// more.
func (k *Set) Refuse(e *host.Event, now int64, generation uint64) {
	r := &refusal{digest: k.hash.Digest(e), at: now}
	k.mu.Lock()
	defer k.mu.Unlock()
	if generation == k.generation {
		k.refuseLocked(r)
	}
}

// Exclude records that an event, which is what its id says, is not kept whatever a policy
// decides: it was removed, or there is a newer one.
func (k *Set) Exclude(e *host.Event, now int64) {
	r := &refusal{digest: k.hash.Digest(e), at: now}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.refuseLocked(r)
}

// refuseLocked takes a refusal. REQUIRES: mu.
func (k *Set) refuseLocked(r *refusal) {
	if k.newest == nil {
		k.oldest = r
	} else {
		k.newest.next = r
	}
	k.newest = r
	r.weight = 1 + r.digest.Tags()/tagsOfOne
	r.number = k.numbered
	k.numbered++
	k.refused[r.digest.ID] = r
	k.max -= r.weight
	for k.oldest != r && (k.max < 0 || r.at-k.oldest.at >= k.age) {
		if old := k.oldest; k.refused[old.digest.ID] == old {
			delete(k.refused, old.digest.ID)
		}
		k.max += k.oldest.weight
		k.oldest = k.oldest.next
	}
}

// Invalidate forgets the refused events: a new policy may accept them.
func (k *Set) Invalidate() {
	k.mu.Lock()
	defer k.mu.Unlock()
	for r := k.oldest; r != nil; r = r.next {
		k.max += r.weight
	}
	k.generation++
	k.oldest, k.newest, k.restored = nil, nil, nil
	clear(k.refused)
}

// EachRefused calls yield for each event that was refused lately and matches.
func (k *Set) EachRefused(m *match.Matcher, now int64, yield func(createdAt int64, id host.ID)) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for r := k.oldest; r != nil; r = r.next {
		id := r.digest.ID
		if k.refused[id] == r && now-r.at < k.age && m.Matches(&r.digest) {
			yield(r.digest.CreatedAt, id)
		}
	}
}

// Unknown returns those of the ids that are neither here nor refused.
func (k *Set) Unknown(list []host.ID, now int64) (rest []host.ID) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, id := range list {
		if !k.hasLocked(id, now) {
			rest = append(rest, id)
		}
	}
	return rest
}

// NotRefused returns those of the ids that were not refused: what is compared as if it were
// here, and is not.
func (k *Set) NotRefused(list []host.ID, now int64) (rest []host.ID) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, id := range list {
		if r := k.refused[id]; r == nil || now-r.at >= k.age {
			rest = append(rest, id)
		}
	}
	return rest
}

// pageSize is how many refusals with consecutive numbers one page holds. New refusals are
// written without the other pages.
const pageSize = 1024

// page returns the page of a refusal.
func page(number uint64) uint64 { return number / pageSize }

// Pages returns, whole, the pages of refusals that have changed since the last call, by
// their numbers. Those below first need not be kept.
func (k *Set) Pages(now int64) (pages map[uint64][]byte, first uint64) {
	k.mu.Lock()
	defer k.mu.Unlock()
	from := page(k.written)
	pages = make(map[uint64][]byte)
	first = page(k.numbered + pageSize - 1) // the next one
	for r := k.oldest; r != nil; r = r.next {
		if now-r.at >= k.age || k.refused[r.digest.ID] != r {
			continue
		}
		p := page(r.number)
		first = min(first, p)
		if p < from || k.written == k.numbered {
			continue
		}
		b := binary.AppendVarint(pages[p], r.at)
		pages[p] = r.digest.Append(b)
	}
	k.written = k.numbered
	return pages, first
}

// Unwritten reports that the last pages were not written: Pages then returns all.
func (k *Set) Unwritten() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.written = k.numbered
	if k.oldest != nil {
		k.written = k.oldest.number
	}
}

// Restore reads pages that were written before a restart, by the same key and for the
// same policies. A page that cannot be read is passed over. It is called before anything
// is refused.
//
// Restore does not know the reasons for another try of an event. So a restored event is
// forgotten, and fetched again, when something arrives that it may have waited for.
func (k *Set) Restore(pages map[uint64][]byte, now int64) {
	numbers := make([]uint64, 0, len(pages))
	for p := range pages {
		numbers = append(numbers, p)
	}
	slices.Sort(numbers)
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, p := range numbers {
		k.numbered = p * pageSize
		for b := pages[p]; len(b) > 0; {
			at, n := binary.Varint(b)
			if n <= 0 {
				break
			}
			d, rest, ok := match.Decode(b[n:])
			if !ok {
				break
			}
			b = rest
			if at > now || now-at >= k.age || k.here.Has(d.ID) || k.refused[d.ID] != nil {
				continue
			}
			k.refuseLocked(&refusal{digest: d, at: at})
			for _, mark := range d.Needs() {
				k.restored = append(k.restored, waiting{mark, d.ID})
			}
		}
		k.numbered = (p + 1) * pageSize
	}
	k.written = k.numbered
	k.restoredAt = now
	slices.SortFunc(k.restored, func(a, b waiting) int { return cmp.Compare(a.symbol, b.symbol) })
}

// waiting is what a restored event may wait for.
type waiting struct {
	symbol uint32
	id     host.ID
}

// Arrived forgets restored refusals of events that may have waited for one that was accepted.
func (k *Set) Arrived(e *host.Event, now int64) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.restored == nil {
		return
	}
	if now-k.restoredAt >= k.age {
		k.restored = nil // they are forgotten by now
		return
	}
	marks, ids := k.hash.Meets(e)
	for _, symbol := range marks {
		at, _ := slices.BinarySearchFunc(k.restored, symbol, func(w waiting, symbol uint32) int { return cmp.Compare(w.symbol, symbol) })
		for _, w := range k.restored[at:] {
			if w.symbol != symbol {
				break
			}
			k.forgetRestored(w.id)
		}
	}
	for _, id := range ids {
		k.forgetRestored(id)
	}
}

// forgetRestored forgets the refusal of an event, unless it was refused since. REQUIRES: mu.
func (k *Set) forgetRestored(id host.ID) {
	if r := k.refused[id]; r != nil && r.at <= k.restoredAt {
		delete(k.refused, id) // its place in the order stays until it is old
	}
}
