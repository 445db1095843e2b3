package loop

import (
	"errors"

	"talon/host"
	"talon/host/grasp"
	"talon/host/relaysync/retry"
	"talon/host/relaysync/session"
	"talon/sdk/abi"
	rules "talon/sdk/grasp"
)

// Strategy decides which requests go to which relay. It must be deterministic if the loop
// is to be.
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
	// Allow returns how long to wait before the relay is connected to; 0 is now, and
	// an attempt has begun then.
	Allow(relay string, now int64) (wait int64)

	// Report records how an attempt, or a connection, ended, and returns the new state.
	Report(relay string, r ConnResult, now int64) State

	// Forget records that we ended an attempt, or a connection. It is no result of the
	// relay.
	Forget(relay string)

	// Recall returns what is known of a relay, from before a restart too.
	Recall(relay string, now int64) State

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
	Took       int64  // of the attempt; of the connection, if it was up
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
	Barred   bool   // dead, and not because it could not be reached for long
	Reason   string // why, as the throttle says it
	Ending   string // of Recall: how the latest attempt or connection ended; hostile text
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

	// Ours reports whether the repository of a stored announcement is kept here: it
	// lists this service, or this service archives it (GRASP-05). One whose announcement
	// is held is always kept.
	Ours func(a *rules.Announcement) (bool, error)
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
func announcementOf(e *host.Event) *rules.Announcement {
	a, err := rules.ParseAnnouncement(grasp.Event(e))
	if err != nil {
		return nil
	}
	return a
}
