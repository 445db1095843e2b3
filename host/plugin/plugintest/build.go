// Package plugintest compiles policies for tests, with the go tool and the
// options of the Makefile, so that a test needs nothing built before it.
//
// No production code imports it.
package plugintest

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"talon/internal/testkit"
)

// Build compiles folders of Go policies, given relative to the root of the
// repository ("plugins/open"), and returns a folder with <name>.wasm for each.
func Build(t testing.TB, folders ...string) string {
	t.Helper()
	dir := t.TempDir()
	for _, folder := range folders {
		data, err := compile(folder)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, filepath.Base(folder)+".wasm"), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// built keeps what this test process has compiled.
var built = struct {
	sync.Mutex
	wasm map[string][]byte
}{wasm: make(map[string][]byte)}

func compile(folder string) ([]byte, error) {
	built.Lock()
	defer built.Unlock()
	if _, err := sources(folder); err != nil {
		return nil, err
	}
	if data, ok := built.wasm[folder]; ok {
		return data, nil
	}
	root, err := root()
	if err != nil {
		return nil, err
	}
	// The go tool links a program again only when that is not what is there already.
	kept := filepath.Join(store, "wasm", strings.ReplaceAll(folder, "/", "-")+".wasm")
	if err := os.MkdirAll(filepath.Dir(kept), 0o700); err != nil {
		return nil, err
	}
	unlock, err := lock(kept)
	if err != nil {
		return nil, err
	}
	defer unlock()
	cmd := exec.Command("go", "build", "-buildmode=c-shared", "-buildvcs=false", "-trimpath", "-ldflags=-s -w", "-o", kept, "./"+path.Base(folder))
	cmd.Dir = filepath.Join(root, path.Dir(folder)) // in the module that it is of
	cmd.Env = append(os.Environ(), "GOOS=wasip1", "GOARCH=wasm", "CGO_ENABLED=0")
	if text, err := cmd.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("build %s: %w\n%s", folder, err, text)
	}
	data, err := os.ReadFile(kept)
	if err == nil {
		built.wasm[folder] = data
	}
	return data, err
}

// root is the nearest folder upward that holds go.mod.
func root() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir, nil
		}
		up := filepath.Dir(dir)
		if up == dir {
			return "", errors.New("no go.mod above the test's folder")
		}
		dir = up
	}
}

// code is the machine code that the tests of this process share.
var code struct {
	sync.Mutex
	dir   string // empty: Main does not run
	talon string // compiles, whatever the tests run under
	has   map[string]bool

	entries map[string]string // of the store, by the folder of the module in a CacheDir
}

// Main runs the tests, for TestMain, with a folder for machine code and removes that
// afterwards.
func Main(m interface{ Run() int }) int {
	dir, err := os.MkdirTemp("", "talon-code-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	code.dir, code.has, code.entries = dir, make(map[string]bool), make(map[string]string)
	return m.Run()
}

// MachineCode returns a folder for [guest.Options.CacheDir] that all tests of a process
// share. It already contains the code of these folders, which [Build] accepts too.
// Compiling a Go policy takes a second, or most of a minute under the race detector. So one
// process compiles for all test processes, including those of later runs.
func MachineCode(t testing.TB, folders ...string) string {
	t.Helper()
	code.Lock()
	defer code.Unlock()
	if code.dir == "" {
		t.Fatal("plugintest.Main does not run the tests")
	}
	dir := Code()
	for _, folder := range folders {
		if code.has[folder] {
			continue
		}
		if err := fetch(folder, dir); err != nil {
			t.Fatal(err)
		}
		code.has[folder] = true
	}
	return dir
}

// Code returns the folder of [MachineCode], for what a test compiles itself.
func Code() string { return filepath.Join(code.dir, "wasm-cache") }

// store keeps machine code between test processes: a folder for each module, named for
// all that makes it what it is, with the folder of that module in a CacheDir.
var store = testkit.Kept()

// fetch brings the machine code of a module into a CacheDir. Without a code, the module
// could not be loaded: that is for the test to see.
func fetch(folder, dir string) error {
	wasm, err := compile(folder)
	if err != nil {
		return err
	}
	host, err := compilerKey()
	if err != nil {
		return err
	}
	tester, err := testerKey()
	if err != nil {
		return err
	}
	entry := filepath.Join(store, fmt.Sprintf("%x", sha256.Sum256(append(host[:], wasm...))))
	if link(entry, tester, dir) == nil {
		return nil
	}
	unlock, err := lock(entry)
	if err != nil {
		return err
	}
	defer unlock()
	if link(entry, tester, dir) == nil {
		return nil // another process has made it meanwhile
	}
	if err := fill(entry, folder, tester); err != nil {
		return err
	}
	return link(entry, tester, dir)
}

// passed is the file in a CacheDir that says with which settings a module has passed its self-test.
const passed = "passed"

// passedBy is the file next to an entry that says what its module has passed, by the sources that tester
// identifies. It is there once they have tested the module.
func passedBy(entry, tester string) string { return entry + ".passed-" + tester[:16] }

// maxTesters bounds how many sources an entry remembers: those of branches that are tested in turn.
const maxTesters = 8

// testerKey identifies the code that tests a module when it is loaded: the sources of package
// host/plugin, and of all packages of Talon that it imports. While they stay, so does the
// outcome of a self-test. So one process tests for all, and a change of these sources has every module
// tested again.
var testerKey = sync.OnceValues(func() (string, error) {
	root, err := root()
	if err != nil {
		return "", err
	}
	files, err := sources("host/plugin")
	sum := sha256.New()
	for _, file := range files {
		text, readErr := os.ReadFile(filepath.Join(root, file))
		err = errors.Join(err, readErr)
		fmt.Fprintf(sum, "%s %d\n", file, len(text))
		sum.Write(text)
	}
	return fmt.Sprintf("%x", sum.Sum(nil)), err
})

// compilerKey identifies everything except the module that machine code depends on: wazero,
// and the code that meters the module before wazero compiles it.
var compilerKey = sync.OnceValues(func() (key [sha256.Size]byte, err error) {
	root, err := root()
	if err != nil {
		return key, err
	}
	files, err := filepath.Glob(filepath.Join(root, "host", "plugin", "meter", "*.go"))
	if err != nil || len(files) == 0 {
		return key, fmt.Errorf("no sources of package meter: %w", err)
	}
	sum := sha256.New()
	fmt.Fprintln(sum, wazeroVersion())
	for _, file := range append(files, filepath.Join(root, "go.sum")) {
		text, err := os.ReadFile(file)
		if err != nil {
			return key, err
		}
		fmt.Fprintf(sum, "%d\n", len(text))
		sum.Write(text)
	}
	return [sha256.Size]byte(sum.Sum(nil)), nil
})

// wazeroVersion is what wazero takes for its own version in this process: it uses no code
// of another. Most test programs do not say which modules they are made of.
func wazeroVersion() string {
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, dep := range info.Deps {
			if dep.Path == "github.com/tetratelabs/wazero" {
				return dep.Version
			}
		}
	}
	return "dev"
}

// link brings an entry of the store into a CacheDir. It fails if the tester has not tested the module.
func link(entry, tester, dir string) error {
	text, err := os.ReadFile(passedBy(entry, tester))
	if err != nil {
		return err
	}
	modules, err := linkCode(entry, dir)
	for _, module := range modules {
		code.entries[module] = entry
		if err == nil && len(text) > 0 {
			err = os.WriteFile(filepath.Join(dir, module, passed), text, 0o600)
		}
	}
	return err
}

// linkCode makes hard links in a CacheDir to the machine code that an entry of the store has, or copies. It
// returns the folders of modules.
func linkCode(entry, dir string) (names []string, err error) {
	modules, err := os.ReadDir(entry)
	if err != nil {
		return nil, err
	}
	now := time.Now()
	_ = os.Chtimes(entry, now, now) // in use
	for _, module := range modules {
		names = append(names, module.Name())
		from := os.DirFS(filepath.Join(entry, module.Name()))
		to := filepath.Join(dir, module.Name())
		err := fs.WalkDir(from, ".", func(file string, d fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			if d.IsDir() {
				return os.MkdirAll(filepath.Join(to, file), 0o700)
			}
			if d.Name() == passed {
				return nil
			}
			return linkFile(filepath.Join(entry, module.Name(), file), filepath.Join(to, file), 0o600)
		})
		if err != nil {
			return nil, err
		}
	}
	return names, nil
}

// KeepPassed keeps for later processes with which settings the modules of a CacheDir have passed their
// self-test. A module that [MachineCode] did not bring is left out.
func KeepPassed(dir string) error {
	code.Lock()
	defer code.Unlock()
	tester, err := testerKey()
	if err != nil {
		return err
	}
	stamps, err := filepath.Glob(filepath.Join(dir, "*", passed))
	for _, stamp := range stamps {
		entry, ok := code.entries[filepath.Base(filepath.Dir(stamp))]
		if !ok {
			continue
		}
		text, readErr := os.ReadFile(stamp)
		if errors.Is(readErr, fs.ErrNotExist) {
			continue // a server has removed the folder
		}
		err = errors.Join(err, readErr, addPassed(entry, tester, strings.Fields(string(text))))
	}
	return err
}

// maxPassed bounds the settings that an entry keeps of its module.
const maxPassed = 200

// addPassed adds settings with which the module of an entry has passed its self-test.
func addPassed(entry, tester string, lines []string) error {
	file := passedBy(entry, tester)
	text, _ := os.ReadFile(file)
	kept := strings.Fields(string(text))
	if !slices.ContainsFunc(lines, func(line string) bool { return !slices.Contains(kept, line) }) {
		return nil
	}
	unlock, err := lock(entry)
	if err != nil {
		return err
	}
	defer unlock()
	if text, err = os.ReadFile(file); errors.Is(err, fs.ErrNotExist) {
		return nil // the entry was removed
	}
	if err != nil {
		return err
	}
	for line := range strings.FieldsSeq(string(text)) {
		if !slices.Contains(lines, line) {
			lines = append(lines, line)
		}
	}
	return writeWhole(file, strings.Join(lines[:min(len(lines), maxPassed)], "\n"))
}

// writeWhole writes a file of the store: nobody sees half of it.
func writeWhole(file, text string) error {
	next, err := os.CreateTemp(store, "next-")
	if err != nil {
		return err
	}
	_, err = next.WriteString(text)
	if err = errors.Join(err, next.Close()); err == nil {
		err = os.Rename(next.Name(), file)
	}
	return err
}

// fill has a Talon load a module, by an import of no events. A module that fails its self-test is
// not kept as one that passed, so the test that loads it sees why. The machine code of an entry that
// other code has tested is used again. REQUIRES: the caller has locked the entry.
func fill(entry, folder, tester string) error {
	talon, err := talon()
	if err != nil {
		return err
	}
	plugins, err := os.MkdirTemp(code.dir, "plugins-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(plugins)
	wasm, err := compile(folder)
	if err == nil {
		err = os.WriteFile(filepath.Join(plugins, filepath.Base(folder)+".wasm"), wasm, 0o600)
	}
	if err != nil {
		return err
	}
	data, err := os.MkdirTemp(store, "filling-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(data)
	made := filepath.Join(data, "wasm-cache")
	if err := os.MkdirAll(made, 0o700); err != nil { // it stays empty if the module is refused
		return err
	}
	if _, err := linkCode(entry, made); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	load := exec.Command(talon, "import", "--data", data, "--plugins", plugins, "--log-level", "error")
	load.Dir = plugins
	if text, err := load.CombinedOutput(); load.ProcessState == nil {
		return fmt.Errorf("compile %s: %w\n%s", folder, err, text)
	}
	var lines []byte
	stamps, err := filepath.Glob(filepath.Join(made, "*", passed))
	for _, stamp := range stamps {
		text, readErr := os.ReadFile(stamp)
		lines, err = append(append(lines, text...), '\n'), errors.Join(err, readErr)
	}
	if err = errors.Join(err, os.RemoveAll(entry)); err == nil {
		err = os.Rename(made, entry)
	}
	if err == nil {
		err = writeWhole(passedBy(entry, tester), string(lines))
	}
	if err != nil {
		return fmt.Errorf("keep machine code: %w", err)
	}
	return errors.Join(removeOldest(entry+".passed-*", maxTesters), prune())
}

// removeOldest removes files that match a pattern, except the newest.
func removeOldest(pattern string, keep int) error {
	files, err := filepath.Glob(pattern)
	age := make(map[string]time.Time)
	for _, file := range files {
		if info, err := os.Stat(file); err == nil {
			age[file] = info.ModTime()
		}
	}
	slices.SortFunc(files, func(a, b string) int { return age[b].Compare(age[a]) })
	for _, file := range files[min(keep, len(files)):] {
		err = errors.Join(err, os.Remove(file))
	}
	return err
}

// talonFolder has the sources of the program.
const talonFolder = "cmd/talon"

// talon builds a Talon whose machine code this process can use, without the race detector
// even if the tests run under it. This process uses a copy of its own while the tests run.
func talon() (string, error) {
	if code.talon != "" {
		return code.talon, nil
	}
	program := filepath.Join(code.dir, "talon")
	if err := buildTalon("talon", "", program); err != nil {
		return "", err
	}
	code.talon = program
	return program, nil
}

// buildTalon builds a Talon, which the store keeps under a name, as a file. The linker sets further
// variables, as in "-X PATH.NAME=VALUE".
func buildTalon(name, set, file string) error {
	return build(name, linked+wazeroVersion()+" "+set, "talon/cmd/talon", file)
}

// linked begins the flags of the linker: nobody debugs these programs, and wazero has the version that follows.
const linked = "-s -w -X github.com/tetratelabs/wazero/internal/version.version="

// Program builds a program of Talon's module as a file.
func Program(path, file string) error {
	if _, err := sources(strings.TrimPrefix(path, module)); err != nil {
		return err
	}
	return build(filepath.Base(path), "-s -w", path, file)
}

// build builds a program as a file. The store keeps it under a name: the go tool links it again when its
// inputs have changed.
func build(name, flags, path, file string) error {
	kept := filepath.Join(store, name)
	unlock, err := lock(kept)
	if err != nil {
		return err
	}
	defer unlock()
	if text, err := exec.Command("go", "build", "-ldflags", flags, "-o", kept, path).CombinedOutput(); err != nil {
		return fmt.Errorf("build %s: %w\n%s", path, err, text)
	}
	return linkFile(kept, file, 0o700)
}

// TalonWith returns a Talon in which the linker has set a variable, as in "PATH.NAME=VALUE".
func TalonWith(t testing.TB, variable string) string {
	t.Helper()
	program := filepath.Join(t.TempDir(), "talon")
	if _, err := sources(talonFolder); err != nil {
		t.Fatal(err)
	}
	if err := buildTalon("talon-"+strings.NewReplacer("/", "-", "=", "-").Replace(variable), "-X "+variable, program); err != nil {
		t.Fatal(err)
	}
	return program
}

// lock waits until no other process makes an entry of the store.
func lock(entry string) (unlock func(), err error) {
	if err := os.MkdirAll(store, 0o700); err != nil {
		return nil, err
	}
	file, err := os.OpenFile(entry+".lock", os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX); err != nil {
		file.Close()
		return nil, fmt.Errorf("lock %s: %w", entry, err)
	}
	return func() { file.Close() }, nil
}

// linkFile makes a hard link, or a copy where that cannot be.
func linkFile(from, to string, mode fs.FileMode) error {
	if err := os.Link(from, to); err == nil || errors.Is(err, fs.ErrExist) {
		return nil
	}
	data, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	return os.WriteFile(to, data, mode)
}

// Talon returns a Talon to load modules with, which runs without the race detector.
func Talon(t testing.TB) string {
	t.Helper()
	code.Lock()
	defer code.Unlock()
	if code.dir == "" {
		t.Fatal("plugintest.Main does not run the tests")
	}
	program, err := talon()
	if err == nil {
		_, err = sources(talonFolder)
	}
	if err != nil {
		t.Fatal(err)
	}
	return program
}

// maxEntries of the store, those that were used last: twice what this repository has.
const maxEntries = 100

// prune removes what nobody has used for long.
func prune() error {
	list, err := os.ReadDir(store)
	if err != nil {
		return err
	}
	var entries []fs.FileInfo
	for _, e := range list {
		if info, err := e.Info(); err == nil && len(e.Name()) == 2*sha256.Size {
			entries = append(entries, info)
		}
	}
	for len(entries) > maxEntries {
		oldest := 0
		for i, e := range entries {
			if e.ModTime().Before(entries[oldest].ModTime()) {
				oldest = i
			}
		}
		path := filepath.Join(store, entries[oldest].Name())
		if err := errors.Join(os.RemoveAll(path), removeOldest(path+".*", 0)); err != nil {
			return err
		}
		entries = append(entries[:oldest], entries[oldest+1:]...)
	}
	return nil
}
