package folder

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"talon/host/plugin/sidecar"
	"talon/internal/smallfile"
)

// Generation is what ran at one time under a name.
type Generation struct {
	Number     int64     `json:"number"`
	Wasm       string    `json:"wasm"`    // SHA-256 of the module, lower-case hex
	Version    string    `json:"version"` // of the manifest
	Sidecar    []byte    `json:"sidecar"` // text
	HasSidecar bool      `json:"has_sidecar"`
	Signature  []byte    `json:"signature,omitempty"` // of the module; empty if none was asked for
	Since      time.Time `json:"since"`
	Until      time.Time `json:"until"` // zero for the one that runs
}

// Record is what is known of one name.
type Record struct {
	Name    string       `json:"name"`
	Last    int64        `json:"last"`    // the highest number that was given
	Current *Generation  `json:"current"` // nil if none runs
	Earlier []Generation `json:"earlier"` // newest first, at most 3, all different and none like Current
	Refused *Refused     `json:"refused"` // nil if what lay in the folder was taken
}

// Refused says what lay in the folder and was refused.
type Refused struct {
	Wasm    string    `json:"wasm"`    // SHA-256 of the module
	Sidecar string    `json:"sidecar"` // SHA-256 of the side-car
	Reason  string    `json:"reason"`
	At      time.Time `json:"at"`
}

// Bounds of what is kept.
const (
	maxNames   = 1000
	maxEarlier = 3
	maxSidecar = 1 << 20
	maxWasm    = 64 << 20
	maxVersion = 256
	maxReason  = 4 << 10
	maxRecord  = 8 << 20 // bytes of the JSON

	maxSignature = 64 << 10
)

// same says whether two generations are the same files.
func same(a, b *Generation) bool {
	return a.Wasm == b.Wasm && a.HasSidecar == b.HasSidecar && bytes.Equal(a.Sidecar, b.Sidecar) && bytes.Equal(a.Signature, b.Signature)
}

// With returns the record after g has begun to run. If g.Number is 0, it gets the next one. If
// it is what runs already, nothing changes.
func (r Record) With(g Generation) Record {
	if r.Current != nil && same(r.Current, &g) {
		return r
	}
	r = r.clone()
	if g.Number == 0 {
		g.Number = r.Last + 1
	}
	g.Since, g.Until = plain(g.Since), time.Time{}
	r.Last = g.Number
	r.deactivate(g.Since)
	r.forget(&g)
	r.Earlier = r.Earlier[:min(len(r.Earlier), maxEarlier)]
	r.Current = &g
	return r
}

// Without returns the record after nothing runs under its name any more.
func (r Record) Without(until time.Time) Record {
	r = r.clone()
	r.deactivate(plain(until))
	r.Earlier = r.Earlier[:min(len(r.Earlier), maxEarlier)]
	return r
}

// deactivate moves what runs to what ran.
func (r *Record) deactivate(until time.Time) {
	if r.Current == nil {
		return
	}
	g := *r.Current
	g.Until = until
	r.Current = nil
	r.forget(&g)
	r.Earlier = slices.Insert(r.Earlier, 0, g)
}

// forget drops what ran if it is the same as g.
func (r *Record) forget(g *Generation) {
	r.Earlier = slices.DeleteFunc(r.Earlier, func(old Generation) bool { return same(&old, g) })
}

// generations returns all that the record names.
func (r *Record) generations() []*Generation {
	var list []*Generation
	if r.Current != nil {
		list = append(list, r.Current)
	}
	for i := range r.Earlier {
		list = append(list, &r.Earlier[i])
	}
	return list
}

func (r *Record) clone() Record {
	c := *r
	c.Earlier = slices.Clone(r.Earlier)
	if r.Current != nil {
		g := *r.Current
		c.Current = &g
	}
	if r.Refused != nil {
		refused := *r.Refused
		c.Refused = &refused
	}
	return c
}

// parseRecord reads the record of a name.
func parseRecord(name string, text []byte) (Record, error) {
	var r Record
	if err := json.Unmarshal(text, &r); err != nil {
		return Record{}, err
	}
	if r.Name != name {
		return Record{}, fmt.Errorf("it is the record of %.80q", r.Name)
	}
	return r, r.check()
}

// ParseRecords reads records that were written as one list of JSON.
func ParseRecords(text []byte) ([]Record, error) {
	var list []Record
	if err := json.Unmarshal(text, &list); err != nil {
		return nil, err
	}
	names := map[string]bool{}
	for i := range list {
		if err := list[i].check(); err != nil {
			return nil, fmt.Errorf("plugin %.80q: %w", list[i].Name, err)
		}
		if names[list[i].Name] || len(list) > maxNames {
			return nil, fmt.Errorf("there are two plugins %s, or too many", list[i].Name)
		}
		names[list[i].Name] = true
	}
	return list, nil
}

func (r *Record) check() error {
	if !sidecar.IsName(r.Name) {
		return fmt.Errorf("%.80q is not the name of a plugin", r.Name)
	}
	if len(r.Earlier) > maxEarlier || r.Last < 0 {
		return fmt.Errorf("it names %d earlier generations, and %d as the highest number", len(r.Earlier), r.Last)
	}
	for _, g := range r.generations() {
		if err := g.check(); err != nil {
			return err
		}
		if g.Number <= 0 || g.Number > r.Last {
			return fmt.Errorf("generation %d is not from 1 to %d", g.Number, r.Last)
		}
	}
	return nil
}

func (g *Generation) check() error {
	switch {
	case !isSum(g.Wasm):
		return fmt.Errorf("%.80q is not the SHA-256 of a module", g.Wasm)
	case len(g.Sidecar) > maxSidecar:
		return fmt.Errorf("the side-car has %d bytes: want at most %d", len(g.Sidecar), maxSidecar)
	case len(g.Sidecar) > 0 && !g.HasSidecar:
		return errors.New("there is a side-car where none should be")
	case len(g.Signature) > maxSignature:
		return fmt.Errorf("the signature has %d bytes: want at most %d", len(g.Signature), maxSignature)
	case len(g.Version) > maxVersion:
		return fmt.Errorf("the version has %d bytes: want at most %d", len(g.Version), maxVersion)
	}
	return nil
}

func isSum(s string) bool {
	for i := range len(s) {
		if c := s[i]; (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}
	return len(s) == 64
}

// disk is what a history does to files, one durable step each.
type disk struct {
	write  func(path string, data []byte) error
	remove func(path string) error
}

var realDisk = disk{
	write:  func(path string, data []byte) error { return writeDurably(path, data, 0o600) },
	remove: removeDurably,
}

// blobs is the folder of modules, within the history's.
const blobs = "modules"

func (s *History) blob(sum string) string { return filepath.Join(s.dir, blobs, sum+".wasm") }

// Wasm returns the module with a SHA-256.
func (s *History) Wasm(sha string) ([]byte, error) {
	if !isSum(sha) {
		return nil, fmt.Errorf("%.80q is not the SHA-256 of a module", sha)
	}
	data, err := smallfile.Read(s.blob(sha), maxWasm)
	if err != nil {
		return nil, fmt.Errorf("read a kept module: %w", err)
	}
	if got := sum(data); got != sha {
		return nil, fmt.Errorf("the kept module %s is damaged: it has the SHA-256 %s", sha, got)
	}
	return data, nil
}

// keepWasm writes a module, unless it is there undamaged. REQUIRES: mu.
func (s *History) keepWasm(sha string, wasm []byte) error {
	if holds(s.blob(sha), wasm) {
		return nil // it was checked when it was written
	}
	if got := sum(wasm); got != sha {
		return fmt.Errorf("its module has the SHA-256 %s: want %s", got, sha)
	}
	if err := s.disk.write(s.blob(sha), wasm); err != nil {
		return fmt.Errorf("write its module: %w", err)
	}
	return nil
}

// holds reports whether a file has exactly these bytes.
func holds(path string, want []byte) bool {
	f, err := os.Open(path)
	if err != nil {
		return false
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil || info.Size() != int64(len(want)) {
		return false
	}
	buf := make([]byte, min(len(want), 256<<10))
	for len(want) > 0 {
		n, err := io.ReadFull(f, buf[:min(len(buf), len(want))])
		if err != nil || !bytes.Equal(buf[:n], want[:n]) {
			return false
		}
		want = want[n:]
	}
	return true
}

// deleteModules deletes the modules of a record that is no more, unless another names
// them. What cannot be deleted goes when the history is next opened. REQUIRES: mu.
func (s *History) deleteModules(old *Record) {
	named := s.named()
	for _, g := range old.generations() {
		if !named[g.Wasm] {
			_ = s.disk.remove(s.blob(g.Wasm))
		}
	}
}

// named returns the modules that records name. REQUIRES: mu.
func (s *History) named() map[string]bool {
	named := make(map[string]bool)
	for _, r := range s.records {
		for _, g := range r.generations() {
			named[g.Wasm] = true
		}
	}
	return named
}

// Files change so that a crash at any point leaves the old content or the new, and nothing
// in between.

// writeDurably makes data the content of a file, which is replaced as a whole. When it
// returns nil, the content survives a loss of power.
//
// Until then, the data stands in a hidden file beside it, whose name ends with
// ".tmp". A crash may leave that behind.
func writeDurably(path string, data []byte, mode fs.FileMode) (err error) {
	dir, name := filepath.Split(path)
	f, err := os.CreateTemp(filepath.Clean(dir), "."+name+".*.tmp")
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	defer func() {
		if err != nil {
			_ = f.Close()
			_ = os.Remove(f.Name())
		}
	}()
	if _, err = f.Write(data); err == nil {
		err = f.Chmod(mode)
	}
	if err == nil {
		err = f.Sync()
	}
	if err == nil {
		err = f.Close()
	}
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return syncFolder(filepath.Dir(path))
}

// removeDurably deletes a file. A file that is not there is no error.
func removeDurably(path string) error {
	err := os.Remove(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return syncFolder(filepath.Dir(path))
}

// makeFolder makes a folder, unless it is there. The folder above it must be there.
func makeFolder(dir string, mode fs.FileMode) error {
	err := os.Mkdir(dir, mode)
	if info, statErr := os.Stat(dir); errors.Is(err, fs.ErrExist) && statErr == nil && info.IsDir() {
		return nil
	}
	if err != nil {
		return err
	}
	return syncFolder(filepath.Dir(dir))
}

// syncFolder makes what happened to the names in a folder durable.
func syncFolder(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	if err := f.Sync(); err != nil {
		_ = f.Close()
		return fmt.Errorf("sync the folder %s: %w", dir, err)
	}
	return f.Close()
}
