package author

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"talon/host/plugin/guest"
	"talon/host/plugin/sidecar"
	"talon/sdk/abi/manifest"
)

// Source is a module with the side-car beside it.
type Source struct {
	File     string // of the module
	Wasm     []byte // as it lies there, which may be compressed
	SHA256   string // lower-case hex
	Manifest *manifest.Manifest
	Sidecar  *sidecar.File // never nil
}

// Find reads a module: a .wasm file, or the folder of one, which is built first. What
// the compiler says goes to w. The side-car is the file that is named, or else
// the one beside the module, if there is one.
func Find(ctx context.Context, path, side string, w io.Writer) (*Source, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("look for a module: %w", err)
	}
	if info.IsDir() {
		if path, err = Build(ctx, path, "", w); err != nil {
			return nil, err
		}
	}
	return open(path, side)
}

func open(path, side string) (*Source, error) {
	s := &Source{File: path}
	var err error
	if s.Wasm, err = readModule(path); err != nil {
		return nil, err
	}
	sum := sha256.Sum256(s.Wasm)
	s.SHA256 = hex.EncodeToString(sum[:])
	if s.Manifest, err = guest.ReadManifest(s.Wasm); err != nil {
		return nil, err
	}
	named := side != ""
	if !named {
		side = strings.TrimSuffix(path, ".wasm") + ".toml"
	}
	text, err := os.ReadFile(side)
	if err != nil && (named || !errors.Is(err, fs.ErrNotExist)) {
		return nil, fmt.Errorf("read the side-car: %w", err)
	}
	if s.Sidecar, err = sidecar.Parse(text); err != nil {
		return nil, fmt.Errorf("%s: %w", side, err)
	}
	if s.Sidecar.Program != nil {
		return nil, fmt.Errorf("%s names a program (exec), and there is a module: want one of the two", side)
	}
	if pin := s.Sidecar.SHA256; pin != "" && pin != s.SHA256 {
		return nil, fmt.Errorf("%s is for the module with sha256 %s; this one has %s", side, pin, s.SHA256)
	}
	return s, nil
}

// dir is where the files of sets are.
func (s *Source) dir() string { return filepath.Dir(s.File) }

// decides reports whether the module has verdicts to give.
func (s *Source) decides() bool { return slices.Contains(s.Manifest.Worlds, manifest.WorldPolicy) }

// throttles reports whether the module says how hard to press.
func (s *Source) throttles() bool { return slices.Contains(s.Manifest.Worlds, manifest.WorldThrottle) }

// errNoPolicy says what a module of another world cannot do here.
func (s *Source) errNoPolicy() error {
	return fmt.Errorf("the module %s is for %s and gives no verdicts: its unit tests, and the vectors of a throttle, are what tests it here",
		s.Manifest.Name, strings.Join(s.Manifest.Worlds, ", "))
}
