package author

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"syscall"

	"talon/host/bundle"
	"talon/host/plugin/guest"
)

// cache keeps compiled code between commands, so that each need not compile the
// same module again. Processes take turns with it.
type cache struct {
	dir  string
	lock *os.File // nil: the folder is this process's own
}

// hold calls f while no other process uses the folder.
func (c *cache) hold(f func() error) error {
	if c.lock != nil {
		if err := syscall.Flock(int(c.lock.Fd()), syscall.LOCK_EX); err != nil {
			return fmt.Errorf("lock the folder of compiled code: %w", err)
		}
		defer syscall.Flock(int(c.lock.Fd()), syscall.LOCK_UN)
	}
	return f()
}

// close bounds the folder, or removes one of this process.
func (c *cache) close() error {
	if c.lock == nil {
		return os.RemoveAll(c.dir)
	}
	err := c.hold(func() error { return guest.PruneCache(c.dir) })
	if e := c.lock.Close(); err == nil {
		err = e
	}
	return err
}

// openCache opens the folder of the user's, or else one that goes away.
func openCache() (*cache, error) {
	if base, err := os.UserCacheDir(); err == nil {
		dir := filepath.Join(base, "talon", "modules")
		if os.MkdirAll(dir, 0o700) == nil {
			if f, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_CREATE|os.O_RDWR, 0o600); err == nil {
				return &cache{dir, f}, nil
			}
		}
	}
	dir, err := os.MkdirTemp("", "talon-modules-")
	if err != nil {
		return nil, fmt.Errorf("make a folder for compiled code: %w", err)
	}
	return &cache{dir: dir}, nil
}

// Load loads a module, with its machine code from the cache of the commands.
func Load(ctx context.Context, wasm []byte, o guest.Options) (m *guest.Module, err error) {
	err = withCache(func(dir string) (err error) {
		o.CacheDir = dir
		if own := bundle.Own(); own != nil {
			o.Prepared = own
		}
		m, err = guest.Load(ctx, wasm, o)
		return err
	})
	return m, err // the code is in memory
}

// withCache calls f with the folder of compiled code while no other process uses it.
func withCache(f func(dir string) error) error {
	c, err := openCache()
	if err != nil {
		return err
	}
	err = c.hold(func() error { return f(c.dir) })
	return cmpErr(err, c.close())
}
