// Package author has the tools for authors of modules: it creates a folder that builds,
// builds it, and calls a module without a relay. It holds the machinery of the commands
// talon plugin new, build, inspect, test, run, replay, bench, diff, exec, sign and verify.
//
// Modules run as they do in a relay, by package guest, with the same limits. Files hold the
// data that a relay would have: stored events ([ReadEvents]), settings and sets (the
// side-car), requests ([Clock.Questions]). The state of a module is in memory.
//
// Invariants:
//
//  1. Nothing here needs a network. A compiler runs with every option turned off by which
//     it might fetch something.
//  2. The same files give the same answers: the clock of a decision is in its
//     request.
//  3. An error is one sentence that says what is wrong and what to do. It quotes the text
//     of a module or a file, and bounds it.
//  4. A line of input takes bounded memory, whatever its bytes.
//  5. No file is changed that was there before, but the module that a build makes,
//     the output files that a command's options name, and stories that are written again.
package author

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"talon/host/bundle"
	"talon/host/plugin/guest"
	"talon/host/plugin/sidecar"
	"talon/internal/smallfile"
	"talon/sdk/abi/manifest"
)

// Source is a module with its side-car.
type Source struct {
	File     string // of the module
	Wasm     []byte // as it lies there, which may be compressed
	SHA256   string // lower-case hex
	Manifest *manifest.Manifest
	Sidecar  *sidecar.File // never nil
}

// Find reads a module: a .wasm file, the folder of one, which it builds first, or the name of one
// that is inside this program. The
// output of the compiler goes to w. side names the side-car. If it is empty, Find takes the
// one next to the module, if there is one.
func Find(ctx context.Context, path, side string, w io.Writer) (*Source, error) {
	info, err := os.Stat(path)
	if _, bundled := bundle.Own().Find(path); bundled && errors.Is(err, fs.ErrNotExist) {
		return openBundled(path, side)
	}
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

// openBundled opens a module that is inside this program.
func openBundled(name, side string) (*Source, error) {
	wasm, err := bundle.Own().Wasm(name)
	if err != nil {
		return nil, err
	}
	return newSource(name+".wasm", wasm, side)
}

func open(path, side string) (*Source, error) {
	wasm, err := readModule(path)
	if err != nil {
		return nil, err
	}
	return newSource(path, wasm, side)
}

func newSource(path string, wasm []byte, side string) (*Source, error) {
	s := &Source{File: path, Wasm: wasm}
	var err error
	sum := sha256.Sum256(s.Wasm)
	s.SHA256 = hex.EncodeToString(sum[:])
	if s.Manifest, err = guest.ReadManifest(s.Wasm); err != nil {
		return nil, err
	}
	named := side != ""
	if !named {
		side = strings.TrimSuffix(path, ".wasm") + ".toml"
	}
	text, err := smallfile.Read(side, maxSidecar)
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

const (
	maxModule = 32 << 20 // bytes, as a relay takes it
	maxOutput = 64 << 10 // of a compiler
	buildTime = 10 * time.Minute
)

// Build compiles the module in a folder to out, or to <name>.wasm in the same folder,
// with the name of the manifest. The compiler's error messages go to w. It returns the
// file's path.
func Build(ctx context.Context, dir, out string, w io.Writer) (string, error) {
	l, err := languageIn(dir)
	if err != nil {
		return "", err
	}
	name, err := nameIn(dir)
	if err != nil {
		return "", err
	}
	if out == "" {
		out = filepath.Join(dir, name+".wasm")
	}
	// The compiler runs in the folder.
	absolute, err := filepath.Abs(dir)
	if err != nil {
		return "", fmt.Errorf("build: %w", err)
	}
	whole, err := filepath.Abs(out)
	if err != nil {
		return "", fmt.Errorf("build: %w", err)
	}
	fresh := filepath.Join(filepath.Dir(whole), "."+filepath.Base(whole)+".new")
	defer os.Remove(fresh)
	made, err := l.compile(ctx, absolute, name, fresh, w)
	if err != nil {
		return "", err
	}
	wasm, err := readModule(made)
	if err != nil || made == whole {
		return out, err
	}
	// The new module replaces the old one only when it is complete.
	if made != fresh {
		err = os.WriteFile(fresh, wasm, 0o644)
	}
	if err == nil {
		err = os.Rename(fresh, whole)
	}
	if err != nil {
		return "", fmt.Errorf("build: %w", err)
	}
	return out, nil
}

// nameIn returns the module's name. A mistake in the manifest is found before a
// compiler runs.
func nameIn(dir string) (string, error) {
	file := filepath.Join(dir, "manifest.json")
	text, err := smallfile.Read(file, maxModule)
	if errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("%s is missing: it says what the module is and which settings it has", file)
	}
	if err != nil {
		return "", fmt.Errorf("read the manifest: %w", err)
	}
	m, err := manifest.Parse(text)
	var syntax *json.SyntaxError
	switch {
	case errors.As(err, &syntax):
		line := 1 + bytes.Count(text[:min(int(syntax.Offset), len(text))], []byte("\n"))
		return "", fmt.Errorf("%s:%d: this is not JSON: %w", file, line, err)
	case errors.Is(err, io.ErrUnexpectedEOF):
		return "", fmt.Errorf("%s ends too early: a bracket is not closed", file)
	case err != nil:
		return "", fmt.Errorf("%s: %w", file, err)
	}
	return m.Name, nil
}

// compile runs the compiler and returns the file that it has made.
func (l *language) compile(ctx context.Context, dir, name, out string, w io.Writer) (string, error) {
	program, env, err := l.find(dir)
	if err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeout(ctx, buildTime)
	defer cancel()
	args, made := l.build(dir, name, out)
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Dir = dir
	cmd.Env = append(append(os.Environ(), goTarget...), env...)
	cmd.WaitDelay = time.Second
	said := &head{max: maxOutput}
	cmd.Stdout, cmd.Stderr = said, said
	if err = cmd.Run(); err == nil {
		return newest(made)
	}
	if cause := ctx.Err(); cause != nil {
		return "", fmt.Errorf("build the module: %w", cause)
	}
	_, _ = w.Write(said.text)
	for line := range strings.Lines(string(said.text)) {
		if line = strings.TrimSpace(line); line != "" && l.said(line) {
			return "", fmt.Errorf("the build failed: %.300s", line)
		}
	}
	return "", fmt.Errorf("the build failed: %s ended with %w", program, err)
}

// newest returns the file that matches and was made last.
func newest(pattern string) (file string, err error) {
	files, err := filepath.Glob(pattern)
	if err != nil || len(files) == 0 {
		return "", fmt.Errorf("the build made no module: want %s", pattern)
	}
	var last time.Time
	for _, f := range files {
		if info, err := os.Stat(f); err == nil && !info.ModTime().Before(last) {
			file, last = f, info.ModTime()
		}
	}
	return file, nil
}

// head keeps the first bytes of what is written.
type head struct {
	max  int
	text []byte
}

func (h *head) Write(b []byte) (int, error) {
	h.text = append(h.text, b[:min(len(b), h.max-len(h.text))]...)
	return len(b), nil
}

// readModule reads a module that says what it is.
func readModule(file string) ([]byte, error) {
	wasm, err := smallfile.Read(file, maxModule)
	if err != nil {
		return nil, fmt.Errorf("read the module: %w", err)
	}
	switch _, err := guest.ReadManifest(wasm); {
	case errors.Is(err, manifest.ErrNone):
		return nil, fmt.Errorf("the module has no manifest: hand the text of manifest.json to Register, so that it is part of the file")
	case err != nil:
		return nil, err
	}
	return wasm, nil
}

// HasNative reports whether the language of the module in a folder has unit tests of its
// own, which [Native] runs.
func HasNative(dir string) bool {
	l, err := languageIn(dir)
	return err == nil && len(l.native) > 0
}

// Native runs the unit tests in a module's folder with the language's own tool. Their
// output goes to w.
func Native(ctx context.Context, dir string, w io.Writer) error {
	l, err := languageIn(dir)
	if err != nil {
		return err
	}
	if len(l.native) == 0 {
		return fmt.Errorf("a module in %s has no unit tests of its own: vectors are its tests", l.name)
	}
	absolute, err := filepath.Abs(dir)
	if err != nil {
		return err
	}
	program, env, err := l.find(absolute)
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, program, l.native...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), env...)
	cmd.Stdout, cmd.Stderr = w, w
	cmd.WaitDelay = time.Second
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("the unit tests of %s failed: %s %s ended with %w", dir, filepath.Base(program), strings.Join(l.native, " "), err)
	}
	return nil
}
