package plugin

import (
	"slices"

	"talon/host"
	"talon/host/plugin/sidecar"
)

// A policy can be required, by its side-car or because the operator's choice of
// policies names it: what it would judge is refused as long as it does not run.

// requires reports whether a policy is required. REQUIRES: changing or inspecting.
func (r *Registry) requires(name string, s *slot) bool {
	return s.required || slices.Contains(r.o.Policy, name)
}

// missing returns why a policy that is required does not run, empty if it runs, or is
// not required. Where others run the same plugins, what they have agreed on runs, or nothing
// is decided here. REQUIRES: changing or inspecting.
func (r *Registry) missing(name string, s *slot) string {
	switch {
	case s.running != nil, s.off, r.others.there(), !r.requires(name, s):
		return ""
	case s.gone:
		return "its files are not in the folder"
	case s.refused != nil:
		return s.refused.reason
	}
	return ""
}

// absent takes the place of a policy that is required and does not run.
func (r *Registry) absent(name string, s *slot) *generation {
	g := &generation{
		name: name, position: r.placeOf(name, s.position), file: &sidecar.File{Mode: sidecar.Enforce, Required: true}, counters: r.counters.of(name), meters: r.metrics,
		absent:  true,
		refusal: host.Ruling{Action: host.Reject, Rule: "missing", Module: name, Reason: "error: policy " + name + " is missing"},
	}
	g.breaker.now = r.o.Now
	return g
}
