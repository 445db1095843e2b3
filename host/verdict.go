package host

import "time"

// Code is the outcome of an item in the pipeline.
type Code uint8

const (
	Stored         Code = iota // committed to the database
	Relayed                    // ephemeral: sent to those who listen
	Duplicate                  // already here
	Held                       // accepted into purgatory, not served yet
	Rejected                   // refused; the reason says why
	ShadowRejected             // refused, but answered as if stored
	AuthRequired               // refused until the client authenticates (NIP-42)
	Busy                       // not decided; the client may try again
	Replaced                   // older than what is here at its address; not kept
)

// Codes is the number of codes: every Code is below it.
const Codes = int(Replaced) + 1

func (c Code) String() string {
	return [Codes]string{
		"stored", "relayed", "duplicate", "held", "rejected", "shadow-rejected", "auth-required", "busy", "replaced",
	}[c]
}

// Verdict answers an item. A Go error beside it means that the host failed, not
// that the event was refused.
type Verdict struct {
	Code   Code
	Reason string // as sent in the OK message; starts with a standard prefix, or is empty

	// Retry is, for Rejected, for how long the event may be submitted again once another
	// of its author has been accepted.
	Retry time.Duration
}

// OK is the third element of the OK message (NIP-01).
func (v Verdict) OK() bool {
	switch v.Code {
	case Stored, Relayed, Duplicate, Held, ShadowRejected:
		return true
	}
	return false
}

// Action is what a policy says of an event.
type Action uint8

const (
	Pass         Action = iota // no opinion: the next policy of the chain decides
	Accept                     // store it
	Reject                     // refuse it, with a reason
	ShadowReject               // answer OK true, do not store
	Hold                       // keep it in purgatory
	RequireAuth                // refuse it until the client authenticates
)

func (a Action) String() string {
	return [...]string{"pass", "accept", "reject", "shadow-reject", "hold", "auth-required"}[a]
}

// Ruling is a policy's decision about one event.
type Ruling struct {
	Action Action
	Rule   string // stable code of the rule that decided, for metrics and operators
	Reason string // for the client, with its prefix; empty for Pass and Accept
	Module string // the module that decided

	Retry time.Duration // as in Verdict
}
