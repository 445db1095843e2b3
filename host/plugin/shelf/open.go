package shelf

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"talon/host/plugin/durable"
)

// Open opens the shelf in a folder, and makes the folder if there is none.
func Open(dir string) (*Shelf, error) { return open(dir, realDisk, time.Now) }

func open(dir string, d disk, now func() time.Time) (*Shelf, error) {
	s := &Shelf{dir: dir, disk: d, now: now, records: make(map[string]*Record)}
	for _, path := range []string{dir, filepath.Join(dir, blobs)} {
		if err := durable.Mkdir(path, 0o700); err != nil {
			return nil, fmt.Errorf("make a folder for plugins that ran: %w", err)
		}
	}
	list, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("read the folder of plugins that ran: %w", err)
	}
	for _, d := range list {
		file := d.Name()
		name, isRecord := strings.CutSuffix(file, ".json")
		switch {
		case isPassing(file):
			s.sweep(filepath.Join(dir, file))
		case isRecord && isName(name):
			s.load(name)
		}
	}
	// The modules of a record that was set aside may be wanted by whoever mends it.
	if len(s.problems) == 0 {
		if err := s.sweepBlobs(); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// isPassing says whether a crash left the file behind.
func isPassing(file string) bool {
	return strings.HasPrefix(file, ".") && strings.HasSuffix(file, ".tmp")
}

func (s *Shelf) problem(format string, args ...any) {
	s.problems = append(s.problems, fmt.Sprintf(format, args...))
}

// load reads the record of a name.
func (s *Shelf) load(name string) {
	path := s.path(name)
	text, err := readFile(path, maxRecord)
	var r Record
	if err == nil {
		r, err = parse(name, text)
	}
	if err != nil {
		aside := path + ".damaged"
		s.problem("the record of plugin %s is damaged and was set aside as %s: %v", name, aside, err)
		if err := os.Rename(path, aside); err != nil {
			s.problem("the damaged record stays where it is: %v", err)
		}
		return
	}
	lost := func(g *Generation) bool {
		info, err := os.Stat(s.blob(g.Wasm))
		if err == nil && info.Mode().IsRegular() {
			return false
		}
		s.problem("generation %d of plugin %s is lost: its module %s is not there", g.Number, name, g.Wasm)
		return true
	}
	if r.Current != nil && lost(r.Current) {
		r.Current = nil
	}
	r.Earlier = slices.DeleteFunc(r.Earlier, func(g Generation) bool { return lost(&g) })
	s.records[name] = &r
}

// sweepBlobs deletes the modules that no record names.
func (s *Shelf) sweepBlobs() error {
	dir := filepath.Join(s.dir, blobs)
	list, err := os.ReadDir(dir)
	if err != nil {
		return fmt.Errorf("read the folder of plugins that ran: %w", err)
	}
	named := s.named()
	for _, d := range list {
		file := d.Name()
		sha, isBlob := strings.CutSuffix(file, ".wasm")
		if isPassing(file) || isBlob && isSum(sha) && !named[sha] {
			s.sweep(filepath.Join(dir, file))
		}
	}
	return nil
}

// sweep deletes what a crash left behind. It is of no harm if it stays.
func (s *Shelf) sweep(path string) {
	_ = s.disk.remove(path)
}
