package loop

import (
	"talon/host"
	"talon/host/relaysync/session"
	"talon/sdk/abi"
)

// Effect is something that is to be done for the loop, in the order in which
// [Loop.Effects] returns it.
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
	learnt       learnt
}

// CloseConn ends an attempt or a connection. No input about it may follow.
type CloseConn struct{ Conn ConnID }

// Tell is a command for the session of a connection.
type Tell struct {
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

// Measure is a change of the metrics of one relay.
type Measure struct {
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
	MeasuredState
	MeasuredGap       // events that live sync had missed
	MeasuredForgotten // the record of the relay was deleted
)

func (Dial) effect()      {}
func (CloseConn) effect() {}
func (Tell) effect()      {}
func (Save) effect()      {}
func (Resubmit) effect()  {}
func (Log) effect()       {}
func (Measure) effect()   {}

// Stats counts actions and failures of all relays. Counters only grow.
type Stats struct {
	Refused       [Refusals]uint64 // actions that were not carried out
	Faults        uint64           // calls of the strategy that failed
	Retries       uint64           // refused events that were decided again
	Retrying      int              // refused events that are kept for that
	Reconnections [2]uint64        // connections after one that was lost: after a short absence, after a long one
	Polls         uint64           // historics for what is new, in place of a subscription

	Tracked, Connected, Dead int // relays
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
	Took         int64
}

// Ended is an attempt that failed, or a connection that ended.
type Ended struct {
	Class      uint32
	Result     ConnResult
	Received   int64 // bytes
	Restart    bool  // the session ended it, to begin again with what it has learnt
	Answered   int   // bytes of the longest message that the relay has answered
	Unanswered int   // of the longest one that was sent lately and that it has not; 0: it was shorter
}
