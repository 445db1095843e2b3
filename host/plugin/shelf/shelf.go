package shelf

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"
)

// Shelf keeps generations in a folder. Its methods may be called from several
// goroutines.
type Shelf struct {
	dir      string
	disk     disk
	now      func() time.Time
	problems []string

	mu      sync.Mutex // guards what follows, and the folder
	records map[string]*Record
}

// Names returns the names that have a record, sorted.
func (s *Shelf) Names() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Sorted(maps.Keys(s.records))
}

// Record returns what is known of a name. The text of side-cars in it must not
// be changed.
func (s *Shelf) Record(name string) (Record, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.records[name]
	if r == nil {
		return Record{}, false
	}
	return r.clone(), true
}

// Promote makes g what runs under a name. What ran before goes to the earlier
// ones; what is g itself among these leaves them. If g.Number is 0, g gets the
// next number. If g is already what runs, nothing changes.
func (s *Shelf) Promote(name string, g Generation, wasm []byte) (Record, error) {
	if err := g.check(); err != nil {
		return Record{}, fmt.Errorf("keep plugin %.80q: %w", name, err)
	}
	if len(wasm) > maxWasm {
		return Record{}, fmt.Errorf("keep plugin %.80q: its module has %d bytes: want at most %d", name, len(wasm), maxWasm)
	}
	g.Since, g.Until = plain(g.Since), time.Time{}
	if g.Since.IsZero() {
		g.Since = plain(s.now())
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
	if g.Number == 0 {
		g.Number = r.Last + 1
	}
	if g.Number <= r.Last {
		return Record{}, fmt.Errorf("keep plugin %q: the number %d was given before: want one above %d", name, g.Number, r.Last)
	}
	r.Last = g.Number
	r.retire(g.Since)
	r.forget(&g)
	r.Current = &g
	if err := s.replace(r); err != nil {
		return Record{}, err
	}
	return s.records[name].clone(), nil
}

// Retire says that nothing runs under a name any more.
func (s *Shelf) Retire(name string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if old := s.records[name]; old == nil || old.Current == nil {
		return nil
	}
	r := s.records[name].clone()
	r.retire(plain(s.now()))
	return s.replace(r)
}

// Refuse notes what was refused under a name; nil says that it was taken.
func (s *Shelf) Refuse(name string, refused *Refused) error {
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

// Problems says what [Open] found damaged, one sentence each.
func (s *Shelf) Problems() []string { return s.problems }

// forChange returns a copy of the record of a name, or an empty one for a new
// name. REQUIRES: mu.
func (s *Shelf) forChange(name string) (Record, error) {
	if r := s.records[name]; r != nil {
		return r.clone(), nil
	}
	if !isName(name) {
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
func (s *Shelf) evict() error {
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
	s.drop(oldest)
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
func (s *Shelf) replace(r Record) error {
	r.Earlier = r.Earlier[:min(len(r.Earlier), maxEarlier)]
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
		s.drop(old)
	}
	return nil
}

func (s *Shelf) path(name string) string { return filepath.Join(s.dir, name+".json") }

// plain is what a time is after it was written and read.
func plain(t time.Time) time.Time { return t.UTC().Round(0) }

func sum(wasm []byte) string {
	h := sha256.Sum256(wasm)
	return hex.EncodeToString(h[:])
}
