package gitfetch

import "time"

// Poke has the hunter look at its clock.
func (h *Hunter) Poke() { h.poke() }

// Due returns when there is something to do, and false if there is not.
func (h *Hunter) Due() (at time.Time, ok bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.drainPending()
	due, ok := h.queue.Due()
	return time.UnixMilli(due), ok
}
