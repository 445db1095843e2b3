//go:build !linux

package gitrepo

import "time"

// limitMemory, limitCPU, limitFile and lowerGroup do nothing: only Linux lets a process limit another.
func limitMemory(int, int64) {}

func limitCPU(int, int64) {}

func limitFile(int, int64) {}

func lowerGroup(int, int) {}

// familyCPU knows nothing: only Linux says what other processes take.
func familyCPU(int) time.Duration { return 0 }
