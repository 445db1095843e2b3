package relaysync

import (
	"sync"

	"talon/host"
)

// known remembers events of all relays by id: those that are here, so that the copies
// of others cost nothing; those that were refused, so that they are not fetched again;
// and from where those came that are on their way. Connections share it.
type known struct {
	mu      sync.Mutex // guards the fields below
	here    ids
	refused map[host.ID]*refusal
	oldest  *refusal // of the refused, in the order of their refusal
	newest  *refusal
	most    int // refused events
	age     int64
	era     uint64             // how often all refusals were forgotten
	travels map[host.ID]string // submitted and not answered: the relay
}

type refusal struct {
	digest digest
	at     int64
	next   *refusal
}

// hereIDs is how many ids of events that are here are remembered, at least.
const hereIDs = 1 << 14

func newKnown(most int, age int64) *known {
	return &known{
		here:    newIDs(hereIDs),
		refused: make(map[host.ID]*refusal),
		most:    most,
		age:     age,
		travels: make(map[host.ID]string),
	}
}

// has reports whether an event is here or was refused lately. The id is what a relay
// claims: if it is not the event's, the event is worth nothing anyway.
func (k *known) has(id host.ID, now int64) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.hasLocked(id, now)
}

// hasLocked is has. REQUIRES: mu.
func (k *known) hasLocked(id host.ID, now int64) bool {
	if k.here.has(id) {
		return true
	}
	r := k.refused[id]
	return r != nil && now-r.at < k.age
}

// leave notes that an event is submitted, and returns the era, for refuse. One that is
// on its way from another relay is submitted as well: the other copy may be forged.
func (k *known) leave(id host.ID, relay string) (era uint64) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.travels[id] = relay
	return k.era
}

// arrive notes that the pipeline has answered.
func (k *known) arrive(id host.ID) {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.travels, id)
}

// from returns the relay from which an event that is on its way comes.
func (k *known) from(id host.ID) (string, bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	relay, ok := k.travels[id]
	return relay, ok
}

// add notes that events are here.
func (k *known) add(list ...host.ID) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, id := range list {
		k.here.add(id)
		delete(k.refused, id) // its place in the order stays until it is old
	}
}

// remove forgets events that are here no more.
func (k *known) remove(list ...host.ID) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, id := range list {
		k.here.remove(id)
	}
}

// refuse notes that an event, which is what its id says, was refused. If it was
// submitted before forget was called, a policy may have refused it that decides no more.
func (k *known) refuse(e *host.Event, now int64, era uint64) {
	r := &refusal{digest: digestOf(e), at: now}
	k.mu.Lock()
	defer k.mu.Unlock()
	if era == k.era {
		k.refuseLocked(r)
	}
}

// outdate notes that an event, which is what its id says, is not kept whatever a policy
// says: it was removed, or there is a newer one.
func (k *known) outdate(e *host.Event, now int64) {
	r := &refusal{digest: digestOf(e), at: now}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.refuseLocked(r)
}

// refuseLocked takes a refusal. REQUIRES: mu.
func (k *known) refuseLocked(r *refusal) {
	if k.newest == nil {
		k.oldest = r
	} else {
		k.newest.next = r
	}
	k.newest = r
	k.refused[r.digest.id] = r
	k.most--
	for k.oldest != r && (k.most < 0 || r.at-k.oldest.at >= k.age) {
		if old := k.oldest; k.refused[old.digest.id] == old {
			delete(k.refused, old.digest.id)
		}
		k.oldest = k.oldest.next
		k.most++
	}
}

// forget forgets what was refused: a new policy may think otherwise.
func (k *known) forget() {
	k.mu.Lock()
	defer k.mu.Unlock()
	for r := k.oldest; r != nil; r = r.next {
		k.most++
	}
	k.era++
	k.oldest, k.newest = nil, nil
	clear(k.refused)
}

// eachRefused calls yield for each event that was refused lately and matches.
func (k *known) eachRefused(m *matcher, now int64, yield func(createdAt int64, id host.ID)) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for id, r := range k.refused {
		if now-r.at < k.age && m.matches(&r.digest) {
			yield(r.digest.createdAt, id)
		}
	}
}

// unknown returns those of the ids that are neither here nor refused.
func (k *known) unknown(list []host.ID, now int64) (rest []host.ID) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, id := range list {
		if !k.hasLocked(id, now) {
			rest = append(rest, id)
		}
	}
	return rest
}

// kept returns those of the ids that were not refused: what is compared as if it were
// here, and is not.
func (k *known) kept(list []host.ID, now int64) (rest []host.ID) {
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
