package author

import (
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// ownCPU is the processor time that this process has used.
func ownCPU() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// cpuOf is the processor time that another process has used, without its children. It
// is 0 where the system does not tell.
func cpuOf(pid int) time.Duration {
	// The clock of a process (clock_getcpuclockid): the inverted number, and what is
	// counted, which is 2 for the scheduler's own figure.
	const scheduled = 2
	var at unix.Timespec
	if err := unix.ClockGettime(int32(^pid)<<3|scheduled, &at); err != nil {
		return 0
	}
	return time.Duration(at.Nano())
}
