package plugin

import (
	"slices"
	"strings"
)

// Health returns the required policies that do not run, or that are not asked after
// many failures, one sentence each.
func (r *Registry) Health() []string {
	r.inspecting.Lock()
	defer r.inspecting.Unlock()
	var list []string
	for name, s := range r.slots {
		if reason := r.missing(name, s); reason != "" {
			list = append(list, "policy "+name+" is missing: "+reason)
		} else if s.running != nil && r.requires(name, s) && s.running.breaker.isOpen() {
			list = append(list, "policy "+name+" has failed for too many and rests")
		}
	}
	slices.SortFunc(list, strings.Compare)
	if err := r.others.notCurrent(); err != nil {
		list = append(list, err.Error())
	}
	return list
}
