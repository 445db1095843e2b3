package plugin

import (
	"context"
	"fmt"
	"time"

	"talon/host"
	"talon/host/plugin/folder"
)

// askEvery is how often the database is asked without a reason.
const askEvery = 5 * time.Second

// startFirst loads what all nodes run. If they run nothing yet, it proposes the plugins of
// the folder here.
func (h *shared) startFirst(ctx context.Context) error {
	for {
		current, _, err := h.nodes.Plugins(ctx)
		if err != nil {
			return err
		}
		if current.Number > 0 {
			return h.startFrom(ctx, current)
		}
		if err := h.proposeFirst(ctx); err != nil {
			return err
		}
	}
}

// proposeFirst proposes the plugins of the folder. It returns nil as well if another node was
// faster.
func (h *shared) proposeFirst(ctx context.Context) error {
	p, err := h.r.changeHere(ctx, h.r.wantFirst)
	if p == nil {
		return err
	}
	_, err = h.submit(ctx, p)
	if current, _, readErr := h.nodes.Plugins(ctx); err != nil && readErr == nil && current.Number > 0 {
		return nil
	}
	return err
}

// startFrom loads the generation that all nodes run.
func (h *shared) startFrom(ctx context.Context, current host.PluginSet) error {
	h.r.changing.Lock()
	defer h.r.changing.Unlock()
	h.r.o.Log.Info("loading the modules of all nodes …", "generation", current.Number, "follows_folder", h.r.o.Watch)
	h.mu.Lock()
	h.wanted = current.Number
	h.mu.Unlock()
	h.prepareNext(ctx, current)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	h.mu.Lock()
	h.activate()
	h.mu.Unlock()
	h.applySlots()
	if err := h.notCurrent(); err != nil {
		h.r.o.Log.Error("this server decides nothing before it can run what the others run", "err", err)
	}
	return nil
}

// followOthers prepares what is proposed, and what decides already, until ctx ends.
func (h *shared) followOthers(ctx context.Context) error {
	tick := time.NewTicker(askEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-h.nodes.PluginsChanged():
		case <-h.wake:
		case <-tick.C:
		}
		if err := h.r.panics.Run(func() error { return h.consult(ctx) }); err != nil && ctx.Err() == nil {
			h.r.o.Log.Warn("read what plugins all nodes run", "err", err)
		}
	}
}

// consult does once what followOthers does.
func (h *shared) consult(ctx context.Context) error {
	h.r.changing.Lock()
	defer h.r.changing.Unlock()
	h.applySlots()
	current, next, err := h.nodes.Plugins(ctx)
	if err != nil {
		return err
	}
	h.mu.Lock()
	late := current.Number > h.running
	h.mu.Unlock()
	problem := ""
	switch {
	case late:
		// It decides already, or does as soon as the next transaction begins. A node that
		// cannot run it decides nothing, and so does not keep the others from what is next.
		h.prepareNext(ctx, current)
		h.mu.Lock()
		h.activate()
		late = h.behind.Load()
		h.mu.Unlock()
		h.applySlots()
	case next.Number > h.asked:
		problem = h.prepareNext(ctx, next)
	case next.Number == 0:
		h.dropPrepared()
	}
	if ctx.Err() != nil || next.Number <= h.asked || late != h.behind.Load() {
		return ctx.Err()
	}
	if err := h.nodes.Answer(ctx, next.Number, problem); err != nil {
		return err
	}
	h.asked = next.Number
	return nil
}

// prepareNext prepares a generation, unless it is, in the place of another. It returns why
// this server cannot run it. REQUIRES: changing.
func (h *shared) prepareNext(ctx context.Context, set host.PluginSet) (problem string) {
	h.mu.Lock()
	have := h.next != nil && h.next.number == set.Number
	h.mu.Unlock()
	if have {
		return ""
	}
	h.dropPrepared()
	p, err := h.r.prepare(ctx, set)
	if err != nil {
		problem = oneLine(err)
		h.r.o.Log.Warn("plugins of all nodes cannot run here", "generation", set.Number, "proposed_by", set.Node, "reason", problem)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.next = p
	if set.Number == h.wanted {
		h.problem = problem
	}
	return problem
}

// dropPrepared closes what was prepared and does not run.
func (h *shared) dropPrepared() {
	h.mu.Lock()
	p := h.next
	h.next = nil
	h.mu.Unlock()
	if p != nil {
		p.set.release()
	}
}

// prepare loads and tests what is new of a generation. REQUIRES: changing.
func (r *Registry) prepare(ctx context.Context, set host.PluginSet) (_ *prepared, err error) {
	records, err := folder.ParseRecords(set.Records)
	if err != nil {
		return nil, err
	}
	p := &prepared{number: set.Number, records: map[string]folder.Record{}}
	defer func() {
		if err != nil {
			abandon(p.candidates)
		}
	}()
	var runs []*generation
	for i := range records {
		record := &records[i]
		p.records[record.Name] = *record
		now := record.Current
		if now == nil {
			continue
		}
		if s := r.slots[record.Name]; s != nil && s.applied == keyOf(now) {
			if s.running != nil {
				runs = append(runs, s.running)
			}
			continue
		}
		f := &candidate{name: record.Name, record: record}
		f.source, f.err = r.sourceOf(ctx, record.Name, now)
		p.candidates = append(p.candidates, f)
	}
	for _, name := range r.o.Policy {
		if p.records[name].Current == nil {
			return nil, fmt.Errorf("option policy names %s, and there is no plugin of this name", name)
		}
	}
	r.buildAll(ctx, p.candidates)
	for _, f := range p.candidates {
		if f.err != nil {
			return nil, fmt.Errorf("plugin %s: %w", f.name, f.err)
		}
		g := f.generation
		g.number = f.record.Current.Number
		g.position = r.placeOf(f.name, g.position)
		if !g.off {
			runs = append(runs, g)
		}
	}
	p.set = r.assemble(runs)
	return p, nil
}
