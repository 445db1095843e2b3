package shelf

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"talon/host/plugin/durable"
)

// disk is what a shelf does to files, one durable step each.
type disk struct {
	write  func(path string, data []byte) error
	remove func(path string) error
}

var realDisk = disk{
	write:  func(path string, data []byte) error { return durable.Write(path, data, 0o600) },
	remove: durable.Remove,
}

// blobs is the folder of modules, within the shelf's.
const blobs = "modules"

func (s *Shelf) blob(sum string) string { return filepath.Join(s.dir, blobs, sum+".wasm") }

// Wasm returns the module with a SHA-256.
func (s *Shelf) Wasm(sha string) ([]byte, error) {
	if !isSum(sha) {
		return nil, fmt.Errorf("%.80q is not the SHA-256 of a module", sha)
	}
	data, err := readFile(s.blob(sha), maxWasm)
	if err != nil {
		return nil, fmt.Errorf("read a kept module: %w", err)
	}
	if got := sum(data); got != sha {
		return nil, fmt.Errorf("the kept module %s is damaged: it has the SHA-256 %s", sha, got)
	}
	return data, nil
}

// keepWasm writes a module, unless it is there undamaged. REQUIRES: mu.
func (s *Shelf) keepWasm(sha string, wasm []byte) error {
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

// drop deletes the modules of a record that is no more, unless another names
// them. What cannot be deleted goes when the shelf is next opened. REQUIRES: mu.
func (s *Shelf) drop(old *Record) {
	named := s.named()
	for _, g := range old.generations() {
		if !named[g.Wasm] {
			_ = s.disk.remove(s.blob(g.Wasm))
		}
	}
}

// named returns the modules that records name. REQUIRES: mu.
func (s *Shelf) named() map[string]bool {
	named := make(map[string]bool)
	for _, r := range s.records {
		for _, g := range r.generations() {
			named[g.Wasm] = true
		}
	}
	return named
}

// readFile reads a file of at most max bytes.
func readFile(path string, max int64) (data []byte, err error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if data, err = io.ReadAll(io.LimitReader(f, max+1)); err != nil {
		return nil, err
	}
	if int64(len(data)) > max {
		return nil, errors.New(filepath.Base(path) + " is too large")
	}
	return data, nil
}
