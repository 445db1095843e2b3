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

// change is another generation of the plugins of all nodes in the making.
type change struct {
	base    int64
	now     time.Time
	records map[string]folder.Record
	modules map[string][]byte
	size    int // names that are others
}

// newChange begins a change of what runs. REQUIRES: changing.
func (r *Registry) newChange() *change {
	h := r.shared
	c := &change{base: h.placed, now: r.o.Now(), records: map[string]folder.Record{}, modules: map[string][]byte{}}
	maps.Copy(c.records, h.records)
	return c
}

// put makes a source run.
func (c *change) put(s *source, version string) {
	record := c.records[s.name]
	record.Name = s.name
	c.records[s.name] = record.With(folder.Generation{
		Wasm: s.key.sha256(), Version: version, Sidecar: s.sidecar, HasSidecar: s.sidecar != nil, Signature: s.signature, Since: c.now,
	})
	c.modules[s.key.sha256()] = append([]byte{}, s.wasm...)
	c.size++
}

// remove makes nothing run under a name.
func (c *change) remove(name string) {
	c.records[name] = c.records[name].Without(c.now)
	c.size++
}

// propose has all nodes load a change, and returns its number when it decides.
func (h *shared) propose(ctx context.Context, c *change) (int64, error) {
	var list []folder.Record
	var keep []string
	for _, name := range slices.Sorted(maps.Keys(c.records)) {
		record := c.records[name]
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
	return h.nodes.Propose(ctx, c.base, text, c.modules, keep)
}

// propose returns when a change is in the slots here, or an error if it does not come to
// that. REQUIRES: changing, which is not held meanwhile.
func (r *Registry) propose(ctx context.Context, c *change) error {
	h := r.shared
	r.changing.Unlock()
	defer r.changing.Lock()
	n, err := h.propose(ctx, c)
	if err != nil {
		return err
	}
	for {
		h.mu.Lock()
		changed, done := h.changed, h.running >= n && len(h.switched) == 0
		h.mu.Unlock()
		if done {
			return nil // what has the slots has the lock that comes next
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return fmt.Errorf("the plugins are changed on all nodes (generation %d), and this one is late: %w", n, context.Cause(ctx))
		}
	}
}

// proposeFolder proposes what has changed in the folder, and reports whether it is to be
// tried again. REQUIRES: changing.
func (r *Registry) proposeFolder(ctx context.Context) (again bool) {
	entries, problems, err := r.scan()
	if err != nil {
		r.o.Log.Error("the folder of plugins cannot be read, what runs goes on", "dir", r.o.Dir, "err", err)
		return false
	}
	findings := r.inspectAll(ctx, entries)
	defer abandon(findings)
	if ctx.Err() != nil {
		return false
	}
	c := r.newChange()
	var fresh []*candidate
	r.inspecting.Lock()
	r.setProblems(problems)
	for _, f := range findings {
		switch {
		case f.err != nil || f.same:
			r.applyOne(f)
		default:
			c.put(f.source, f.generation.version())
			fresh = append(fresh, f)
		}
	}
	for name, record := range c.records {
		if record.Current == nil || slices.ContainsFunc(entries, func(e folder.Entry) bool { return e.Name == name }) {
			continue
		}
		if file, err := sidecar.Parse(record.Current.Sidecar); err == nil && file.Required && file.Mode == sidecar.Enforce {
			r.o.Log.Error("a policy that is required is not in the folder any more: it goes on on all nodes; talon plugin mode NAME off ends it", "plugin", name)
			continue
		}
		c.remove(name)
	}
	r.inspecting.Unlock()
	if c.size == 0 {
		return false
	}
	err = r.propose(ctx, c)
	if err != nil && !errors.Is(err, ErrRefused) {
		r.o.Log.Warn("propose what lies in the folder of plugins", "err", err)
		return true
	}
	r.inspecting.Lock()
	defer r.inspecting.Unlock()
	for _, f := range fresh {
		if err == nil {
			r.slot(f.name).seen = f.seen
			continue
		}
		f.err = err
		r.applyOne(f)
	}
	return false
}
