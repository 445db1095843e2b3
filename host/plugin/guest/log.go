package guest

import (
	"context"
	"log/slog"
	"strings"
	"sync"
	"time"

	"talon/sdk/abi"
)

const infoLevel = abi.LevelInfo

func slogLevel(level int32) slog.Level {
	switch {
	case level <= abi.LevelDebug:
		return slog.LevelDebug
	case level == abi.LevelInfo:
		return slog.LevelInfo
	case level == abi.LevelWarn:
		return slog.LevelWarn
	}
	return slog.LevelError
}

// logRate bounds the lines of one module in a second, over all its instances.
type logRate struct {
	max   int
	clock func() time.Time

	mu     sync.Mutex // guards the fields below
	second int64
	lines  int
}

func (r *logRate) allow() bool {
	second := r.clock().Unix()
	r.mu.Lock()
	defer r.mu.Unlock()
	if second != r.second {
		r.second, r.lines = second, 0
	}
	r.lines++
	return r.lines <= r.max
}

// log writes a line of the guest, if it has not written too much. The first line of a call
// is kept in any case, to explain a failure.
func (c *call) log(level int32, text string) {
	m := c.inst.module
	c.logLines++
	dropped := c.logLines > m.budgets.LogLines || !m.logRate.allow()
	if dropped {
		m.metrics.logDropped.Inc()
		if c.firstLine != "" {
			return
		}
	}
	text = strings.ToValidUTF8(truncate(text, m.limits.LogLineBytes), "\uFFFD")
	if c.firstLine == "" {
		c.firstLine = text
	}
	if !dropped {
		m.log.Log(context.Background(), slogLevel(level), "plugin says", "module", m.name, "text", text)
	}
}

// truncate shortens s to at most n bytes, not within a rune.
func truncate(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && s[n]&0xc0 == 0x80 {
		n--
	}
	return s[:n]
}
