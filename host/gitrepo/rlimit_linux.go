package gitrepo

import "golang.org/x/sys/unix"

// limitMemory bounds the memory of a process, and of each that it starts from now
// on. Files that they map do not count. It is a second line behind GIT_ALLOC_LIMIT: a
// system that forbids it is no reason to refuse pushes.
func limitMemory(pid int, bytes int64) { lower(pid, unix.RLIMIT_DATA, uint64(bytes), 0) }

// limitCPU bounds the processor time of a process: SIGXCPU, and five seconds later
// SIGKILL.
func limitCPU(pid int, seconds int64) { lower(pid, unix.RLIMIT_CPU, uint64(seconds), 5) }

// yield gives a process, and each thread that it starts from now on, less of busy
// processors than those have that answer clients.
func yield(pid int) { _ = unix.Setpriority(unix.PRIO_PROCESS, pid, 5) }

func lower(pid, resource int, soft, grace uint64) {
	var limit unix.Rlimit
	if unix.Prlimit(pid, resource, nil, &limit) != nil {
		return
	}
	limit.Cur = min(limit.Cur, soft)
	limit.Max = min(limit.Max, soft+grace)
	_ = unix.Prlimit(pid, resource, &limit, nil)
}
