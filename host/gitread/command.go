package gitread

import (
	"context"
	"errors"
	"io"
	"time"

	"talon/host/gitrepo"
)

// pageCPU bounds the processor time of one git for a page.
const pageCPU = 5 * time.Second

// task waits for a slot of git. A network that is over its share of processor time gets none while
// others wait or work.
func (r *Repository) task(ctx context.Context) (*gitrepo.Task, error) {
	if r.reader.cpu.Wait(r.by.Addr) > 0 {
		if load := r.reader.scheduler.Load(gitrepo.ClassPage); load.Working+load.Waiting > 0 {
			return nil, ErrBusy
		}
	}
	t, err := r.reader.scheduler.Reserve(ctx, gitrepo.ClassPage, r.by)
	if err != nil {
		return nil, err
	}
	if err := t.Start(); err != nil {
		t.End()
		return nil, err
	}
	return t, nil
}

// run runs a command in a slot and calls consume with its output.
func (r *Repository) run(c gitrepo.Command, consume func(out io.Reader) error) error {
	t, err := r.task(r.ctx)
	if err != nil {
		return err
	}
	defer t.End()
	return r.runIn(t, c, consume)
}

// runIn is run in the slot of a task.
func (r *Repository) runIn(t *gitrepo.Task, c gitrepo.Command, consume func(out io.Reader) error) error {
	took, err := r.repo.Read(t, c, consume)
	r.reader.cpu.Charge(r.by.Addr, float64(took.Milliseconds()))
	return err
}

// Stream is an output of git that a client gets as it comes. Its user ends it.
type Stream struct {
	repo         *Repository
	task         *gitrepo.Task
	command      gitrepo.Command
	from, length int64 // the part that the client gets
}

// maxStream bounds what one stream sends.
const maxStream = 2 << 30

// BlobStream returns the content of a blob. REQUIRES: an entry of a tree of the repository names it.
func (r *Repository) BlobStream(id string) (*Stream, error) {
	if err := r.check(id); err != nil {
		return nil, err
	}
	t, err := r.task(r.ctx)
	if err != nil {
		return nil, err
	}
	return r.stream(t, gitrepo.Command{Args: []string{"cat-file", "blob", id}, CPU: time.Minute, Output: maxStream}), nil
}

// stream returns the output of a command in the slot of a task.
func (r *Repository) stream(t *gitrepo.Task, c gitrepo.Command) *Stream {
	return &Stream{repo: r, task: t, command: c, length: c.Output}
}

// Cut reduces the output to a part of it. Git still makes what is before that.
func (s *Stream) Cut(from, length int64) { s.from, s.length = from, length }

// WriteTo writes the output. While the client does not read, others may have the slot.
func (s *Stream) WriteTo(w io.Writer) (n int64, err error) {
	err = s.repo.runIn(s.task, s.command, func(out io.Reader) error {
		if _, err = io.CopyN(io.Discard, out, s.from); err != nil {
			return err
		}
		n, err = io.Copy(awaiting{s.task, w}, io.LimitReader(out, s.length))
		return err
	})
	return n, err
}

// End gives the slot back.
func (s *Stream) End() { s.task.End() }

// awaiting writes to the client of a task.
type awaiting struct {
	task *gitrepo.Task
	to   io.Writer
}

func (a awaiting) Write(p []byte) (n int, err error) {
	ended := a.task.Await(func() { n, err = a.to.Write(p) })
	if err == nil {
		err = ended
	}
	return n, err
}

// isExit reports whether git ended with a code.
func isExit(err error, code int) bool { return gitrepo.ExitCode(err) == code }

// isTooMuch reports whether git was ended because of its bounds.
func isTooMuch(err error) bool { return errors.Is(err, gitrepo.ErrCPU) || errors.Is(err, ErrTooLarge) }
