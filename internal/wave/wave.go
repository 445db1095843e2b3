// Package wave keeps many equal failures from filling a log: those of a minute are one line that
// says how many there were.
package wave

import (
	"sync"
	"time"
)

// every is how often a wave is logged, at most.
const every = time.Minute

// Wave counts failures of one kind. The zero value is ready.
type Wave struct {
	mu      sync.Mutex // guards the fields below
	said    time.Time  // when the last line was written; zero: never
	counted int        // since then
}

// Count counts a failure. If a line is due it returns how many there were since the line before,
// and else 0.
func (w *Wave) Count(now time.Time) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.counted++
	if !w.said.IsZero() && now.Sub(w.said) < every {
		return 0
	}
	n := w.counted
	w.said, w.counted = now, 0
	return n
}
