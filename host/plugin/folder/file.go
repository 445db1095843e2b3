package folder

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"talon/internal/durable"
)

// ErrChanged says that a file is not the one that was seen: it is being written,
// or was replaced. A later look finds it as it is then.
var ErrChanged = errors.New("the file has changed while it was read")

// File is a file as [Scan] saw it.
type File struct {
	Path  string
	Stamp Stamp
}

// Read returns the whole file. It refuses files of more than max bytes, and what
// is not a regular file.
func Read(f *File, max int64) ([]byte, error) { return read(f, max, time.Sleep) }

func read(f *File, max int64, sleep func(time.Duration)) ([]byte, error) {
	if f.Stamp.regular && f.Stamp.size > max {
		return nil, fmt.Errorf("%s has %d bytes: want at most %d", filepath.Base(f.Path), f.Stamp.size, max)
	}
	// Opening a pipe must not wait for somebody who writes.
	file, err := os.OpenFile(f.Path, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if errors.Is(err, os.ErrNotExist) && f.Stamp != (Stamp{}) {
		return nil, ErrChanged
	}
	if err != nil {
		return nil, err
	}
	defer file.Close()
	before, err := stampOfOpen(file.Fd())
	if err != nil {
		return nil, err
	}
	if before != f.Stamp {
		return nil, ErrChanged
	}
	if !before.regular {
		return nil, fmt.Errorf("%s is not a regular file", filepath.Base(f.Path))
	}
	sleep(before.settled(time.Now()))
	data := make([]byte, before.size)
	if _, err := io.ReadFull(file, data); errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return nil, ErrChanged
	} else if err != nil {
		return nil, err
	}
	if after, err := stampOfOpen(file.Fd()); err != nil || after != before {
		return nil, errors.Join(ErrChanged, err)
	}
	return data, nil
}

// Write puts a plugin's file into the folder, in the place of what was there. A
// symbolic link is replaced, not followed: its target may belong to somebody
// else.
func Write(dir, file string, data []byte) error {
	if err := check(file); err != nil {
		return err
	}
	path := filepath.Join(dir, file)
	mode := os.FileMode(0o644)
	if info, err := os.Lstat(path); err == nil && info.Mode().IsRegular() {
		mode = info.Mode().Perm()
	}
	return durable.Write(path, data, mode)
}

// Remove takes a plugin's file out of the folder. It returns nil if the file does not
// exist.
func Remove(dir, file string) error {
	if err := check(file); err != nil {
		return err
	}
	return durable.Remove(filepath.Join(dir, file))
}

// check takes only names of files that [Scan] would take.
func check(file string) error {
	name, kind := split(file)
	if kind == other || ignored(file) || filepath.Ext(file) != strings.ToLower(filepath.Ext(file)) {
		return fmt.Errorf("%.80q: want NAME.wasm, NAME.toml or NAME.wasm.sig", file)
	}
	return CheckName(name)
}

// Stamp changes when a file does. The system sets the time of the last change
// itself, so that a file with the size and the time of the one before is seen as
// another.
type Stamp struct {
	device, inode     uint64
	size              int64
	modified, changed int64 // nanoseconds
	regular           bool
}

// stampOf follows symbolic links.
func stampOf(path string) (Stamp, error) {
	var s unix.Stat_t
	for {
		switch err := unix.Stat(path, &s); err {
		case nil:
			return newStamp(&s), nil
		case unix.EINTR:
		default:
			return Stamp{}, err
		}
	}
}

func stampOfOpen(fd uintptr) (Stamp, error) {
	var s unix.Stat_t
	if err := unix.Fstat(int(fd), &s); err != nil {
		return Stamp{}, err
	}
	return newStamp(&s), nil
}

func newStamp(s *unix.Stat_t) Stamp {
	return Stamp{
		device:   uint64(s.Dev),
		inode:    uint64(s.Ino),
		size:     s.Size,
		modified: s.Mtim.Nano(),
		changed:  s.Ctim.Nano(),
		regular:  s.Mode&unix.S_IFMT == unix.S_IFREG,
	}
}

// tick is more than the step of a file system's clock.
const tick = 20 * time.Millisecond

// settled returns how long to wait until a further change of the file would get
// another stamp.
func (s Stamp) settled(now time.Time) time.Duration {
	age := now.Sub(time.Unix(0, max(s.modified, s.changed)))
	if age < 0 || age >= tick {
		return 0
	}
	return tick - age
}
