package ingest

import (
	"sync"

	"talon/host"
	"talon/internal/recent"
)

// recentIDs is how many ids of stored events are remembered, at least.
const recentIDs = 16384

// recentIDSet remembers the ids of events that were stored lately, so that the copies
// which clients send to many relays cost no signature check.
type recentIDSet struct {
	mu  sync.RWMutex
	ids recent.Map[host.ID, struct{}] // guarded by mu
}

func (r *recentIDSet) has(id host.ID) bool {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.ids.Has(id)
}

func (r *recentIDSet) add(id host.ID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ids.Add(id, struct{}{}, 1)
}

func (r *recentIDSet) remove(id host.ID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ids.Remove(id)
}

func (r *recentIDSet) clear() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ids.Clear()
}

func newRecentIDs(size int) *recentIDSet {
	return &recentIDSet{ids: recent.Map[host.ID, struct{}]{Size: size}}
}
