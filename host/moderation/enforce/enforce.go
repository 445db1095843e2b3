// Package enforce carries out the moderation log on what is stored: it hides, removes or shows
// events, in slices, so that the server goes on serving clients.
//
//	enforce.go  the worker, which follows the log
//	find.go     which events a row is about
//	count.go    what a row would concern, for a dry run
//
// Ingest obeys a row at once, so nothing new comes while the worker goes through the old. The
// order is: events in purgatory, announcements, all others. The worker repeats what a crash has
// cut off: the number of the last row that it carried out is in the store. It may carry out a
// row twice, and several nodes may at the same time.
package enforce

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"talon/host"
	"talon/host/moderation"
	"talon/host/store/semantics"
	"talon/host/wire"
)

const (
	// slice is how many events are read in one step.
	slice = 500

	// commit is how many events one commit takes down. Others wait for it: with 500, their p99 was
	// 326 ms on a busy machine with two cores.
	commit = 100
)

// about is the name under which the store keeps the number of the last row that was carried out.
const about = "moderation"

// Store is the database.
type Store interface {
	Select(ctx context.Context, filters []host.Filter, now int64) (host.Selection, error)
	Fetch(ctx context.Context, rows []int64, yield func(row int64, json []byte) error) error
	HeldBy(ctx context.Context, f host.Filter) ([][]byte, error)
	HiddenAfter(ctx context.Context, number int64, limit int) ([]semantics.Hidden, error)
	Relay(ctx context.Context, about, url string) ([]byte, error)
	SaveRelays(ctx context.Context, about string, relays map[string][]byte) error
}

// Pipeline commits takedowns.
type Pipeline interface {
	Moderate(ctx context.Context, list []moderation.Row) ([]moderation.Row, error)
	TakeDown(ctx context.Context, t host.Takedown) (host.TakedownOutcome, error)
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
}

// Enforcer carries out the log.
type Enforcer struct {
	cfg Config

	saved time.Time // when the store last learned how far the work is; belongs to Run

	mu       sync.Mutex // guards the fields below
	done     int64      // rows up to this number are carried out
	own      int64      // the last row that was added here
	adding   int        // calls of Moderate whose rows may be in the log before own names them
	total    Progress   // since the start
	problem  error      // why the last attempt failed
	advanced chan struct{}
}

// Progress says how much was done.
type Progress struct {
	Events       int64 `json:"events"` // that were hidden, removed or shown
	Bytes        int64 `json:"bytes"`  // of their JSON
	Held         int64 `json:"held"`   // of these, events that were in purgatory
	Repositories int64 `json:"repositories"`
}

// New returns an enforcer. It does nothing until Run.
func New(cfg Config) *Enforcer { return &Enforcer{cfg: cfg, advanced: make(chan struct{})} }

// retryAfter is when the work goes on after it failed.
const retryAfter = 2 * time.Second

// Run carries out the log until ctx ends: what is left of it, and each row that comes.
func (e *Enforcer) Run(ctx context.Context) error {
	if err := e.load(ctx); err != nil {
		return unless(ctx, err)
	}
	for lifts := true; ; { // a row may have ended while nothing ran
		changed := e.cfg.Log.Changed()
		err := e.carryOutNew(ctx, lifts || e.ended())
		e.setProblem(err)
		wait := e.untilNextEnd()
		if lifts = false; err != nil && ctx.Err() == nil {
			e.cfg.Logger.Error("carry out the moderation log", "err", err)
			lifts, wait = true, retryAfter
		}
		timer := time.NewTimer(wait)
		select {
		case <-changed:
		case <-timer.C:
		case <-ctx.Done():
		}
		timer.Stop()
		if ctx.Err() != nil {
			return nil
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
	text, err := e.cfg.Store.Relay(ctx, about, "done")
	if err != nil {
		return fmt.Errorf("read how far the moderation log is carried out: %w", err)
	}
	var done int64
	if text != nil && json.Unmarshal(text, &done) != nil {
		done = 0 // all of it is carried out once more
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

// left returns the rows that are to be carried out.
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

// advance notes that rows up to a number are carried out. The store learns it now and then, and
// at the last of several rows.
func (e *Enforcer) advance(ctx context.Context, number int64, last bool) error {
	if now := e.cfg.Now(); last || now.Sub(e.saved) > time.Second {
		e.saved = now
		text, err := json.Marshal(number)
		if err == nil {
			err = e.cfg.Store.SaveRelays(ctx, about, map[string][]byte{"done": text})
		}
		if err != nil {
			return fmt.Errorf("save how far the moderation log is carried out: %w", err)
		}
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.done = max(e.done, number)
	e.signal()
	return nil
}

// signal wakes those who wait. REQUIRES: mu.
func (e *Enforcer) signal() {
	close(e.advanced)
	e.advanced = make(chan struct{})
}

func (e *Enforcer) setProblem(err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.problem = err; err != nil {
		e.signal()
	}
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

// Moderate adds rows to the log, waits until they are carried out, and reports the progress.
func (e *Enforcer) Moderate(ctx context.Context, list []moderation.Row, report func(Progress)) (added []moderation.Row, sum Progress, err error) {
	e.mu.Lock()
	before := e.total
	e.adding++
	e.mu.Unlock()
	added, err = e.cfg.Pipeline.Moderate(ctx, list)
	var number int64
	if len(added) > 0 {
		number = added[len(added)-1].Number
	}
	e.mu.Lock()
	e.adding--
	e.own = max(e.own, number)
	e.mu.Unlock()
	if err != nil || len(added) == 0 {
		return added, sum, err
	}
	for {
		e.mu.Lock()
		done, problem, advanced := e.done >= number, e.problem, e.advanced
		sum = e.total.minus(before)
		e.mu.Unlock()
		if done {
			return added, sum, nil
		}
		if problem != nil {
			return added, sum, fmt.Errorf("the row is in force, but not all that is stored is taken down yet; the server tries again: %w", problem)
		}
		report(sum)
		select {
		case <-advanced:
		case <-ctx.Done():
			return added, sum, context.Cause(ctx)
		}
	}
}

func (p Progress) minus(q Progress) Progress {
	return Progress{Events: p.Events - q.Events, Bytes: p.Bytes - q.Bytes, Held: p.Held - q.Held, Repositories: p.Repositories - q.Repositories}
}

// note adds to the progress.
func (e *Enforcer) note(p Progress) {
	e.mu.Lock()
	defer e.mu.Unlock()
	t := &e.total
	t.Events, t.Bytes, t.Held, t.Repositories = t.Events+p.Events, t.Bytes+p.Bytes, t.Held+p.Held, t.Repositories+p.Repositories
	e.signal()
}

// carryOut takes down what is stored and held of a row.
func (e *Enforcer) carryOut(ctx context.Context, r *moderation.Row) error {
	if r.Until > 0 && r.Until <= e.cfg.Now().Unix() {
		return nil
	}
	down := func(ids []host.ID) host.Takedown { return host.Takedown{Hide: ids} }
	if r.Action == moderation.Purge {
		down = func(ids []host.ID) host.Takedown { return host.Takedown{Purge: ids} }
	}
	var purged []host.Address
	one := func(list []*host.Event) error {
		ids := make([]host.ID, len(list))
		var p Progress
		for i, event := range list {
			ids[i] = event.ID
			p.Events++
			p.Bytes += int64(len(event.JSON))
			if event.Kind == host.KindAnnouncement {
				p.Repositories++
				if a, ok := event.Address(); ok && r.Action == moderation.Purge {
					purged = append(purged, a)
				}
			}
		}
		out, err := e.cfg.Pipeline.TakeDown(ctx, down(ids))
		if err != nil {
			return err
		}
		p.Held = int64(len(out.Held))
		e.note(p)
		return nil
	}
	take := func(list []*host.Event) error {
		for part := range slices.Chunk(list, commit) {
			if err := one(part); err != nil {
				return err
			}
		}
		return nil
	}
	if err := e.eachBarred(ctx, r, take, false); err != nil {
		return err
	}
	if r.Action == moderation.Purge {
		if err := e.purgeHidden(ctx, r, take); err != nil {
			return err
		}
	}
	var failed error
	for _, a := range purged {
		if e.cfg.Purged != nil {
			failed = errors.Join(failed, e.cfg.Purged(ctx, a))
		}
	}
	return failed
}

// show stores the hidden events again that no row bars any more.
func (e *Enforcer) show(ctx context.Context) error {
	return e.eachHidden(ctx, func(list []*host.Event) error {
		now := e.cfg.Now().Unix()
		var ids []host.ID
		var p Progress
		for _, event := range list {
			if e.cfg.Log.Event(event, now) == nil {
				ids = append(ids, event.ID)
				p.Events++
				p.Bytes += int64(len(event.JSON))
				if event.Kind == host.KindAnnouncement {
					p.Repositories++
				}
			}
		}
		if ids == nil {
			return nil
		}
		for part := range slices.Chunk(ids, commit) {
			if _, err := e.cfg.Pipeline.TakeDown(ctx, host.Takedown{Show: part}); err != nil {
				return err
			}
		}
		e.note(p)
		return nil
	})
}

// eachHidden calls yield with all hidden events, a slice at a time.
func (e *Enforcer) eachHidden(ctx context.Context, yield func([]*host.Event) error) error {
	for last := int64(0); ; {
		found, err := e.cfg.Store.HiddenAfter(ctx, last, slice)
		if err != nil || len(found) == 0 {
			return err
		}
		last = found[len(found)-1].Seq
		var list []*host.Event
		for _, h := range found {
			event, err := wire.ParseEvent(h.JSON)
			if err != nil {
				e.cfg.Logger.Error("read a hidden event", "id", h.ID, "err", err)
				continue
			}
			list = append(list, event)
		}
		if err := yield(list); err != nil {
			return err
		}
	}
}

// purgeHidden removes the hidden events that a row removes.
func (e *Enforcer) purgeHidden(ctx context.Context, r *moderation.Row, take func([]*host.Event) error) error {
	one := moderation.Of(*r)
	return e.eachHidden(ctx, func(list []*host.Event) error {
		now := e.cfg.Now().Unix()
		var gone []*host.Event
		for _, event := range list {
			if one.Event(event, now) != nil {
				gone = append(gone, event)
			}
		}
		if gone == nil {
			return nil
		}
		return take(gone)
	})
}
