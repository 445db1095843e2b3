// Package loop carries out the actions of a sync strategy, as a state machine. It owns the
// records of relays and repositories, the timers of the strategy, the budgets, and the
// events that wait for another decision.
//
// A [Loop] has no clock, goroutine, lock or I/O. Its user calls its inputs with the time
// in unix milliseconds, and does what [Loop.Effects] returns, in order. It asks the
// strategy, the throttle ([Health]) and the store ([Facts]) and gets answers without a
// delay; where these are deterministic, equal inputs give equal effects.
//
//	input                                   comes from
//	Start, Swapped, Turn                    its user
//	Up, Down                                Dial
//	Report                                  the session of a connection
//	Changed, Missed                         the pipeline: Published, Followed
//	Retried                                 Resubmit
//	Saved                                   Save
//
// step passes everything that matters to the strategy, one input after the other, and
// carryOut carries out its answers.
//
// Invariants:
//
//  1. A strategy cannot make the host exceed [Limits], contact our own relay or (unless
//     [Config.AllowPrivate]) a private address, or drop a bootstrap relay. What is not
//     carried out is answered, at a bounded rate.
//  2. A strategy that fails, or is swapped, loses nothing: the next one begins with the
//     world as it is ([Loop.Init]).
//  3. Reports of something that was replaced are ignored: every subscription, historic
//     and connection has a serial number.
//  4. An event that was refused is decided again when what it needs arrives (package
//     retry).
//  5. The strategy hears of few relays that only held announcements name, and these are
//     visited a few times only ([Strangers]).
package loop

import (
	"errors"
	"fmt"

	"talon/host/relaysync/retry"
	"talon/host/relaysync/session"
	"talon/sdk/abi"
)

// Loop carries out the actions of a strategy. See the package documentation.
type Loop struct {
	cfg     Config
	deps    Deps
	own     ownNames
	effects []Effect
	spare   []Effect // those of the last call of Effects
	stats   Stats

	clock   int64 // unix milliseconds; never goes back
	relays  map[string]*relay
	repos   map[string]*repo // those of ours, by address
	private private          // those that are not for everybody

	named     map[string]*named // relays that repositories name, by URL
	untold    []*repo           // with relays that the strategy was not told of
	untoldAt  int64             // when these are looked at next
	displaced []string          // relays whose places others have

	timers   *timers
	answers  []abi.Input // to actions that were not carried out
	budget   float64     // answers and timers that may go to the strategy now
	spent    int64       // when that was last counted
	retries  *retry.Set
	expired  *retry.Expired
	listed   listed
	reports  bool     // the strategy reports progress
	missing  missing  // what relays lack, for the log
	activity activity // what root events are talked about
	trying   int      // events that are being decided again
	failed   int      // calls of the strategy in a row
	idle     bool     // there is no strategy
	resume   int64    // when a strategy that failed is called again; 0: it did not
	steps    int      // calls of this instance
	parts    [][]byte
	changed  map[string]bool // relays that are to be saved
	saving   bool
	saved    int64
	serial   uint64 // subscriptions, historics and connections so far

	counts   counts   // of all relays
	schedule *timers  // by relay: when an attempt is due, or a connection has been up for provenTime
	due      []*relay // to be dialed as soon as the limits allow, in order
}

// New returns a loop. It is idle until Start.
func New(cfg Config, deps Deps) (*Loop, error) {
	s := &Loop{
		cfg: cfg, deps: deps,
		own:     newOwnNames(cfg.Own),
		relays:  make(map[string]*relay),
		repos:   make(map[string]*repo),
		private: newPrivate(),
		named:   make(map[string]*named),
		timers:  newTimers(),
		budget:  float64(cfg.Limits.Answers),
		retries: retry.New(cfg.Limits.Retry),
		expired: retry.NewExpired(cfg.Limits.Retry),
		changed: make(map[string]bool),
		missing: newMissing(), schedule: newTimers(), listed: newListed(),
	}
	for _, address := range cfg.Bootstrap {
		u, ok := Normalise(address)
		if !ok {
			return nil, fmt.Errorf("the bootstrap relay %q is wrong: it must be written as wss://host", session.Quote(address))
		}
		if s.own.has(u) {
			return nil, fmt.Errorf("the bootstrap relay %s is this relay", u)
		}
		s.relays[u] = s.newRelay(u)
		s.relays[u].bootstrap = true
		s.deps.Health.Bootstrap(u)
		s.update(s.relays[u])
	}
	return s, nil
}

// Start starts the loop with the stored records of relays, by URL.
func (s *Loop) Start(now int64, records map[string][]byte) {
	s.tick(now)
	s.spent, s.saved = s.clock, s.clock
	s.load(records)
	s.step(nil)
}

// Swapped reports that another strategy decides from now on.
func (s *Loop) Swapped(now int64) {
	s.tick(now)
	s.failed, s.resume = 0, 0
	s.step(nil)
}

// Effects returns the effects since the last call, in order. The slice is valid until the
// next call; inputs may be given before.
func (s *Loop) Effects() []Effect {
	clear(s.spare)
	s.effects, s.spare = s.spare[:0], s.effects
	return s.spare
}

// Stats returns the counters.
func (s *Loop) Stats() Stats {
	s.stats.Retrying = s.retries.Len()
	s.stats.Tracked, s.stats.Connected, s.stats.Complete, s.stats.Dead = s.counts.tracked, s.counts.connected, s.counts.complete, s.counts.dead
	return s.stats
}

// Position returns the loop's position among the events accepted here. It is taken before an
// event is decided, and comes back with its refusal.
func (s *Loop) Position() uint64 { return s.retries.Position() }

// Init returns the request with which a strategy begins: the first part of the world as
// it is. The loop tells the rest. It is called by the strategy's Call.
func (s *Loop) Init() []byte {
	s.timers = newTimers()
	s.answers, s.reports = nil, false
	for _, r := range s.relays {
		r.reported, r.reports = report{}, false
	}
	roots, err := s.readRepositories()
	if err != nil {
		s.log(session.Error, "read the repositories for the strategy", "err", err)
	}
	s.parts = s.encode(roots)
	first := s.parts[0]
	s.parts = s.parts[1:]
	return first
}

// Turn runs what is due. It returns the latest time for the next call.
func (s *Loop) Turn(now int64) (next int64) {
	s.tick(now)
	limit := float64(s.cfg.Limits.Answers)
	s.budget = min(limit, s.budget+float64(float64(s.clock-s.spent)/1000*limit))
	s.spent = s.clock
	if s.resume != 0 && s.clock >= s.resume {
		s.resume = 0
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
	s.tellActivity()
	s.tellStrangers()
	s.dialAll()
	s.missing.log(s)
	s.retries.Expire(s.clock / 1000)
	for again, ok := s.expired.Next(s.clock / 1000); ok; again, ok = s.expired.Next(s.clock / 1000) {
		s.retries.Due(again.Event, again.Source, s.clock/1000)
	}
	s.retry()
	if !s.saving && s.clock-s.saved > s.cfg.Limits.SaveEvery {
		s.saved = s.clock
		s.save()
	}
	return s.nextTurn()
}

// heldBack is how soon answers that are held back are looked at.
const heldBack = 20

// nextTurn returns when something is due.
func (s *Loop) nextTurn() int64 {
	next := s.saved + s.cfg.Limits.SaveEvery + 1
	if at, ok := s.schedule.next(); ok {
		next = min(next, at)
	}
	if s.mayDial() {
		next = s.clock
	}
	if s.resume != 0 {
		next = min(next, s.resume)
	}
	if len(s.untold) > 0 {
		next = min(next, s.untoldAt)
	}
	if len(s.displaced) > 0 {
		next = s.clock
	}
	if len(s.answers) > 0 {
		next = min(next, s.clock+heldBack)
	}
	if len(s.activity.latest) > 0 {
		next = min(next, s.activity.next)
	}
	if at, ok := s.timers.next(); ok {
		if s.budget < 1 {
			at = max(at, s.clock+heldBack)
		}
		next = min(next, at)
	}
	return max(next, s.clock+1)
}

// tick takes the time. A strategy's clock never goes back: if ours does, it stands.
func (s *Loop) tick(now int64) { s.clock = max(s.clock, now) }

func (s *Loop) perform(e Effect) { s.effects = append(s.effects, e) }

func (s *Loop) log(level session.LogLevel, message string, attrs ...any) {
	s.perform(Log{level, message, attrs})
}

// step tells the strategy what happened and does what it answers. With a nil input it
// does so only if the strategy is new. While a strategy that failed rests, it gets no
// input: what it missed is in the world that it begins with.
func (s *Loop) step(input abi.Input) {
	if s.resume != 0 {
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
		if s.call(part) { // swapped in between: it begins again
			if tries++; tries > 3 {
				s.fault(errRestless)
				return
			}
		}
	}
	s.parts = nil
}

var errRestless = errors.New("the strategy begins anew again and again")

func (s *Loop) call(request []byte) (fresh bool) {
	answer, fresh, err := s.deps.Strategy.Call(request, s.clock/1000)
	if err != nil {
		s.fault(err)
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
func (s *Loop) fault(err error) {
	s.parts = nil
	if errors.Is(err, ErrNoStrategy) {
		s.resume = s.clock + minute
		if !s.idle {
			s.log(session.Info, "there is no strategy: no relay is followed")
		}
		s.idle = true
		return
	}
	s.stats.Faults++
	wait := min(minute, s.cfg.Limits.FailTime<<min(s.failed, 10))
	s.failed++
	s.resume = s.clock + wait
	s.log(session.Error, "the strategy failed", "err", err, "again_in", Duration(wait))
}

const minute = 60_000

// answer queues an input that answers an action. There may be no end to them: a
// strategy may ask again.
func (s *Loop) answer(input abi.Input) {
	if len(s.answers) < maxAnswers {
		s.answers = append(s.answers, input)
	}
}

// maxAnswers bounds the answers that wait.
const maxAnswers = 10_000

// Duration is a length of time in milliseconds, as an attribute of a line.
type Duration int64
