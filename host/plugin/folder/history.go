package folder

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"talon/host/plugin/sidecar"
	"talon/internal/durable"
	"talon/internal/smallfile"
)

// History keeps generations in a folder. Its methods may be called from several
// goroutines.
type History struct {
	dir      string
	disk     disk
	now      func() time.Time
	problems []string

	mu      sync.Mutex // guards what follows, and the folder
	records map[string]*Record
}

// Names returns the names that have a record, sorted.
func (s *History) Names() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Sorted(maps.Keys(s.records))
}

// Record returns what is known of a name. The text of side-cars in it must not
// be changed.
func (s *History) Record(name string) (Record, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.records[name]
	if r == nil {
		return Record{}, false
	}
	return r.clone(), true
}

// Promote makes g the running generation of a name. The generation that ran before becomes
// an earlier one. If g was among the earlier ones, it leaves them. If g.Number is 0, g gets
// the next number. If g runs already, nothing changes.
func (s *History) Promote(name string, g Generation, wasm []byte) (Record, error) {
	if err := g.check(); err != nil {
		return Record{}, fmt.Errorf("keep plugin %.80q: %w", name, err)
	}
	if len(wasm) > maxWasm {
		return Record{}, fmt.Errorf("keep plugin %.80q: its module has %d bytes: want at most %d", name, len(wasm), maxWasm)
	}
	if g.Since.IsZero() {
		g.Since = s.now()
	}

	s.mu.Lock()
	defer s.mu.Unlock()
	r, err := s.forChange(name)
	if err != nil {
		return Record{}, err
	}
	if err := s.keepWasm(g.Wasm, wasm); err != nil {
		return Record{}, fmt.Errorf("keep plugin %.80q: %w", name, err)
	}
	if r.Current != nil && same(r.Current, &g) {
		return r, nil
	}
	if g.Number != 0 && g.Number <= r.Last {
		return Record{}, fmt.Errorf("keep plugin %q: the number %d was given before: want one above %d", name, g.Number, r.Last)
	}
	r = r.With(g)
	if err := s.replace(r); err != nil {
		return Record{}, err
	}
	return s.records[name].clone(), nil
}

// Adopt makes r the record of its name, as others have it. The local refusals stay. Earlier
// generations without a local module are left out.
func (s *History) Adopt(r Record, wasm []byte) error {
	if err := r.check(); err != nil {
		return fmt.Errorf("keep plugin %.80q: %w", r.Name, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	old, err := s.forChange(r.Name)
	if err != nil {
		return err
	}
	if r.Current != nil {
		if err := s.keepWasm(r.Current.Wasm, wasm); err != nil {
			return fmt.Errorf("keep plugin %s: %w", r.Name, err)
		}
	}
	r = r.clone()
	r.Refused = old.Refused
	r.Earlier = slices.DeleteFunc(r.Earlier, func(g Generation) bool {
		_, err := os.Stat(s.blob(g.Wasm))
		return err != nil
	})
	return s.replace(r)
}

// Deactivate says that nothing runs under a name any more.
func (s *History) Deactivate(name string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if old := s.records[name]; old == nil || old.Current == nil {
		return nil
	}
	return s.replace(s.records[name].Without(s.now()))
}

// Refuse notes what was refused under a name; nil says that it was taken.
func (s *History) Refuse(name string, refused *Refused) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if refused == nil {
		if old := s.records[name]; old == nil || old.Refused == nil {
			return nil
		}
	}
	r, err := s.forChange(name)
	if err != nil {
		return err
	}
	if refused == nil {
		r.Refused = nil
		return s.replace(r)
	}
	note := *refused
	note.Reason = strings.ToValidUTF8(note.Reason[:min(len(note.Reason), maxReason)], "")
	note.At = plain(note.At)
	if old := r.Refused; old != nil && old.Wasm == note.Wasm && old.Sidecar == note.Sidecar && old.Reason == note.Reason {
		return nil
	}
	r.Refused = &note
	return s.replace(r)
}

// Problems says what [OpenHistory] found damaged, one sentence each.
func (s *History) Problems() []string { return s.problems }

// forChange returns a copy of the record of a name, or an empty one for a new
// name. REQUIRES: mu.
func (s *History) forChange(name string) (Record, error) {
	if r := s.records[name]; r != nil {
		return r.clone(), nil
	}
	if !sidecar.IsName(name) {
		return Record{}, fmt.Errorf("%.80q is not the name of a plugin", name)
	}
	if len(s.records) >= maxNames {
		if err := s.evict(); err != nil {
			return Record{}, err
		}
	}
	return Record{Name: name}, nil
}

// evict drops the record of the name that has not run for the longest time.
// REQUIRES: mu.
func (s *History) evict() error {
	var oldest *Record
	for _, r := range s.records {
		if r.Current == nil && (oldest == nil || r.ended().Before(oldest.ended())) {
			oldest = r
		}
	}
	if oldest == nil {
		return fmt.Errorf("%d plugins are kept already: want at most %d", len(s.records), maxNames)
	}
	if err := s.disk.remove(s.path(oldest.Name)); err != nil {
		return fmt.Errorf("drop plugin %s: %w", oldest.Name, err)
	}
	delete(s.records, oldest.Name)
	s.deleteModules(oldest)
	return nil
}

// ended returns when the name was last heard of.
func (r *Record) ended() (t time.Time) {
	if len(r.Earlier) > 0 {
		t = r.Earlier[0].Until
	}
	if r.Refused != nil && r.Refused.At.After(t) {
		t = r.Refused.At
	}
	return t
}

// replace makes r the record of its name, on disk first. REQUIRES: mu.
func (s *History) replace(r Record) error {
	text, err := json.MarshalIndent(&r, "", "\t")
	if err == nil {
		err = s.disk.write(s.path(r.Name), text)
	}
	if err != nil {
		// The new record may be on the disk all the same, so its module stays.
		return fmt.Errorf("keep plugin %s: %w", r.Name, err)
	}
	old := s.records[r.Name]
	s.records[r.Name] = &r
	if old != nil {
		s.deleteModules(old)
	}
	return nil
}

func (s *History) path(name string) string { return filepath.Join(s.dir, name+".json") }

// plain is what a time is after it was written and read.
func plain(t time.Time) time.Time { return t.UTC().Round(0) }

func sum(wasm []byte) string {
	h := sha256.Sum256(wasm)
	return hex.EncodeToString(h[:])
}

// disk is what a history does to files, one durable step each.
type disk struct {
	write  func(path string, data []byte) error
	remove func(path string) error
}

var realDisk = disk{
	write:  func(path string, data []byte) error { return durable.Write(path, data, 0o600) },
	remove: durable.Remove,
}

// OpenHistory opens the history in a folder, and makes the folder if there is none.
func OpenHistory(dir string) (*History, error) { return openHistory(dir, realDisk, time.Now) }

func openHistory(dir string, d disk, now func() time.Time) (*History, error) {
	s := &History{dir: dir, disk: d, now: now, records: make(map[string]*Record)}
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
		case isRecord && sidecar.IsName(name):
			s.load(name)
		}
	}
	// Keep the modules if a record was set aside: an operator who repairs the record may
	// need them.
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

func (s *History) problem(format string, args ...any) {
	s.problems = append(s.problems, fmt.Sprintf(format, args...))
}

// load reads the record of a name.
func (s *History) load(name string) {
	path := s.path(name)
	text, err := smallfile.Read(path, maxRecord)
	var r Record
	if err == nil {
		r, err = parseRecord(name, text)
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
func (s *History) sweepBlobs() error {
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
func (s *History) sweep(path string) {
	_ = s.disk.remove(path)
}
