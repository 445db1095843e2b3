package guest

import (
	"log/slog"
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
	most  int
	clock func() time.Time

	mu     sync.Mutex // guards the fields below
	second int64
	lines  int
}

func (r *logRate) take() bool {
	second := r.clock().Unix()
	r.mu.Lock()
	defer r.mu.Unlock()
	if second != r.second {
		r.second, r.lines = second, 0
	}
	r.lines++
	return r.lines <= r.most
}
