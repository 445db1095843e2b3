package plugin

import (
	"bytes"
	"strings"
	"sync"
	"time"
)

// maxProgramLines is how many lines of a program are logged in a second.
const maxProgramLines = 10

// lineRate counts what is logged in each second.
type lineRate struct {
	clock func() time.Time

	mu     sync.Mutex // guards the fields below
	second int64
	taken  int
	missed int
}

// allow reports whether a line may be logged, and how many could not be before it.
func (r *lineRate) allow() (ok bool, missed int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if now := r.clock().Unix(); now != r.second {
		r.second, r.taken = now, 0
	}
	if r.taken == maxProgramLines {
		r.missed++
		return false, 0
	}
	r.taken++
	missed, r.missed = r.missed, 0
	return true, missed
}

// cleanLine makes a line fit for the log.
func cleanLine(line []byte) string {
	return strings.ToValidUTF8(string(bytes.TrimRight(line, "\r\n")), "\uFFFD")
}
