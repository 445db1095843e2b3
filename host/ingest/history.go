package ingest

import (
	"sync"

	"talon/host"
	"talon/internal/recent"
)

// Bounds of the history. A decision that takes longer than the history reaches
// back is taken again.
const (
	historyEvents = 2048
	historyBytes  = 16 << 20
)

// history remembers what recent commits, and the batch that is open, added and
// removed. It belongs to the writer. Each change has a number, its version.
type history struct {
	changes  []change
	bytes    int
	version  uint64 // of the last change
	complete uint64 // every change after this version is in changes
	begun    uint64 // version of the last arrival
	switched uint64 // decisions of earlier versions are of other plugins
	open     []change
}

// change is an event that came or went.
type change struct {
	version uint64
	event   *host.Event
	held    bool // in purgatory; otherwise among the stored events
	removed bool
}

// add notes a change of the open batch.
func (h *history) add(c change) { h.open = append(h.open, h.note(c)) }

// note notes a change of a commit, before any of an open batch, and returns it with its
// version. What is too much is dropped a half at a time, so that it costs little for each
// event.
func (h *history) note(c change) change {
	h.version++
	c.version = h.version
	h.changes = append(h.changes, c)
	h.bytes += len(c.event.JSON)
	if len(h.changes) <= historyEvents && h.bytes <= historyBytes {
		return c
	}
	drop := 0
	for ; len(h.changes)-drop > historyEvents/2 || h.bytes > historyBytes/2; drop++ {
		h.complete = h.changes[drop].version
		h.bytes -= len(h.changes[drop].event.JSON)
	}
	n := copy(h.changes, h.changes[drop:])
	clear(h.changes[n:])
	h.changes = h.changes[:n]
	return c
}

// invalidate makes whatever was read before stale. REQUIRES: no batch is open.
func (h *history) invalidate() {
	h.noteGitData()
	h.complete, h.changes, h.bytes = h.version, nil, 0
}

// noteGitData notes that git data has come.
func (h *history) noteGitData() {
	h.version++
	h.begun = h.version
}

// switchPlugins makes whatever was decided before stale.
func (h *history) switchPlugins() {
	h.version++
	h.switched = h.version
}

// commit makes the changes of the open batch those of a commit.
func (h *history) commit() { h.open = nil }

// rollback removes the changes of the open batch.
func (h *history) rollback() {
	n := len(h.changes)
	for range h.open {
		if n == 0 {
			break
		}
		n--
		h.bytes -= len(h.changes[n].event.JSON)
	}
	clear(h.changes[n:])
	h.changes = h.changes[:n]
	h.open = nil
}

// stale reports whether one of the facts, as read at the version, has changed.
func (h *history) stale(r *host.Reads, version uint64) bool {
	if len(r.Stored) == 0 && len(r.Held) == 0 {
		return false
	}
	if version < h.complete {
		return true
	}
	for i := len(h.changes) - 1; i >= 0 && h.changes[i].version > version; i-- {
		read := r.Stored
		if h.changes[i].held {
			read = r.Held
		}
		for j := range read {
			if read[j].Matches(h.changes[i].event) {
				return true
			}
		}
	}
	return false
}

// recentIDs is how many ids of stored events are remembered, at least.
const recentIDs = 16384

// recentIDSet remembers the ids of events that were stored lately, so that the copies
// which clients send to many relays cost no signature check.
type recentIDSet struct {
	mu  sync.RWMutex
	ids recent.Map[host.ID, struct{}] // guarded by mu
}

func newRecentIDs(size int) *recentIDSet {
	return &recentIDSet{ids: recent.Map[host.ID, struct{}]{Size: size}}
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

// sharing is what the writer knows of a store that other processes write too. Its zero value
// is that of a store that they do not.
type sharing struct {
	store     Shared
	changed   <-chan struct{}
	elsewhere func(host.Commit)
	current   bool // what others had committed when the turns began is known
	behind    bool // it could not be read
}

// begin opens the transaction of a batch, after what others have committed.
func (b *batch) begin() (err error) {
	w := b.w
	if w.shared.store == nil {
		b.tx, err = w.cfg.Store.Begin()
		return err
	}
	upcoming := func(limit int) []*host.Event { return w.schedule.upcoming(w.ready, limit) }
	shared, err := w.shared.store.BeginShared(w.learn, upcoming)
	if err == nil {
		b.tx, b.shared = shared, shared
	}
	return err
}

// catchUp reads what others have committed. While a transaction is open they commit
// nothing.
func (w *writer) catchUp() {
	if w.batch != nil && w.batch.tx != nil {
		return
	}
	w.finish() // what took effect before
	if err := w.writing.Run(func() error { return w.shared.store.CatchUp(w.learn) }); err != nil {
		w.shared.behind = true
		w.cfg.Log.Warn("read what others have committed", "err", err)
		return
	}
	w.shared.behind = false
}

// current makes sure that a decision can be held against all that is committed, and nothing
// is committed after that before one that is to be written is. It reports whether that
// could be done; otherwise the entry has the error.
func (w *writer) current(e *entry) bool {
	store := w.shared.store
	if store == nil || w.batch != nil && w.batch.tx != nil || e.err != nil {
		return true
	}
	var err error
	switch {
	case e.writes(store):
		w.finish() // what took effect before
		b := w.newBatch()
		if err = b.begin(); err == nil {
			w.batch = b
		}
	case !w.shared.current && len(e.reads.Stored)+len(e.reads.Held) > 0:
		w.finish()
		err = store.CatchUp(w.learn)
		w.shared.current = err == nil
	}
	if err != nil {
		e.verdict, e.hold, e.err = nil, nil, err
	}
	return err == nil
}

// writes reports whether what was decided takes a transaction of a shared store.
func (e *entry) writes(store Shared) bool {
	switch {
	case e.release != nil:
		return true // it is sent to the other processes
	case e.verdict != nil:
		return false
	}
	return e.hold != nil || e.item.Event.Kind.Class() != host.Ephemeral || !store.Alone()
}

// learn lets what others have committed count as what was committed here.
func (w *writer) learn(c host.Commit) { w.containMemory(func() { w.noteOthers(c) }) }

// noteOthers is learn without a guard.
func (w *writer) noteOthers(c host.Commit) {
	h := &w.history
	if c.Gap {
		h.invalidate()
		w.recent.clear()
		w.recount()
	}
	for i := range c.Published {
		if p := &c.Published[i]; p.Seq != 0 {
			h.note(change{event: p.Event})
			w.recent.add(p.Event.ID)
		}
	}
	for _, e := range c.Removed {
		h.note(change{event: e, removed: true})
		w.recent.remove(e.ID)
	}
	for i := range c.Held {
		if now, ok := changeOf(&c.Held[i]); ok {
			h.note(now)
		}
	}
	if c.Arrived {
		h.noteGitData()
	}
	w.quotas.committed(c.Held, nil)
	// The others learn of it before a decision can be of this version.
	w.notify(func() { w.shared.elsewhere(c) })
	if c.Plugins != 0 {
		h.switchPlugins()
	}
	w.version.Store(h.version)
}
