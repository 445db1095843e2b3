package plugin

import (
	"errors"
	"path/filepath"
	"slices"
	"strings"

	"talon/host/plugin/folder"
	"talon/host/plugin/sidecar"
)

// scan returns the files of the folder that can be plugins. REQUIRES: changing.
func (r *Registry) scan() (*folderState, error) {
	entries, problems, err := folder.Scan(r.o.Dir)
	if err != nil {
		return nil, err
	}
	entries, problems = r.complete(entries, problems)
	f := &folderState{entries, problems}
	r.addBundled(f)
	return f, nil
}

// complete returns the entries that can be plugins: those with a module, and those
// whose side-car names a program, or whose files are for a bundled module. A problem of the latter is none any
// more. REQUIRES: changing.
func (r *Registry) complete(entries []folder.Entry, problems []folder.Problem) ([]folder.Entry, []folder.Problem) {
	var list []folder.Entry
	alone := make(map[string]bool) // files that need no module
	for _, e := range entries {
		if e.Wasm == nil {
			m, bundled := r.o.Bundled.Find(e.Name)
			switch {
			case e.Sidecar == nil && !(bundled && r.runsAlone(m)):
				continue // a signature of nothing
			case e.Sidecar != nil && r.isProgram(e):
				bundled = false
			case !bundled:
				continue
			}
			if e.Bundled = bundled; e.Sidecar != nil {
				alone[filepath.Base(e.Sidecar.Path)] = true
			}
		}
		list = append(list, e)
	}
	if len(alone) == 0 {
		return list, problems
	}
	var rest []folder.Problem
	for _, p := range problems {
		if !alone[p.Name] {
			rest = append(rest, p)
		}
	}
	return list, rest
}

// isProgram reports whether a side-car without a module names a program. A side-car
// that cannot be read counts as what it was.
func (r *Registry) isProgram(e folder.Entry) bool {
	text, err := folder.Read(e.Sidecar, maxSidecar)
	if err == nil {
		var file *sidecar.File
		if file, err = sidecar.Parse(text); err == nil {
			return file.Program != nil
		}
	}
	s := r.slots[e.Name]
	return s != nil && s.program()
}

// inspectFolder reads the entries that have changed.
func (r *Registry) inspectFolder(f *folderState) *wanted {
	w := &wanted{folder: f}
	for _, e := range f.entries {
		s := r.slots[e.Name]
		if s != nil && s.seen == seenOf(e) {
			continue
		}
		var found *candidate
		err := r.panics.Run(func() error {
			found = r.inspect(e, s)
			return nil
		})
		if err != nil {
			found = &candidate{name: e.Name, seen: seenOf(e), err: err}
		}
		if found != nil {
			w.candidates = append(w.candidates, found)
		}
	}
	slices.SortFunc(w.candidates, func(a, b *candidate) int { return strings.Compare(a.name, b.name) })
	return w
}

// inspect reads an entry. It returns nil while the files are still being written.
func (r *Registry) inspect(e folder.Entry, s *slot) *candidate {
	f := &candidate{name: e.Name, seen: seenOf(e)}
	var wasm, text []byte
	var err error
	switch {
	case e.Bundled:
		wasm, err = r.o.Bundled.Wasm(e.Name)
	case e.Wasm != nil:
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
	return f
}

// signatureOf reads the signature of an entry, if it must have one; nil if there is
// none.
func (r *Registry) signatureOf(e folder.Entry, text []byte) ([]byte, error) {
	if e.Signature == nil || !r.mustBeSigned(text) {
		return nil, nil
	}
	return folder.Read(e.Signature, MaxSignature)
}
