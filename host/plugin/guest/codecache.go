package guest

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"talon/host/plugin/meter"
	"talon/sdk/abi/manifest"
)

// code is the compiled code of one module on disk. Its folder is named for the hash of the
// module and of the code that meters it. The subfolder "code" holds the machine code, where
// wazero looks for it, and the shell of the metered module ([meter.Shell]), for which
// wazero finds it. A checksum over both is next to this subfolder.
//
// wazero refuses to compile when its own file is cut short or empty, as a power
// failure leaves it, and checks the machine code alone. So a folder without the
// right checksum is deleted before wazero sees it.
type code struct {
	dir     string
	shell   []byte
	machine string // file of machine code
	info    fs.FileInfo
}

const (
	codeFolder   = "code"
	shellFile    = "shell.wasm"
	checksumFile = "checksum"
	maxCode      = 32 // folders of modules, the newest
)

// meterVersion is what made metered modules.
var meterVersion = sync.OnceValue(meter.Version)

// codeDir is the folder for the module with a SHA-256.
func codeDir(dir string, module [sha256.Size]byte) string {
	version := meterVersion()
	sum := sha256.Sum256(append(version[:], module[:]...))
	return filepath.Join(dir, hex.EncodeToString(sum[:]))
}

// folders are locked one by one while they are filled: the same module may be
// loaded by two names at the same time.
var folders = struct {
	sync.Mutex
	locks map[string]*folderLock
}{locks: make(map[string]*folderLock)}

type folderLock struct {
	sync.Mutex
	users int // that hold it or wait for it
}

// lockFolder waits until nobody else fills the folder.
func lockFolder(dir string) (unlock func()) {
	folders.Lock()
	l := folders.locks[dir]
	if l == nil {
		l = new(folderLock)
		folders.locks[dir] = l
	}
	l.users++
	folders.Unlock()
	l.Lock()
	return func() {
		l.Unlock()
		folders.Lock()
		defer folders.Unlock()
		if l.users--; l.users == 0 {
			delete(folders.locks, dir)
		}
	}
}

// openCode reads the folder of a module, and returns nil if nothing usable is there. The caller
// has locked it.
func openCode(dir string) (*code, error) {
	want, err := os.ReadFile(filepath.Join(dir, checksumFile))
	var c *code
	var sum []byte
	if err == nil {
		c, sum, err = readCode(dir)
	}
	if err != nil || !bytes.Equal(sum, want) {
		return nil, removeCode(dir)
	}
	return c, nil
}

// readCode reads what is in the folder of a module, and returns its checksum. The checksum is
// over the place, length and content of machine code and shell. It detects the damage of a crash
// or a failing disk. It does not protect against attackers: a process that may write the folder
// can run code anyway.
func readCode(dir string) (*code, []byte, error) {
	c := &code{dir: dir}
	var err error
	if c.machine, err = machineFile(dir, codeFolder); err != nil {
		return nil, nil, err
	}
	if c.info, err = os.Lstat(c.machine); err != nil {
		return nil, nil, err
	}
	if c.shell, err = os.ReadFile(filepath.Join(dir, codeFolder, shellFile)); err != nil {
		return nil, nil, err
	}
	place, err := filepath.Rel(dir, c.machine)
	if err != nil {
		return nil, nil, err
	}
	f, err := os.Open(c.machine)
	if err != nil {
		return nil, nil, err
	}
	defer f.Close()
	machine, err := checksumOf(place, f)
	if err != nil {
		return nil, nil, err
	}
	shell, err := checksumOf(shellFile, bytes.NewReader(c.shell))
	return c, append(machine, shell...), err
}

// castagnoli has the polynomial for which processors have an instruction.
var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// checksumOf is the line for one file.
func checksumOf(name string, content io.Reader) ([]byte, error) {
	sum := crc32.New(castagnoli)
	n, err := io.Copy(sum, content)
	return fmt.Appendf(nil, "%s %d %08x\n", name, n, sum.Sum32()), err
}

// removeCode removes what cannot be used.
func removeCode(dir string) error {
	if err := os.RemoveAll(dir); err != nil {
		return fmt.Errorf("remove compiled code that cannot be used: %w", err)
	}
	return nil
}

// machineFile returns the only file that wazero has written below a folder.
func machineFile(dir, folder string) (string, error) {
	var files []string
	top := filepath.Join(dir, folder)
	err := filepath.WalkDir(top, func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() && filepath.Dir(path) != top {
			files = append(files, path)
		}
		return err
	})
	if err == nil && len(files) != 1 {
		err = &fs.PathError{Op: "find machine code", Path: top, Err: fs.ErrNotExist}
	}
	if err != nil {
		return "", err
	}
	return files[0], nil
}

// used reports whether wazero has taken the machine code that is there. It makes its
// own where it looks for another file: for another processor, or in another version.
func (c *code) used() bool {
	machine, err := machineFile(c.dir, codeFolder)
	if err != nil || machine != c.machine {
		return false
	}
	info, err := os.Lstat(machine)
	return err == nil && os.SameFile(info, c.info) && info.Size() == c.info.Size() && info.ModTime().Equal(c.info.ModTime())
}

// fillCode makes the folder of a module: whole or not at all, also where another process
// does the same. With compile, the module is compiled, and what wazero writes goes to a
// folder.
func fillCode(dir string, metered []byte, compile func(module []byte, folder string) error) error {
	if err := os.MkdirAll(filepath.Dir(dir), 0o700); err != nil {
		return err
	}
	made, err := os.MkdirTemp(filepath.Dir(dir), newCode)
	if err != nil {
		return err
	}
	defer os.RemoveAll(made)
	const full = "full"
	if err := compile(metered, filepath.Join(made, full)); err != nil {
		return err
	}
	shell := meter.Shell(metered)
	if err := compile(shell, filepath.Join(made, codeFolder)); err != nil {
		return err
	}
	// Both have the same types, imports, globals and functions, which is all of a module
	// that machine code depends on; the names of the files depend on all.
	from, err := machineFile(made, full)
	if err != nil {
		return err
	}
	to, err := machineFile(made, codeFolder)
	if err != nil {
		return err
	}
	if err := os.Rename(from, to); err != nil {
		return err
	}
	if err := os.RemoveAll(filepath.Join(made, full)); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(made, codeFolder, shellFile), shell, 0o600); err != nil {
		return err
	}
	if err := writeChecksum(made); err != nil {
		return err
	}
	return publishFolder(made, dir)
}

// newCode begins the names of folders that are being filled.
const newCode = "new-"

// publishFolder gives a folder that has been filled its name. One that is there already is as
// good.
func publishFolder(made, dir string) error {
	err := os.Rename(made, dir)
	if errors.Is(err, fs.ErrExist) || errors.Is(err, syscall.ENOTEMPTY) {
		return nil
	}
	return err
}

// keptManifest returns the manifest of a module from its shell, nil if none is kept: the
// module itself may be compressed.
func keptManifest(dir string) *manifest.Manifest {
	want, err := os.ReadFile(filepath.Join(dir, checksumFile))
	if err != nil {
		return nil
	}
	shell, err := os.ReadFile(filepath.Join(dir, codeFolder, shellFile))
	if err != nil {
		return nil
	}
	sum, err := checksumOf(shellFile, bytes.NewReader(shell))
	if err != nil || !bytes.HasSuffix(want, append([]byte("\n"), sum...)) {
		return nil
	}
	man, err := manifest.FromModule(shell)
	if err != nil {
		return nil
	}
	return man
}

// writeChecksum writes the checksum of what is in a folder of code.
func writeChecksum(dir string) error {
	_, sum, err := readCode(dir)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, checksumFile), sum, 0o600)
}

// abandonedTime is how old a folder is that nobody fills any more.
const abandonedTime = time.Hour

// PruneCache deletes from [Options.CacheDir] all but the newest folders of
// modules, and none of those in use ([Module.Code]). Code that another process
// has loaded does not need its folder any more.
func PruneCache(dir string, inUse ...string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	type folder struct {
		path string
		info fs.FileInfo
	}
	var folders []folder
	for _, e := range entries {
		path := filepath.Join(dir, e.Name())
		if info, err := e.Info(); err == nil && strings.HasPrefix(e.Name(), newCode) && time.Since(info.ModTime()) > abandonedTime {
			_ = os.RemoveAll(path) // of a process that was killed
		}
		if info, err := e.Info(); err == nil && e.IsDir() && len(e.Name()) == 2*sha256.Size && !slices.Contains(inUse, path) {
			folders = append(folders, folder{path, info})
		}
	}
	slices.SortFunc(folders, func(a, b folder) int {
		return cmp.Or(b.info.ModTime().Compare(a.info.ModTime()), cmp.Compare(a.path, b.path))
	})
	for _, f := range folders[min(len(folders), max(maxCode-len(inUse), 0)):] {
		if err := os.RemoveAll(f.path); err != nil {
			return err
		}
	}
	return nil
}
