package guest

import (
	"time"
)

var began = time.Now()

// sinceBegan reads the monotonic clock alone: the system's wall clock, which time.Now reads
// too, takes as long.
func sinceBegan() time.Duration { return time.Since(began) }

// monotonic is time.Now without the wall clock.
func monotonic() time.Time { return began.Add(sinceBegan()) }
