package enforce

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"talon/host/moderation"
)

// Progress says how much was done.
type Progress struct {
	Events       int64 `json:"events"` // that were hidden, removed or shown
	Bytes        int64 `json:"bytes"`  // of their JSON
	Held         int64 `json:"held"`   // of these, events that were in purgatory
	Repositories int64 `json:"repositories"`
}

// advance notes that rows up to a number are carried out. The store learns it now and then, and
// at the last of several rows.
func (e *Enforcer) advance(ctx context.Context, number int64, last bool) error {
	if now := e.cfg.Now(); last || now.Sub(e.saved) > time.Second {
		e.saved = now
		if err := e.saveNumber(ctx, "done", number); err != nil {
			return err
		}
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.done = max(e.done, number)
	e.signal()
	return nil
}

// loadNumber reads how far the work is, as saveNumber has saved it.
func (e *Enforcer) loadNumber(ctx context.Context, name string) (number int64, err error) {
	text, err := e.cfg.Store.Relay(ctx, about, name)
	if err != nil {
		return 0, fmt.Errorf("read how far takedowns are carried out: %w", err)
	}
	if text != nil && json.Unmarshal(text, &number) != nil {
		return 0, nil // all of it is carried out once more
	}
	return number, nil
}

func (e *Enforcer) saveNumber(ctx context.Context, name string, number int64) error {
	text, err := json.Marshal(number)
	if err == nil {
		err = e.cfg.Store.SaveRelays(ctx, about, map[string][]byte{name: text})
	}
	if err != nil {
		return fmt.Errorf("save how far takedowns are carried out: %w", err)
	}
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
