package gitrepo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"
)

// Command is a git command that reads a repository for a page.
type Command struct {
	Args   []string
	In     string
	CPU    time.Duration // processor time; more ends it
	Output int64         // bytes; more ends it with ErrTooLarge
}

// ErrCPU says that git took more processor time than its command may.
var ErrCPU = errors.New("out of processor time")

// Read runs a command for a task and calls consume with its output. The command ends when consume
// has returned. Read returns the processor time that git took. An output that is too long is an
// error after consume has read the first part of it. REQUIRES: the task has started.
func (r *Repo) Read(t *Task, c Command, consume func(out io.Reader) error) (took time.Duration, err error) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	if err := r.mustExist(); err != nil {
		return 0, err
	}
	p, err := r.git.start(ctx, r.dir, readEnv, append([]string{"--git-dir=."}, c.Args...)...)
	if err != nil {
		return 0, r.orGone(err)
	}
	limitMemory(p.cmd.Process.Pid, r.git.options.AllocBytes)
	p.limitCPU(int64((c.CPU + time.Second - 1) / time.Second))
	t.Attach(p)
	p.feed([]byte(c.In))
	out := &limitedReader{from: p.Out, left: c.Output}
	consumed := consume(out)
	cancelled := consumed != nil || out.over
	if !cancelled {
		// Consume may have had enough, which is no failure of git.
		var rest [1]byte
		if n, _ := out.Read(rest[:]); n > 0 {
			cancelled = true
		}
	}
	if cancelled {
		cancel()
		_, _ = io.Copy(io.Discard, p.Out)
	}
	err = p.Wait()
	took = p.cpuTime()
	switch {
	case t.Context().Err() != nil:
		return took, context.Cause(t.Context())
	case consumed != nil:
		return took, consumed
	case out.over:
		return took, fmt.Errorf("git %s: the output of more than %d bytes is %w", c.Args[0], c.Output, ErrTooLarge)
	case cancelled:
		return took, nil
	case outOfCPU(err):
		return took, fmt.Errorf("git %s is %w after %v", c.Args[0], ErrCPU, c.CPU)
	}
	return took, r.orGone(err)
}

// readEnv keeps commands that only read from writing to the repository.
var readEnv = []string{"GIT_OPTIONAL_LOCKS=0"}

// limitedReader reads at most left bytes, and notes whether there are more.
type limitedReader struct {
	from io.Reader
	left int64
	over bool
}

func (l *limitedReader) Read(p []byte) (int, error) {
	if l.over {
		return 0, io.EOF
	}
	if l.left == 0 {
		var one [1]byte
		n, err := io.ReadFull(l.from, one[:])
		l.over = n > 0
		if err != nil && n == 0 {
			return 0, io.EOF
		}
		return 0, io.EOF
	}
	n, err := l.from.Read(p[:min(int64(len(p)), l.left)])
	l.left -= int64(n)
	return n, err
}
