package plugin

import (
	"path/filepath"
	"slices"
	"strings"

	"talon/host"
	"talon/host/plugin/guest"
	"talon/host/plugin/sidecar"
	"talon/sdk/abi/manifest"
)

// Describe returns what the plugins that decide say about the relay, in their
// order. It changes with the plugins. A plugin that says that every valid event is accepted
// speaks only of events that reach it: behind one that restricts writing it says nothing.
func (r *Registry) Describe() []host.Description {
	l := r.acquireSet()
	defer l.release()
	about := slices.Clone(l.about)
	restricted := false
	for i := range about {
		restricted = restricted || about[i].Writes == host.WritesRestricted
		if restricted && about[i].Writes == host.WritesOpen {
			about[i].Writes, about[i].Criteria = host.WritesUnsaid, ""
		}
	}
	return about
}

// List returns all plugins by name.
func (r *Registry) List() []Status {
	r.inspecting.Lock()
	defer r.inspecting.Unlock()
	list := make([]Status, 0, len(r.slots)+len(r.problems))
	for name, s := range r.slots {
		list = append(list, r.describe(name, s))
	}
	for name, reason := range r.problems {
		if r.slots[name] == nil {
			list = append(list, Status{Name: name, Mode: sidecar.Off, Quarantine: &Quarantine{Reason: reason}})
		}
	}
	list = append(list, r.unused()...)
	slices.SortFunc(list, func(a, b Status) int { return strings.Compare(a.Name, b.Name) })
	return list
}

// Disagreements returns events about which a plugin in shadow mode and the chain
// disagreed, the newest first.
func (r *Registry) Disagreements(name string, limit int) []Disagreement {
	r.inspecting.Lock()
	known := r.slots[name] != nil
	r.inspecting.Unlock()
	if !known {
		return nil
	}
	return r.counters.of(name).disputes.list(limit)
}

func (r *Registry) status(name string) Status {
	r.inspecting.Lock()
	defer r.inspecting.Unlock()
	return r.describe(name, r.slots[name])
}

// describe says what is known of a name. REQUIRES: inspecting.
func (r *Registry) describe(name string, s *slot) Status {
	t := r.counters.of(name)
	st := Status{
		Name:          name,
		Mode:          sidecar.Enforce,
		Origin:        r.originOf(name, s),
		Calls:         t.calls.Load(),
		Failures:      t.failures.Load(),
		LastFailure:   t.lastFailure(),
		LeftOut:       s.leftOut,
		Required:      r.requires(name, s),
		Missing:       r.missing(name, s),
		StateBytes:    r.state.Bytes(name),
		Disagreements: t.disputes.summary(),
	}
	if s.off {
		st.Mode = sidecar.Off
	}
	if g := s.running; g != nil {
		st.Mode = g.file.Mode
		st.BreakerOpen, st.Refused = g.breaker.isOpen(), g.breaker.refused()
		st.Running = g.describe()
	}
	if s.refused != nil {
		st.Quarantine = &Quarantine{At: s.refused.at, Reason: s.refused.reason}
		if s.refused.key != (key{}) && !s.refused.key.program {
			st.Quarantine.SHA256 = s.refused.key.sha256()
		}
	}
	for _, e := range s.record.Earlier {
		sum := e.Wasm
		if sum == emptySum {
			sum = ""
		}
		st.Earlier = append(st.Earlier, Earlier{Generation: e.Number, SHA256: sum, Version: e.Version, Until: e.Until})
	}
	return st
}

func (g *generation) describe() *Running {
	if g.program != nil {
		return g.describeProgram()
	}
	m := g.module.Manifest()
	running := &Running{
		Generation:   g.number,
		Since:        g.since,
		SHA256:       g.key.sha256(),
		SignedBy:     g.signer,
		Manifest:     m.Name,
		Version:      m.Release,
		Summary:      m.Summary,
		Worlds:       m.Worlds,
		Place:        g.position,
		Functions:    g.module.Functions(),
		Capabilities: g.module.Imports(),
		Fuel:         g.module.Fuel(),
		Memory:       g.module.MemoryLimit(),
		Instances:    g.module.Instances(),
		MemoryUsed:   g.module.MemoryUsed(),
	}
	if g.sets != nil {
		for _, s := range g.sets.Status() {
			running.Sets = append(running.Sets, Set(s))
		}
	}
	return running
}

// describeProgram is what an operator sees of a program that runs.
func (g *generation) describeProgram() *Running {
	p := g.file.Program
	return &Running{
		Generation: g.number,
		Since:      g.since,
		Manifest:   filepath.Base(p.Path),
		Version:    programVersion,
		Summary:    "A plugin of strfry.",
		Worlds:     []string{manifest.WorldPolicy},
		Place:      g.position,
		Functions:  []string{guest.Admit.String()},
		Instances:  g.program.running(),
		Program:    &Program{Path: p.Path, TimeoutMS: p.TimeoutMS, Processes: p.Processes, OnAccept: onAccept(p)},
	}
}

func onAccept(p *sidecar.Program) string {
	if p.Accepts {
		return host.Accept.String()
	}
	return host.Pass.String()
}

// Active returns another value after each change of the plugins or their settings.
func (r *Registry) Active() any { return r.current.Load() }

// Why returns the last decision about an event, if it is remembered.
func (r *Registry) Why(event host.ID) (Why, bool) { return r.journal.find(event, r.o.Now()) }

// Refused notes that the server refused an event that the plugins accepted, for [Registry.Why].
func (r *Registry) Refused(event host.ID, reason string) { r.journal.refused(event, reason) }
