package ingest

import "talon/host"

// Bounds of the history. A decision that takes longer than the history reaches
// back is taken again.
const (
	historyEvents = 2048
	historyBytes  = 16 << 20
)

// history remembers which events recent commits added and removed. It belongs to
// the writer.
type history struct {
	changes  []change
	bytes    int
	complete uint64 // every change after this revision is in changes
}

type change struct {
	revision uint64 // of the commit that made it
	event    *host.Event
	held     bool // in purgatory
}

// add notes an event that the commit with this revision adds or removes. What is
// too much is dropped a half at a time, so that it costs little for each event.
func (h *history) add(revision uint64, e *host.Event, held bool) {
	h.changes = append(h.changes, change{revision, e, held})
	h.bytes += len(e.JSON)
	if len(h.changes) <= historyEvents && h.bytes <= historyBytes {
		return
	}
	drop := 0
	for ; len(h.changes)-drop > historyEvents/2 || h.bytes > historyBytes/2; drop++ {
		h.complete = h.changes[drop].revision
		h.bytes -= len(h.changes[drop].event.JSON)
	}
	n := copy(h.changes, h.changes[drop:])
	clear(h.changes[n:])
	h.changes = h.changes[:n]
}

// forget removes the changes of a commit that was not made.
func (h *history) forget(revision uint64) {
	n := len(h.changes)
	for n > 0 && h.changes[n-1].revision == revision {
		n--
		h.bytes -= len(h.changes[n].event.JSON)
	}
	clear(h.changes[n:])
	h.changes = h.changes[:n]
	h.complete = min(h.complete, revision-1)
}

// stale reports whether one of the facts, as read at the revision, has changed.
func (h *history) stale(f *facts, revision uint64) bool {
	if len(f.stored) == 0 && len(f.held) == 0 {
		return false
	}
	if revision < h.complete {
		return true
	}
	for i := len(h.changes) - 1; i >= 0 && h.changes[i].revision > revision; i-- {
		read := f.stored
		if h.changes[i].held {
			read = f.held
		}
		for j := range read {
			if read[j].Matches(h.changes[i].event) {
				return true
			}
		}
	}
	return false
}
