package admin

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"time"
)

// maxName bounds the socket's own name, so that its address fits.
const maxName = 64

// Listen opens the socket at path. Its folder is made if it is absent; one that
// others may enter is refused.
func Listen(path string) (net.Listener, error) {
	dir, name := filepath.Dir(path), filepath.Base(path)
	if len(name) > maxName || name == "." || name == string(filepath.Separator) {
		return nil, fmt.Errorf("open the admin socket: the name %.80q is wrong: want a file name of at most %d bytes", name, maxName)
	}
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, fmt.Errorf("make the folder of the admin socket: %w", err)
	}
	folder, err := openFolder(dir)
	if err != nil {
		return nil, fmt.Errorf("open the folder of the admin socket: %w", err)
	}
	defer folder.Close()
	if err := checkFolder(folder); err != nil {
		return nil, err
	}
	at := inside(folder, name)
	if err := makeRoom(at, path); err != nil {
		return nil, err
	}
	l, err := net.ListenUnix("unix", &net.UnixAddr{Net: "unix", Name: at})
	if err != nil {
		return nil, fmt.Errorf("listen on the admin socket %s: %w", path, err)
	}
	l.SetUnlinkOnClose(false) // it would look through a folder that is closed by then
	if err := os.Chmod(at, 0o600); err != nil {
		return nil, errors.Join(fmt.Errorf("make the admin socket private: %w", err), l.Close(), os.Remove(at))
	}
	return &listener{UnixListener: l, path: path}, nil
}

// listener removes its socket when it is closed.
type listener struct {
	*net.UnixListener
	path  string
	close sync.Once
}

func (l *listener) Addr() net.Addr { return &net.UnixAddr{Net: "unix", Name: l.path} }

func (l *listener) Close() error {
	var err error
	l.close.Do(func() {
		err = l.UnixListener.Close()
		if gone := os.Remove(l.path); !errors.Is(gone, fs.ErrNotExist) {
			err = errors.Join(err, gone)
		}
	})
	return err
}

func openFolder(dir string) (*os.File, error) {
	return os.OpenFile(dir, os.O_RDONLY|syscall.O_DIRECTORY|syscall.O_CLOEXEC, 0)
}

// inside is a short path of a file in an opened folder.
func inside(folder *os.File, name string) string {
	return filepath.Join("/proc/self/fd", strconv.Itoa(int(folder.Fd())), name)
}

// checkFolder refuses a folder in which others could replace the socket, or reach
// it before it is made private.
func checkFolder(folder *os.File) error {
	info, err := folder.Stat()
	if err != nil {
		return fmt.Errorf("look at the folder of the admin socket: %w", err)
	}
	owner := info.Sys().(*syscall.Stat_t).Uid
	if int(owner) != os.Geteuid() {
		return fmt.Errorf("%s, the folder of the admin socket, belongs to user %d: want one of this server's user, %d", folder.Name(), owner, os.Geteuid())
	}
	if perm := info.Mode().Perm(); perm&0o077 != 0 {
		return fmt.Errorf("%s, the folder of the admin socket, is open to others, its mode is %04o: choose a folder that is for the socket alone, or chmod it to 0700", folder.Name(), perm)
	}
	return nil
}

// probeTime bounds the question whether a server listens.
const probeTime = 2 * time.Second

// makeRoom removes the socket of a dead server.
func makeRoom(at, path string) error {
	info, err := os.Lstat(at)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("look at the admin socket: %w", err)
	}
	if info.Mode().Type() != fs.ModeSocket {
		return fmt.Errorf("%s is in the place of the admin socket and is none: move it away, or choose another path", path)
	}
	nc, err := net.DialTimeout("unix", at, probeTime)
	if err == nil {
		_ = nc.Close() // nothing was said
		return fmt.Errorf("a server listens on the admin socket %s already: stop it first, or choose another path", path)
	}
	if !errors.Is(err, syscall.ECONNREFUSED) {
		return fmt.Errorf("ask who listens on the admin socket %s: %w", path, err)
	}
	if err := os.Remove(at); err != nil {
		return fmt.Errorf("remove the admin socket of a dead server: %w", err)
	}
	return nil
}
