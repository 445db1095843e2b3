package compile

import (
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"runtime/debug"
	"strconv"

	"golang.org/x/sys/unix"
)

// yield gives this process the lowest priority, for processors and disk.
func yield() {
	// Priorities belong to threads; those to come have that of the one that starts them.
	for range 2 {
		threads, _ := filepath.Glob("/proc/self/task/*")
		for _, thread := range threads {
			id, err := strconv.Atoi(filepath.Base(thread))
			if err != nil {
				continue
			}
			_ = unix.Setpriority(unix.PRIO_PROCESS, id, 19) // it may have ended
			_, _, _ = unix.Syscall(unix.SYS_IOPRIO_SET, ofProcess, uintptr(id), idleClass<<classShift)
		}
	}
}

// restrain bounds what this process may use, and has the system end it first when
// memory is short.
func restrain(memory, seconds uint64) error {
	// Without it, the system chooses by itself who ends first.
	_ = os.WriteFile("/proc/self/oom_score_adj", []byte("1000"), 0)
	debug.SetMemoryLimit(int64(memory / 4 * 3))
	// The system warns when the time is over, and ends who does not listen to that.
	over := make(chan os.Signal, 1)
	signal.Notify(over, unix.SIGXCPU)
	go func() {
		<-over
		fmt.Fprintln(os.Stderr, outOfTime)
		os.Exit(1)
	}()
	for _, limit := range []struct {
		what       string
		of         int
		soft, hard uint64
	}{{"memory", unix.RLIMIT_DATA, memory, memory}, {"time", unix.RLIMIT_CPU, seconds, seconds + 5}, {"core", unix.RLIMIT_CORE, 0, 0}} {
		if err := unix.Setrlimit(limit.of, &unix.Rlimit{Cur: limit.soft, Max: limit.hard}); err != nil {
			return fmt.Errorf("limit the %s of this process: %w", limit.what, err)
		}
	}
	return nil
}

// outOfTime is what a process says whose time on processors is over.
const outOfTime = "cpu time limit exceeded"

// Arguments of ioprio_set.
const (
	ofProcess  = 1
	idleClass  = 3
	classShift = 13
)
