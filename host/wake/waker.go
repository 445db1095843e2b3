package wake

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"talon/host"
	"talon/host/contain"
	"talon/host/wire"
)

const (
	// maxPause bounds how long an event that is woken often is left alone, in seconds.
	maxPause = 600

	// lookEvery is how often a change of the settings is looked for, and what is due.
	lookEvery = time.Second
)

// Store reads stored and held events.
type Store interface {
	Query(ctx context.Context, f host.Filter) ([][]byte, error)
	HeldBy(ctx context.Context, f host.Filter) ([][]byte, error)
	HeldEvent(ctx context.Context, id host.ID) (e host.HeldEvent, ok bool, err error)
	EachHeld(ctx context.Context, yield func(host.HeldEvent) error) error
}

// Config configures a waker. All fields are required.
type Config struct {
	Store    Store
	Submit   func(ctx context.Context, it *host.Item) error // to the pipeline
	Settings func() any                                     // another value after a change of the policies or their settings
	Panics   *contain.Guard
	Log      *slog.Logger
	Now      func() time.Time
}

// Waker knows which held events wait for which others. It is a follower of commits.
type Waker struct {
	cfg  Config
	ring chan struct{} // holds a value if there is something to do

	mu     sync.Mutex // guards the fields below
	index  *index
	fresh  map[host.ID]struct{} // events that a module holds since a short time, to be read
	missed bool                 // commits are not known: all is to be read again

	waiting prometheus.GaugeFunc
	woken   *prometheus.CounterVec
}

// New returns a waker. Run does its work. The waker misses no commit from now on.
func New(cfg Config) *Waker {
	w := &Waker{cfg: cfg, ring: make(chan struct{}, 1), index: newIndex(), fresh: make(map[host.ID]struct{}), missed: true}
	w.waiting = prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "talon_waiting_events", Help: "Held events that wait until another event comes.",
	}, func() float64 {
		w.mu.Lock()
		defer w.mu.Unlock()
		return float64(len(w.index.rows))
	})
	w.woken = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "talon_woken_total", Help: "Held events about which the policies decided again, because another event came or the settings changed, by outcome.",
	}, []string{"outcome"})
	return w
}

// Collectors returns the metrics.
func (w *Waker) Collectors() []prometheus.Collector {
	return []prometheus.Collector{w.waiting, w.woken}
}

// Publish wakes what waits for events that are stored now.
func (w *Waker) Publish(events []host.Published) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, p := range events {
		if p.Seq != 0 {
			w.wakeLocked(p.Event)
		}
	}
}

// Follow notes which events wait since a commit, and which do not any more. It wakes what waits for
// events that are held now.
func (w *Waker) Follow(_ []*host.Event, held []host.HeldChange) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for i := range held {
		c := &held[i]
		switch {
		case c.Status == host.StatusHeld:
			w.wakeLocked(c.Event)
			if c.Awaits {
				w.fresh[c.Event.ID] = struct{}{}
				w.notify()
				continue
			}
		case c.Status == host.StatusDormant, c.Status == host.StatusRevived:
			continue
		}
		w.index.remove(c.Event.ID)
		delete(w.fresh, c.Event.ID)
	}
}

// Missed says that commits of other nodes are not known in full.
func (w *Waker) Missed() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.missed = true
	w.notify()
}

func (w *Waker) wakeLocked(e *host.Event) {
	w.index.match(e, func(r *row) {
		r.woken = true
		w.notify()
	})
}

func (w *Waker) notify() {
	select {
	case w.ring <- struct{}{}:
	default:
	}
}

// Run reads what waits, and submits what is woken, until ctx ends.
func (w *Waker) Run(ctx context.Context) error {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	settings := w.cfg.Settings()
	for {
		err := w.cfg.Panics.Run(func() error {
			if err := w.read(ctx); err != nil {
				return err
			}
			if now := w.cfg.Settings(); now != settings {
				settings = now
				w.wakeAll()
			}
			return w.submitDue(ctx)
		})
		if err != nil && ctx.Err() == nil {
			w.cfg.Log.Error("decide again about events that wait", "err", err)
		}
		wait := w.ring
		if err != nil {
			wait = nil // not at once again
		}
		select {
		case <-ctx.Done():
			return nil
		case <-wait:
		case <-tick.C:
		}
	}
}

// wakeAll wakes all waiting events.
func (w *Waker) wakeAll() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, r := range w.index.rows {
		r.woken, r.tries, r.after = true, 0, 0
	}
}

// read reads what has begun to wait: all that waits, if commits were missed.
func (w *Waker) read(ctx context.Context) error {
	w.mu.Lock()
	all := w.missed
	w.missed = false
	fresh := w.fresh
	w.fresh = make(map[host.ID]struct{})
	w.mu.Unlock()
	err := w.readAll(ctx, all)
	for id := range fresh {
		if err != nil {
			break
		}
		if err = w.readOne(ctx, id); err == nil {
			delete(fresh, id)
		}
	}
	if err == nil {
		return nil
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.missed = w.missed || all
	for id := range fresh {
		w.fresh[id] = struct{}{}
	}
	return fmt.Errorf("read events that wait: %w", err)
}

func (w *Waker) readAll(ctx context.Context, all bool) error {
	if !all {
		return nil
	}
	return w.cfg.Store.EachHeld(ctx, func(h host.HeldEvent) error {
		if h.Wake == nil {
			return nil
		}
		return w.add(ctx, h)
	})
}

// readOne reads an event that waits, or has waited a moment ago.
func (w *Waker) readOne(ctx context.Context, id host.ID) error {
	h, ok, err := w.cfg.Store.HeldEvent(ctx, id)
	if err != nil {
		return err
	}
	if !ok || h.Wake == nil {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.index.remove(id)
		return nil
	}
	return w.add(ctx, h)
}

// add has an event wait. It wakes it if what it waits for is here: it may have come before the filter
// was known.
func (w *Waker) add(ctx context.Context, h host.HeldEvent) error {
	e, err := wire.ParseEvent(bytes.Clone(h.JSON))
	if err != nil {
		return nil // a damaged event is for `talon check`
	}
	w.mu.Lock()
	if r := w.index.rows[e.ID]; r != nil && r.wake == string(h.Wake) {
		w.mu.Unlock()
		return nil // since then no event was missed
	}
	w.mu.Unlock()
	filter, err := wire.ParseFilter(h.Wake, &wire.Limits{Values: len(h.Wake)})
	if err != nil {
		w.cfg.Log.Error("read the filter of an event that waits", "event", e.ID, "err", err)
		return nil
	}
	r := &row{id: e.ID, wake: string(h.Wake), filter: filter}
	w.mu.Lock()
	r = w.index.add(r)
	w.mu.Unlock()
	filter.Limit = 2 // one of them may be the event itself
	for _, ask := range []func(context.Context, host.Filter) ([][]byte, error){w.cfg.Store.Query, w.cfg.Store.HeldBy} {
		found, err := ask(ctx, filter)
		if err != nil {
			return err
		}
		for _, text := range found {
			if other, err := wire.ParseEvent(text); err == nil && other.ID != e.ID {
				w.mu.Lock()
				r.woken = true
				w.mu.Unlock()
				return nil
			}
		}
	}
	return nil
}

// submitDue submits the woken events whose pause is over, one after the other.
func (w *Waker) submitDue(ctx context.Context) error {
	now := w.cfg.Now().Unix()
	w.mu.Lock()
	var due []*row
	for _, r := range w.index.rows {
		if r.woken && r.after <= now {
			due = append(due, r)
		}
	}
	w.mu.Unlock()
	slices.SortFunc(due, func(a, b *row) int { return cmp.Compare(a.number, b.number) })
	from := [...]*host.Source{{Origin: host.FromClient}, {Origin: host.FromSync}}
	for _, r := range due {
		if err := w.submit(ctx, r, from); err != nil {
			return err
		}
	}
	return nil
}

// submit has the policies decide about a waiting event again, and notes what became of it.
func (w *Waker) submit(ctx context.Context, r *row, from [2]*host.Source) error {
	w.mu.Lock()
	waits := w.index.rows[r.id] == r
	if r.woken = false; r.tries < 10 {
		r.tries++
	}
	r.after = w.cfg.Now().Unix() + min(int64(1)<<r.tries, maxPause)
	w.mu.Unlock()
	if !waits {
		return nil
	}
	h, ok, err := w.cfg.Store.HeldEvent(ctx, r.id)
	if err != nil {
		w.mu.Lock()
		defer w.mu.Unlock()
		r.woken = true
		return err
	}
	if !ok || h.Wake == nil {
		return w.readOne(ctx, r.id)
	}
	event, err := wire.ParseEvent(bytes.Clone(h.JSON))
	if err != nil {
		return nil // a damaged event is for `talon check`
	}
	source := from[0]
	if h.Synced {
		source = from[1]
	}
	type outcome struct {
		verdict host.Verdict
		err     error
	}
	done := make(chan outcome, 1)
	it := &host.Item{Event: event, Source: source, Woken: true, Done: func(v host.Verdict, err error) { done <- outcome{v, err} }}
	if event.Protected() {
		it.Authed = []host.PubKey{event.PubKey} // else it would not have been held
	}
	if err := w.cfg.Submit(ctx, it); err != nil {
		return err
	}
	var out outcome
	select {
	case out = <-done:
	case <-ctx.Done():
		return nil // the next term reads what became of it
	}
	label := out.verdict.Code.String()
	if out.err != nil {
		label = "failed"
	}
	w.woken.WithLabelValues(label).Inc()
	if out.err != nil || out.verdict.ForNow() {
		w.mu.Lock()
		r.woken = true
		w.mu.Unlock()
	}
	if out.err != nil && !errors.Is(out.err, host.ErrFull) {
		return out.err
	}
	return w.readOne(ctx, r.id)
}
