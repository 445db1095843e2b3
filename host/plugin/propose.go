package plugin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"talon/host/plugin/folder"
	"talon/host/plugin/sidecar"
)

// proposal is another generation of the plugins of all nodes in the making.
type proposal struct {
	base    int64
	now     time.Time
	records map[string]folder.Record
	modules map[string][]byte
	size    int // names that are others

	fresh  []*candidate // that are in it
	folder bool         // it is what lies in the folder
}

// newProposal makes a proposal of what is wanted and built, nil if that is what runs. A refused
// candidate is no part of it, and is noted here. REQUIRES: changing.
func (h *shared) newProposal(w *wanted) (*proposal, bool) {
	p := &proposal{
		base: h.placed, now: h.r.o.Now(), records: maps.Clone(h.records), modules: map[string][]byte{}, folder: w.folder != nil,
	}
	if p.records == nil {
		p.records = map[string]folder.Record{}
	}
	h.r.inspecting.Lock()
	defer h.r.inspecting.Unlock()
	for _, f := range w.candidates {
		if f.err != nil || f.same {
			h.r.applyOne(f)
			continue
		}
		p.put(f.source, f.generation.version())
		p.fresh = append(p.fresh, f)
	}
	if p.folder {
		h.r.setProblems(w.folder.problems)
		for name, record := range p.records {
			if record.Current == nil || w.folder.has(name) {
				continue
			}
			if file, err := sidecar.Parse(record.Current.Sidecar); err == nil && file.Required && file.Mode == sidecar.Enforce {
				h.r.o.Log.Error("a policy that is required is not in the folder any more: it goes on on all nodes; talon plugin mode NAME off ends it", "plugin", name)
				continue
			}
			p.remove(name)
		}
	}
	if p.size == 0 {
		return nil, true
	}
	return p, true
}

// put makes a source run.
func (p *proposal) put(s *source, version string) {
	record := p.records[s.name]
	record.Name = s.name
	p.records[s.name] = record.With(folder.Generation{
		Wasm: s.key.sha256(), Version: version, Sidecar: s.sidecar, HasSidecar: s.sidecar != nil, Signature: s.signature, Since: p.now,
	})
	p.modules[s.key.sha256()] = append([]byte{}, s.wasm...)
	p.size++
}

// remove makes nothing run under a name.
func (p *proposal) remove(name string) {
	p.records[name] = p.records[name].Without(p.now)
	p.size++
}

// submit has all nodes load a proposal, and returns its number when it decides.
func (h *shared) submit(ctx context.Context, p *proposal) (int64, error) {
	var list []folder.Record
	var keep []string
	for _, name := range slices.Sorted(maps.Keys(p.records)) {
		record := p.records[name]
		list = append(list, record)
		if record.Current != nil {
			keep = append(keep, record.Current.Wasm)
		}
		for i := range record.Earlier {
			keep = append(keep, record.Earlier[i].Wasm)
		}
	}
	text, err := json.Marshal(list)
	if err != nil {
		return 0, err
	}
	return h.nodes.Propose(ctx, p.base, text, p.modules, keep)
}

// agree returns when a proposal runs here, or an error if it does not come to that.
func (h *shared) agree(ctx context.Context, p *proposal) error {
	err := h.submitAndWait(ctx, p)
	h.noteProposal(p, err)
	return err
}

// submitAndWait does what agree does, and notes nothing.
func (h *shared) submitAndWait(ctx context.Context, p *proposal) error {
	n, err := h.submit(ctx, p)
	if err != nil {
		return err
	}
	for {
		h.mu.Lock()
		changed, done := h.changed, h.running >= n && len(h.switched) == 0
		h.mu.Unlock()
		if done {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return fmt.Errorf("the plugins are changed on all nodes (generation %d), and this one is late: %w", n, context.Cause(ctx))
		}
	}
}

// noteProposal notes the result of a proposal. The slots are in line with it afterwards: what
// updates them has the lock until they are.
func (h *shared) noteProposal(p *proposal, err error) {
	h.r.changing.Lock()
	defer h.r.changing.Unlock()
	if !p.folder || err != nil && !errors.Is(err, ErrRefused) {
		return
	}
	h.r.inspecting.Lock()
	defer h.r.inspecting.Unlock()
	for _, f := range p.fresh {
		if err == nil {
			h.r.slot(f.name).seen = f.seen
			continue
		}
		f.err = err
		h.r.applyOne(f)
	}
}
