package plugin

import (
	"context"
	"errors"
	"os"

	"talon/host/plugin/folder"
	"talon/host/plugin/guest"
	"talon/host/plugin/sidecar"
)

// apply makes findings come true, and drops what is not in the folder any more.
// REQUIRES: changing.
func (r *Registry) apply(findings []*candidate, entries []folder.Entry, problems []folder.Problem) {
	r.inspecting.Lock()
	changed := false
	for _, f := range findings {
		changed = r.applyOne(f) || changed
	}
	present := make(map[string]bool, len(entries))
	for _, e := range entries {
		present[e.Name] = true
	}
	for name, s := range r.slots {
		if present[name] {
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
	r.setProblems(problems)
	r.inspecting.Unlock()
	if changed {
		r.install()
		r.afterChange(findings)
	}
}

// slot returns the slot of a name, a new one if it has none. REQUIRES: changing.
func (r *Registry) slot(name string) *slot {
	if r.slots[name] == nil {
		r.slots[name] = new(slot)
		if r.history != nil {
			r.slots[name].record, _ = r.history.Record(name)
			r.slots[name].restore()
		}
	}
	return r.slots[name]
}

// applyOne reports whether the active set is another now. REQUIRES: changing and
// inspecting.
func (r *Registry) applyOne(f *candidate) bool {
	s := r.slot(f.name)
	if !f.last {
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
	if !f.last {
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

// promote keeps a generation for the next start. Without it, it runs all the
// same.
func (r *Registry) promote(f *candidate, s *slot) {
	g := f.generation
	g.number = s.record.Last + 1
	s.record.Last = g.number
	if r.history == nil {
		return
	}
	record, err := r.history.Promote(f.name, folder.Generation{
		Wasm:       g.key.sha256(),
		Version:    g.version(),
		Sidecar:    f.source.sidecar,
		HasSidecar: f.source.sidecar != nil,
		Signature:  f.source.signature,
		Since:      g.since,
	}, f.source.wasm)
	if err != nil {
		r.o.Log.Error("a plugin runs, but is not kept: a restart depends on what lies in the folder", "plugin", f.name, "err", err)
		return
	}
	s.record = record
	g.number = record.Current.Number
}

// refuse notes why what lies in the folder does not run.
func (r *Registry) refuse(f *candidate, s *slot) {
	s.refused = &refused{at: r.o.Now(), reason: oneLine(f.err)}
	kept := &folder.Refused{Reason: s.refused.reason, At: s.refused.at}
	if f.source != nil {
		s.refused.key = f.source.key
		kept.Wasm, kept.Sidecar = f.source.key.sha256(), f.source.key.sidecarSHA256()
	}
	if f.source != nil && s.running == nil {
		if file, err := sidecar.Parse(f.source.sidecar); err == nil {
			s.readRequired(file)
		}
	}
	r.metrics.change(f.name, "refused")
	attrs := []any{"plugin", f.name, "reason", s.refused.reason}
	if s.running != nil {
		attrs = append(attrs, "running", s.running.number)
	}
	r.o.Log.Warn("plugin refused, what ran before goes on", attrs...)
	if r.history != nil {
		if err := r.history.Refuse(f.name, kept); err != nil {
			r.o.Log.Warn("a refused plugin is not remembered", "plugin", f.name, "err", err)
		}
	}
}

// clearQuarantine forgets that something was refused.
func (r *Registry) clearQuarantine(name string, s *slot) {
	if s.refused == nil && s.record.Refused == nil {
		return
	}
	s.refused, s.record.Refused = nil, nil
	if r.history != nil {
		if err := r.history.Refuse(name, nil); err != nil {
			r.o.Log.Warn("a refused plugin is remembered", "plugin", name, "err", err)
		}
	}
}

// deactivate says on the history that nothing runs under a name.
func (r *Registry) deactivate(name string, s *slot) {
	if r.history == nil || s.record.Current == nil {
		return
	}
	if err := r.history.Deactivate(name); err != nil {
		r.o.Log.Warn("a plugin that does not run any more is remembered as running", "plugin", name, "err", err)
		return
	}
	s.record, _ = r.history.Record(name)
}

// remove drops a name whose module is not in the folder any more. What it
// remembers, and its earlier generations, stay.
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
func (r *Registry) afterChange(findings []*candidate) {
	for _, f := range findings {
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
