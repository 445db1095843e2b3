//go:build !linux

package gitrepo

import "time"

// familyCPU knows nothing: only Linux says what other processes take.
func familyCPU(int) time.Duration { return 0 }
