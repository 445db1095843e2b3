package folder

import (
	"time"

	"golang.org/x/sys/unix"
)

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
