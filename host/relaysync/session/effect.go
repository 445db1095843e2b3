package session

import (
	"talon/host"
	"talon/host/relaysync/holdings"
	"talon/host/relaysync/match"
)

// Effect is something that is to be done for a session, in the order in which
// [Session.Effects] returns it.
type Effect interface{ effect() }

// Send is a message for the relay.
type Send struct{ Text []byte }

// Ping is a ping frame for the relay.
type Ping struct{}

// Submit hands events to the pipeline, in order. Each is answered by
// [Session.Answered], also those that are here already.
type Submit struct{ Events []Arrival }

// Arrival is an event of the relay.
type Arrival struct {
	Ticket  uint64
	Event   *host.Event
	Purpose uint32 // as in package abi: the source of the metric
}

// Build asks for the set of what is here of a filter's events: stored, held and recently
// refused. It is answered by [Session.Built].
type Build struct {
	Ticket  uint64
	Filter  host.Filter
	Matcher *match.Matcher // of the filter
	Within  *holdings.View // only events that this has; nil: all
}

// Lookup asks which events are not stored here. It is answered by [Session.Missing].
type Lookup struct {
	Ticket uint64
	IDs    []host.ID
}

// Read asks for the texts of stored events. It is answered by [Session.Texts].
type Read struct {
	Ticket uint64
	IDs    []host.ID
}

// Tell is a report for the loop.
type Tell struct{ Report Report }

// Log is a line for the operator.
type Log struct {
	Level   LogLevel
	Message string
	Attrs   []any
}

// LogLevel is that of log/slog.
type LogLevel int

// Levels of lines.
const (
	Debug LogLevel = -4
	Error LogLevel = 8
)

// End hangs up. It is the last effect.
type End struct{ Reason EndReason }

// EndReason is why a session ends the connection.
type EndReason uint8

// Reasons.
const (
	EndViolations EndReason = iota // the relay broke the rules too often
	EndSilent                      // it does not answer pings
	EndRestart                     // it takes much less than the strategy was told
)

func (Send) effect()   {}
func (Ping) effect()   {}
func (Submit) effect() {}
func (Build) effect()  {}
func (Lookup) effect() {}
func (Read) effect()   {}
func (Tell) effect()   {}
func (Log) effect()    {}
func (End) effect()    {}

// Answer is what became of an event that was submitted.
type Answer struct {
	Ticket  uint64
	Fate    Fate
	Verdict host.Verdict // if it was decided
	Mark    uint64       // of the retry set, taken before the event was decided
	// Generation is what [known.Set.MarkInFlight] returned when it was submitted.
	Generation uint64
}

// Fate is what happened to an event.
type Fate uint8

// Fates.
const (
	Decided Fate = iota // by the pipeline
	Here                // it was stored already
	Copied              // another copy of it was submitted just before, and is not decided
	Failed              // the host failed
)
