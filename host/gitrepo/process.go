package gitrepo

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

const (
	maxStderr = 4 << 10
	maxOutput = 64 << 20 // of commands whose output is kept

	// killGrace is how long git may clean up after SIGTERM.
	killGrace = 3 * time.Second
)

// Process is a running git. Its user reads Out to the end, then calls Wait.
type Process struct {
	In  io.WriteCloser
	Out io.ReadCloser

	ctx    context.Context
	cmd    *exec.Cmd
	verb   string
	stderr *tail
	detach func() bool

	mu     sync.Mutex // guards what follows
	ended  bool
	killer *time.Timer
}

// Failure is the end of a git process that was not good.
type Failure struct {
	Verb   string // the git command, such as receive-pack
	Stderr string // the end of what it wrote, in one line
	Err    error

	fault string // of objects, if they were refused for it; see fsckFault
}

func (f *Failure) Error() string {
	if f.Stderr == "" {
		return fmt.Sprintf("git %s: %v", f.Verb, f.Err)
	}
	return fmt.Sprintf("git %s: %v: %s", f.Verb, f.Err, f.Stderr)
}

func (f *Failure) Unwrap() error { return f.Err }

// start runs git in a folder until it ends or ctx does.
func (g *Git) start(ctx context.Context, dir string, env []string, args ...string) (*Process, error) {
	return g.startWith(ctx, dir, env, nil, args...)
}

// startWith is start with somebody who reads, as it comes, what git writes to its
// standard error.
func (g *Git) startWith(ctx context.Context, dir string, env []string, progress io.Writer, args ...string) (*Process, error) {
	verb := args[slices.IndexFunc(args, func(arg string) bool { return arg[0] != '-' && !strings.Contains(arg, "=") })]
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("git %s: %w", verb, err)
	}
	cmd := exec.Command(g.program, args...)
	cmd.Dir = dir
	cmd.Env = append(g.env[:len(g.env):len(g.env)], env...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.WaitDelay = killGrace
	p := &Process{ctx: ctx, cmd: cmd, verb: verb, stderr: new(tail)}
	cmd.Stderr = p.stderr
	if progress != nil {
		cmd.Stderr = io.MultiWriter(p.stderr, progress)
	}
	var err error
	if p.In, err = cmd.StdinPipe(); err != nil {
		return nil, fmt.Errorf("git %s: %w", verb, err)
	}
	if p.Out, err = cmd.StdoutPipe(); err != nil {
		return nil, fmt.Errorf("git %s: %w", verb, err)
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("git %s: %w", verb, err)
	}
	p.detach = context.AfterFunc(ctx, p.terminate)
	return p, nil
}

// terminate ends the process and all that it started.
func (p *Process) terminate() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ended || p.killer != nil {
		return
	}
	_ = syscall.Kill(-p.cmd.Process.Pid, syscall.SIGTERM)
	p.killer = time.AfterFunc(killGrace, func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		if !p.ended {
			_ = syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL)
		}
	})
}

// Wait returns when the process has ended. An end that was not good is a *Failure,
// which wraps the context's cause if that was what ended it.
func (p *Process) Wait() error {
	_ = p.In.Close()
	err := p.cmd.Wait()
	p.mu.Lock()
	p.ended = true
	if p.killer != nil {
		p.killer.Stop()
	}
	p.mu.Unlock()
	if cancelled := !p.detach(); cancelled && err != nil {
		err = context.Cause(p.ctx)
	}
	if err == nil {
		return nil
	}
	return &Failure{Verb: p.verb, Stderr: p.stderr.line(), Err: err, fault: p.stderr.fault()}
}

// limitCPU bounds the processor time of the process, if it still runs.
func (p *Process) limitCPU(seconds int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.ended {
		limitCPU(p.cmd.Process.Pid, seconds)
	}
}

// cpuTime is the processor time that the process took. REQUIRES: Wait has returned.
func (p *Process) cpuTime() time.Duration {
	if p.cmd.ProcessState == nil {
		return 0
	}
	return p.cmd.ProcessState.UserTime() + p.cmd.ProcessState.SystemTime()
}

// outOfCPU reports whether a process ended because of its bound.
func outOfCPU(err error) bool {
	var exit *exec.ExitError
	if !errors.As(err, &exit) {
		return false
	}
	status, ok := exit.Sys().(syscall.WaitStatus)
	return ok && status.Signaled() && status.Signal() == syscall.SIGXCPU
}

// run runs a command to its end and returns its output.
func (g *Git) run(ctx context.Context, dir string, in []byte, args ...string) ([]byte, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	p, err := g.start(ctx, dir, nil, args...)
	if err != nil {
		return nil, err
	}
	go func() {
		// A process that ends before it has read all says why itself.
		_, _ = p.In.Write(in)
		_ = p.In.Close()
	}()
	out, err := io.ReadAll(io.LimitReader(p.Out, maxOutput+1))
	if err == nil && len(out) > maxOutput {
		err = errors.New("the output is too long")
	}
	if err != nil {
		cancel(err)
	}
	return out, p.Wait()
}

// exitCode returns the exit code that an error carries, or -1.
func exitCode(err error) int {
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return exit.ExitCode()
	}
	return -1
}

// tail keeps the last bytes that are written to it.
type tail struct {
	mu  sync.Mutex // guards buf
	buf []byte
}

func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	n := len(p)
	if len(p) > maxStderr {
		p = p[len(p)-maxStderr:]
	}
	if over := len(t.buf) + len(p) - maxStderr; over > 0 {
		t.buf = append(t.buf[:0], t.buf[over:]...)
	}
	t.buf = append(t.buf, p...)
	return n, nil
}

// line returns the text as one line, without anything that a terminal would obey.
func (t *tail) line() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return printable(string(bytes.TrimSpace(t.buf)))
}

// fault is fsckFault of the text.
func (t *tail) fault() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return fsckFault(t.buf)
}

// printable makes one line of a text.
func printable(text string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r >= 0x7f && r < 0xa0 {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(text, "?"))
}
