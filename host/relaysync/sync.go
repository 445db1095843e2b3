// Package relaysync keeps repositories complete from the relays that they list: it
// carries out the actions of a strategy (GRASP-02, proactive sync).
//
// Two state machines without I/O, clock or goroutine make the decisions over time. Package
// loop owns the strategy and all records about relays. Package session is one connection to
// a relay. They exchange messages: commands for a session, reports for the loop. This
// package is the shell around them: it reads the one clock, dials, reads and writes frames,
// reads the store, and hands events to the pipeline. A simulation may put another shell
// around them.
//
// One goroutine ([Sync.Run]) runs the loop. Each relay has a line with a goroutine of its
// own, which runs the session, and two more that read and write. They share the memory of
// known events (package known), which has a lock.
//
// Events of a relay go through the one pipeline, with [host.FromSync] as their origin. The
// server verifies and judges them like those of a client.
//
// Invariants:
//
//  1. No relay is trusted. Its output is bounded in bytes, in time and in number,
//     and a relay that breaks the rules loses its connection, nothing more.
//  2. The loop never waits for a relay, nor for the pipeline. A relay's line waits for
//     both, and then stops reading.
//  3. A strategy can not make the host exceed [Limits], contact our own relay or (unless
//     [Config.AllowPrivate]) a private address, or drop a bootstrap relay. What is not
//     carried out is answered, at a bounded rate.
//  4. A strategy that fails, or is swapped, loses nothing: the next one begins with the
//     world as it is.
//  5. An event that was refused is compared as known, and not fetched again for a while;
//     one that may have come too early is decided again when what it needs arrives
//     (package retry).
//  6. The end of stored events is reported when the pipeline has answered all those
//     before it.
//  7. Our key proves itself (NIP-42) only to a relay that asks for it.
//
// Other packages judge events and keep repositories.
package relaysync

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"talon/host"
	"talon/host/contain"
	"talon/host/negentropy"
	"talon/host/netguard"
	"talon/host/relaysync/holdings"
	"talon/host/relaysync/known"
	"talon/host/relaysync/loop"
	"talon/host/relaysync/match"
	"talon/host/relaysync/session"
	"talon/host/wire"
)

// Sync carries out the actions of a strategy. See the package documentation.
type Sync struct {
	cfg     Config
	deps    Deps
	dialer  Dialer
	charged Dialer // to relays that only held announcements name

	metrics  *metrics
	changes  *changeQueue // of what was committed here
	known    *known.Set
	hash     match.Hash
	beliefs  *beliefs // of what relays are believed to hold
	refusals refusals
	debug    bool

	strangers *strangers // nil: held announcements are as good as stored ones

	messages      chan message  // of lines
	scans         chan struct{} // holds a token for each comparison that reads the store
	position      atomic.Uint64 // of the retry set
	resubmissions chan loop.Resubmit
	queries       chan func()   // of operators, for the loop's goroutine
	ended         chan struct{} // closed when Run has ended
	helpers       sync.WaitGroup

	// The loop's goroutine owns the fields below.
	ctx    context.Context
	loop   *loop.Loop
	lines  map[loop.ConnID]*line
	stats  loop.Stats
	saving chan error // nil while nothing is saved
	broken bool       // the loop panicked

	failed chan error // ends Run; holds one
}

// New returns a Sync. It is idle until Run.
func New(cfg Config, deps Deps) (*Sync, error) {
	cfg.setDefaults()
	if err := cfg.Limits.check(); err != nil {
		return nil, err
	}
	if err := deps.check(); err != nil {
		return nil, err
	}
	hash := match.NewHash(rand.Uint64(), rand.Uint64())
	keep := deps.Refused
	if cfg.Secret != [16]byte{} {
		hash = match.NewHash(binary.LittleEndian.Uint64(cfg.Secret[:]), binary.LittleEndian.Uint64(cfg.Secret[8:]))
	} else {
		keep = nil
	}
	v := &Sync{
		cfg: cfg, deps: deps, dialer: deps.Dialer,
		metrics:       newMetrics(cfg.Prefix, cfg.Limits.RelayLabels),
		changes:       newChangeQueue(),
		known:         known.New(hash, cfg.Limits.Refused, cfg.Limits.RefusedAge),
		hash:          hash,
		beliefs:       newBeliefs(deps.Holdings, cfg.Limits.Holdings),
		debug:         cfg.Log != nil && cfg.Log.Enabled(context.Background(), slog.LevelDebug),
		messages:      make(chan message, 256),
		scans:         make(chan struct{}, cfg.Limits.Scans),
		resubmissions: make(chan loop.Resubmit, 256),
		queries:       make(chan func()),
		failed:        make(chan error, 1),
		ended:         make(chan struct{}),
		ctx:           context.Background(),
		lines:         make(map[loop.ConnID]*line),
	}
	v.refusals = refusals{keep: keep, policies: deps.Policies, known: v.known, now: func() int64 { return cfg.Now().Unix() }}
	v.charged = v.dialer
	loopDeps := loop.Deps{Strategy: called{v}, Facts: read{v}, Health: deps.Health, Hosted: deps.Hosted, Private: deps.Private}
	if v.strangers = newStrangers(cfg.Limits.Connections, deps.Namer, cfg.Now); v.strangers != nil {
		loopDeps.Strangers = v.strangers
	}
	if v.dialer == nil {
		guard := netguard.Guard{Private: cfg.AllowPrivate, Own: cfg.Listen}
		v.dialer = &netDialer{&v.cfg, &guard}
		v.charged = v.dialer
		if v.strangers != nil {
			v.charged = &netDialer{&v.cfg, v.strangers.guard(guard)}
		}
	}
	var err error
	v.loop, err = loop.New(loop.Config{
		Own: cfg.Own, Bootstrap: cfg.Bootstrap, AllowPrivate: cfg.AllowPrivate, AllowPush: cfg.AllowPush, Limits: cfg.Limits.Loop(), Seed: cfg.Seed,
	}, loopDeps)
	return v, err
}

// called is the strategy as the loop calls it.
type called struct{ sync *Sync }

func (c called) Call(request []byte, now int64) ([]byte, bool, error) {
	start := time.Now()
	defer func() { c.sync.metrics.steps.Observe(time.Since(start).Seconds()) }()
	return c.sync.deps.Strategy.Call(c.sync.ctx, request, now)
}

// read is what is known here as the loop reads it.
type read struct{ sync *Sync }

func (r read) Query(f host.Filter) ([][]byte, error)  { return r.sync.deps.Facts.Query(r.sync.ctx, f) }
func (r read) HeldBy(f host.Filter) ([][]byte, error) { return r.sync.deps.Facts.HeldBy(r.sync.ctx, f) }

func (v *Sync) sessionConfig(d *loop.Dial, o loop.Opened, held *holdings.Set) session.Config {
	return session.Config{
		Relay: d.Relay, Restarts: d.Restarts, Pace: d.Pace(&o), Capabilities: o.Capabilities, Limits: v.cfg.Limits.Session(), Known: v.known, Holdings: held, Hash: v.hash, Debug: v.debug,
		Verify: v.deps.Verify, Sign: v.deps.Sign,
	}
}

// Init returns the request with which a strategy begins. It is called by the strategy's
// Call, in the loop.
func (v *Sync) Init() []byte { return v.loop.Init() }

// now is the one clock of the loop and of all sessions, in unix milliseconds.
func (v *Sync) now() int64 { return v.cfg.Now().UnixMilli() }

// Run syncs until ctx ends.
func (v *Sync) Run(ctx context.Context) error {
	defer close(v.ended)
	ctx, cancel := context.WithCancel(ctx)
	defer v.stop(cancel)
	v.ctx = ctx
	var records map[string][]byte
	if v.deps.Memory != nil {
		var err error
		if records, err = v.deps.Memory.Load(ctx); ctx.Err() != nil {
			return nil
		} else if err != nil {
			return fmt.Errorf("read what is known of relays: %w", err)
		}
	}
	if err := v.refusals.load(ctx); ctx.Err() != nil {
		return nil
	} else if err != nil {
		return fmt.Errorf("read what was refused: %w", err)
	}
	v.help(func() { v.resubmit(ctx) })
	v.help(func() { v.beliefs.run(ctx, time.Duration(v.cfg.Limits.SaveEvery)*time.Millisecond, v.unsaved) })
	v.help(func() { v.refusals.run(ctx, v.unsaved) })
	err := v.cfg.Panics.Run(func() error { return v.direct(ctx, records) })
	v.broken = err != nil
	return err
}

// help runs f in a goroutine of its own. If it panics, Run returns the error: nobody would do its work.
func (v *Sync) help(f func()) {
	v.helpers.Go(func() {
		defer v.contain(func() { v.fail(errHelper) })
		f()
	})
}

// contain calls failed if the function that defers it panics.
func (v *Sync) contain(failed func()) {
	if p := recover(); p != nil {
		_ = v.cfg.Panics.Record(p)
		failed()
	}
}

// Reasons for which Run gives up, so that another Sync takes its place.
var (
	errAnswer = &contain.Error{Where: contain.Sync, Value: "an answer was lost"}
	errHelper = &contain.Error{Where: contain.Sync, Value: "what the loop waits for has ended"}
)

// fail has Run return an error.
func (v *Sync) fail(err error) {
	select {
	case v.failed <- err:
	default: // it does already
	}
}

// direct runs the loop until ctx ends.
func (v *Sync) direct(ctx context.Context, records map[string][]byte) error {
	v.loop.Start(v.now(), records)
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		now := v.now()
		next := v.loop.Turn(now)
		v.perform()
		v.count()
		timer.Reset(sleepUntil(next, now))
		select {
		case <-ctx.Done():
			return nil
		case m := <-v.messages:
			v.message(m)
		case <-v.changes.signal:
			v.local(v.now())
		case <-v.deps.Strategy.Changed():
			v.loop.Swapped(v.now())
		case err := <-v.saving:
			v.saving = nil
			v.loop.Saved(v.now(), err)
		case f := <-v.queries:
			f()
		case err := <-v.failed:
			return err
		case <-timer.C:
		}
		v.perform()
	}
}

// message takes what a line tells.
func (v *Sync) message(m message) {
	l := m.line
	switch now := v.now(); {
	case m.ended != nil:
		delete(v.lines, l.id)
		v.loop.Down(now, l.relay, l.id, *m.ended)
	case m.opened != nil:
		v.loop.Up(now, l.relay, l.id, *m.opened)
	default:
		v.loop.Report(now, l.relay, l.id, m.report)
	}
}

// perform does what the loop wants done. It never waits for a relay or the pipeline.
func (v *Sync) perform() {
	for {
		effects := v.loop.Effects()
		if len(effects) == 0 || v.ctx.Err() != nil {
			return
		}
		for _, e := range effects {
			v.effect(e)
		}
	}
}

func (v *Sync) effect(e loop.Effect) {
	switch e := e.(type) {
	case loop.Dial:
		l := newLine(v.ctx, v, e)
		v.lines[e.Conn] = l
		v.helpers.Go(l.run)
	case loop.CloseConn:
		if l := v.lines[e.Conn]; l != nil {
			l.cancel()
		}
	case loop.Execute:
		if l := v.lines[e.Conn]; l != nil {
			l.put(e.Command)
		}
	case loop.Save:
		v.save(e.Records)
	case loop.Resubmit:
		v.resubmissions <- e // it has room for as many as there can be
	case loop.Log:
		v.log(e)
	case loop.MetricChange:
		v.metrics.measure(e)
	}
}

// log writes a line.
func (v *Sync) log(e loop.Log) {
	attrs := e.Attrs
	for i, a := range attrs {
		if d, ok := a.(loop.Duration); ok {
			attrs[i] = time.Duration(d) * time.Millisecond
		}
	}
	v.cfg.Log.Log(v.ctx, slog.Level(e.Level), e.Message, attrs...)
}

func (v *Sync) unsaved(err error) { v.cfg.Log.Error("save what is known of relays", "err", err) }

func (v *Sync) save(records map[string][]byte) {
	for relay, record := range records {
		if record == nil {
			v.beliefs.put(relay, nil)
		}
	}
	done := make(chan error, 1)
	v.saving = done
	if v.deps.Memory == nil {
		done <- nil
		return
	}
	ctx := context.WithoutCancel(v.ctx)
	v.helpers.Go(func() { done <- v.cfg.Panics.Run(func() error { return v.deps.Memory.Save(ctx, records) }) })
}

// stop ends the connections, waits for the helpers, and saves.
func (v *Sync) stop(cancel context.CancelFunc) {
	cancel()
	done := make(chan struct{})
	go func() {
		v.helpers.Wait()
		close(done)
	}()
	for stopped := false; !stopped; {
		select {
		case <-v.messages:
		case <-v.saving:
			v.saving = nil
		case <-done:
			stopped = true
		}
	}
	if v.broken {
		return // what the loop knows may be wrong; what it saved before is not
	}
	records := v.loop.Stop(v.now())
	for _, e := range v.loop.Effects() {
		if m, ok := e.(loop.MetricChange); ok {
			v.metrics.measure(m)
		}
	}
	if err := v.beliefs.flush(context.WithoutCancel(v.ctx)); err != nil {
		v.unsaved(err)
	}
	if err := v.refusals.save(context.WithoutCancel(v.ctx)); err != nil {
		v.unsaved(err)
	}
	if v.deps.Memory == nil {
		return
	}
	if err := v.deps.Memory.Save(context.WithoutCancel(v.ctx), records); err != nil {
		v.unsaved(err)
	}
}

var errRecords = errors.New("too many events match")

// localSet returns the local events that match a filter: stored, held, and recently
// refused. It includes refused events, or every comparison would find them again. It leaves out
// what the [session.Build] does not offer: that is outside.
func (v *Sync) localSet(ctx context.Context, b *session.Build) (*negentropy.Set, session.Outside, error) {
	var none session.Outside
	select {
	case v.scans <- struct{}{}:
		defer func() { <-v.scans }()
	case <-ctx.Done():
		return nil, none, ctx.Err()
	}
	now := v.cfg.Now().Unix()
	local := session.NewLocalSet(b)
	limit := v.cfg.Limits.Records
	if b.Within != nil {
		limit = math.MaxInt - 1 // it has its own limit
	}
	_, n, err := v.deps.Local.Scan(ctx, b.Filter, limit+1, now, local.Add)
	if err != nil {
		return nil, none, err
	}
	if n > limit {
		return nil, none, errRecords
	}
	held, err := v.deps.Local.HeldBy(ctx, b.Filter)
	if err != nil {
		return nil, none, err
	}
	for _, text := range held {
		if e, err := wire.ParseEvent(text); err == nil {
			local.Add(e.CreatedAt, e.ID)
		}
	}
	v.known.EachRefused(b.Matcher, now, local.AddRefused)
	set, outside := local.Built()
	return set, outside, nil
}
