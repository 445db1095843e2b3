package plugin

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sync/errgroup"

	"talon/host/plugin/folder"
	"talon/host/plugin/shelf"
)

const (
	maxModule  = 32 << 20
	maxSidecar = 1 << 20
)

// finding is what one look at a name came to: something to run, or a reason why
// not.
type finding struct {
	name       string
	seen       seen
	source     *source     // nil if the files could not be read
	generation *generation // nil if it was refused
	err        error       // why, as one sentence
	same       bool        // it runs already, or it was refused before
	last       bool        // it is the last good generation, in the place of what was refused
}

// start loads the folder for the first time.
func (r *Registry) start(ctx context.Context) error {
	r.changing.Lock()
	defer r.changing.Unlock()
	entries, problems, err := folder.Scan(r.o.Dir)
	if err != nil {
		return fmt.Errorf("read the folder of plugins: %w", err)
	}
	if r.shelf != nil {
		for _, name := range r.shelf.Names() {
			record, _ := r.shelf.Record(name)
			r.slots[name] = &slot{record: record}
			r.slots[name].recall()
		}
	}
	entries, problems = r.programs(entries, problems)
	// Where they have to be compiled it can take a minute, in which nothing else is logged.
	r.o.Log.Info(fmt.Sprintf("loading %d modules …", modules(entries)), "dir", r.o.Dir)
	findings := r.lookAtAll(ctx, entries)
	if ctx.Err() != nil {
		r.abandon(findings)
		return ctx.Err()
	}
	if err := r.checkPolicy(findings); err != nil {
		r.abandon(findings)
		return err
	}
	var unknown []error
	var ready []*finding
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
	return fmt.Errorf("no plugin in %s decides about events, so that none would be accepted: put a policy there, such as grasp.wasm", r.o.Dir)
}

// abandon closes what was loaded in vain.
func (r *Registry) abandon(findings []*finding) {
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
	entries, problems, err := folder.Scan(r.o.Dir)
	if err != nil {
		r.o.Log.Error("the folder of plugins cannot be read, what runs goes on", "dir", r.o.Dir, "err", err)
		return
	}
	entries, problems = r.programs(entries, problems)
	findings := r.lookAtAll(ctx, entries)
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

// lookAtAll looks at the entries that have changed. While the relay serves, it
// takes one processor at most.
func (r *Registry) lookAtAll(ctx context.Context, entries []folder.Entry) []*finding {
	var g errgroup.Group
	g.SetLimit(1)
	if len(r.current.Load().generations) == 0 {
		g.SetLimit(runtime.GOMAXPROCS(0))
	}
	var mu sync.Mutex
	var findings []*finding
	for _, e := range entries {
		s := r.slots[e.Name]
		if s != nil && s.seen == seenOf(e) {
			continue
		}
		g.Go(func() error {
			if f := r.look(ctx, e, s); f != nil {
				mu.Lock()
				findings = append(findings, f)
				mu.Unlock()
			}
			return nil
		})
	}
	_ = g.Wait()
	slices.SortFunc(findings, func(a, b *finding) int { return strings.Compare(a.name, b.name) })
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

// look reads an entry and tries to make a generation of it. It returns nil while
// the files are still being written.
func (r *Registry) look(ctx context.Context, e folder.Entry, s *slot) *finding {
	f := &finding{name: e.Name, seen: seenOf(e)}
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
func (r *Registry) lastGood(ctx context.Context, name string, g *shelf.Generation) *finding {
	f := &finding{name: name, last: true}
	wasm, err := r.shelf.Wasm(g.Wasm)
	if err != nil {
		f.err = err
		return f
	}
	f.source = newSource(name, moduleOf(wasm), sidecarOf(g)).sign(g.Signature)
	f.generation, f.err = r.build(ctx, f.source)
	return f
}

// moduleOf returns a module as the shelf keeps it: nil for a program.
func moduleOf(wasm []byte) []byte {
	if len(wasm) == 0 {
		return nil
	}
	return wasm
}

func sidecarOf(g *shelf.Generation) []byte {
	if !g.HasSidecar {
		return nil
	}
	return append([]byte{}, g.Sidecar...)
}
