package plugin

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"talon/host/bundle"
	"talon/host/plugin/folder"
	"talon/host/plugin/guest"
	"talon/host/plugin/sidecar"
)

// Modules that came with the program run under the same checks as files of the folder. The
// operator's NAME.toml configures the bundled module NAME, and NAME.wasm replaces it.

// prepared returns the compiled code of the bundled modules, nil if there is none.
func (r *Registry) prepared() guest.Prepared {
	if r.o.Bundled == nil {
		return nil
	}
	return r.o.Bundled
}

// runsAlone reports whether a bundled module runs without a side-car.
func (r *Registry) runsAlone(m bundle.Module) bool {
	return m.Default || slices.Contains(r.o.Policy, m.Name)
}

// isBundled reports whether the module of a source is the bundled one of its name.
func (r *Registry) isBundled(name string, k key) bool {
	m, ok := r.o.Bundled.Find(name)
	return ok && m.SHA256 == k.sha256()
}

// bundledNameOf returns the name of the bundled module that a source has, whatever the name of
// the plugin; empty if it is no bundled one.
func (r *Registry) bundledNameOf(k key) string {
	for _, m := range r.o.Bundled.Modules() {
		if m.SHA256 == k.sha256() {
			return m.Name
		}
	}
	return ""
}

// addBundled adds the bundled modules that run to what is in the folder. REQUIRES: changing.
func (r *Registry) addBundled(f *folderState) {
	for _, m := range r.o.Bundled.Modules() {
		at := slices.IndexFunc(f.entries, func(e folder.Entry) bool { return strings.EqualFold(e.Name, m.Name) })
		switch {
		case at < 0 && r.runsAlone(m):
			f.entries = append(f.entries, folder.Entry{Name: m.Name, Bundled: true})
		case at >= 0 && f.entries[at].Name != m.Name:
			file := filepath.Base(f.entries[at].File().Path) // it has a module, or a side-car that names a program
			f.problems = append(f.problems, folder.Problem{Name: file, Reason: fmt.Sprintf("the name differs from that of the bundled module %s only in case", m.Name)})
			f.entries[at] = folder.Entry{Name: m.Name, Bundled: true}
			if !r.runsAlone(m) {
				f.entries = slices.Delete(f.entries, at, at+1)
			}
		}
	}
}

// norBundled ends a sentence that says what is not in the folder.
func (r *Registry) norBundled() string {
	if r.o.Bundled == nil {
		return ""
	}
	return ", nor inside this program,"
}

// Origin says where a module comes from.
type Origin string

const (
	FromFolder  Origin = "folder"  // the operator's folder
	FromBundle  Origin = "bundled" // the program
	FromNodes   Origin = "nodes"   // the other servers, with which all have agreed on it
	FromProgram Origin = "exec"    // it is no module: the side-car names a program
)

// originOf returns where what counts under a name comes from. REQUIRES: changing or inspecting.
func (r *Registry) originOf(name string, s *slot) Origin {
	switch {
	case s.program():
		return FromProgram
	case s.seen.wasm != folder.Stamp{}:
		return FromFolder
	case s.seen.bundled, r.isBundled(name, s.applied):
		return FromBundle
	case r.others.there():
		return FromNodes
	}
	return FromFolder
}

// unused returns the bundled modules that run only if the operator asks for them, which nobody did.
// REQUIRES: inspecting.
func (r *Registry) unused() (list []Status) {
	for _, m := range r.o.Bundled.Modules() {
		if r.slots[m.Name] == nil {
			list = append(list, Status{Name: m.Name, Mode: sidecar.Off, Origin: FromBundle, Unused: true})
		}
	}
	return list
}
