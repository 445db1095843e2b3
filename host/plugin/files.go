package plugin

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"talon/host/plugin/folder"
	"talon/internal/smallfile"
)

const (
	maxModule  = 32 << 20
	maxSidecar = 1 << 20
)

// readModule returns the module of a name, nil for a program.
func (r *Registry) readModule(ctx context.Context, name string) ([]byte, error) {
	if now := r.others.agreed(name); now != nil {
		src, err := r.sourceOf(ctx, name, now)
		if err != nil {
			return nil, err
		}
		return src.wasm, nil
	}
	wasm, err := smallfile.Read(filepath.Join(r.o.Dir, name+".wasm"), maxModule)
	if !errors.Is(err, fs.ErrNotExist) {
		return wasm, err
	}
	if s := r.slots[name]; s != nil && s.program() {
		return nil, nil
	}
	if _, ok := r.o.Bundled.Find(name); ok {
		return r.o.Bundled.Wasm(name)
	}
	return nil, err
}

// readSidecar returns the text of a side-car, nil if there is none.
func (r *Registry) readSidecar(name string) ([]byte, error) {
	if now := r.others.agreed(name); now != nil {
		return sidecarOf(now), nil
	}
	text, err := smallfile.Read(filepath.Join(r.o.Dir, name+".toml"), maxSidecar)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the side-car: %w", err)
	}
	return append([]byte{}, text...), nil
}

// readSignature returns the signature of a module from the folder, if it must have one;
// nil if there is none.
func (r *Registry) readSignature(name string, text []byte) ([]byte, error) {
	if !r.mustBeSigned(text) {
		return nil, nil
	}
	if now := r.others.agreed(name); now != nil && now.Signature != nil {
		return now.Signature, nil
	}
	signature, err := smallfile.Read(filepath.Join(r.o.Dir, name+".wasm"+SignatureSuffix), MaxSignature)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the signature: %w", err)
	}
	return signature, nil
}

// writeFiles makes the files of the folder those of a source.
func (r *Registry) writeFiles(s *source) (err error) {
	// The side-car first: after a crash in between it is the one whose mode and
	// capabilities the operator asked for.
	if s.sidecar == nil {
		err = folder.Remove(r.o.Dir, s.name+".toml")
	} else {
		err = folder.Write(r.o.Dir, s.name+".toml", s.sidecar)
	}
	if err != nil {
		return err
	}
	if s.signature != nil {
		if err := folder.Write(r.o.Dir, s.name+".wasm"+SignatureSuffix, s.signature); err != nil {
			return err
		}
	}
	if s.wasm == nil || r.isBundled(s.name, s.key) {
		return folder.Remove(r.o.Dir, s.name+".wasm")
	}
	return folder.Write(r.o.Dir, s.name+".wasm", s.wasm)
}
