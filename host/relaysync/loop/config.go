package loop

import (
	"errors"

	"talon/host"
	"talon/host/relaysync/retry"
	"talon/host/relaysync/session"
	"talon/sdk/abi"
	"talon/sdk/grasp"
)

// Strategy decides which requests go to which relay. The loop is deterministic only if the
// strategy is.
type Strategy interface {
	// Call hands over a StepRequest and returns StepActions, valid until the next
	// call. If what answers is new, it gets what [Loop.Init] returns instead of the
	// request, and fresh is true. With a nil request nothing happens unless it is new.
	// After an error the next call begins with Init. now is in unix seconds.
	Call(request []byte, now int64) (answer []byte, fresh bool, err error)
}

// ErrNoStrategy is the error of a [Strategy] that is not there. It is no failure.
var ErrNoStrategy = errors.New("there is no strategy")

// Facts reads local events about repositories.
type Facts interface {
	Query(f host.Filter) ([][]byte, error)  // stored events, newest first
	HeldBy(f host.Filter) ([][]byte, error) // held events, newest first
}

// Health decides when a relay is connected to: the relay half of a throttle. Times are
// unix milliseconds, as everywhere here.
type Health interface {
	// Bootstrap records that the operator named a relay.
	Bootstrap(relay string)

	// Allow returns how long to wait before the relay is connected to; 0 is now, and
	// an attempt has begun then.
	Allow(relay string, now int64) (wait int64)

	// Report records how an attempt, or a connection, ended, and returns the new state.
	Report(relay string, r ConnResult, now int64) State

	// Forget records that we ended an attempt, or a connection. It is no result of the
	// relay.
	Forget(relay string, now int64)

	// Get returns what is known of a relay, from before a restart too.
	Get(relay string, now int64) State

	// Reset clears the failures of a relay. An attempt that is under way, and a
	// connection that is up, go on.
	Reset(relay string)
}

// Outcome is the end of an attempt or a connection, as in talon.proto.
type Outcome uint32

// Outcomes of a relay; their numbers are the wire's.
const (
	OutcomeOK           Outcome = 1
	OutcomeRateLimited  Outcome = 4
	OutcomeRefused      Outcome = 5
	OutcomeServer       Outcome = 6
	OutcomeTimeout      Outcome = 7
	OutcomeUnreachable  Outcome = 8
	OutcomeDNS          Outcome = 9
	OutcomeTLS          Outcome = 10
	OutcomeProtocol     Outcome = 11
	OutcomeDisconnected Outcome = 13
)

// ConnResult is the result of an attempt or a connection.
type ConnResult struct {
	Outcome    Outcome
	Duration   int64  // of the attempt; of the connection, if it was up
	Status     int    // of HTTP
	Reason     string // what the relay or the network said; hostile text
	Productive bool   // the connection was up and brought something
}

// Status is the health of a relay; the numbers are those of the metric.
type Status uint8

// Statuses.
const (
	StatusUnknown  Status = 0
	StatusHealthy  Status = 1
	StatusDegraded Status = 2
	StatusDead     Status = 3
)

func (s Status) String() string { return [...]string{"unknown", "healthy", "degraded", "dead"}[s] }

// State is the state of a relay after a result.
type State struct {
	Status   Status
	Failures int    // in a row
	Failing  int64  // since the first of these
	Wait     int64  // until the next attempt; while connected: until more is asked of the relay
	Barred   bool   // its name, certificate or protocol stays wrong; it is not dead yet
	Reason   string // why, as the throttle says it
	LastEnd  string // of Get: how the latest attempt or connection ended; hostile text
}

// Config has the operator's options.
type Config struct {
	Own       []string // names and URLs of this service; never contacted
	Bootstrap []string // relays that are always connected to

	AllowPrivate bool // private and loopback addresses may be contacted
	AllowPush    bool // relays may be sent what they lack, if the strategy asks for it

	Limits Limits
	Seed   int64 // for a strategy's random numbers
}

// Deps are the parts that a loop calls; their answers come without a delay.
type Deps struct {
	Strategy Strategy
	Facts    Facts
	Health   Health

	// Hosted reports whether the repository of a stored announcement is kept here: it
	// lists this service, or this service archives it (GRASP-05). One whose announcement
	// is held is always kept.
	Hosted func(a *grasp.Announcement) (bool, error)

	// Private reports whether a repository is not for everybody: only relays that its announcement
	// names are asked about it. Nil: none is.
	Private func(a host.Address) bool

	Strangers Strangers // nil: held announcements are as good as stored ones
}

// Limits bounds the work that a strategy can cause, and each relay in its session. Every
// number must be positive; lengths of time are milliseconds.
type Limits struct {
	session.Limits

	Connections int // concurrent connections to relays
	Dials       int // concurrent attempts
	Relays      int // relays that are wanted or known
	Filters     int // of one subscription
	Values      int // of one filter
	AllValues   int // of all filters of one answer
	Timers      int
	Actions     int // of one answer
	AnswerBytes int // of one answer
	Answers     int // of the host in a second, to actions that it does not carry out, and timers

	FailTime  int64 // after a failure of the strategy, doubled up to a minute
	SaveEvery int64 // of what is kept of relays

	Retry retry.Limits
}

// step returns the limits in the form for a strategy.
func (l *Limits) step() abi.StepLimits {
	return abi.StepLimits{
		Connections:   uint32(l.Connections),
		Subscriptions: uint32(l.Subscriptions),
		Filters:       uint32(l.Filters),
		Values:        uint32(l.Values),
		Historics:     uint32(l.Fetches),
		Timers:        uint32(l.Timers),
		Actions:       uint32(l.Actions),
		Bytes:         uint32(l.AnswerBytes),
	}
}

// announcementOf reads an announcement, nil if it is none.
func announcementOf(e *host.Event) *grasp.Announcement {
	a, err := e.Announcement()
	if err != nil {
		return nil
	}
	return a
}

// Effect is a task that the caller runs for the loop, in the order of [Loop.Effects].
type Effect interface{ effect() }

// ConnID identifies an attempt to connect, and the resulting connection.
type ConnID uint64

// Dial connects to a relay. The answer is [Loop.Up], and later [Loop.Down], or only that
// one, unless there is a CloseConn before.
type Dial struct {
	Conn         ConnID
	Relay        string
	Capabilities abi.Capabilities // what is known of the relay
	Inform       bool             // its NIP-11 document is to be read first; then see Merge
	Stranger     bool             // only held announcements name it: its address may have to wait
	Within       int64            // milliseconds that the attempt may last; 0: as long as any
	Restarts     int              // of its sessions lately, for their Config
	learnt       limitsSeen
}

// CloseConn ends an attempt or a connection. No input about it may follow.
type CloseConn struct{ Conn ConnID }

// Execute is a command for the session of a connection.
type Execute struct {
	Conn    ConnID
	Command session.Command
}

// Save stores the records of relays, by URL; a nil record is deleted. The answer is
// [Loop.Saved].
type Save struct{ Records map[string][]byte }

// Resubmit hands an event to the pipeline once more. The answer is [Loop.Retried].
type Resubmit struct {
	Event *host.Event
	Relay string // from which it came
}

// Log is a line for the operator.
type Log struct {
	Level   session.LogLevel
	Message string
	Attrs   []any
}

// MetricChange is a change of the metrics of one relay.
type MetricChange struct {
	What  Measured
	Relay string
	Value int // of events, or 1 for yes
	State State
}

// Measured is a metric of a relay.
type Measured uint8

// Metrics of relays.
const (
	MeasuredAttempt   Measured = iota // Value 1: it succeeded
	MeasuredConnected                 // Value 1: it is
	MeasuredComplete                  // Value 1: it is
	MeasuredState
	MeasuredGap       // events that live sync had missed
	MeasuredForgotten // the record of the relay was deleted
)

func (Dial) effect()         {}
func (CloseConn) effect()    {}
func (Execute) effect()      {}
func (Save) effect()         {}
func (Resubmit) effect()     {}
func (Log) effect()          {}
func (MetricChange) effect() {}

// Stats counts actions and failures of all relays. Counters only grow.
type Stats struct {
	Refused       [Refusals]uint64 // actions that were not carried out
	Faults        uint64           // calls of the strategy that failed
	Retries       uint64           // refused events that were decided again
	Retrying      int              // refused events that are kept for that
	Reconnections [2]uint64        // connections after one that was lost: the strategy continues, or fetches all again
	Polls         uint64           // historics for what is new, in place of a subscription

	Tracked, Connected, Complete, Dead int // relays
}

// Refusal is the reason why an action is not carried out.
type Refusal uint8

// Reasons.
const (
	RefusedLimit Refusal = iota
	RefusedForbidden
	RefusedMalformed
	RefusedBootstrap
	RefusedOffline
)

// Refusals is the number of reasons.
const Refusals = int(RefusedOffline) + 1

func (r Refusal) String() string {
	return [Refusals]string{"limit", "forbidden", "malformed", "bootstrap", "offline"}[r]
}

// Opened is a connection that was made.
type Opened struct {
	Capabilities abi.Capabilities
	Informed     bool   // the NIP-11 document was read
	Version      string // what it says of itself there: another one may have other limits
	Duration     int64
}

// Ended is an attempt that failed, or a connection that ended.
type Ended struct {
	Class      uint32
	Result     ConnResult
	Received   int64 // bytes
	Restart    bool  // the session ended it, to begin again with what it has learnt
	Postponed  int64 // the attempt did not begin: the address may be contacted after this time
	Answered   int   // bytes of the longest message that the relay has answered
	Unanswered int   // of the longest one that was sent lately and that it has not; 0: it was shorter
}
