package plugin

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"talon/host/plugin/folder"
	"talon/host/plugin/sidecar"
)

// ErrUnknown says that there is no plugin of a name.
var ErrUnknown = errors.New("there is no plugin of this name")

// ErrRefused is in every error that says what is wrong with a plugin, rather
// than with the host.
var ErrRefused = errors.New("refused")

// Swap puts a module into the folder under a name, with the side-car that is
// there, and makes it run. If it fails a check, the error says which, and
// nothing changes. A signature of the module, as [VerifySignature] reads it, goes into
// the folder with it; without one, that which lies there counts.
func (r *Registry) Swap(ctx context.Context, name string, wasm, signature []byte) (Status, error) {
	if err := folder.CheckName(name); err != nil {
		return Status{}, fmt.Errorf("%w: %w", ErrRefused, err)
	}
	r.changing.Lock()
	defer r.changing.Unlock()
	for other := range r.slots {
		if other != name && strings.EqualFold(other, name) {
			return Status{}, fmt.Errorf("%w: the name differs from the plugin %s only in case", ErrRefused, other)
		}
	}
	text, err := r.readSidecar(name)
	if err != nil {
		return Status{}, err
	}
	if wasm == nil {
		wasm = []byte{} // no program
	}
	own := signature != nil
	if own && !r.mustBeSigned(text) {
		signature = nil
	}
	if !own {
		if signature, err = r.readSignature(name, text); err != nil {
			return Status{}, err
		}
	}
	return r.replace(ctx, newSource(name, wasm, text).sign(signature), func() error {
		if own && signature != nil {
			if err := folder.Write(r.o.Dir, name+".wasm"+SignatureSuffix, signature); err != nil {
				return err
			}
		}
		return folder.Write(r.o.Dir, name+".wasm", wasm)
	})
}

// SetMode writes the mode of a plugin into its side-car, and makes it so.
func (r *Registry) SetMode(ctx context.Context, name string, mode sidecar.Mode) (Status, error) {
	r.changing.Lock()
	defer r.changing.Unlock()
	if r.slots[name] == nil {
		return Status{}, fmt.Errorf("%w: %.80q", ErrUnknown, name)
	}
	text, err := r.readSidecar(name)
	if err != nil {
		return Status{}, err
	}
	wasm, err := r.readModule(ctx, name)
	if err != nil {
		return Status{}, fmt.Errorf("read the module: %w", err)
	}
	if text, err = sidecar.SetMode(text, mode); err != nil {
		return Status{}, fmt.Errorf("%w: %s.toml: %w", ErrRefused, name, err)
	}
	signature, err := r.readSignature(name, text)
	if err != nil {
		return Status{}, err
	}
	return r.replace(ctx, newSource(name, wasm, text).sign(signature), func() error {
		return folder.Write(r.o.Dir, name+".toml", text)
	})
}

// Rollback returns to an earlier generation: 1 is the one that ran before what
// lies in the folder now, so the one that still runs if that was refused. The
// files of the folder become what they were then.
func (r *Registry) Rollback(ctx context.Context, name string, steps int) (Status, error) {
	r.changing.Lock()
	defer r.changing.Unlock()
	s := r.slots[name]
	if s == nil {
		return Status{}, fmt.Errorf("%w: %.80q", ErrUnknown, name)
	}
	earlier := s.record.Earlier
	if s.refused != nil && s.record.Current != nil && r.shared == nil {
		earlier = append([]folder.Generation{*s.record.Current}, earlier...)
	}
	if r.history == nil && r.shared == nil || steps < 1 || steps > len(earlier) {
		return Status{}, fmt.Errorf("%w: %s has %d earlier generations, %d steps back is none of them", ErrRefused, name, len(earlier), steps)
	}
	to := earlier[steps-1]
	src, err := r.sourceOf(ctx, name, &to)
	if err != nil {
		return Status{}, fmt.Errorf("read generation %d: %w", to.Number, err)
	}
	return r.replace(ctx, src, func() error { return r.writeFiles(src) })
}

// replace builds a generation, writes its files, and makes it run. REQUIRES:
// changing.
func (r *Registry) replace(ctx context.Context, s *source, write func() error) (Status, error) {
	if old := r.slots[s.name]; old != nil && old.refused == nil && old.applied == s.key {
		return r.status(s.name), nil
	}
	g, err := r.build(ctx, s)
	if err != nil {
		if ctx.Err() != nil {
			return Status{}, ctx.Err()
		}
		return Status{}, fmt.Errorf("%w: %w", ErrRefused, err)
	}
	if r.shared != nil {
		c := r.newChange()
		c.put(s, g.version())
		if err := errors.Join(g.close(), r.propose(ctx, c)); err != nil {
			return Status{}, err
		}
		return r.status(s.name), nil
	}
	if err := write(); err != nil {
		return Status{}, errors.Join(fmt.Errorf("write into the folder of plugins: %w", err), g.close())
	}
	// What was seen stays as it was, so that the next look finds what runs.
	f := &candidate{name: s.name, source: s, generation: g, seen: r.slot(s.name).seen}
	r.inspecting.Lock()
	changed := r.applyOne(f)
	delete(r.problems, s.name)
	r.inspecting.Unlock()
	if changed {
		r.install()
		r.afterChange([]*candidate{f})
	}
	return r.status(s.name), nil
}
