package ingest

import (
	"sync"

	"talon/host"
)

// recentIDs is how many ids of stored events are remembered, at least.
const recentIDs = 16384

// recent remembers the ids of events that were stored lately, so that the copies
// which clients send to many relays cost no signature check. It holds two
// generations; when the younger is full, the older is forgotten.
type recent struct {
	mu         sync.RWMutex // guards the fields below
	young, old map[host.ID]struct{}
	size       int
}

func newRecent(size int) *recent {
	return &recent{young: make(map[host.ID]struct{}), size: size}
}

func (r *recent) has(id host.ID) bool {
	r.mu.RLock()
	defer r.mu.RUnlock()
	if _, ok := r.young[id]; ok {
		return true
	}
	_, ok := r.old[id]
	return ok
}

func (r *recent) add(id host.ID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.young) >= r.size {
		r.young, r.old = make(map[host.ID]struct{}, r.size), r.young
	}
	r.young[id] = struct{}{}
}

func (r *recent) remove(id host.ID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.young, id)
	delete(r.old, id)
}
