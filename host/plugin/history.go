package plugin

import (
	"context"
	"errors"

	"talon/host/plugin/folder"
	"talon/host/plugin/guest"
	"talon/host/plugin/sidecar"
)

var errNoHistory = errors.New("no earlier generations are kept")

// sourceOf returns what a generation was made of, from the history, or from where all nodes
// have it.
func (r *Registry) sourceOf(ctx context.Context, name string, g *folder.Generation) (s *source, err error) {
	wasm, err := r.keptModule(ctx, g.Wasm)
	if err != nil {
		return nil, err
	}
	return newSource(name, moduleOf(wasm), sidecarOf(g)).sign(g.Signature), nil
}

// keptModule returns the module with a SHA-256, in hex, from the history, or from where all nodes
// have it.
func (r *Registry) keptModule(ctx context.Context, sha256 string) (wasm []byte, err error) {
	if err = errNoHistory; r.history != nil {
		wasm, err = r.history.Wasm(sha256)
	}
	if err != nil && r.others.there() {
		wasm, err = r.others.module(ctx, sha256)
	}
	return wasm, err
}

// moduleAgain returns how a generation gets its module again after it was unloaded, if its
// compiled code is lost by then. It is nil if nothing keeps modules.
func (r *Registry) moduleAgain(g *generation) guest.Source {
	name, sum := r.bundledNameOf(g.key), g.key.sha256()
	if name == "" && r.history == nil && !r.others.there() {
		return nil
	}
	return func(ctx context.Context) ([]byte, error) {
		if name != "" {
			return r.o.Bundled.Wasm(name)
		}
		return r.keptModule(ctx, sum)
	}
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

// refuse notes why the files of the folder do not run.
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

// adopt keeps a generation that all nodes have agreed on for the next start.
func (r *Registry) adopt(f *candidate, s *slot) {
	s.record = *f.record
	if r.history == nil {
		return
	}
	if err := r.history.Adopt(*f.record, f.source.wasm); err != nil {
		r.o.Log.Warn("a plugin of all nodes is not kept here", "plugin", f.name, "err", err)
	}
}
