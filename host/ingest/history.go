package ingest

import (
	"talon/host"
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
	begun    uint64 // version of the last arrival of git data
	switched uint64 // decisions of earlier versions are of other plugins, or of an older moderation log
	open     []change
}

// change is an event that came or went.
type change struct {
	version uint64
	event   *host.Event
	held    bool // in purgatory; otherwise among the stored events
	removed bool
	awaits  bool // a module holds it until another event comes
}

// add notes a change of the open batch.
func (h *history) add(c change) { h.open = append(h.open, h.note(c)) }

// note records a change of a commit, before any of an open batch, and returns it with its version.
// When there are too many, it drops half of them, so that this costs little for each event.
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

// switchRules makes whatever was decided before stale.
func (h *history) switchRules() {
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
