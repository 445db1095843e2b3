//go:build !linux

package gitrepo

// limitMemory, limitCPU and yield do nothing: only Linux lets a process limit another.
func limitMemory(int, int64) {}

func limitCPU(int, int64) {}

func yield(int) {}
