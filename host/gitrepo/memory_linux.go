package gitrepo

import "golang.org/x/sys/unix"

// limitMemory bounds the memory of a process, and of each that it starts from now
// on. Files that they map do not count. It is a second line behind GIT_ALLOC_LIMIT: a
// system that forbids it is no reason to refuse pushes.
func limitMemory(pid int, bytes int64) {
	var limit unix.Rlimit
	if unix.Prlimit(pid, unix.RLIMIT_DATA, nil, &limit) != nil {
		return
	}
	limit.Cur = min(limit.Cur, uint64(bytes))
	limit.Max = min(limit.Max, uint64(bytes))
	_ = unix.Prlimit(pid, unix.RLIMIT_DATA, &limit, nil)
}
