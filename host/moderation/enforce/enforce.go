// Package enforce carries out the moderation log on what is stored: it hides, removes or shows
// events, in slices, so that the server goes on serving clients.
//
//	enforce.go  the worker, which follows the log and the requests to vanish
//	work.go     how far the work is, and who waits for it
//	carryout.go what a row or a request to vanish changes in the store
//	find.go     which events a row is about
//	replies.go  which replies a takedown of a repository reaches
//	vanish.go   which events a request to vanish is about
//	count.go    what a row would concern, for a dry run
//
// Ingest obeys a row at once, so nothing new comes while the worker goes through the old. The
// order is: events in purgatory, announcements, all others. The worker repeats what a crash has
// cut off: the number of the last row that it carried out is in the store. It may carry out a
// row twice, and several nodes may at the same time.
package enforce

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"talon/host"
	"talon/host/moderation"
	"talon/host/store/semantics"
)

const (
	// slice is how many events are read in one step.
	slice = 500

	// commit is how many events one commit takes down. Others wait for it: with 500, their p99 was
	// 326 ms on a busy machine with two cores.
	commit = 100
)

// about is the name under which the store keeps the numbers of the last row and of the last request
// to vanish that were carried out.
const about = "moderation"

// Store is the database.
type Store interface {
	Select(ctx context.Context, filters []host.Filter, now int64) (host.Selection, error)
	Fetch(ctx context.Context, rows []int64, yield func(row int64, json []byte) error) error
	HeldBy(ctx context.Context, f host.Filter) ([][]byte, error)
	HiddenBy(ctx context.Context, f host.Filter) ([][]byte, error)
	HiddenAfter(ctx context.Context, number int64, limit int) ([]semantics.Hidden, error)
	HiddenOf(ctx context.Context, author *host.PubKey, kind host.Kind, number int64, limit int) ([]semantics.Hidden, error)
	VanishedAfter(ctx context.Context, number int64, limit int) ([]host.VanishRequest, error)
	Relay(ctx context.Context, about, url string) ([]byte, error)
	SaveRelays(ctx context.Context, about string, relays map[string][]byte) error
}

// Pipeline commits takedowns.
type Pipeline interface {
	Moderate(ctx context.Context, list []moderation.Row) ([]moderation.Row, error)
	TakeDown(ctx context.Context, t host.Takedown) (host.TakedownOutcome, error)

	// Vanished returns a channel that is closed when somebody asks here to vanish.
	Vanished() <-chan struct{}
}

// Config configures an enforcer. All fields are required unless it says otherwise.
type Config struct {
	Log      *moderation.Log
	Store    Store
	Pipeline Pipeline
	Logger   *slog.Logger
	Now      func() time.Time

	// Delay is how long a row waits here if another node has added it: see NodeDelay. It is 0 if
	// there are no other nodes.
	Delay time.Duration

	// Purged is called for each repository whose announcement was removed for good, and waits
	// until its folder is gone; nil if there are no folders here.
	Purged func(ctx context.Context, repo host.Address) error

	// Lifted is called after rows have lifted others, here or at another node, or have ended. What
	// was refused before may be accepted now. It may be nil.
	Lifted func()
}

// Enforcer carries out the log.
type Enforcer struct {
	cfg Config

	saved time.Time // when the store last learned how far the work is; belongs to Run
	lifts int       // of the log, when Lifted was called last; belongs to Run

	mu       sync.Mutex // guards the fields below
	done     int64      // rows up to this number are carried out
	own      int64      // the last row that was added here
	adding   int        // calls of Moderate whose rows may be in the log before own names them
	total    Progress   // since the start
	problem  error      // why the last attempt failed
	advanced chan struct{}
}

// New returns an enforcer. It does nothing until Run.
func New(cfg Config) *Enforcer { return &Enforcer{cfg: cfg, advanced: make(chan struct{})} }

// retryAfter is when the work goes on after it failed.
const retryAfter = 2 * time.Second

// Run carries out the log and the requests to vanish until ctx ends: what is left of them, and each
// that comes.
func (e *Enforcer) Run(ctx context.Context) error {
	if err := e.load(ctx); err != nil {
		return unless(ctx, err)
	}
	e.lifts = e.liftsDone()
	for lifts := true; ; { // a row may have ended while nothing ran
		changed, vanished := e.cfg.Log.Changed(), e.cfg.Pipeline.Vanished()
		err := errors.Join(e.carryOutNew(ctx, lifts || e.ended()), e.carryOutVanished(ctx))
		if err == nil {
			e.noteLifts()
		}
		e.setProblem(err)
		wait := e.untilNextEnd()
		if lifts = false; err != nil && ctx.Err() == nil {
			e.cfg.Logger.Error("carry out the moderation log", "err", err)
			lifts, wait = true, retryAfter
		}
		timer := time.NewTimer(wait)
		select {
		case <-changed:
		case <-vanished:
		case <-timer.C:
		case <-ctx.Done():
		}
		timer.Stop()
		if ctx.Err() != nil {
			return nil
		}
	}
}

// liftsDone counts the lifts of the log that are carried out.
func (e *Enforcer) liftsDone() int { return e.cfg.Log.Lifts(e.carriedOut(), e.cfg.Now().Unix()) }

// noteLifts calls Lifted if there are lifts that it does not know.
func (e *Enforcer) noteLifts() {
	if now := e.liftsDone(); now != e.lifts {
		e.lifts = now
		if e.cfg.Lifted != nil {
			e.cfg.Lifted()
		}
	}
}

// unless returns an error, nil if it is because ctx has ended.
func unless(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return nil
	}
	return err
}

func (e *Enforcer) load(ctx context.Context) error {
	done, err := e.loadNumber(ctx, "done")
	if err != nil {
		return err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if done > e.done { // another node may have done what somebody waits for here
		e.done = done
		e.signal()
	}
	return nil
}

// carryOutNew carries out the rows after the last one. It shows what no row bars any more, if a
// row lifts another, or if lifts is set.
func (e *Enforcer) carryOutNew(ctx context.Context, lifts bool) error {
	list, err := e.left(ctx)
	if err != nil {
		return err
	}
	for i := range list {
		r := &list[i]
		switch r.Action {
		case moderation.Ban, moderation.Hide, moderation.Purge:
			if err := e.carryOut(ctx, r); err != nil {
				return fmt.Errorf("row %d (%s %s): %w", r.Number, r.Action, r.Target, err)
			}
		case moderation.Unban, moderation.Unhide:
			lifts = true
		}
		if !lifts { // all lifts of an import are carried out together
			if err := e.advance(ctx, r.Number, false); err != nil {
				return err
			}
		}
	}
	if lifts {
		if err := e.show(ctx); err != nil {
			return err
		}
	}
	if slices.ContainsFunc(list, func(r moderation.Row) bool { return r.Action == moderation.Unban }) {
		// The ids do not say which row has removed them. What is still barred is refused when it
		// comes.
		if _, err := e.cfg.Pipeline.TakeDown(ctx, host.Takedown{Forget: true}); err != nil {
			return err
		}
	}
	if len(list) == 0 {
		return nil
	}
	return e.advance(ctx, list[len(list)-1].Number, true)
}

// NodeDelay is how long a node leaves a row to the one that has added it.
const NodeDelay = 3 * time.Second

// left returns the rows that nobody has carried out yet.
func (e *Enforcer) left(ctx context.Context) ([]moderation.Row, error) {
	done := e.carriedOut()
	list := e.cfg.Log.Rows(done)
	if e.cfg.Delay == 0 || len(list) == 0 || e.isOwn(list[len(list)-1].Number) {
		return list, nil
	}
	select {
	case <-time.After(e.cfg.Delay):
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	if err := e.load(ctx); err != nil {
		return nil, err
	}
	return e.cfg.Log.Rows(e.carriedOut()), nil
}

func (e *Enforcer) carriedOut() int64 {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.done
}

// isOwn reports whether a row was added here, or may have been.
func (e *Enforcer) isOwn(number int64) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.adding > 0 || number <= e.own
}

// ended reports whether a row has ended by itself lately, so that events may be shown again.
func (e *Enforcer) ended() bool {
	now := e.cfg.Now().Unix()
	for _, r := range e.cfg.Log.Rows(0) {
		if r.Until > 0 && r.Until <= now && r.Until > now-2*int64(idle/time.Second) {
			return true
		}
	}
	return false
}

// idle is how long the worker sleeps at most.
const idle = time.Minute

// untilNextEnd returns how long it takes until a row ends by itself, idle at most.
func (e *Enforcer) untilNextEnd() time.Duration {
	now := e.cfg.Now().Unix()
	at := e.cfg.Log.NextEnd(now)
	if at == 0 || time.Duration(at-now)*time.Second > idle {
		return idle
	}
	return time.Duration(at-now)*time.Second + 100*time.Millisecond
}
