package author

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"talon/host/plugin/guest"
	"talon/sdk/abi/manifest"
)

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
	// What was made takes the old one's place only when it is complete.
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
	text, err := os.ReadFile(file)
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
	f, err := os.Open(file)
	if err != nil {
		return nil, fmt.Errorf("open the module: %w", err)
	}
	defer f.Close()
	wasm, err := io.ReadAll(io.LimitReader(f, maxModule+1))
	if err != nil {
		return nil, fmt.Errorf("read the module: %w", err)
	}
	if len(wasm) > maxModule {
		return nil, fmt.Errorf("the module %s is larger than 32 MiB", file)
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
