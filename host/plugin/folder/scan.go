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
	"time"

	"golang.org/x/sys/unix"

	"talon/host/plugin/sidecar"
)

// Entry is what lies in the folder under one name. Wasm is nil if there is a
// side-car without a module, which is a [Problem] too. Signature is NAME.wasm.sig, and
// SidecarSignature NAME.toml.sig, nil if there is none; without what they sign they are
// passed over.
type Entry struct {
	Name                     string
	Wasm, Sidecar, Signature *File
	SidecarSignature         *File
}

// Problem says why a file cannot be part of a plugin. Name is the file's.
type Problem struct{ Name, Reason string }

// maxEntries bounds the plugins of a folder, and maxProblems what is said about
// it.
const (
	maxEntries  = 1000
	maxProblems = 100
)

// Scan returns what lies in the folder, sorted by name.
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
		if e.Wasm != nil {
			e.Signature = s.signatures[name]
		} else {
			s.problem(name+".toml", "there is no %s.wasm for this side-car", name)
		}
		if e.Sidecar != nil {
			e.SidecarSignature = s.ofSidecars[name]
		}
		list = append(list, *e)
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

// ErrChanged says that a file is not the one that was seen: it is being written,
// or was replaced. A later look finds it as it is then.
var ErrChanged = errors.New("the file has changed while it was read")

// File is a file as [Scan] saw it.
type File struct {
	Path  string
	Stamp Stamp
}

// Read returns the whole file. It refuses files of more than max bytes, and what
// is not a regular file.
func Read(f *File, max int64) ([]byte, error) { return read(f, max, time.Sleep) }

func read(f *File, max int64, sleep func(time.Duration)) ([]byte, error) {
	if f.Stamp.regular && f.Stamp.size > max {
		return nil, fmt.Errorf("%s has %d bytes: want at most %d", filepath.Base(f.Path), f.Stamp.size, max)
	}
	// Opening a pipe must not wait for somebody who writes.
	file, err := os.OpenFile(f.Path, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if errors.Is(err, os.ErrNotExist) && f.Stamp != (Stamp{}) {
		return nil, ErrChanged
	}
	if err != nil {
		return nil, err
	}
	defer file.Close()
	before, err := stampOfOpen(file.Fd())
	if err != nil {
		return nil, err
	}
	if before != f.Stamp {
		return nil, ErrChanged
	}
	if !before.regular {
		return nil, fmt.Errorf("%s is not a regular file", filepath.Base(f.Path))
	}
	sleep(before.settled(time.Now()))
	data := make([]byte, before.size)
	if _, err := io.ReadFull(file, data); errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return nil, ErrChanged
	} else if err != nil {
		return nil, err
	}
	if after, err := stampOfOpen(file.Fd()); err != nil || after != before {
		return nil, errors.Join(ErrChanged, err)
	}
	return data, nil
}

// Write puts a plugin's file into the folder, in the place of what was there. A
// symbolic link is replaced, not followed: its target may belong to somebody
// else.
func Write(dir, file string, data []byte) error {
	if err := check(file); err != nil {
		return err
	}
	path := filepath.Join(dir, file)
	mode := os.FileMode(0o644)
	if info, err := os.Lstat(path); err == nil && info.Mode().IsRegular() {
		mode = info.Mode().Perm()
	}
	return writeDurably(path, data, mode)
}

// Remove takes a plugin's file out of the folder. A file that is not there is no
// error.
func Remove(dir, file string) error {
	if err := check(file); err != nil {
		return err
	}
	return removeDurably(filepath.Join(dir, file))
}

// check takes only names of files that [Scan] would take.
func check(file string) error {
	name, kind := split(file)
	if kind == other || ignored(file) || filepath.Ext(file) != strings.ToLower(filepath.Ext(file)) {
		return fmt.Errorf("%.80q: want NAME.wasm, NAME.toml or NAME.wasm.sig", file)
	}
	return CheckName(name)
}

// Stamp changes when a file does. The system sets the time of the last change
// itself, so that a file with the size and the time of the one before is seen as
// another.
type Stamp struct {
	device, inode     uint64
	size              int64
	modified, changed int64 // nanoseconds
	regular           bool
}

// stampOf follows symbolic links.
func stampOf(path string) (Stamp, error) {
	var s unix.Stat_t
	for {
		switch err := unix.Stat(path, &s); err {
		case nil:
			return newStamp(&s), nil
		case unix.EINTR:
		default:
			return Stamp{}, err
		}
	}
}

func stampOfOpen(fd uintptr) (Stamp, error) {
	var s unix.Stat_t
	if err := unix.Fstat(int(fd), &s); err != nil {
		return Stamp{}, err
	}
	return newStamp(&s), nil
}

func newStamp(s *unix.Stat_t) Stamp {
	return Stamp{
		device:   uint64(s.Dev),
		inode:    uint64(s.Ino),
		size:     s.Size,
		modified: s.Mtim.Nano(),
		changed:  s.Ctim.Nano(),
		regular:  s.Mode&unix.S_IFMT == unix.S_IFREG,
	}
}

// tick is more than the step of a file system's clock.
const tick = 20 * time.Millisecond

// settled returns how long to wait until a further change of the file would get
// another stamp.
func (s Stamp) settled(now time.Time) time.Duration {
	age := now.Sub(time.Unix(0, max(s.modified, s.changed)))
	if age < 0 || age >= tick {
		return 0
	}
	return tick - age
}
