package plugin

import (
	"path/filepath"

	"talon/internal/smallfile"
)

// Switch makes a generation decide, which all nodes have agreed on. It does not wait: if the
// generation has not been prepared, nothing is decided here until it is.
func (r *Registry) Switch(n int64) { r.others.switchTo(n) }

func (h *shared) switchTo(n int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if n <= h.wanted {
		return
	}
	h.wanted = n
	h.activate()
}

// activate puts into effect what is prepared if it is what decides. REQUIRES:
// mu.
func (h *shared) activate() {
	if p := h.next; p != nil && p.number == h.wanted {
		h.next, h.running, h.problem = nil, p.number, ""
		h.switched = append(h.switched, p)
		h.r.activate(p.set)
	}
	h.behind.Store(h.running != h.wanted)
	select {
	case h.wake <- struct{}{}:
	default:
	}
}

// applySlots brings the slots in line with what runs. REQUIRES: changing.
func (h *shared) applySlots() {
	h.mu.Lock()
	list := h.switched
	h.switched = nil
	h.mu.Unlock()
	for _, p := range list {
		h.r.inspecting.Lock()
		for _, f := range p.candidates {
			if h.r.o.Watch {
				h.r.updateFolder(f)
			}
			h.r.applyOne(f)
		}
		for name, s := range h.r.slots {
			if p.records[name].Current == nil && s.applied != (key{}) {
				h.r.remove(name, s)
			}
		}
		h.records, h.placed = p.records, p.number
		h.r.inspecting.Unlock()
		h.r.o.Log.Info("plugins of all nodes run here", "generation", p.number)
		h.r.afterChange(p.candidates)
	}
	if list == nil {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	close(h.changed)
	h.changed = make(chan struct{})
}

// updateFolder makes the files of a plugin in the folder what now runs, if they are what ran
// before. If they are something else, the operator has put them there since.
// REQUIRES: changing and inspecting.
func (r *Registry) updateFolder(f *candidate) {
	before := r.slot(f.name).record.Current
	wasm, err := smallfile.Read(filepath.Join(r.o.Dir, f.name+".wasm"), maxModule)
	if err != nil {
		wasm = nil
	}
	text, err := smallfile.Read(filepath.Join(r.o.Dir, f.name+".toml"), maxSidecar)
	if err != nil {
		text = nil
	} else if text == nil {
		text = []byte{}
	}
	here := newSource(f.name, wasm, text).key
	if wasm == nil && text == nil {
		if before != nil {
			return // they were removed
		}
	} else {
		if before == nil {
			return
		}
		was := keyOf(before)
		if here.wasm != was.wasm || here.sidecar != was.sidecar || here.plain != was.plain {
			return
		}
	}
	if err := r.writeFiles(f.source); err != nil {
		r.o.Log.Warn("write what all nodes run into the folder of plugins", "plugin", f.name, "err", err)
	}
}
