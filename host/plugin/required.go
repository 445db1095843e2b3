package plugin

import (
	"slices"
	"strings"

	"talon/host"
	"talon/host/plugin/sidecar"
)

// A policy can be required, by its side-car or because the operator's choice of
// policies names it: what it would judge is refused as long as it does not run.

// requires reports whether a policy is required. REQUIRES: changing or looking.
func (r *Registry) requires(name string, s *slot) bool {
	return s.required || slices.Contains(r.o.Policy, name)
}

// readRequired learns from a side-car whether the plugin is required. One that shadows
// or is off judges nothing.
func (s *slot) readRequired(file *sidecar.File) {
	s.required = file.Required && file.Mode == sidecar.Enforce
	if file.Place != nil {
		s.place = *file.Place
	}
}

// recall learns it from what ran last, as the shelf keeps it.
func (s *slot) recall() {
	if s.record.Current == nil {
		return
	}
	if file, err := sidecar.Parse(s.record.Current.Sidecar); err == nil {
		s.readRequired(file)
	}
}

// missing returns why a policy that is required does not run, empty if it runs, or is
// not required. REQUIRES: changing or looking.
func (r *Registry) missing(name string, s *slot) string {
	switch {
	case s.running != nil, s.off, !r.requires(name, s):
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
		name: name, place: s.place, file: &sidecar.File{Mode: sidecar.Enforce, Required: true}, tally: r.tallies.of(name), meters: r.metrics,
		absent:  true,
		refusal: host.Ruling{Action: host.Reject, Rule: "missing", Module: name, Reason: "error: policy " + name + " is missing"},
	}
	if at := slices.Index(r.o.Policy, name) + 1; at > 0 {
		g.place = at
	}
	g.breaker.now = r.o.Now
	return g
}

// Health returns what keeps the relay from deciding as the operator wants: policies
// that are required and do not run, or rest, one sentence each.
func (r *Registry) Health() []string {
	r.looking.Lock()
	defer r.looking.Unlock()
	var list []string
	for name, s := range r.slots {
		if reason := r.missing(name, s); reason != "" {
			list = append(list, "policy "+name+" is missing: "+reason)
		} else if s.running != nil && r.requires(name, s) && s.running.breaker.resting() {
			list = append(list, "policy "+name+" has failed for too many and rests")
		}
	}
	slices.SortFunc(list, strings.Compare)
	return list
}
