package plugin

import (
	"log/slog"
	"sync"
	"time"
)

// waveTime is how often the log says that the machine is busy, at most.
const waveTime = time.Minute

// waves logs that reads of policies took too long. That happens to many decisions at once,
// so each wave is one line: it says how many there were since the line before.
type waves struct {
	log *slog.Logger
	now func() time.Time

	mu       sync.Mutex // guards the fields below
	said     time.Time  // when the last line was written; zero: never
	timeouts int        // since then
}

// met counts a decision whose reads took too long.
func (w *waves) met(module string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.timeouts++
	now := w.now()
	if !w.said.IsZero() && now.Sub(w.said) < waveTime {
		return
	}
	w.log.Warn("the machine is busy, or a disk hangs: reads of policies take longer than [budgets] time; such decisions are made once more",
		"module", module, "decisions", w.timeouts)
	w.said, w.timeouts = now, 0
}
