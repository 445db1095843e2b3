package plugin

import (
	"log/slog"
	"time"

	"talon/internal/wave"
)

// waves logs that reads of policies took too long, which happens to many decisions at once.
type waves struct {
	log      *slog.Logger
	now      func() time.Time
	timeouts wave.Wave
}

// met counts a decision whose reads took too long.
func (w *waves) met(module string) {
	if n := w.timeouts.Count(w.now()); n > 0 {
		w.log.Warn("the machine is busy, or a disk hangs: reads of policies take longer than [budgets] time; such decisions are made once more",
			"module", module, "decisions", n)
	}
}
