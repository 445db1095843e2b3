//go:build !linux

package gitrepo

// limitMemory does nothing: only Linux lets a process limit another.
func limitMemory(int, int64) {}
