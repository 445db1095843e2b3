//go:build linux

package markdown

import (
	"runtime"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// cpu returns the CPU time that f takes on its thread.
func cpu(t *testing.T, f func()) time.Duration {
	t.Helper()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	now := func() time.Duration {
		var ts unix.Timespec
		if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &ts); err != nil {
			t.Fatal(err)
		}
		return time.Duration(ts.Nano())
	}
	start := now()
	f()
	return now() - start
}
