package gitfetch

import "time"

// Wake has the hunter look at its clock.
func (h *Hunter) Wake() { h.wake() }

// Due returns when there is something to do, and false if there is not.
func (h *Hunter) Due() (at time.Time, ok bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.drainPending()
	due, ok := h.queue.Due()
	return time.UnixMilli(due), ok
}
