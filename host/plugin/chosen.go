package plugin

import (
	"fmt"
	"slices"
	"strings"

	"talon/host/plugin/guest"
	"talon/sdk/abi/manifest"
)

// leavesOut reports whether the operator's choice of policies leaves a plugin out, and
// whether that leaves nothing of it: it serves no other world.
func (r *Registry) leavesOut(s *source) (out, whole bool) {
	if r.o.Policy == nil || s.hidden || slices.Contains(r.o.Policy, s.name) {
		return false, false
	}
	if s.wasm == nil {
		return true, true // nothing of it serves another world
	}
	m, err := guest.ReadManifest(s.wasm)
	if err != nil || !slices.Contains(m.Worlds, manifest.WorldPolicy) {
		return false, false // what is wrong with it, others say
	}
	return true, !slices.ContainsFunc(m.Worlds, func(world string) bool { return world != manifest.WorldPolicy })
}

// placeOf is the place that the operator's choice gives a plugin, or else its own.
func (r *Registry) placeOf(name string, own int) int {
	if at := slices.Index(r.o.Policy, name) + 1; at > 0 {
		return at
	}
	return own
}

// checkPolicy checks that what the operator chose is there.
func (r *Registry) checkPolicy(candidates []*candidate) error {
	var policies []string
	for _, f := range candidates {
		if g := f.generation; g != nil && (g.leftOut || !g.off && g.serves(manifest.WorldPolicy)) {
			policies = append(policies, f.name)
		}
	}
	for _, name := range r.o.Policy {
		if slices.Contains(policies, name) {
			continue
		}
		at := slices.IndexFunc(candidates, func(f *candidate) bool { return f.name == name })
		switch {
		case at < 0:
			return fmt.Errorf("option policy names %s, and there is no %[1]s.wasm in %s%s: the policies there are %s", name, r.o.Dir, r.norBundled(), listed(policies))
		case candidates[at].generation != nil && !candidates[at].generation.off:
			return fmt.Errorf("option policy names %s, which is no policy: leave it out, it runs all the same; the policies are %s", name, listed(policies))
		}
	}
	return nil
}

func listed(names []string) string {
	if len(names) == 0 {
		return "none"
	}
	return strings.Join(names, ", ")
}

func (r *Registry) errNoPolicy() error {
	return fmt.Errorf("no plugin in %s%s decides about events, so that none would be accepted: put a policy there, such as grasp.wasm", r.o.Dir, r.norBundled())
}
