// Package health decides when a relay is connected to: it records the results of each
// relay's connections, across restarts, and asks a throttle module.
//
// Invariants:
//
//  1. Where the module fails or there is none, the host's own numbers hold: 5 seconds
//     after a failure, doubled with each one up to an hour.
//  2. A module's answer is bounded: no wait is longer than a day.
//  3. One goroutine uses it, in addition to that of Run.
package health

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"talon/host/relaysync/loop"
	"talon/host/throttle"
	"talon/sdk/abi"
)

// Keeper keeps the health of relays (loop.Health).
type Keeper struct {
	disk throttle.Disk
	log  *slog.Logger

	mu      sync.Mutex // guards what follows
	module  *throttle.Client
	flying  int // attempts under way, to all relays
	relays  map[string]*record
	changed map[string]bool // since the last Save
	named   map[string]bool // by the operator
}

// record is what happened with one relay. Times are unix milliseconds.
type record struct {
	Failures     uint32  `json:"failures,omitempty"` // in a row
	FailingSince int64   `json:"failing_since,omitempty"`
	LastSuccess  int64   `json:"last_success,omitempty"`
	NotBefore    int64   `json:"not_before,omitempty"`
	Health       uint32  `json:"health,omitempty"`
	Uptime       int64   `json:"uptime,omitempty"` // as in [abi.Subject]
	Faults       uint32  `json:"faults,omitempty"` // likewise
	FaultySince  int64   `json:"faulty_since,omitempty"`
	LastEnd      string  `json:"ending,omitempty"` // how the latest attempt or connection ended
	Starts       []int64 `json:"-"`                // of the latest attempts, newest first
	since        int64   // the connection that is up was made; 0: there is none
	counted      int64   // of that connection, until when uptime has it
	attempting   bool
}

const (
	maxStarts = 16               // that a module gets
	maxWait   = 24 * 3600 * 1000 // ms
	// unproductive is how long a connection has to be up if it brings nothing.
	unproductive = 60 * 1000 // ms
	// faultless is how long a connection lasts that ends a row of faults.
	faultless  = 10 * 60 * 1000   // ms
	maxUptime  = 24 * 3600 * 1000 // ms
	countEvery = 10 * 60 * 1000   // ms: uptime of connections that are up
	maxKnown   = 20_000           // relays; the oldest news is forgotten first
)

// Open reads the stored records. ctx is the context of calls of the module.
func Open(ctx context.Context, module throttle.Module, disk throttle.Disk, log *slog.Logger) (*Keeper, error) {
	relays, _, err := throttle.Load[record](ctx, disk, log)
	if err != nil {
		return nil, err
	}
	for _, r := range relays {
		if r.Health == abi.HealthBarred && r.Faults == 0 {
			// It is from before there were faults, when one was enough.
			r.Health, r.NotBefore = abi.HealthDegraded, 0
		}
	}
	client := throttle.New(ctx, module, "relays", log, func(throttle.Function) {})
	return &Keeper{disk: disk, log: log, module: client, relays: relays, changed: make(map[string]bool), named: make(map[string]bool)}, nil
}

// Bootstrap records that the operator named a relay.
func (k *Keeper) Bootstrap(relay string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.named[relay] = true
}

// Allow returns how long to wait before connecting to the relay; with 0 the attempt has
// begun. Times are milliseconds.
func (k *Keeper) Allow(relay string, at int64) (wait int64) {
	k.mu.Lock()
	defer k.mu.Unlock()
	r := k.relay(relay)
	a := k.module.Admit(&abi.ThrottleAdmitRequest{Now: at, Subject: k.subject(r, relay, at), AllInFlight: uint32(k.flying)}, func() abi.ThrottleAdmitAnswer {
		return abi.ThrottleAdmitAnswer{Start: r.NotBefore <= at, Wait: r.NotBefore - at}
	})
	if !a.Start {
		if wait = max(a.Wait, 0); wait == 0 {
			wait = 1000 // when another attempt has ended
		}
	}
	if wait > 0 {
		return min(wait, maxWait)
	}
	r.Starts = append([]int64{at}, r.Starts[:min(len(r.Starts), maxStarts-1)]...)
	if !r.attempting {
		r.attempting = true
		k.flying++
	}
	return 0
}

// Report records how an attempt, or a connection, ended, and returns the new state.
func (k *Keeper) Report(relay string, e loop.ConnResult, at int64) loop.State {
	k.mu.Lock()
	defer k.mu.Unlock()
	r := k.relay(relay)
	k.attemptDone(r)
	r.LastEnd = e.Reason
	since := r.since
	if e.Outcome == loop.OutcomeDisconnected && !e.Productive && at-since < unproductive {
		since = at // it was up for nothing
	}
	switch e.Outcome {
	case loop.OutcomeOK:
		// That a relay takes a connection says little: it may drop it immediately.
		r.LastSuccess = at
		if e.Productive {
			if r.FailingSince != 0 {
				r.Uptime = max(0, r.Uptime-max(at-r.FailingSince, 0))
			}
			r.Failures, r.FailingSince = 0, 0
		} else {
			r.since, r.counted = at, at
		}
	case loop.OutcomeRateLimited:
		// The connection may be up all the same.
	default:
		r.disconnect(at, e.Productive)
		if fault(e.Outcome) {
			if r.Faults++; r.FaultySince == 0 {
				r.FaultySince = at
			}
		}
		if r.Failures++; r.FailingSince == 0 {
			r.FailingSince = at
		}
	}
	a := k.module.After(&abi.AfterRequest{
		Now: at, Subject: k.subject(r, relay, at), Outcome: uint32(e.Outcome), Status: uint32(max(e.Status, 0)),
		Took: e.Duration, Since: since, Reason: e.Reason,
	}, func() abi.AfterAnswer { return defaultBackoff(e.Outcome, r.Failures) })
	a.Delay = min(max(a.Delay, 0), maxWait)
	if a.Health != abi.HealthUnspecified {
		r.Health = a.Health
	}
	r.NotBefore = 0
	if a.Delay > 0 {
		r.NotBefore = at + a.Delay
	}
	if r.Health == abi.HealthHealthy && e.Outcome != loop.OutcomeOK {
		r.Failures, r.FailingSince = 0, 0 // an end that the module finds fine is no failure
	}
	k.changed[relay] = true
	st := r.state(at)
	st.Wait, st.Reason = a.Delay, a.Reason
	return st
}

// fault reports whether the relay's name, certificate or protocol was wrong.
func fault(o loop.Outcome) bool {
	return o == loop.OutcomeDNS || o == loop.OutcomeTLS || o == loop.OutcomeProtocol
}

// disconnect ends the connection, if one is up.
func (r *record) disconnect(at int64, productive bool) {
	if r.since == 0 {
		return
	}
	if at-r.since >= faultless {
		r.Faults, r.FaultySince = 0, 0
	}
	if productive || at-r.since >= unproductive {
		r.count(at)
	}
	r.since, r.counted = 0, 0
}

// count adds the time that the connection was up since this was last counted.
func (r *record) count(at int64) {
	r.Uptime = min(r.Uptime+max(at-r.counted, 0), maxUptime)
	r.counted = at
}

func (r *record) state(at int64) loop.State {
	st := loop.State{Status: status(r.Health), Barred: r.Health == abi.HealthBarred, Failures: int(r.Failures), LastEnd: r.LastEnd}
	if r.FailingSince > 0 {
		st.Failing = max(0, at-r.FailingSince)
	}
	return st
}

// Get returns what is known of a relay.
func (k *Keeper) Get(relay string, at int64) loop.State {
	k.mu.Lock()
	defer k.mu.Unlock()
	r := k.relays[relay]
	if r == nil {
		return loop.State{}
	}
	st := r.state(at)
	st.Wait = max(0, r.NotBefore-at)
	return st
}

// Reset clears the failures of a relay. An attempt that is under way, and a connection
// that is up, go on.
func (k *Keeper) Reset(relay string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if r := k.relays[relay]; r != nil {
		*r = record{LastSuccess: r.LastSuccess, Uptime: r.Uptime, since: r.since, counted: r.counted, attempting: r.attempting}
		k.changed[relay] = true
	}
}

// Forget records that we ended an attempt, or a connection.
func (k *Keeper) Forget(relay string, at int64) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if r := k.relays[relay]; r != nil {
		k.attemptDone(r)
		r.disconnect(at, true)
	}
}

// attemptDone ends an attempt, if one is under way. REQUIRES: mu.
func (k *Keeper) attemptDone(r *record) {
	if r.attempting {
		r.attempting = false
		k.flying--
	}
}

// defaultBackoff is what follows where no module says so.
func defaultBackoff(o loop.Outcome, failures uint32) abi.AfterAnswer {
	const first, maximum = 5_000, 3600_000
	if o == loop.OutcomeOK {
		return abi.AfterAnswer{Health: abi.HealthHealthy}
	}
	wait := min(maximum, int64(first)<<min(max(failures, 1)-1, 20))
	return abi.AfterAnswer{Delay: wait, Health: abi.HealthDegraded}
}

func status(health uint32) loop.Status {
	switch health {
	case abi.HealthHealthy:
		return loop.StatusHealthy
	case abi.HealthDegraded, abi.HealthBarred:
		return loop.StatusDegraded
	case abi.HealthDead:
		return loop.StatusDead
	}
	return loop.StatusUnknown
}

// relay returns the record of a relay, a new one if there is none. REQUIRES: mu.
func (k *Keeper) relay(url string) *record {
	r := k.relays[url]
	if r == nil {
		if len(k.relays) >= maxKnown {
			k.evict()
		}
		r = new(record)
		k.relays[url] = r
	}
	return r
}

// evict drops the relay with the oldest news that is not connected to. REQUIRES: mu.
func (k *Keeper) evict() {
	oldest, found := "", int64(0)
	for url, r := range k.relays {
		news := max(r.FailingSince, r.LastSuccess)
		if r.since == 0 && !r.attempting && (oldest == "" || news < found) {
			oldest, found = url, news
		}
	}
	if oldest != "" {
		delete(k.relays, oldest)
		k.changed[oldest] = true
	}
}

// subject returns what the module gets of a relay. REQUIRES: mu.
func (k *Keeper) subject(r *record, url string, now int64) abi.Subject {
	s := abi.Subject{
		Kind: abi.SubjectRelay, Name: url, Failures: r.Failures, FailingSince: r.FailingSince,
		LastSuccess: r.LastSuccess, NotBefore: r.NotBefore, Health: r.Health,
		Bootstrap: k.named[url], Uptime: r.Uptime, Faults: r.Faults, FaultySince: r.FaultySince,
	}
	if r.attempting {
		s.InFlight = 1
	}
	for _, at := range r.Starts {
		s.Ages = append(s.Ages, uint32(min(max(now-at, 0), 1<<32-1)))
	}
	return s
}

// Run saves what changed now and then, and a last time when ctx ends.
func (k *Keeper) Run(ctx context.Context, every time.Duration) error {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			k.countAll(time.Now().UnixMilli(), unproductive)
			k.save(context.WithoutCancel(ctx))
			return nil
		}
		k.countAll(time.Now().UnixMilli(), countEvery)
		k.save(ctx)
	}
}

// countAll adds the time of connections that are up, where it was not counted for so long.
func (k *Keeper) countAll(at, every int64) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for url, r := range k.relays {
		if r.since != 0 && at-r.counted >= every {
			r.count(at)
			k.changed[url] = true
		}
	}
}

// save writes the changes. If a write fails, the next save tries it again.
func (k *Keeper) save(ctx context.Context) {
	k.mu.Lock()
	news := make(map[string]*record, len(k.changed))
	for url := range k.changed {
		news[url] = nil
		if r := k.relays[url]; r != nil {
			kept := *r
			news[url] = &kept
		}
	}
	clear(k.changed)
	k.mu.Unlock()
	if len(news) == 0 {
		return
	}
	if err := throttle.Save(ctx, k.disk, news); err != nil {
		k.log.Error("keep what is known of relays", "err", err)
		k.mu.Lock()
		for url := range news {
			k.changed[url] = true
		}
		k.mu.Unlock()
	}
}
