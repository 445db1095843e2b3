package plugin

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"talon/host"
	"talon/host/plugin/folder"
	"talon/host/plugin/sidecar"
	"talon/internal/smallfile"
	"talon/sdk/abi/manifest"
)

// Several servers can run the same plugins: all change them at one point of the order in
// which they commit events, or none does. What runs is then a list of records, one for each
// name, that is kept in the database. A change is a proposal: every node loads and tests it,
// and says whether it can. When all can, the database says that it decides, which each node
// learns before it commits anything after that.

// Nodes are the servers that run the same plugins.
type Nodes interface {
	// Plugins returns the generation that decides, and the one that is proposed.
	Plugins(ctx context.Context) (current, next host.PluginSet, err error)

	// PluginModule returns the module with a SHA-256.
	PluginModule(ctx context.Context, sha string) ([]byte, error)

	// Propose returns when the generation decides, with its number, or with an error when it
	// does not: [ErrRefused] if a node cannot run it. modules are those that may be new, keep
	// those that are wanted from then on, by their SHA-256.
	Propose(ctx context.Context, base int64, records []byte, modules map[string][]byte, keep []string) (n int64, err error)

	// Answer tells the node that proposes why this one cannot run a generation; an empty
	// problem says that it can.
	Answer(ctx context.Context, n int64, problem string) error

	// PluginsChanged receives after Plugins may return something else.
	PluginsChanged() <-chan struct{}
}

// askEvery is how often the database is asked without a reason.
const askEvery = 5 * time.Second

// shared is what a registry knows of the generations of all nodes.
type shared struct {
	nodes Nodes
	wake  chan struct{} // there is something to do for followOthers

	records map[string]folder.Record // of the generation in the slots; guarded by Registry.changing
	placed  int64                    // its number; likewise
	asked   int64                    // the last proposal that was answered; likewise

	behind atomic.Bool // another generation decides than the one that runs here

	mu       sync.Mutex    // guards what follows
	running  int64         // number of the generation that runs here
	wanted   int64         // that decides
	problem  string        // why it does not run here
	next     *prepared     // nil: none
	switched []*prepared   // that run, and are not in the slots yet
	changed  chan struct{} // closed when there are other slots
}

// prepared is a generation of all plugins that has passed every check here.
type prepared struct {
	number     int64
	records    map[string]folder.Record
	candidates []*candidate // what is new of it
	set        *activeSet
}

func newShared(nodes Nodes) *shared {
	if nodes == nil {
		return nil
	}
	return &shared{nodes: nodes, wake: make(chan struct{}, 1), changed: make(chan struct{})}
}

func (h *shared) module(ctx context.Context, sha string) ([]byte, error) {
	wasm, err := h.nodes.PluginModule(ctx, sha)
	if sum := sha256.Sum256(wasm); err == nil && hex.EncodeToString(sum[:]) != sha {
		err = fmt.Errorf("module %s is damaged in the database", sha)
	}
	return wasm, err
}

// agreed returns what all nodes run under a name, nil if they run nothing, or there are no
// others. REQUIRES: changing.
func (r *Registry) agreed(name string) *folder.Generation {
	if r.shared == nil {
		return nil
	}
	return r.shared.records[name].Current
}

// notCurrent says that this server must not decide, because another generation does than
// the one that runs here.
func (r *Registry) notCurrent() error {
	h := r.shared
	if h == nil || !h.behind.Load() {
		return nil
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	problem := h.problem
	if problem == "" {
		problem = "it is being loaded"
	}
	return fmt.Errorf("generation %d of the plugins of all nodes does not run here: %s", h.wanted, problem)
}

// Switch makes a generation decide, which all nodes have agreed on. It does not wait: if the
// generation has not been prepared, nothing is decided here until it is.
func (r *Registry) Switch(n int64) {
	h := r.shared
	if h == nil {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if n <= h.wanted {
		return
	}
	h.wanted = n
	r.activateShared()
}

// activateShared puts into effect what is prepared if it is what decides. REQUIRES:
// shared.mu.
func (r *Registry) activateShared() {
	h := r.shared
	if p := h.next; p != nil && p.number == h.wanted {
		h.next, h.running, h.problem = nil, p.number, ""
		h.switched = append(h.switched, p)
		r.activate(p.set)
	}
	h.behind.Store(h.running != h.wanted)
	select {
	case h.wake <- struct{}{}:
	default:
	}
}

// startShared loads what all nodes run. If they run nothing yet, that is what lies in the
// folder here.
func (r *Registry) startShared(ctx context.Context) error {
	r.changing.Lock()
	defer r.changing.Unlock()
	h := r.shared
	for {
		current, _, err := h.nodes.Plugins(ctx)
		if err != nil {
			return err
		}
		if current.Number == 0 {
			if err := r.proposeFirst(ctx); err != nil {
				return err
			}
			continue
		}
		r.o.Log.Info("loading the modules of all nodes …", "generation", current.Number, "follows_folder", r.o.Watch)
		h.mu.Lock()
		h.wanted = current.Number
		h.mu.Unlock()
		r.prepareNext(ctx, current)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		h.mu.Lock()
		r.activateShared()
		h.mu.Unlock()
		r.applySlots()
		if err := r.notCurrent(); err != nil {
			r.o.Log.Error("this server decides nothing before it can run what the others run", "err", err)
		}
		return nil
	}
}

// proposeFirst proposes what lies in the folder. It returns nil as well if another node was
// faster. REQUIRES: changing.
func (r *Registry) proposeFirst(ctx context.Context) error {
	entries, _, err := r.scan()
	if err != nil {
		return fmt.Errorf("read the folder of plugins: %w", err)
	}
	r.o.Log.Info(fmt.Sprintf("loading %d modules …", modules(entries)), "dir", r.o.Dir)
	findings := r.inspectAll(ctx, entries)
	defer r.abandon(findings)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err := r.checkPolicy(findings); err != nil {
		return err
	}
	c := r.newChange()
	var wrong []error
	decides := false
	for _, f := range findings {
		if f.err != nil {
			wrong = append(wrong, fmt.Errorf("plugin %s: %w", f.name, f.err))
			continue
		}
		g := f.generation
		decides = decides || !g.off && !g.leftOut && !g.shadow() && g.serves(manifest.WorldPolicy)
		c.put(f.source, g.version())
	}
	if wrong != nil {
		return errors.Join(wrong...)
	}
	if !decides {
		return r.errNoPolicy()
	}
	_, err = r.shared.propose(ctx, c)
	if current, _, readErr := r.shared.nodes.Plugins(ctx); err != nil && readErr == nil && current.Number > 0 {
		return nil
	}
	return err
}

// followOthers prepares what is proposed, and what decides already, until ctx ends.
func (r *Registry) followOthers(ctx context.Context) error {
	h := r.shared
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
		if err := r.panics.Run(func() error { return r.consult(ctx) }); err != nil && ctx.Err() == nil {
			r.o.Log.Warn("read what plugins all nodes run", "err", err)
		}
	}
}

// consult does once what followOthers does.
func (r *Registry) consult(ctx context.Context) error {
	r.changing.Lock()
	defer r.changing.Unlock()
	h := r.shared
	r.applySlots()
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
		r.prepareNext(ctx, current)
		h.mu.Lock()
		r.activateShared()
		late = h.behind.Load()
		h.mu.Unlock()
		r.applySlots()
	case next.Number > h.asked:
		problem = r.prepareNext(ctx, next)
	case next.Number == 0:
		r.discard()
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
func (r *Registry) prepareNext(ctx context.Context, set host.PluginSet) (problem string) {
	h := r.shared
	h.mu.Lock()
	have := h.next != nil && h.next.number == set.Number
	h.mu.Unlock()
	if have {
		return ""
	}
	r.discard()
	p, err := r.prepare(ctx, set)
	if err != nil {
		problem = oneLine(err)
		r.o.Log.Warn("plugins of all nodes cannot run here", "generation", set.Number, "proposed_by", set.Node, "reason", problem)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.next = p
	if set.Number == h.wanted {
		h.problem = problem
	}
	return problem
}

// discard closes what was prepared and does not run.
func (r *Registry) discard() {
	h := r.shared
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
			r.abandon(p.candidates)
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
		if f.source, err = r.sourceOf(ctx, record.Name, now); err == nil {
			f.generation, err = r.build(ctx, f.source)
		}
		if err != nil {
			return nil, fmt.Errorf("plugin %s: %w", record.Name, err)
		}
		p.candidates = append(p.candidates, f)
		g := f.generation
		g.number = now.Number
		g.position = r.placeOf(f.name, g.position)
		if !g.off {
			runs = append(runs, g)
		}
	}
	for _, name := range r.o.Policy {
		if p.records[name].Current == nil {
			return nil, fmt.Errorf("option policy names %s, and there is no plugin of this name", name)
		}
	}
	p.set = r.assemble(runs)
	return p, nil
}

// keyOf returns the key of the source of a generation.
func keyOf(g *folder.Generation) (k key) {
	k = newSource("", nil, sidecarOf(g)).sign(g.Signature).key
	_, _ = hex.Decode(k.wasm[:], []byte(g.Wasm))
	k.program = g.Wasm == emptySum
	return k
}

// applySlots brings the slots in line with what runs. REQUIRES: changing.
func (r *Registry) applySlots() {
	h := r.shared
	h.mu.Lock()
	list := h.switched
	h.switched = nil
	h.mu.Unlock()
	for _, p := range list {
		r.inspecting.Lock()
		for _, f := range p.candidates {
			if r.o.Watch {
				r.updateFolder(f)
			}
			r.applyOne(f)
		}
		for name, s := range r.slots {
			if p.records[name].Current == nil && s.applied != (key{}) {
				r.remove(name, s)
			}
		}
		h.records, h.placed = p.records, p.number
		r.inspecting.Unlock()
		r.o.Log.Info("plugins of all nodes run here", "generation", p.number)
		r.afterChange(p.candidates)
	}
	if list == nil {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	close(h.changed)
	h.changed = make(chan struct{})
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

// updateFolder makes the files of a plugin in the folder what now runs, if they are what ran
// before. If they are something else, that is what the operator has put there meanwhile.
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
	defer r.abandon(findings)
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
