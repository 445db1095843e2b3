package plugin

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"talon/host"
	"talon/host/plugin/folder"
	"talon/host/plugin/sidecar"
)

const (
	maxModule  = 32 << 20
	maxSidecar = 1 << 20
)

// candidate is what one look at a name came to: something to run, or a reason why
// not.
type candidate struct {
	name       string
	seen       seen
	source     *source     // nil if the files could not be read
	generation *generation // nil if it was refused
	err        error       // why, as one sentence
	same       bool        // it runs already, or it was refused before
	last       bool        // it is the last good generation, in the place of what was refused

	record *folder.Record // that all nodes have agreed on; nil where this server is alone
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
		r.abandon(findings)
		return ctx.Err()
	}
	if err := r.checkPolicy(findings); err != nil {
		r.abandon(findings)
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
		r.abandon(ready)
		return errors.Join(unknown...)
	}
	r.apply(ready, entries, problems)
	if r.current.Load().decides() {
		return nil
	}
	return r.errNoPolicy()
}

func (r *Registry) errNoPolicy() error {
	return fmt.Errorf("no plugin in %s decides about events, so that none would be accepted: put a policy there, such as grasp.wasm", r.o.Dir)
}

// scan returns what lies in the folder and can be plugins. REQUIRES: changing.
func (r *Registry) scan() ([]folder.Entry, []folder.Problem, error) {
	entries, problems, err := folder.Scan(r.o.Dir)
	if err != nil {
		return nil, nil, err
	}
	entries, problems = r.programs(entries, problems)
	return entries, problems, nil
}

// abandon closes what was loaded in vain.
func (r *Registry) abandon(findings []*candidate) {
	for _, f := range findings {
		if f.generation != nil {
			_ = f.generation.close()
		}
	}
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
		r.abandon(findings)
		return
	}
	r.apply(findings, entries, problems)
}

func modules(entries []folder.Entry) (n int) {
	for _, e := range entries {
		if e.Wasm != nil {
			n++
		}
	}
	return n
}

// inspectAll looks at the entries that have changed. While the relay serves, it
// takes one processor at most.
func (r *Registry) inspectAll(ctx context.Context, entries []folder.Entry) []*candidate {
	var g errgroup.Group
	g.SetLimit(1)
	if len(r.current.Load().generations) == 0 {
		g.SetLimit(runtime.GOMAXPROCS(0))
	}
	var mu sync.Mutex
	var findings []*candidate
	for _, e := range entries {
		s := r.slots[e.Name]
		if s != nil && s.seen == seenOf(e) {
			continue
		}
		g.Go(func() error {
			var f *candidate
			err := r.panics.Run(func() error {
				f = r.inspect(ctx, e, s)
				return nil
			})
			if err != nil {
				f = &candidate{name: e.Name, seen: seenOf(e), err: err}
			}
			if f != nil {
				mu.Lock()
				defer mu.Unlock()
				findings = append(findings, f)
			}
			return nil
		})
	}
	_ = g.Wait()
	slices.SortFunc(findings, func(a, b *candidate) int { return strings.Compare(a.name, b.name) })
	return findings
}

func seenOf(e folder.Entry) (s seen) {
	if e.Wasm != nil {
		s.wasm = e.Wasm.Stamp
	}
	if e.Sidecar != nil {
		s.sidecar = e.Sidecar.Stamp
	}
	if e.Signature != nil {
		s.signature = e.Signature.Stamp
	}
	if e.SidecarSignature != nil {
		s.sidecarSignature = e.SidecarSignature.Stamp
	}
	return s
}

// inspect reads an entry and tries to make a generation of it. It returns nil while
// the files are still being written.
func (r *Registry) inspect(ctx context.Context, e folder.Entry, s *slot) *candidate {
	f := &candidate{name: e.Name, seen: seenOf(e)}
	var wasm, text []byte
	var err error
	if e.Wasm != nil {
		wasm, err = folder.Read(e.Wasm, maxModule)
	}
	if err == nil && e.Sidecar != nil {
		if text, err = folder.Read(e.Sidecar, maxSidecar); text == nil {
			text = []byte{}
		}
	}
	var signature []byte
	if err == nil {
		signature, err = r.signatureOf(e, text)
	}
	if errors.Is(err, folder.ErrChanged) {
		return nil
	}
	if err != nil {
		f.err = err
		return f
	}
	f.source = newSource(e.Name, wasm, text).sign(signature)
	if err := r.checkReplacing(e, s, f.source); errors.Is(err, folder.ErrChanged) {
		return nil
	} else if err != nil {
		f.source.key.barred = true
		f.err = err
		f.same = s.refused != nil && s.refused.key == f.source.key && s.refused.reason == oneLine(err)
		return f
	}
	if s != nil {
		runs := s.applied == f.source.key
		if runs || s.refused != nil && s.refused.key == f.source.key {
			f.same = true
			if !runs {
				f.err = errors.New(s.refused.reason)
			}
			return f
		}
	}
	f.generation, f.err = r.build(ctx, f.source)
	return f
}

// lastGood loads what ran before under a name.
func (r *Registry) lastGood(ctx context.Context, name string, g *folder.Generation) *candidate {
	f := &candidate{name: name, last: true}
	if f.source, f.err = r.sourceOf(ctx, name, g); f.err == nil {
		f.generation, f.err = r.build(ctx, f.source)
	}
	return f
}

// sourceOf returns what a generation was made of, from the history, or from where all nodes
// have it.
func (r *Registry) sourceOf(ctx context.Context, name string, g *folder.Generation) (s *source, err error) {
	var wasm []byte
	if err = errNoHistory; r.history != nil {
		wasm, err = r.history.Wasm(g.Wasm)
	}
	if err != nil && r.shared != nil {
		wasm, err = r.shared.module(ctx, g.Wasm)
	}
	if err != nil {
		return nil, err
	}
	return newSource(name, moduleOf(wasm), sidecarOf(g)).sign(g.Signature), nil
}

var errNoHistory = errors.New("no earlier generations are kept")

// moduleOf returns a module as the history keeps it: nil for a program.
func moduleOf(wasm []byte) []byte {
	if len(wasm) == 0 {
		return nil
	}
	return wasm
}

func sidecarOf(g *folder.Generation) []byte {
	if !g.HasSidecar {
		return nil
	}
	return append([]byte{}, g.Sidecar...)
}

// A policy can be required, by its side-car or because the operator's choice of
// policies names it: what it would judge is refused as long as it does not run.

// requires reports whether a policy is required. REQUIRES: changing or inspecting.
func (r *Registry) requires(name string, s *slot) bool {
	return s.required || slices.Contains(r.o.Policy, name)
}

// readRequired learns from a side-car whether the plugin is required. One that shadows
// or is off judges nothing.
func (s *slot) readRequired(file *sidecar.File) {
	s.required = file.Required && file.Mode == sidecar.Enforce
	if file.Place != nil {
		s.position = *file.Place
	}
}

// restore learns it from what ran last, as the history keeps it.
func (s *slot) restore() {
	if s.record.Current == nil {
		return
	}
	if file, err := sidecar.Parse(s.record.Current.Sidecar); err == nil {
		s.readRequired(file)
	}
}

// missing returns why a policy that is required does not run, empty if it runs, or is
// not required. Where others run the same plugins, what they have agreed on runs, or nothing
// is decided here. REQUIRES: changing or inspecting.
func (r *Registry) missing(name string, s *slot) string {
	switch {
	case s.running != nil, s.off, r.shared != nil, !r.requires(name, s):
		return ""
	case s.gone:
		return "its files are not in the folder"
	case s.refused != nil:
		return s.refused.reason
	}
	return ""
}

// absent takes the place of a policy that is required and does not run.
func (r *Registry) absent(name string, s *slot) *generation {
	g := &generation{
		name: name, position: r.placeOf(name, s.position), file: &sidecar.File{Mode: sidecar.Enforce, Required: true}, counters: r.counters.of(name), meters: r.metrics,
		absent:  true,
		refusal: host.Ruling{Action: host.Reject, Rule: "missing", Module: name, Reason: "error: policy " + name + " is missing"},
	}
	g.breaker.now = r.o.Now
	return g
}

// Health returns the required policies that do not run, or that are not asked after
// many failures, one sentence each.
func (r *Registry) Health() []string {
	r.inspecting.Lock()
	defer r.inspecting.Unlock()
	var list []string
	for name, s := range r.slots {
		if reason := r.missing(name, s); reason != "" {
			list = append(list, "policy "+name+" is missing: "+reason)
		} else if s.running != nil && r.requires(name, s) && s.running.breaker.isOpen() {
			list = append(list, "policy "+name+" has failed for too many and rests")
		}
	}
	slices.SortFunc(list, strings.Compare)
	if err := r.notCurrent(); err != nil {
		list = append(list, err.Error())
	}
	return list
}
