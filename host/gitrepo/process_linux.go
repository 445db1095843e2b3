package gitrepo

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// limitMemory bounds the memory of a process, and of each that it starts from now
// on. Files that they map do not count. It is a second line behind GIT_ALLOC_LIMIT: a
// system that forbids it is no reason to refuse pushes.
func limitMemory(pid int, bytes int64) { lower(pid, unix.RLIMIT_DATA, uint64(bytes), 0) }

// limitCPU bounds the processor time of a process: SIGXCPU, and five seconds later
// SIGKILL.
func limitCPU(pid int, seconds int64) { lower(pid, unix.RLIMIT_CPU, uint64(seconds), 5) }

// lowerGroup gives the processes of a group less of busy processors than the server has. Only
// root can raise a priority again.
func lowerGroup(pgid, nice int) { _ = unix.Setpriority(unix.PRIO_PGRP, pgid, ownNice()+nice) }

// ownNice returns the priority of the server.
var ownNice = sync.OnceValue(func() int {
	n, err := unix.Getpriority(unix.PRIO_PROCESS, 0)
	if err != nil {
		return 0
	}
	return 20 - n // as the kernel tells it
})

// limitFile bounds the length of the files that a process writes: SIGXFSZ. It may be raised.
func limitFile(pid int, bytes int64) {
	var limit unix.Rlimit
	if unix.Prlimit(pid, unix.RLIMIT_FSIZE, nil, &limit) != nil {
		return
	}
	limit.Cur = min(limit.Max, uint64(bytes))
	_ = unix.Prlimit(pid, unix.RLIMIT_FSIZE, &limit, nil)
}

func lower(pid, resource int, soft, grace uint64) {
	var limit unix.Rlimit
	if unix.Prlimit(pid, resource, nil, &limit) != nil {
		return
	}
	limit.Cur = min(limit.Cur, soft)
	limit.Max = min(limit.Max, soft+grace)
	_ = unix.Prlimit(pid, resource, &limit, nil)
}

const (
	// maxFamily bounds the processes that one git is looked for among.
	maxFamily = 64

	// clockTick is the unit of times in /proc, which is fixed for programs.
	clockTick = time.Second / 100
)

// familyCPU returns the processor time of a process and all that it has started.
func familyCPU(pid int) (sum time.Duration) {
	family := []int{pid}
	for i := 0; i < len(family) && i < maxFamily; i++ {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", family[i]))
		if err != nil {
			continue // it has ended: its time is now its parent's
		}
		// After the name, which is in brackets and may hold anything, comes the third field.
		fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
		for field := 14; field <= 17 && field-3 < len(fields); field++ { // its own time, and that of those that have ended
			ticks, _ := strconv.ParseInt(string(fields[field-3]), 10, 64)
			sum += time.Duration(ticks) * clockTick
		}
		children, _ := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", family[i], family[i]))
		for _, text := range bytes.Fields(children) {
			if child, err := strconv.Atoi(string(text)); err == nil {
				family = append(family, child)
			}
		}
	}
	return sum
}
