// Package session is one connection to a relay as a state machine: it turns the loop's
// commands ([Command]) into messages (NIP-01, NIP-42, NIP-77), and what the relay sends
// into events for the pipeline and reports for the loop.
//
// A [Session] has no clock, goroutine, lock or I/O. Its user calls its inputs with the
// time in unix milliseconds, which never goes back, and does what [Session.Effects]
// returns, in order. Equal inputs give equal effects. It begins when the connection is
// made, and ends with the effect [Close], or when its user lets it go.
//
//	input                                     answers
//	Do(command)                               the loop
//	Receive(message), Heard(bytes)            the relay
//	Answered(what became of an event)         Submit
//	Built(set)                                Build
//	Missing(ids)                              Lookup
//	Texts(events)                             Read
//	Unsent(bytes)                             how much the relay has not taken
//	Turn: time has passed                     its own last answer, or any input
//
// A [request] is open on the relay (REQ). It has an owner: a subscription, a page of a
// fetch, or a chunk of ids. A fetch compares (reconciliation), and asks in chunks for the
// events that it found; or it asks page by page. Each of these is a type with a file of its
// own. So are room (how many requests the relay takes), pace (how fast we ask), size (how
// long a message it takes), auth, push, liveness and drain (requests that we closed).
//
// Invariants:
//
//  1. Nothing that a relay sends makes the session panic, grow without a bound, or go
//     on for ever: see [Limits].
//  2. A violation counts only if no honest and working relay does the same. The session
//     takes events that were on their way when we closed a request.
//  3. A subscription is open when the relay has answered it: with EOSE, or with an
//     event. Eose is reported when the pipeline has answered everything before it.
//  4. If the relay refuses a request, in any words, the session sends it again when that
//     may work, or reports it.
//  5. The session remembers an event as refused only after its verification.
//  6. A subscription is closed some time after those that were ordered before are open, unless the
//     relay has no room for both. A relay that rests keeps what is open.
package session

import (
	"cmp"
	"fmt"
	"slices"

	"talon/host"
	"talon/host/relaysync/holdings"
	"talon/host/relaysync/known"
	"talon/host/relaysync/match"
	"talon/sdk/abi"
)

// Config configures a session.
type Config struct {
	Relay        string // its URL
	Capabilities abi.Capabilities
	Limits       Limits
	Known        *known.Set
	Holdings     *holdings.Set // what the relay is believed to hold; nil: that is not kept
	Hash         match.Hash
	Debug        bool   // lines of that level are wanted
	Pace         uint32 // messages a minute that sessions before it learnt; 0: the relay has not complained
	Restarts     int    // of sessions before it, which learnt less and less

	// Verify checks id and signature of events that were refused.
	Verify func(*host.Event) error

	// Sign fills in author, id and signature of our AUTH events; nil: nothing is proven.
	Sign func(*host.Event) error
}

func (c *Config) setDefaults() {
	if c.Holdings == nil {
		c.Holdings = holdings.New(0)
	}
}

// Session is one connection to a relay. See the package documentation.
type Session struct {
	cfg           Config
	relay         string
	limits        *Limits
	caps          abi.Capabilities
	now           int64
	effects       []Effect
	reusedEffects []Effect // those of the last call of Effects
	stats         Stats
	ended         bool

	serial   int                 // wire ids given
	requests map[string]*request // that are open, by wire id
	slots    subscriptionSlots   // for requests on the relay
	draining drain               // requests that we closed
	negs     map[string]*reconciliation

	subs    map[string]*subscription // by the strategy's id; so fetches
	fetches map[string]*fetch
	ordered int                // commands so far
	wanted  map[host.ID]*chunk // what chunks ask for
	pushes  map[host.ID]*push

	pace         pace
	leaving      []leaving
	young        []*request // live ones that were answered lately, or are closed: they keep their filters
	delayed      delayed
	unsent       int // bytes of messages that the relay has not taken, as far as is known
	backlog      int // of them, those before the latest turn
	size         size
	width        width
	liveLimit    int      // of a live REQ: 0, or 1 for relays that do not answer that
	liveAnswered bool     // the relay sends EOSE for a limit of 0
	lastAnswered int      // the newest request that was answered
	barrierAt    int      // wire ids given at the last barrier behind a NEG-OPEN
	limitedAt    int64    // when the relay last said "rate limited" without saying to what
	lastEose     *request // nil: the latest message was something else
	eoses        uint64   // that came
	errors       uint64   // NOTICEs that report an error
	compares     bool     // a comparison was answered
	strays       int      // NOTICEs that are to come about what has ended
	restartAt    int64    // 0: the connection may stay as it is
	auth         auth
	violations   float64
	notices      float64
	unnoticed    int // messages of ours that a NOTICE that is not passed on may yet be about
	challenges   int
	liveness     liveness
	arrivals     arrivals
	repeats      repeats
	lookups      map[uint64]*chunk // by ticket
	builds       map[uint64]*reconciliation
	reads        map[uint64]*push
	tickets      uint64
	checkAt      int64 // when time-outs are looked at next
	refilled     int64 // when allowances grew
}

// Stats counts what happened in a session. It only grows.
type Stats struct {
	Dropped [Drops]uint64
	Bytes   int64 // received
}

// New returns the session of a connection that was made now.
func New(cfg Config, now int64) *Session {
	cfg.setDefaults()
	s := &Session{
		cfg: cfg, relay: cfg.Relay, caps: cfg.Capabilities, now: now,
		requests: make(map[string]*request),
		draining: newDrain(),
		negs:     make(map[string]*reconciliation),
		subs:     make(map[string]*subscription),
		fetches:  make(map[string]*fetch),
		wanted:   make(map[host.ID]*chunk),
		pushes:   make(map[host.ID]*push),
		arrivals: newArrivals(),
		lookups:  make(map[uint64]*chunk),
		builds:   make(map[uint64]*reconciliation),
		reads:    make(map[uint64]*push),
		liveness: liveness{heard: now},
		refilled: now,
	}
	s.limits = &s.cfg.Limits
	s.pace = pace{tokens: float64(s.limits.Burst), learnt: float64(cfg.Pace) / 60, changed: now}
	s.pace.refill(0, s.limits)
	s.notices = float64(s.limits.Notices)
	s.checkAt = now + s.limits.PingAfter
	return s
}

// Effects returns the effects since the last call, in order. The slice is valid until the
// next call; inputs may be given before.
func (s *Session) Effects() []Effect {
	clear(s.reusedEffects)
	s.effects, s.reusedEffects = s.reusedEffects[:0], s.effects
	return s.reusedEffects
}

// Stats returns the counters.
func (s *Session) Stats() Stats { return s.stats }

// Capabilities returns what is known of the relay.
func (s *Session) Capabilities() abi.Capabilities { return s.caps }

// Full reports whether reading must pause until the pipeline has taken events.
func (s *Session) Full() bool {
	return s.arrivals.count >= s.limits.InFlight || s.arrivals.bytes >= s.limits.EventBytes
}

// Execute carries out a command.
func (s *Session) Execute(now int64, c Command) {
	if !s.at(now) {
		return
	}
	switch c := c.(type) {
	case *Subscribe:
		s.subscribe(c)
	case *Fetch:
		s.fetch(c)
	case Unsubscribe:
		s.unsubscribe(c.ID)
	case CoolDown:
		s.pace.coolDown(c.Until)
	}
}

// Unsent notes how many bytes of messages the relay has not taken yet. While these are many,
// nothing new is asked.
func (s *Session) Unsent(bytes int) { s.backlog = bytes }

// maxUnsent is how many bytes of messages may wait for a relay before a new request. One message
// more may follow: it is far less than what a shell keeps.
const maxUnsent = 1 << 20

// clogged reports whether the relay has too much to take already.
func (s *Session) clogged() bool { return s.unsent > maxUnsent }

// Turn runs what is due: it submits what has come, opens what waits, and ends what the
// relay does not answer. It returns the latest time for the next call. With busy set
// there are messages of the relay that the session has not seen: silence is not the
// relay's fault.
func (s *Session) Turn(now int64, busy bool) (next int64) {
	if !s.at(now) {
		return never
	}
	s.refill()
	s.unsent = s.backlog
	s.flush()
	switch {
	case now < s.checkAt:
	case busy || s.Full():
		s.liveness = liveness{heard: s.now}
		s.checkAt = now + busyTime
	default:
		s.timeOut()
	}
	s.startFetches()
	s.flush()
	return min(s.checkAt, s.nextStart())
}

// never is later than every time.
const never = 1<<63 - 1

// busyTime is how soon a session that is busy looks at time-outs again.
const busyTime = 250

// at notes the time of an input, and reports whether the session takes any.
func (s *Session) at(now int64) bool {
	s.now = max(s.now, now)
	return !s.ended
}

// refill lets allowances grow with time.
func (s *Session) refill() {
	passed := float64(s.now-s.refilled) / 1000
	s.refilled = s.now
	s.pace.refill(passed, s.limits)
	if s.pace.grow(s.now, s.limits) {
		s.learnt()
	}
	s.violations = max(0, s.violations-passed)
	s.notices = min(float64(s.limits.Notices), s.notices+passed*float64(s.limits.Notices)/60)
}

// seconds is the time as events have it.
func (s *Session) seconds() int64 { return s.now / 1000 }

// perform appends an effect.
func (s *Session) perform(e Effect) { s.effects = append(s.effects, e) }

func (s *Session) send(text []byte) {
	s.unnoticed++
	s.pace.message(s.now)
	s.unsent += len(text)
	s.perform(Send{text})
}

func (s *Session) notify(r Report) { s.perform(Notify{r}) }

func (s *Session) debug(message string, attrs ...any) {
	if s.cfg.Debug {
		s.perform(Log{Debug, message, attrs})
	}
}

// close ends the session and its connection.
func (s *Session) close(why EndReason) {
	if !s.ended {
		s.ended = true
		s.perform(Close{why})
	}
}

// ticket names a question whose answer comes later.
func (s *Session) ticket() uint64 {
	s.tickets++
	return s.tickets
}

// wireID makes a short id: relays bound their length.
func (s *Session) wireID(kind byte) string {
	s.serial++
	return fmt.Sprintf("%c%d", kind, s.serial)
}

// checkNoLater has the session look at its time-outs at that time, or before.
func (s *Session) checkNoLater(by int64) { s.checkAt = min(s.checkAt, by) }

// timeOut ends what the relay does not answer, and says when to look again.
func (s *Session) timeOut() {
	s.checkAt = never
	if !s.alive() {
		return
	}
	if s.restartAt != 0 && s.now >= s.restartAt {
		s.close(EndRestart)
		return
	}
	if s.restartAt != 0 {
		s.checkNoLater(s.restartAt)
	}
	s.reportRepeats()
	s.auth.timeOut(s)
	s.forgetDrained()
	s.giveUpSlot()
	s.endOver()
	for _, r := range s.requestsInOrder((*request).waits) {
		if r.waits() {
			r.timeOut(s)
		}
	}
	for _, h := range s.runningFetches() {
		if !h.gone {
			h.timeOut(s)
		}
	}
}

// waits reports whether something of a request is due.
func (r *request) waits() bool { return !r.closed && !r.settled }

// openRequests returns the open requests in the order in which they were made.
func (s *Session) openRequests() []*request {
	return s.requestsInOrder(func(*request) bool { return true })
}

// requestsInOrder returns some of the open requests, likewise.
func (s *Session) requestsInOrder(some func(*request) bool) (list []*request) {
	for _, r := range s.requests {
		if some(r) {
			list = append(list, r)
		}
	}
	slices.SortFunc(list, func(a, b *request) int { return cmp.Compare(a.number, b.number) })
	return list
}

// runningFetches returns the fetches that have begun, in the order of their commands.
func (s *Session) runningFetches() []*fetch {
	var list []*fetch
	for _, h := range s.fetches {
		if h.started {
			list = append(list, h)
		}
	}
	slices.SortFunc(list, func(a, b *fetch) int { return cmp.Compare(a.number, b.number) })
	return list
}

// Limits bounds the work that a relay can cause, and the load on a relay. Every number
// must be positive; lengths of time are milliseconds.
type Limits struct {
	Subscriptions int // that the loop keeps open
	Fetches       int // running concurrently
	Waiting       int // fetches that wait for their turn

	InFlight   int // events submitted and not answered
	EventBytes int // of their texts
	Violations int // breaches of the rules; one is forgiven each second
	Notices    int // passed on in a minute
	PageEvents int // of one answer to a REQ that asks for past events
	Rounds     int // pages, or messages, of one fetch
	Need       int // ids that are fetched before the comparison begins again
	Push       int // events that one fetch sends

	Page     int     // events of one page
	Chunk    int     // ids of one REQ
	Chunks   int     // concurrent REQs of this kind
	Requests float64 // subscriptions and fetches that begin in a second, after a burst
	Burst    int

	AnswerTime int64 // of silence about something that was asked
	PageTime   int64 // of one answer, however much comes
	PingAfter  int64 // of silence
	PongTime   int64
}
