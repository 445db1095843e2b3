package folder

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"talon/internal/smallfile"
)

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

// deleteModules deletes the modules of a deleted record, unless another record names them.
// The next open of the history deletes those that fail here. REQUIRES: mu.
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
