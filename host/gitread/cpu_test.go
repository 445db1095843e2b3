package gitread

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// cpu returns the processor time of this process and of all that it has started, on Linux.
func cpu() time.Duration {
	var self, children syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &self)
	_ = syscall.Getrusage(syscall.RUSAGE_CHILDREN, &children)
	sum := time.Duration(0)
	for _, t := range []syscall.Timeval{self.Utime, self.Stime, children.Utime, children.Stime} {
		sum += time.Duration(t.Nano())
	}
	files, _ := filepath.Glob("/proc/self/task/*/children")
	for _, file := range files {
		pids, _ := os.ReadFile(file)
		for pid := range strings.FieldsSeq(string(pids)) {
			// The time on a processor in nanoseconds comes first.
			text, _ := os.ReadFile(fmt.Sprintf("/proc/%s/schedstat", pid))
			first, _, _ := strings.Cut(string(text), " ")
			n, _ := strconv.ParseInt(first, 10, 64)
			sum += time.Duration(n)
		}
	}
	return sum
}
