package main

import (
	"fmt"
	"io"
	"os"
	"time"
)

// progress keeps one line up to date on a terminal. Elsewhere it does nothing.
type progress struct {
	w    io.Writer
	last time.Time
}

func newProgress(w io.Writer) *progress {
	if terminal(w) {
		return &progress{w: w, last: time.Now()}
	}
	return &progress{}
}

func terminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

// show replaces the line, a few times a second at most.
func (p *progress) show(line func() string) {
	const every = 200 * time.Millisecond
	if p.w == nil || time.Since(p.last) < every {
		return
	}
	p.last = time.Now()
	fmt.Fprintf(p.w, "\r\x1b[K%s", line())
}

// end removes the line.
func (p *progress) end() {
	if p.w != nil {
		fmt.Fprint(p.w, "\r\x1b[K")
	}
}
