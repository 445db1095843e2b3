package session

import (
	"talon/host"
	"talon/host/relaysync/holdings"
	"talon/host/relaysync/match"
	"talon/sdk/abi"
)

// Command is a command of the loop to a session.
type Command interface{ command() }

// Subscribe opens a subscription, in place of what has the same id.
type Subscribe struct {
	ID      string
	Serial  uint64 // comes back in reports: tells it from another with the same id
	Filters []host.Filter
	Live    bool // nothing stored is asked for
	Purpose uint32
}

// Fetch fetches the relay's stored events that match a filter and that we lack, in place
// of what has the same id.
type Fetch struct {
	ID      string
	Serial  uint64
	Filter  host.Filter
	Method  uint32
	Purpose uint32
	Page    int  // events of one page; 0: the default
	Push    bool // send the relay what it lacks

	// Holdings counts as lacking at the relay only what it had once. It does not change the
	// compared set. Once most of the filter was compared with the relay to the end, that set is
	// the events that the relay is believed to hold. Push does not use it: it must find all
	// that the relay lacks.
	Holdings bool
}

// Unsubscribe ends a subscription or a fetch, silently.
type Unsubscribe struct{ ID string }

// CoolDown asks nothing new of the relay before a time, in unix milliseconds.
type CoolDown struct{ Until int64 }

func (*Subscribe) command()  {}
func (*Fetch) command()      {}
func (Unsubscribe) command() {}
func (CoolDown) command()    {}

// Effect is an action that the user of a session performs for it, in the order in which
// [Session.Effects] returns it.
type Effect interface{ effect() }

// Send is a message for the relay.
type Send struct{ Text []byte }

// Ping is a ping frame for the relay.
type Ping struct{}

// Submit hands events to the pipeline, in order. Each is answered by
// [Session.Answered], also those that are here already.
type Submit struct{ Events []ReceivedEvent }

// ReceivedEvent is an event that the relay sent.
type ReceivedEvent struct {
	Ticket  uint64
	Event   *host.Event
	Purpose uint32 // as in package abi: the source of the metric
}

// Build asks for the set of local events that match a filter: stored, held and recently
// refused. It is answered by [Session.Built].
type Build struct {
	Ticket  uint64
	Filter  host.Filter
	Matcher *match.Matcher // of the filter
	Within  *holdings.View // only events that this has; nil: all
	Without *holdings.View // and that this has not; nil: all
}

// Lookup asks which events are not stored here. It is answered by [Session.Missing].
type Lookup struct {
	Ticket uint64
	IDs    []host.ID
}

// Read asks for the texts of stored events. It is answered by [Session.ReadDone].
type Read struct {
	Ticket uint64
	IDs    []host.ID
}

// Notify is a report for the loop.
type Notify struct{ Report Report }

// Log is a line for the operator.
type Log struct {
	Level   LogLevel
	Message string
	Attrs   []any
}

// LogLevel is a level of log/slog.
type LogLevel int

// Levels of lines.
const (
	Debug LogLevel = -4
	Info  LogLevel = 0
	Warn  LogLevel = 4
	Error LogLevel = 8
)

// Close closes the connection. It is the last effect.
type Close struct{ Reason EndReason }

// EndReason is the reason why a session ends the connection.
type EndReason uint8

// Reasons.
const (
	EndViolations EndReason = iota // the relay broke the rules too often
	EndSilent                      // it does not answer pings
	EndRestart                     // it takes much less than the strategy knew
)

func (Send) effect()   {}
func (Ping) effect()   {}
func (Submit) effect() {}
func (Build) effect()  {}
func (Lookup) effect() {}
func (Read) effect()   {}
func (Notify) effect() {}
func (Log) effect()    {}
func (Close) effect()  {}

// Answer is the result of a submitted event.
type Answer struct {
	Ticket   uint64
	Outcome  Outcome
	Verdict  host.Verdict // if it was decided
	Position uint64       // of the retry set, taken before the event was decided
	// Generation is what [known.Set.MarkInFlight] returned when it was submitted.
	Generation uint64
}

// Outcome is the outcome for a submitted event.
type Outcome uint8

// Fates.
const (
	Decided Outcome = iota // by the pipeline
	Here                   // it was stored already
	Copied                 // another copy of it was submitted just before, and is not decided
	Failed                 // the host failed
)

// Report is a report of a session to the loop.
type Report interface{ report() }

// Eose reports that all stored events of a subscription have come, and were answered by
// the pipeline.
type Eose struct {
	Serial uint64
	Input  abi.Eose
	Gap    Gap
}

// Closed reports that a subscription was closed, or could not be opened.
type Closed struct {
	Serial uint64
	Input  abi.Closed
}

// Done reports that a fetch has ended.
type Done struct {
	Serial  uint64
	Input   abi.HistoricDone
	Gap     Gap
	Missing *MissingAtRelay // nil: nothing
}

// Notice is a NOTICE of the relay.
type Notice struct{ Input abi.Notice }

// Repeats reports new events that were here already.
type Repeats struct{ Input abi.Repeats }

// Refused is an event that the pipeline refused, and that is what its id says: it may
// be worth another try.
type Refused struct {
	Event    *host.Event
	Position uint64
}

// Limited reports that the relay complains about too many requests.
type Limited struct{ Reason string }

// Learnt reports what the relay showed of itself.
type Learnt struct {
	Capabilities abi.Capabilities
	Pace         uint32 // messages that it takes in a minute; 0: it has not complained
}

// Delayed reports how many subscriptions may have missed events while they waited for room. The session
// fetches these events when it has nothing else to fetch.
type Delayed struct{ Subscriptions int }

// Gap reports events that live sync should have brought, and did not.
type Gap struct {
	Events int
	First  host.ID
}

// MissingAtRelay reports events of a fetch that we have and the relay lacks.
type MissingAtRelay struct {
	Repositories []string // that the filter names by their addresses
	Event        host.ID  // one of them
}

func (*Eose) report()    {}
func (*Closed) report()  {}
func (*Done) report()    {}
func (*Notice) report()  {}
func (*Repeats) report() {}
func (*Refused) report() {}
func (*Limited) report() {}
func (*Learnt) report()  {}
func (*Delayed) report() {}
