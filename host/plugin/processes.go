package plugin

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"talon/host"
)

// A program of the operator's choice that decides about events is a plugin of strfry: it
// reads a line of JSON for each event, and answers with one.
//
//  1. A decision ends within its time, whatever the program does, and the program
//     gets no second line before it has answered the first.
//  2. A process that did not answer as it should is killed with all of its group,
//     and none of what it says counts any more. So an answer is for the event that
//     was asked about.
//  3. The output of a program is bounded: the length of an answer, and the logged
//     lines of its standard error.
//  4. After [processPool.close] no process of a group that was started is left.
//
// The program runs with all rights of the user that runs Talon. Nothing here makes it less
// dangerous. It does not run in a shell. Of the environment, it sees only PATH, LANG and
// TZ.

// maxQueue is how many questions may wait for a process.
const maxQueue = 256

// programOptions says which program runs, and how.
type programOptions struct {
	Name      string        // of the plugin, for the log
	Path      string        // of the program, absolute
	Timeout   time.Duration // of one decision; waiting for a process may take as long again
	Processes int           // at the same time
	Log       *slog.Logger
	Clock     func() time.Time
}

// processPool answers by processes that it starts when it needs them. It may be used by
// many goroutines concurrently.
type processPool struct {
	o           programOptions
	slots       chan struct{} // holds a value for each question that a process works on
	queued      atomic.Int64  // questions that wait for one
	outputRate  *lineRate     // lines of the log that are the program's
	failureRate *lineRate     // and those about its failures
	stopping    sync.WaitGroup

	mu    sync.Mutex // guards the fields below
	idle  []*process // the last used at the end
	alive int        // processes that are not being ended
}

// newProcessPool returns a pool for a program of which nothing runs yet. An error is one sentence that
// says why it cannot.
func newProcessPool(o programOptions) (*processPool, error) {
	if _, err := lookForProgram(o.Path); err != nil {
		return nil, err
	}
	return &processPool{o: o, slots: make(chan struct{}, o.Processes), outputRate: &lineRate{clock: o.Clock}, failureRate: &lineRate{clock: o.Clock}}, nil
}

// admit asks about an event; now is in unix seconds. A *[programFailure] says that the
// program failed, another error that ctx was done: nothing was decided.
func (p *processPool) admit(ctx context.Context, it *host.Item, now int64) (programAnswer, error) {
	if err := p.wait(ctx); err != nil {
		return programAnswer{}, err
	}
	defer func() { <-p.slots }()
	// The time that other events took must not count against this event.
	bounded, cancel := context.WithTimeout(ctx, p.o.Timeout)
	defer cancel()
	x, err := p.process()
	if err != nil {
		return programAnswer{}, p.failed(&programFailure{cause: programCauseStart, what: "could not be started", err: err})
	}
	answer, err := x.ask(bounded, requestLine(it, now), it.Event.ID)
	switch {
	case err == nil:
		p.keep(x)
		return answer, nil
	case ctx.Err() != nil:
		p.discard(x, 0)
		return programAnswer{}, ctx.Err()
	case bounded.Err() != nil:
		err = &programFailure{cause: programCauseTime, what: fmt.Sprintf("did not answer within %v", p.o.Timeout)}
	}
	p.discard(x, 0)
	return programAnswer{}, p.failed(err)
}

// wait waits until a process may be asked.
func (p *processPool) wait(ctx context.Context) error {
	defer p.queued.Add(-1)
	if p.queued.Add(1) > maxQueue {
		return &programFailure{cause: programCauseBusy, what: fmt.Sprintf("has no process free for %d others either", maxQueue)}
	}
	waiting, cancel := context.WithTimeout(ctx, p.o.Timeout)
	defer cancel()
	select {
	case p.slots <- struct{}{}:
		return nil
	case <-waiting.Done():
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return &programFailure{cause: programCauseBusy, what: fmt.Sprintf("had no process free within %v", p.o.Timeout)}
	}
}

// failed logs a failure and returns the error as it was given.
func (p *processPool) failed(err error) error {
	if ok, missed := p.failureRate.allow(); ok {
		p.o.Log.Error("plugin failed", "module", p.o.Name, "cause", string(asProgramFailure(err).cause), "err", err, "missed", missed)
	}
	return err
}

// process returns a process that may be asked: one that waits, or else a new one.
func (p *processPool) process() (*process, error) {
	now, err := lookForProgram(p.o.Path)
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
	x, err := startProcess(p.o.Path, now, func(line []byte, more bool) { p.log(line, more) })
	if err != nil {
		return nil, err
	}
	p.mu.Lock()
	p.alive++
	p.mu.Unlock()
	return x, nil
}

func (p *processPool) pop() *process {
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
func (p *processPool) keep(x *process) {
	p.mu.Lock()
	p.idle = append(p.idle, x)
	p.mu.Unlock()
}

// discard ends a process, which has so long to do it itself.
func (p *processPool) discard(x *process, grace time.Duration) {
	p.mu.Lock()
	p.alive--
	p.mu.Unlock()
	p.stopping.Go(func() { x.stop(grace) })
}

// running returns the number of processes.
func (p *processPool) running() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.alive
}

// close ends all processes. No method may be called afterwards. An error says that
// the system did not end one in time.
func (p *processPool) close() error {
	for x := p.pop(); x != nil; x = p.pop() {
		p.discard(x, endTime)
	}
	ended := make(chan struct{})
	go func() {
		p.stopping.Wait()
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
func (p *processPool) log(line []byte, more bool) {
	ok, missed := p.outputRate.allow()
	if !ok {
		return
	}
	attrs := []any{"module", p.o.Name, "text", cleanLine(line)}
	if more {
		attrs = append(attrs, "cut", true)
	}
	if missed > 0 {
		attrs = append(attrs, "missed", missed)
	}
	p.o.Log.Info("plugin says", attrs...)
}
