package testkit

import (
	"syscall"
	"time"
)

// CPU returns the processor time that this process has used. It says what work
// costs on a machine that others use as well, where a clock would say how busy
// they are.
func CPU() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
