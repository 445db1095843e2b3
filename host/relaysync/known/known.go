package known

import (
	"sync"

	"talon/host"
	"talon/host/relaysync/match"
)

// Set remembers events of all relays by id: those that are here, so that the copies
// of others cost nothing; those that were refused, so that they are not fetched again;
// and from where those came that are on their way. Sessions share it.
type Set struct {
	hash match.Hash

	mu         sync.Mutex // guards the fields below
	here       ids
	refused    map[host.ID]*refusal
	oldest     *refusal // of the refused, in the order of their refusal
	newest     *refusal
	most       int // refusals that there is room for yet, by their weight
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

// New returns an empty set that remembers so many refused events, each for so many
// seconds.
func New(hash match.Hash, most int, age int64) *Set {
	return &Set{
		hash:     hash,
		here:     newIDs(hereIDs),
		refused:  make(map[host.ID]*refusal),
		most:     most,
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
	if k.here.has(id) {
		return true
	}
	r := k.refused[id]
	return r != nil && now-r.at < k.age
}

// MarkInFlight notes that an event is submitted, and returns the generation of the
// policies, for Refuse. One that is on its way from another relay is submitted as well: the other copy may be forged.
func (k *Set) MarkInFlight(id host.ID, relay string) (generation uint64) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.inFlight[id] = relay
	return k.generation
}

// Decided notes what became of an event that was submitted, before anybody else hears
// of it.
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

// InFlight returns the relay from which an event that is on its way comes.
func (k *Set) InFlight(id host.ID) (string, bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	relay, ok := k.inFlight[id]
	return relay, ok
}

// Add notes that events are here.
func (k *Set) Add(list ...host.ID) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, id := range list {
		k.addLocked(id)
	}
}

// addLocked notes that an event is here. REQUIRES: mu.
func (k *Set) addLocked(id host.ID) {
	k.here.add(id)
	delete(k.refused, id) // its place in the order stays until it is old
}

// Here reports whether an event is known to be here.
func (k *Set) Here(id host.ID) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.here.has(id)
}

// Remove forgets events that are here no more.
func (k *Set) Remove(list ...host.ID) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, id := range list {
		k.here.remove(id)
	}
}

// Refuse notes that an event, which is what its id says, was refused. If it was
// submitted before Invalidate was called, a policy may have refused it that decides no more.
func (k *Set) Refuse(e *host.Event, now int64, generation uint64) {
	r := &refusal{digest: k.hash.Digest(e), at: now}
	k.mu.Lock()
	defer k.mu.Unlock()
	if generation == k.generation {
		k.refuseLocked(r)
	}
}

// Outdate notes that an event, which is what its id says, is not kept whatever a policy
// says: it was removed, or there is a newer one.
func (k *Set) Outdate(e *host.Event, now int64) {
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
	k.most -= r.weight
	for k.oldest != r && (k.most < 0 || r.at-k.oldest.at >= k.age) {
		if old := k.oldest; k.refused[old.digest.ID] == old {
			delete(k.refused, old.digest.ID)
		}
		k.most += k.oldest.weight
		k.oldest = k.oldest.next
	}
}

// Invalidate forgets what was refused: a new policy may think otherwise.
func (k *Set) Invalidate() {
	k.mu.Lock()
	defer k.mu.Unlock()
	for r := k.oldest; r != nil; r = r.next {
		k.most += r.weight
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

// ids is a set that forgets: it holds two generations; when the younger is full, the
// older is forgotten.
type ids struct {
	young, old map[host.ID]struct{}
	size       int
}

func newIDs(size int) ids { return ids{young: make(map[host.ID]struct{}), size: size} }

func (s *ids) has(id host.ID) bool {
	if _, ok := s.young[id]; ok {
		return true
	}
	_, ok := s.old[id]
	return ok
}

func (s *ids) add(id host.ID) {
	if len(s.young) >= s.size {
		s.young, s.old = make(map[host.ID]struct{}), s.young
	}
	s.young[id] = struct{}{}
}

func (s *ids) remove(id host.ID) {
	delete(s.young, id)
	delete(s.old, id)
}
