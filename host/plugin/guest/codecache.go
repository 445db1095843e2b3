package guest

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"github.com/tetratelabs/wazero"
)

// code is the compiled code of one module on disk: a folder named for the hash of
// the metered module, with what wazero keeps there and a checksum over it.
//
// wazero refuses to compile when its own file is cut short or empty, as a power
// failure leaves it, and checks the machine code alone. So a folder without the
// right checksum is deleted before wazero sees it.
type code struct {
	dir   string
	cache wazero.CompilationCache
	fresh bool // no checksum has been written yet
}

const (
	checksumFile = "checksum"
	keepCode     = 32 // folders of modules, the newest
)

// codeDir is the folder for a module.
func codeDir(dir string, metered []byte) string {
	name := sha256.Sum256(metered)
	return filepath.Join(dir, hex.EncodeToString(name[:]))
}

// folders are locked one by one while they are filled: the same module may be
// loaded by two names at once.
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

// openCode opens the folder for a module. The caller has locked it, until the code
// is sealed.
func openCode(dir string, metered []byte) (*code, error) {
	c := &code{dir: codeDir(dir, metered)}
	want, err := os.ReadFile(filepath.Join(c.dir, checksumFile))
	if err == nil {
		var sum []byte
		if sum, err = c.checksum(); err == nil && !bytes.Equal(sum, want) {
			err = fs.ErrInvalid
		}
	}
	if err != nil {
		if err := os.RemoveAll(c.dir); err != nil {
			return nil, fmt.Errorf("remove damaged code: %w", err)
		}
		c.fresh = true
	}
	if err := os.MkdirAll(c.dir, 0o700); err != nil {
		return nil, fmt.Errorf("make a folder for compiled code: %w", err)
	}
	if c.cache, err = wazero.NewCompilationCacheWithDir(c.dir); err != nil {
		return nil, fmt.Errorf("open the folder of compiled code: %w", err)
	}
	return c, nil
}

// seal writes the checksum after the module has been compiled. It comes last and
// all at once: a crash before leaves a folder that the next start deletes.
func (c *code) seal() error {
	if !c.fresh {
		return nil
	}
	sum, err := c.checksum()
	if err != nil {
		return fmt.Errorf("read compiled code: %w", err)
	}
	path := filepath.Join(c.dir, checksumFile)
	if err := os.WriteFile(path+".new", sum, 0o600); err != nil {
		return fmt.Errorf("write the checksum of compiled code: %w", err)
	}
	return os.Rename(path+".new", path)
}

// checksum is over the names and contents of all files but itself.
func (c *code) checksum() ([]byte, error) {
	sum := sha256.New()
	err := filepath.WalkDir(c.dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || filepath.Dir(path) == c.dir {
			return err
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		relative, err := filepath.Rel(c.dir, path)
		fmt.Fprintf(sum, "%s %d\n", relative, len(data))
		sum.Write(data)
		return err
	})
	return hex.AppendEncode(nil, sum.Sum(nil)), err
}

func (c *code) close(ctx context.Context) error { return c.cache.Close(ctx) }

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
		if info, err := e.Info(); err == nil && e.IsDir() && len(e.Name()) == 2*sha256.Size && !slices.Contains(inUse, path) {
			folders = append(folders, folder{path, info})
		}
	}
	slices.SortFunc(folders, func(a, b folder) int {
		return cmp.Or(b.info.ModTime().Compare(a.info.ModTime()), cmp.Compare(a.path, b.path))
	})
	for _, f := range folders[min(len(folders), max(keepCode-len(inUse), 0)):] {
		if err := os.RemoveAll(f.path); err != nil {
			return err
		}
	}
	return nil
}
