package store

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"syscall"
	"time"

	"talon/host/store/semantics"
)

// ErrInUse says that another process serves or changes the same database.
var ErrInUse = semantics.ErrInUse

// lock takes the lock that keeps a second process from writing to the database
// at path. SQLite's own locks would let it: they are held for moments, while the
// writer remembers what it has given out. The kernel drops the lock when the
// process ends, however that comes.
func lock(path string) (*os.File, error) {
	name := path + ".lock"
	f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE|syscall.O_CLOEXEC, 0o644)
	if err != nil {
		return nil, explain(name, err)
	}
	if err := claim(f); err != nil {
		holder, _ := io.ReadAll(io.LimitReader(f, 32))
		f.Close()
		if !errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, fmt.Errorf("lock %s: %w", name, err)
		}
		who := ""
		if pid := strings.TrimSpace(string(holder)); pid != "" {
			who = " by process " + pid
		}
		return nil, fmt.Errorf("%s: %w%s: stop it first, or use another data directory", path, ErrInUse, who)
	}
	if err = f.Truncate(0); err == nil {
		_, err = f.WriteAt(fmt.Appendln(nil, os.Getpid()), 0)
	}
	if err != nil {
		f.Close()
		return nil, explain(name, err)
	}
	return f, nil
}

// A process that was killed while it started git leaves the lock to the copy of itself
// that is to become git, for the moment until it does. A server that is started again
// at once waits for that.
const (
	lockTries = 100
	lockRetry = 10 * time.Millisecond
)

// claim takes the lock, unless another process keeps it.
func claim(f *os.File) error {
	for tries := 1; ; tries++ {
		err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if !errors.Is(err, syscall.EWOULDBLOCK) || tries == lockTries {
			return err
		}
		time.Sleep(lockRetry)
	}
}
