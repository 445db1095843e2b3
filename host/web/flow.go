package web

import (
	"net/http"
	"time"

	"talon/host/bound"
)

const (
	flowPerSecond = 50 // requests of one network
	flowBurst     = 4 * time.Second
	maxFlowWait   = 10 * time.Second
)

// newFlow returns the limit of requests of one network. A page that was made a moment ago costs no
// place in a queue, but it costs processor time.
func newFlow(now func() time.Time) *bound.Flow {
	return bound.NewFlow(bound.Spec{
		Name: "requests for pages", Unit: "requests a second", Network: flowPerSecond,
		Yields: "the network that had its share waits, and after 10 s it gets status 503",
	}, flowBurst, now)
}

// awaitTurn has a request wait if its network had its share. It reports whether to go on.
func (h *Handler) awaitTurn(w http.ResponseWriter, r *http.Request) bool {
	by := h.cfg.Client(r)
	wait := h.flow.Take(by.Addr, 1)
	late := wait > maxFlowWait
	if late {
		// It gets no page, so it owes nothing. It waits even so, or it would come again at once.
		h.flow.Take(by.Addr, -1)
		wait = maxFlowWait
	}
	if wait > 0 {
		timer := time.NewTimer(wait)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-r.Context().Done():
			return false
		}
	}
	if late {
		w.Header().Set("Retry-After", "5")
		h.answer(w, r, http.StatusServiceUnavailable, "message", busy)
	}
	return !late
}
