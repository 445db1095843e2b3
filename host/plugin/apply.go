package plugin

import (
	"context"
	"errors"
	"os"

	"talon/host/plugin/folder"
	"talon/host/plugin/guest"
)

// apply switches to what is wanted and built: the slots say what runs, and the next active set
// is made of them. Plugins that changed together begin to decide together. REQUIRES: changing.
func (r *Registry) apply(w *wanted) {
	if r.updateSlots(w) {
		r.install()
		r.afterChange(w.candidates)
	}
}

// updateSlots reports whether the active set is another now. REQUIRES: changing.
func (r *Registry) updateSlots(w *wanted) (changed bool) {
	r.inspecting.Lock()
	defer r.inspecting.Unlock()
	for _, f := range w.candidates {
		changed = r.applyOne(f) || changed
		if w.folder == nil {
			delete(r.problems, f.name)
		}
	}
	if w.folder == nil {
		return changed
	}
	for name, s := range r.slots {
		if w.folder.has(name) {
			s.gone = false
			continue
		}
		changed = s.running != nil || changed
		if r.requires(name, s) && !s.off {
			changed = !s.gone || changed
			r.requireMissing(name, s)
			continue
		}
		r.remove(name, s)
	}
	r.setProblems(w.folder.problems)
	return changed
}

// install makes an active set of what the slots run, and puts it in the place of the
// current one. REQUIRES: changing.
func (r *Registry) install() {
	var generations []*generation
	for name, s := range r.slots {
		if s.running != nil {
			generations = append(generations, s.running)
		} else if reason := r.missing(name, s); reason != "" {
			generations = append(generations, r.absent(name, s))
		}
	}
	r.activate(r.assemble(generations))
}

// applyOne reports whether the active set is another now. REQUIRES: changing and
// inspecting.
func (r *Registry) applyOne(f *candidate) bool {
	s := r.slot(f.name)
	if !f.isFallback {
		s.seen = f.seen
	}
	switch {
	case f.same && f.err == nil:
		r.clearQuarantine(f.name, s)
		return false
	case f.same:
		return false
	case f.err != nil:
		before := r.missing(f.name, s)
		r.refuse(f, s)
		return r.missing(f.name, s) != before
	}
	g := f.generation
	if !f.isFallback {
		r.clearQuarantine(f.name, s)
	}
	g.since = r.o.Now()
	g.position = r.placeOf(f.name, g.position)
	s.off, s.leftOut, s.position = g.off, g.leftOut, g.position
	s.readRequired(g.file)
	s.gone = false
	switch {
	case f.record != nil:
		r.adopt(f, s)
	case s.off:
		r.deactivate(f.name, s)
	default:
		r.promote(f, s)
	}
	if s.off {
		g = nil
	}
	changed := s.running != g
	s.applied, s.running = f.source.key, g
	quota := f.generation.file.Budgets.State
	if quota == 0 {
		quota = r.o.StateQuota
	}
	r.state.Of(f.name).SetQuota(quota)
	f.generation.counters.disputes.clear()
	r.metrics.change(f.name, "accepted")
	if g != nil {
		r.o.Log.Info("plugin runs", "plugin", g.name, "generation", g.number, "mode", string(g.file.Mode),
			"version", g.version(), "sha256", g.key.sha256())
	} else {
		r.o.Log.Info("plugin is off", "plugin", f.name, "left_out", s.leftOut)
	}
	return changed
}

// remove drops a name whose module is not in the folder any more. The state and the earlier
// generations of the plugin stay.
func (r *Registry) remove(name string, s *slot) {
	if s.running != nil {
		r.o.Log.Info("plugin removed", "plugin", name, "generation", s.running.number)
		r.metrics.change(name, "removed")
	}
	r.clearQuarantine(name, s)
	r.deactivate(name, s)
	delete(r.slots, name)
	r.counters.forget(name)
	r.metrics.forget(name)
}

// requireMissing is what becomes of a policy that is required and whose files are not in the
// folder any more: it refuses what it would judge.
func (r *Registry) requireMissing(name string, s *slot) {
	if !s.gone {
		r.o.Log.Error("a policy that is required is not in the folder any more: what it would judge is refused", "plugin", name)
	}
	s.running, s.gone = nil, true
	s.applied, s.seen = key{}, seen{}
	r.clearQuarantine(name, s)
}

// setProblems keeps what the folder itself has against some names.
func (r *Registry) setProblems(problems []folder.Problem) {
	before := r.problems
	r.problems = make(map[string]string, len(problems))
	for _, p := range problems {
		r.problems[p.Name] = p.Reason
		if before[p.Name] != p.Reason {
			r.o.Log.Warn("plugin refused", "plugin", p.Name, "reason", p.Reason)
		}
	}
}

// afterChange does what follows from a new active set.
func (r *Registry) afterChange(candidates []*candidate) {
	for _, f := range candidates {
		if f.generation == nil || f.generation.module == nil || f.generation.sets == nil {
			continue
		}
		// A list may have changed after it was read and before it was followed.
		if err := f.generation.sets.Refresh(context.Background()); err != nil {
			r.o.Log.Warn("read a set again", "plugin", f.name, "err", err)
		}
	}
	if r.o.CacheDir == "" {
		return
	}
	var inUse []string
	for _, g := range r.current.Load().generations {
		if g.module != nil {
			inUse = append(inUse, g.module.Code())
		}
	}
	if err := guest.PruneCache(r.o.CacheDir, inUse...); err != nil && !errors.Is(err, os.ErrNotExist) {
		r.o.Log.Warn("old compiled plugins are not removed", "err", err)
	}
}
