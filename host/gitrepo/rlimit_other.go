//go:build !linux

package gitrepo

// limitMemory and limitCPU do nothing: only Linux lets a process limit another.
func limitMemory(int, int64) {}

func limitCPU(int, int64) {}
