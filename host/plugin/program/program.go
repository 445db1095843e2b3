package program

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"talon/host"
)

// maxQueue is how many questions may wait for a process.
const maxQueue = 256

// Options says which program runs, and how.
type Options struct {
	Name      string        // of the plugin, for the log
	Path      string        // of the program, absolute
	Timeout   time.Duration // of one decision; waiting for a process may take as long again
	Processes int           // at the same time
	Log       *slog.Logger
	Clock     func() time.Time
}

// Program answers by processes that it starts when it needs them. It may be used by
// many goroutines concurrently.
type Program struct {
	o      Options
	turns  chan struct{} // holds a value for each question that a process works on
	queued atomic.Int64  // questions that wait for one
	said   *rate         // lines of the log that are the program's
	told   *rate         // and those about its failures
	ending sync.WaitGroup

	mu      sync.Mutex // guards the fields below
	idle    []*process // the last used at the end
	running int        // processes that are not being ended
}

// New returns a program of which nothing runs yet. An error is one sentence that
// says why it cannot.
func New(o Options) (*Program, error) {
	if _, err := look(o.Path); err != nil {
		return nil, err
	}
	return &Program{o: o, turns: make(chan struct{}, o.Processes), said: &rate{clock: o.Clock}, told: &rate{clock: o.Clock}}, nil
}

// Admit asks about an event; now is in unix seconds. A *[Failure] says that the
// program failed, another error that ctx was done: nothing was decided.
func (p *Program) Admit(ctx context.Context, it *host.Item, now int64) (Answer, error) {
	if err := p.wait(ctx); err != nil {
		return Answer{}, err
	}
	defer func() { <-p.turns }()
	// What others have taken of the time must not count against this event.
	bounded, cancel := context.WithTimeout(ctx, p.o.Timeout)
	defer cancel()
	x, err := p.process()
	if err != nil {
		return Answer{}, p.failed(&Failure{Cause: CauseStart, what: "could not be started", err: err})
	}
	answer, err := x.ask(bounded, request(it, now), it.Event.ID)
	switch {
	case err == nil:
		p.keep(x)
		return answer, nil
	case ctx.Err() != nil:
		p.discard(x, 0)
		return Answer{}, ctx.Err()
	case bounded.Err() != nil:
		err = &Failure{Cause: CauseTime, what: fmt.Sprintf("did not answer within %v", p.o.Timeout)}
	}
	p.discard(x, 0)
	return Answer{}, p.failed(err)
}

// wait waits until a process may be asked.
func (p *Program) wait(ctx context.Context) error {
	defer p.queued.Add(-1)
	if p.queued.Add(1) > maxQueue {
		return &Failure{Cause: CauseBusy, what: fmt.Sprintf("has no process free for %d others either", maxQueue)}
	}
	waiting, cancel := context.WithTimeout(ctx, p.o.Timeout)
	defer cancel()
	select {
	case p.turns <- struct{}{}:
		return nil
	case <-waiting.Done():
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return &Failure{Cause: CauseBusy, what: fmt.Sprintf("had no process free within %v", p.o.Timeout)}
	}
}

// failed logs a failure and returns the error as it was given.
func (p *Program) failed(err error) error {
	if ok, missed := p.told.take(); ok {
		p.o.Log.Error("plugin failed", "module", p.o.Name, "cause", string(AsFailure(err).Cause), "err", err, "missed", missed)
	}
	return err
}

// process returns a process that may be asked: one that waits, or else a new one.
func (p *Program) process() (*process, error) {
	now, err := look(p.o.Path)
	for {
		x := p.pop()
		if x == nil {
			break
		}
		// While the program is not there, what runs goes on.
		if !x.over() && (err != nil || x.made == now) {
			return x, nil
		}
		p.discard(x, endTime)
	}
	if err != nil {
		return nil, err
	}
	x, err := start(p.o.Path, now, func(line []byte, more bool) { p.log(line, more) })
	if err != nil {
		return nil, err
	}
	p.mu.Lock()
	p.running++
	p.mu.Unlock()
	return x, nil
}

func (p *Program) pop() *process {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := len(p.idle)
	if n == 0 {
		return nil
	}
	x := p.idle[n-1]
	p.idle = p.idle[:n-1]
	return x
}

// keep lets a process that has answered wait for the next question.
func (p *Program) keep(x *process) {
	p.mu.Lock()
	p.idle = append(p.idle, x)
	p.mu.Unlock()
}

// discard ends a process, which has so long to do it itself.
func (p *Program) discard(x *process, grace time.Duration) {
	p.mu.Lock()
	p.running--
	p.mu.Unlock()
	p.ending.Go(func() { x.end(grace) })
}

// Running returns the number of processes.
func (p *Program) Running() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.running
}

// Close ends all processes. No method may be called afterwards. An error says that
// the system did not end one in time.
func (p *Program) Close() error {
	for x := p.pop(); x != nil; x = p.pop() {
		p.discard(x, endTime)
	}
	ended := make(chan struct{})
	go func() {
		p.ending.Wait()
		close(ended)
	}()
	select {
	case <-ended:
		return nil
	case <-time.After(endTime + killTime):
		return fmt.Errorf("a process of the program %s does not end", p.o.Path)
	}
}

// log writes a line of the program's standard error; more says that the line went
// on.
func (p *Program) log(line []byte, more bool) {
	ok, missed := p.said.take()
	if !ok {
		return
	}
	attrs := []any{"module", p.o.Name, "text", clean(line)}
	if more {
		attrs = append(attrs, "cut", true)
	}
	if missed > 0 {
		attrs = append(attrs, "missed", missed)
	}
	p.o.Log.Info("plugin says", attrs...)
}

// Cause says why a program failed: the closed set of labels for metrics.
type Cause string

const (
	CauseStart   Cause = "start"   // it could not be started
	CauseTime    Cause = "time"    // it did not answer in time
	CauseExit    Cause = "exit"    // it ended instead
	CauseOutput  Cause = "output"  // an answer longer than the cap
	CauseGarbage Cause = "garbage" // an answer that is none, or to something else
	CauseBusy    Cause = "busy"    // no process was free in time
)

// Failure reports that a program failed, and not the host.
type Failure struct {
	Cause Cause

	what string // completes "the program …"
	err  error
}

func (f *Failure) Error() string {
	if f.err == nil {
		return "the program " + f.what
	}
	return fmt.Sprintf("the program %s: %v", f.what, f.err)
}

func (f *Failure) Unwrap() error { return f.err }

// AsFailure returns the failure in err, nil if there is none.
func AsFailure(err error) *Failure {
	var f *Failure
	errors.As(err, &f)
	return f
}
