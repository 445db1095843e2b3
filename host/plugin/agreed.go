package plugin

import (
	"fmt"

	"talon/host/plugin/folder"
)

// agreed returns what all nodes run under a name, nil if they run nothing, or there are no
// others. REQUIRES: changing.
func (r *Registry) agreed(name string) *folder.Generation {
	if r.shared == nil {
		return nil
	}
	return r.shared.records[name].Current
}

// notCurrent says that this server must not decide, because another generation does than
// the one that runs here.
func (r *Registry) notCurrent() error {
	h := r.shared
	if h == nil || !h.behind.Load() {
		return nil
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	problem := h.problem
	if problem == "" {
		problem = "it is being loaded"
	}
	return fmt.Errorf("generation %d of the plugins of all nodes does not run here: %s", h.wanted, problem)
}
