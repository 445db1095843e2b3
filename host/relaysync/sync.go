package relaysync

import (
	"context"
	"errors"
	"fmt"
	"time"

	"talon/host"
	"talon/host/netguard"
	"talon/host/relaysync/retry"
	"talon/sdk/abi"
)

// Sync carries out what a strategy decides. See the package documentation.
type Sync struct {
	env   *env
	cfg   Config
	deps  Deps
	own   ownNames
	inbox *inbox // of what was committed here

	metrics *metrics

	// The loop owns the fields below.
	ctx     context.Context
	clock   int64 // unix milliseconds; never goes back
	relays  map[string]*relay
	repos   map[string]*repo // those of ours, by address
	timers  *timers
	answers []abi.Input // to actions that were not carried out
	budget  float64     // answers and timers that may be told now
	spent   time.Time   // when that was last counted
	retries *retry.Set
	again   chan retry.Again
	failed  int  // calls of the strategy in a row
	idle    bool // there is no strategy
	resume  time.Time
	steps   int // calls of this instance
	parts   [][]byte
	changed map[string]bool // relays that are to be saved
	saving  chan error      // nil while nothing is saved
	saved   time.Time
	serial  uint64 // subscriptions and historics so far
}

// New returns a Sync. It does nothing until Run.
func New(cfg Config, deps Deps) (*Sync, error) {
	if err := cfg.Limits.check(); err != nil {
		return nil, err
	}
	if err := deps.check(); err != nil {
		return nil, err
	}
	m := newMetrics(cfg.Prefix, cfg.Limits.RelayLabels)
	s := &Sync{
		cfg: cfg, deps: deps,
		own:     newOwnNames(cfg.Own),
		inbox:   newInbox(),
		metrics: m,
		relays:  make(map[string]*relay),
		repos:   make(map[string]*repo),
		timers:  newTimers(),
		budget:  float64(cfg.Limits.Answers),
		retries: retry.New(cfg.Limits.Retry),
		again:   make(chan retry.Again, againQueue),
		changed: make(map[string]bool),
	}
	s.env = &env{
		cfg: &s.cfg, deps: &s.deps,
		known:   newKnown(cfg.Limits.Refused, cfg.Limits.RefusedAge),
		metrics: m,
		guard:   &netguard.Guard{Private: cfg.AllowPrivate, Own: cfg.Listen},
		reports: make(chan report, 256),
		scans:   make(chan struct{}, cfg.Limits.Scans),
	}
	for _, address := range cfg.Bootstrap {
		u, ok := Normalise(address)
		if !ok {
			return nil, fmt.Errorf("the bootstrap relay %q is wrong: it must be written as wss://host", said(address))
		}
		if s.own.has(u) {
			return nil, fmt.Errorf("the bootstrap relay %s is this relay", u)
		}
		s.relays[u] = &relay{url: u, bootstrap: true, subs: map[string]*subRecord{}, hists: map[string]*histRecord{}}
	}
	return s, nil
}

// Forget forgets which events were refused: another policy decides. Those that are
// kept for another try are tried at once, the rest is fetched with the next comparison.
// It may be called by any goroutine.
func (s *Sync) Forget() {
	s.env.known.forget()
	s.inbox.forgot()
}

// Run syncs until ctx ends.
func (s *Sync) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer s.stop(cancel)
	s.ctx = ctx
	s.tick()
	s.spent = time.Now()
	s.saved = time.Now()
	if err := s.load(ctx); ctx.Err() != nil {
		return nil
	} else if err != nil {
		return fmt.Errorf("read what is known of relays: %w", err)
	}
	s.env.helpers.Go(func() { s.resubmit(ctx) })
	s.step(nil)
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		s.work()
		timer.Reset(s.rest())
		select {
		case <-ctx.Done():
			return nil
		case r := <-s.env.reports:
			s.report(r)
		case <-s.inbox.signal:
			s.local()
		case <-s.deps.Strategy.Changed():
			s.failed, s.resume = 0, time.Time{}
			s.step(nil)
		case err := <-s.saving:
			s.saving = nil
			if err != nil {
				s.cfg.Log.Error("save what is known of relays", "err", err)
			}
		case <-timer.C:
		}
	}
}

// stop ends the connections, saves, and waits for the helpers.
func (s *Sync) stop(cancel context.CancelFunc) {
	cancel()
	done := make(chan struct{})
	go func() {
		s.env.helpers.Wait()
		close(done)
	}()
	for stopped := false; !stopped; {
		select {
		case r := <-s.env.reports:
			if r.down != nil {
				s.isDown(r.conn, r.down)
			}
		case <-s.saving:
			s.saving = nil
		case <-done:
			stopped = true
		}
	}
	s.save(context.WithoutCancel(s.ctx))
}

// tick reads the clock. A strategy's clock never goes back: if ours does, it stands.
func (s *Sync) tick() { s.clock = max(s.clock, s.cfg.Now().UnixMilli()) }

// maxRest is how long the loop rests at most: the clock may jump.
const maxRest = time.Second

// rest returns how long nothing is to be done.
func (s *Sync) rest() time.Duration {
	rest := maxRest
	if len(s.answers) > 0 {
		return 20 * time.Millisecond // they are held back
	}
	if at, ok := s.timers.next(); ok {
		at = min(max(at, s.clock), s.clock+maxRest.Milliseconds()) // a strategy may name any time
		rest = min(rest, max(time.Millisecond, time.Duration(at-s.clock)*time.Millisecond))
	}
	for _, r := range s.relays {
		if r.conn == nil && r.kept() {
			rest = min(rest, max(10*time.Millisecond, r.retry.Sub(s.cfg.Now())))
		}
	}
	return rest
}

// work does what is due.
func (s *Sync) work() {
	s.tick()
	now := time.Now()
	s.budget = min(float64(s.cfg.Limits.Answers), s.budget+now.Sub(s.spent).Seconds()*float64(s.cfg.Limits.Answers))
	s.spent = now
	if !s.resume.IsZero() && now.After(s.resume) {
		s.resume = time.Time{}
		s.step(nil)
	}
	for s.budget >= 1 && len(s.answers) > 0 {
		input := s.answers[0]
		s.answers = s.answers[1:]
		s.budget--
		s.step(input)
	}
	for s.budget >= 1 {
		t := s.timers.due(s.clock)
		if t == nil {
			break
		}
		s.budget--
		s.step(&abi.TimerFired{ID: t.id, At: t.at})
	}
	s.connectAll()
	s.retries.Expire(s.cfg.Now().Unix())
	s.tryAgain()
	s.metrics.waiting.Set(float64(s.retries.Len()))
	if s.saving == nil && now.Sub(s.saved) > s.cfg.Limits.SaveEvery {
		s.saved = now
		s.saveSoon()
	}
}

// step tells the strategy what happened and does what it answers. With a nil input it
// does so only if the strategy is new. While a strategy that failed rests, it is told
// nothing: what it missed is in the world that it begins with.
func (s *Sync) step(input abi.Input) {
	if !s.resume.IsZero() {
		return
	}
	var request []byte
	if input != nil {
		request = abi.AppendStep(nil, s.clock, input)
	}
	fresh := s.call(request)
	for tries := 0; fresh && len(s.parts) > 0; {
		part := s.parts[0]
		s.parts = s.parts[1:]
		if s.call(part) { // swapped in between: all anew
			if tries++; tries > 3 {
				s.fault(errRestless)
				return
			}
		}
	}
	s.parts = nil
}

var errRestless = fmt.Errorf("the strategy begins anew again and again")

func (s *Sync) call(request []byte) (fresh bool) {
	start := time.Now()
	answer, fresh, err := s.deps.Strategy.Call(s.ctx, request, s.clock/1000)
	s.metrics.steps.Observe(time.Since(start).Seconds())
	if err != nil {
		if s.ctx.Err() == nil {
			s.fault(err)
		}
		return false
	}
	s.idle = false
	if fresh {
		s.steps = 0
	}
	if s.steps++; s.steps > 3 {
		s.failed = 0
	}
	s.carryOut(answer)
	return fresh
}

// fault lets the strategy rest after a failure, or until there is one.
func (s *Sync) fault(err error) {
	s.parts = nil
	if errors.Is(err, ErrNoStrategy) {
		s.resume = time.Now().Add(time.Minute)
		if !s.idle {
			s.cfg.Log.Info("there is no strategy: no relay is followed")
		}
		s.idle = true
		return
	}
	s.metrics.faults.Inc()
	wait := min(time.Minute, s.cfg.Limits.FailTime<<min(s.failed, 10))
	s.failed++
	s.resume = time.Now().Add(wait)
	s.cfg.Log.Error("the strategy failed", "err", err, "again_in", wait)
}

// answer queues an input that answers an action. There may be no end to them: a
// strategy may ask again.
func (s *Sync) answer(input abi.Input) {
	if len(s.answers) < maxAnswers {
		s.answers = append(s.answers, input)
	}
}

// maxAnswers bounds the answers that wait.
const maxAnswers = 10_000

// report takes what a connection tells.
func (s *Sync) report(r report) {
	if r.down != nil {
		s.isDown(r.conn, r.down)
		return
	}
	rec := s.relays[r.conn.url]
	if rec == nil || rec.conn != r.conn {
		return // of a connection that was ended
	}
	switch {
	case r.up != nil:
		s.isUp(rec, r.up)
	case r.learnt != nil:
		rec.caps = *r.learnt
		s.changed[rec.url] = true
	case r.limited != nil:
		s.limit(rec, *r.limited)
	case r.refused != nil:
		s.refused(rec.url, r.refused)
	case r.input != nil:
		s.happened(rec, r)
	}
}

// happened records what a strategy is told, and tells it. News of something that was
// replaced by another with the same id meanwhile is no news.
func (s *Sync) happened(rec *relay, r report) {
	if r.gaps > 0 {
		s.metrics.gaps.WithLabelValues(s.metrics.label(rec.url)).Add(float64(r.gaps))
	}
	log := s.cfg.Log
	switch in := r.input.(type) {
	case *abi.Eose:
		sub := rec.subs[in.ID]
		if sub == nil || sub.serial != r.serial {
			return
		}
		sub.eose = true
		s.gap(rec, sub.purpose, r)
	case *abi.Closed:
		if sub := rec.subs[in.ID]; sub == nil || sub.serial != r.serial {
			return
		}
		delete(rec.subs, in.ID)
		log.Debug("subscription closed by the relay", "relay", rec.url, "reason", in.Reason)
	case *abi.HistoricDone:
		h := rec.hists[in.ID]
		if h == nil || h.serial != r.serial {
			return
		}
		delete(rec.hists, in.ID)
		s.gap(rec, h.purpose, r)
		if in.Have > 0 {
			s.lacks(rec, in.Have, r.lacks)
		}
	case *abi.Notice:
		log.Info("notice of a relay", "relay", rec.url, "text", in.Text)
	}
	s.step(r.input)
}

// lacks logs that a relay has not what is here, and that it should have had first.
func (s *Sync) lacks(rec *relay, count uint32, a *absence) {
	attrs := []any{"relay", rec.url, "count", count, "event", a.event}
	switch len(a.repos) {
	case 0: // the historic asked by root events
	case 1:
		attrs = append(attrs, "repo", a.repos[0])
	default:
		attrs = append(attrs, "repos", len(a.repos))
	}
	s.cfg.Log.Warn("the relay lacks events that are here", attrs...)
}

// gap logs that live sync missed something.
func (s *Sync) gap(rec *relay, purpose uint32, r report) {
	switch {
	case r.gaps == 0:
	case purpose == abi.PurposeDaily:
		s.cfg.Log.Error("sustained sync gap: events found by the daily sync", "relay", rec.url, "count", r.gaps, "event", r.first)
	default:
		s.cfg.Log.Warn("sync gap: events found by catching up", "relay", rec.url, "count", r.gaps, "event", r.first)
	}
}

// limit slows down what is asked of a relay.
func (s *Sync) limit(rec *relay, e Ending) {
	st := s.deps.Health.After(rec.url, e, s.cfg.Now())
	rec.standing = st
	s.metrics.stands(rec.url, st)
	c, until := rec.conn, time.Now().Add(st.Wait)
	s.cfg.Log.Warn("a relay says that it is asked too much", "relay", rec.url, "reason", e.Reason, "again_in", st.Wait)
	c.do(func() { c.rest(until) })
}

// refused keeps an event for another try.
func (s *Sync) refused(from string, r *refusedReport) {
	s.retries.Add(r.event, from, r.mark, s.cfg.Now().Unix())
}

// againQueue is how many events the helper is given ahead.
const againQueue = 64

// tryAgain gives the helper what is due, as far as it has room. What comes of each
// wakes the loop, which then gives it more.
func (s *Sync) tryAgain() {
	for {
		a, ok := s.retries.Next()
		if !ok {
			return
		}
		select {
		case s.again <- a:
			s.retries.Took()
			s.metrics.retried.Inc()
		default:
			return
		}
	}
}

// resubmit submits events again. It waits for the pipeline, so that the loop need not.
func (s *Sync) resubmit(ctx context.Context) {
	sources := map[string]*host.Source{}
	for {
		var a retry.Again
		select {
		case <-ctx.Done():
			return
		case a = <-s.again:
		}
		if len(sources) > s.cfg.Limits.Relays {
			clear(sources)
		}
		if sources[a.Source] == nil {
			sources[a.Source] = &host.Source{Origin: host.FromSync, Relay: a.Source}
		}
		mark := s.env.mark.Load()
		s.env.known.leave(a.Event.ID, a.Source)
		err := s.deps.Ingest.Submit(ctx, &host.Item{Event: a.Event, Source: sources[a.Source], Done: func(v host.Verdict, err error) {
			s.env.answered(a.Event, v, err, abi.PurposeLive)
			s.inbox.tried(tried{event: a.Event, source: a.Source, mark: mark, refused: err == nil && v.Code == host.Rejected, failed: err != nil || v.Code == host.Busy})
		}})
		if err != nil {
			return
		}
	}
}
