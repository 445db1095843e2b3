package plugin

import (
	"context"
	"errors"
	"fmt"
	"time"

	"talon/host/plugin/folder"
)

// lastGood loads what ran before under a name.
func (r *Registry) lastGood(ctx context.Context, name string, g *folder.Generation) *candidate {
	f := &candidate{name: name, last: true}
	if f.source, f.err = r.sourceOf(ctx, name, g); f.err == nil {
		f.generation, f.err = r.build(ctx, f.source)
	}
	return f
}

// start loads the folder for the first time.
func (r *Registry) start(ctx context.Context) error {
	r.changing.Lock()
	defer r.changing.Unlock()
	if r.history != nil {
		for _, name := range r.history.Names() {
			record, _ := r.history.Record(name)
			r.slots[name] = &slot{record: record}
			r.slots[name].restore()
		}
	}
	entries, problems, err := r.scan()
	if err != nil {
		return fmt.Errorf("read the folder of plugins: %w", err)
	}
	// Where they have to be compiled it can take a minute, in which nothing else is logged.
	r.o.Log.Info(fmt.Sprintf("loading %d modules …", modules(entries)), "dir", r.o.Dir)
	findings := r.inspectAll(ctx, entries)
	if ctx.Err() != nil {
		abandon(findings)
		return ctx.Err()
	}
	if err := r.checkPolicy(findings); err != nil {
		abandon(findings)
		return err
	}
	var unknown []error
	var ready []*candidate
	for _, f := range findings {
		ready = append(ready, f)
		if f.err == nil {
			continue
		}
		record := r.slot(f.name).record
		if record.Current != nil {
			if last := r.lastGood(ctx, f.name, record.Current); last.err == nil {
				ready = append(ready, last)
				continue
			} else {
				r.o.Log.Error("the last good generation of a plugin does not load", "plugin", f.name, "err", last.err)
			}
		}
		if before := record.Refused; before == nil || f.source == nil || before.Wasm != f.source.key.sha256() || before.Sidecar != f.source.key.sidecarSHA256() {
			unknown = append(unknown, fmt.Errorf("plugin %s: %w", f.name, f.err))
		}
	}
	if len(unknown) > 0 {
		abandon(ready)
		return errors.Join(unknown...)
	}
	r.apply(ready, entries, problems)
	if r.current.Load().decides() {
		return nil
	}
	return r.errNoPolicy()
}

// reconcile brings what runs to what lies in the folder. What changed together
// begins to decide together.
func (r *Registry) reconcile(ctx context.Context) {
	r.changing.Lock()
	defer r.changing.Unlock()
	if r.shared != nil {
		for r.proposeFolder(ctx) && ctx.Err() == nil {
			r.changing.Unlock()
			select {
			case <-ctx.Done():
			case <-time.After(time.Second):
			}
			r.changing.Lock()
		}
		return
	}
	entries, problems, err := r.scan()
	if err != nil {
		r.o.Log.Error("the folder of plugins cannot be read, what runs goes on", "dir", r.o.Dir, "err", err)
		return
	}
	findings := r.inspectAll(ctx, entries)
	if ctx.Err() != nil {
		abandon(findings)
		return
	}
	r.apply(findings, entries, problems)
}
