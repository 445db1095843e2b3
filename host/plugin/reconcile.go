package plugin

import (
	"context"
	"errors"
	"fmt"
	"time"

	"talon/host/plugin/folder"
)

// start loads the folder for the first time.
func (r *Registry) start(ctx context.Context) error {
	if err := r.change(ctx, r.wantFirst); err != nil {
		return err
	}
	if r.current.Load().decides() {
		return nil
	}
	return r.errNoPolicy()
}

// wantFirst wants the plugins of the folder, when nothing runs yet. REQUIRES: changing.
func (r *Registry) wantFirst(context.Context) (*wanted, error) {
	if r.history != nil && !r.others.there() {
		for _, name := range r.history.Names() {
			record, _ := r.history.Record(name)
			r.slots[name] = &slot{record: record}
			r.slots[name].restore()
		}
	}
	there, err := r.scan()
	if err != nil {
		return nil, fmt.Errorf("read the folder of plugins: %w", err)
	}
	// Where they have to be compiled it can take a minute, in which nothing else is logged.
	r.o.Log.Info(fmt.Sprintf("loading %d modules …", there.modules()), "dir", r.o.Dir)
	w := r.inspectFolder(there)
	w.check = func(ctx context.Context) error { return r.checkFirst(ctx, w) }
	return w, nil
}

// checkFirst refuses to start with a plugin that does not load. Where it was refused before,
// the last good generation takes its place, or nothing. REQUIRES: changing.
func (r *Registry) checkFirst(ctx context.Context, w *wanted) error {
	if err := r.checkPolicy(w.candidates); err != nil {
		return err
	}
	decides := false
	var unknown []error
	var ready []*candidate
	for _, f := range w.candidates {
		ready = append(ready, f)
		if f.err == nil {
			decides = decides || f.generation.decides()
			continue
		}
		if !r.others.there() {
			record := r.slot(f.name).record
			if record.Current != nil {
				last := r.lastGood(ctx, f.name, record.Current)
				if last.err == nil {
					ready = append(ready, last)
					continue
				}
				r.o.Log.Error("the last good generation of a plugin does not load", "plugin", f.name, "err", last.err)
			}
			if before := record.Refused; before != nil && f.source != nil && before.Wasm == f.source.key.sha256() && before.Sidecar == f.source.key.sidecarSHA256() {
				continue
			}
		}
		unknown = append(unknown, fmt.Errorf("plugin %s: %w", f.name, f.err))
	}
	w.candidates = ready
	if len(unknown) > 0 {
		return errors.Join(unknown...)
	}
	if r.others.there() && !decides {
		return r.errNoPolicy()
	}
	return nil
}

// lastGood loads what ran before under a name.
func (r *Registry) lastGood(ctx context.Context, name string, g *folder.Generation) *candidate {
	f := &candidate{name: name, isFallback: true}
	if f.source, f.err = r.sourceOf(ctx, name, g); f.err == nil {
		f.generation, f.err = r.build(ctx, f.source)
	}
	return f
}

// reconcile runs the plugins of the folder. Where nodes share their plugins, it
// tries again until they have decided about that.
func (r *Registry) reconcile(ctx context.Context) {
	for {
		err := r.change(ctx, r.wantFolder)
		if err == nil || ctx.Err() != nil || errors.Is(err, ErrRefused) {
			return
		}
		r.o.Log.Warn("propose what lies in the folder of plugins", "err", err)
		select {
		case <-ctx.Done():
		case <-time.After(time.Second):
		}
	}
}

// wantFolder wants the plugins of the folder. REQUIRES: changing.
func (r *Registry) wantFolder(context.Context) (*wanted, error) {
	there, err := r.scan()
	if err != nil {
		r.o.Log.Error("the folder of plugins cannot be read, what runs goes on", "dir", r.o.Dir, "err", err)
		return nil, nil
	}
	return r.inspectFolder(there), nil
}
