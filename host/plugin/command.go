package plugin

import (
	"context"
	"fmt"
	"strings"

	"talon/host/plugin/folder"
	"talon/host/plugin/sidecar"
)

// Swap puts a module into the folder under a name, with the side-car that is
// there, and makes it run. If it fails a check, the error says which, and
// nothing changes. A signature of the module, as [VerifySignature] reads it, goes into
// the folder with it. Without one, the signature in the folder counts.
func (r *Registry) Swap(ctx context.Context, name string, wasm, signature []byte) (Status, error) {
	if err := folder.CheckName(name); err != nil {
		return Status{}, fmt.Errorf("%w: %w", ErrRefused, err)
	}
	return r.command(ctx, name, func() (*source, func() error, error) {
		for other := range r.slots {
			if other != name && strings.EqualFold(other, name) {
				return nil, nil, fmt.Errorf("%w: the name differs from the plugin %s only in case", ErrRefused, other)
			}
		}
		text, err := r.readSidecar(name)
		if err != nil {
			return nil, nil, err
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
				return nil, nil, err
			}
		}
		return newSource(name, wasm, text).sign(signature), func() error {
			if own && signature != nil {
				if err := folder.Write(r.o.Dir, name+".wasm"+SignatureSuffix, signature); err != nil {
					return err
				}
			}
			return folder.Write(r.o.Dir, name+".wasm", wasm)
		}, nil
	})
}

// SetMode writes the mode of a plugin into its side-car, and makes it so.
func (r *Registry) SetMode(ctx context.Context, name string, mode sidecar.Mode) (Status, error) {
	return r.edit(ctx, name, func(text []byte) ([]byte, error) { return sidecar.SetMode(text, mode) })
}

// Set writes keys of the side-car of a plugin, and makes it so.
func (r *Registry) Set(ctx context.Context, name string, list []sidecar.Assignment) (Status, error) {
	return r.edit(ctx, name, func(text []byte) ([]byte, error) { return sidecar.Assign(text, list) })
}

// edit changes the side-car of a plugin.
func (r *Registry) edit(ctx context.Context, name string, change func(text []byte) ([]byte, error)) (Status, error) {
	return r.command(ctx, name, func() (*source, func() error, error) {
		if _, bundled := r.o.Bundled.Find(name); r.slots[name] == nil && !bundled {
			return nil, nil, fmt.Errorf("%w: %.80q", ErrUnknown, name)
		}
		text, err := r.readSidecar(name)
		if err != nil {
			return nil, nil, err
		}
		wasm, err := r.readModule(ctx, name)
		if err != nil {
			return nil, nil, fmt.Errorf("read the module: %w", err)
		}
		if text, err = change(text); err != nil {
			return nil, nil, fmt.Errorf("%w: %s.toml: %w", ErrRefused, name, err)
		}
		signature, err := r.readSignature(name, text)
		if err != nil {
			return nil, nil, err
		}
		write := func() error { return folder.Write(r.o.Dir, name+".toml", text) }
		return newSource(name, wasm, text).sign(signature), write, nil
	})
}

// Rollback returns to an earlier generation: 1 is the one that ran before the
// files of the folder. If these were refused, it still runs. The
// files of the folder become what they were then.
func (r *Registry) Rollback(ctx context.Context, name string, steps int) (Status, error) {
	return r.command(ctx, name, func() (*source, func() error, error) {
		s := r.slots[name]
		if s == nil {
			return nil, nil, fmt.Errorf("%w: %.80q", ErrUnknown, name)
		}
		earlier := s.record.Earlier
		if s.refused != nil && s.record.Current != nil && !r.others.there() {
			earlier = append([]folder.Generation{*s.record.Current}, earlier...)
		}
		if r.history == nil && !r.others.there() || steps < 1 || steps > len(earlier) {
			return nil, nil, fmt.Errorf("%w: %s has %d earlier generations, %d steps back is none of them", ErrRefused, name, len(earlier), steps)
		}
		to := earlier[steps-1]
		src, err := r.sourceOf(ctx, name, &to)
		if err != nil {
			return nil, nil, fmt.Errorf("read generation %d: %w", to.Number, err)
		}
		return src, func() error { return r.writeFiles(src) }, nil
	})
}

// command changes one plugin. want returns its source, and what writes the files of the folder;
// it is called with changing held. If the source does not pass,
// nothing changes.
func (r *Registry) command(ctx context.Context, name string, want func() (*source, func() error, error)) (Status, error) {
	err := r.change(ctx, func(context.Context) (*wanted, error) {
		s, write, err := want()
		if err != nil {
			return nil, err
		}
		if old := r.slots[name]; old != nil && old.refused == nil && old.applied == s.key {
			return nil, nil // it runs
		}
		f := &candidate{name: name, source: s}
		return &wanted{
			candidates: []*candidate{f},
			check: func(context.Context) error {
				if f.err != nil {
					return fmt.Errorf("%w: %w", ErrRefused, f.err)
				}
				return nil
			},
			write: func() error {
				if err := write(); err != nil {
					return fmt.Errorf("write into the folder of plugins: %w", err)
				}
				// The files count as seen before, so that the next look finds what runs.
				f.seen = r.slot(name).seen
				return nil
			},
		}, nil
	})
	if err != nil {
		return Status{}, err
	}
	return r.status(name), nil
}
