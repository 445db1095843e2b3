package folder

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"talon/host/plugin/sidecar"
)

// Entry describes the files of the folder that share one name. Wasm is nil if there is a
// side-car without a module, which is a [Problem] too, or a signature alone. Signature is
// NAME.wasm.sig, and SidecarSignature NAME.toml.sig, nil if there is none.
type Entry struct {
	Name                     string
	Wasm, Sidecar, Signature *File
	SidecarSignature         *File

	// Bundled says that the module is one that came with the program. [Scan] does not set it.
	Bundled bool
}

// File returns the module's file, or else that of the side-car.
func (e *Entry) File() *File { return cmp.Or(e.Wasm, e.Sidecar) }

// Problem says why a file cannot be part of a plugin. Name is the file's.
type Problem struct{ Name, Reason string }

// maxEntries bounds the plugins of a folder, and maxProblems what is said about
// it.
const (
	maxEntries  = 1000
	maxProblems = 100
)

// Scan returns the entries of the folder, sorted by name.
func Scan(dir string) (entries []Entry, problems []Problem, err error) {
	f, err := os.Open(dir)
	if err != nil {
		return nil, nil, err
	}
	defer f.Close()
	s := scan{dir: dir, byName: make(map[string]*Entry), signatures: make(map[string]*File), ofSidecars: make(map[string]*File)}
	for {
		list, err := f.ReadDir(256)
		for _, d := range list {
			s.add(d)
		}
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, nil, err
		}
	}
	entries = s.entries()
	slices.SortFunc(s.problems, func(a, b Problem) int { return cmp.Compare(a.Name, b.Name) })
	return entries, s.problems, nil
}

type scan struct {
	dir        string
	byName     map[string]*Entry
	signatures map[string]*File // by the name of the plugin
	ofSidecars map[string]*File // likewise
	problems   []Problem
}

func (s *scan) problem(file, format string, args ...any) {
	if len(s.problems) < maxProblems {
		s.problems = append(s.problems, Problem{file, fmt.Sprintf(format, args...)})
	}
}

func (s *scan) add(d fs.DirEntry) {
	file := d.Name()
	if ignored(file) || d.IsDir() {
		return
	}
	name, kind := split(file)
	if kind == other {
		return
	}
	if lower := strings.ToLower(filepath.Ext(file)); filepath.Ext(file) != lower {
		s.problem(file, "the name ends with %s: want %s", filepath.Ext(file), lower)
		return
	}
	if err := CheckName(name); err != nil {
		if kind != signature && kind != sidecarSignature { // it is said of what is signed
			s.problem(file, "%v", err)
		}
		return
	}
	found := &File{Path: filepath.Join(s.dir, file)}
	var err error
	found.Stamp, err = stampOf(found.Path)
	if errors.Is(err, fs.ErrNotExist) && d.Type()&fs.ModeSymlink == 0 {
		return // it was removed just now
	}
	if kind == signature || kind == sidecarSignature {
		list := s.signatures
		if kind == sidecarSignature {
			list = s.ofSidecars
		}
		if len(list) == maxEntries {
			s.problem(file, "the folder has more than %d signatures", maxEntries)
			return
		}
		list[name] = found
		return
	}
	e := s.byName[name]
	if e == nil {
		if len(s.byName) == maxEntries {
			s.problem(file, "the folder has more than %d plugins", maxEntries)
			return
		}
		e = &Entry{Name: name}
		s.byName[name] = e
	}
	if kind == module {
		e.Wasm = found
	} else {
		e.Sidecar = found
	}
}

// entries decides between names that are one name on other systems, and finds
// side-cars that are alone.
func (s *scan) entries() []Entry {
	keep := make(map[string]*Entry, len(s.byName))
	for name, e := range s.byName {
		lower := strings.ToLower(name)
		if keep[lower] == nil || wins(e, keep[lower]) {
			keep[lower] = e
		}
	}
	var list []Entry
	for name, e := range s.byName {
		if winner := keep[strings.ToLower(name)]; winner != e {
			for _, f := range []*File{e.Wasm, e.Sidecar} {
				if f != nil {
					file := filepath.Base(f.Path)
					s.problem(file, "the name differs from that of %s%s only in case", winner.Name, filepath.Ext(file))
				}
			}
			continue
		}
		e.Signature = s.signatures[name]
		if e.Wasm == nil {
			s.problem(name+".toml", "there is no %s.wasm for this side-car", name)
		}
		if e.Sidecar != nil {
			e.SidecarSignature = s.ofSidecars[name]
		}
		list = append(list, *e)
	}
	for name, signature := range s.signatures {
		if keep[strings.ToLower(name)] == nil {
			list = append(list, Entry{Name: name, Signature: signature})
		}
	}
	slices.SortFunc(list, func(a, b Entry) int { return cmp.Compare(a.Name, b.Name) })
	return list
}

// wins prefers what has a module, then lower case.
func wins(a, b *Entry) bool {
	if (a.Wasm == nil) != (b.Wasm == nil) {
		return a.Wasm != nil
	}
	return a.Name > b.Name
}

// kind is what a file is by its ending.
type kind int

const (
	other kind = iota
	module
	sideCar
	signature
	sidecarSignature
)

const (
	signatureEnd        = ".wasm.sig"
	sidecarSignatureEnd = ".toml.sig"
)

func split(file string) (name string, k kind) {
	if name, ok := strings.CutSuffix(file, signatureEnd); ok {
		return name, signature
	}
	if name, ok := strings.CutSuffix(file, sidecarSignatureEnd); ok {
		return name, sidecarSignature
	}
	name, ext := strings.TrimSuffix(file, filepath.Ext(file)), filepath.Ext(file)
	switch strings.ToLower(ext) {
	case ".wasm":
		return name, module
	case ".toml":
		return name, sideCar
	}
	return file, other
}

// passing are endings of files that editors and copying use for a while.
var passing = []string{"~", ".swp", ".swx", ".tmp", ".new", ".part", ".bak"}

// ignored says which files are not meant to be plugins, whatever their ending.
func ignored(file string) bool {
	stem, _ := split(file)
	return strings.HasPrefix(file, ".") || strings.HasPrefix(file, "#") ||
		slices.ContainsFunc(passing, func(end string) bool { return strings.HasSuffix(stem, end) })
}

// CheckName says what is wrong with the name of a plugin, nil if nothing is.
func CheckName(name string) error {
	if !sidecar.IsName(name) {
		return fmt.Errorf("the name of a plugin has a-z, A-Z, 0-9, - and _, at most 64: %.80q has not", name)
	}
	return nil
}
