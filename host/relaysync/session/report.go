package session

import (
	"talon/host"
	"talon/sdk/abi"
)

// Report is what a session tells the loop.
type Report interface{ report() }

// Eose reports that everything stored has come for a subscription, and was answered by
// the pipeline.
type Eose struct {
	Serial uint64
	Input  abi.Eose
	Gap    Gap
}

// Closed reports that a subscription is not open any more, or could not be opened.
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

// Refused is an event that the pipeline refused, and that is what its id says: it may
// be worth another try.
type Refused struct {
	Event *host.Event
	Mark  uint64
}

// Limited reports that the relay says it is asked too much.
type Limited struct{ Reason string }

// Learnt is what the relay showed of itself.
type Learnt struct{ Capabilities abi.Capabilities }

// Gap is what live sync should have brought, and did not.
type Gap struct {
	Events int
	First  host.ID
}

// MissingAtRelay is what the relay has not of the events of a fetch, and we have.
type MissingAtRelay struct {
	Repositories []string // that the filter names by their addresses
	Event        host.ID  // one of them
}

func (*Eose) report()    {}
func (*Closed) report()  {}
func (*Done) report()    {}
func (*Notice) report()  {}
func (*Refused) report() {}
func (*Limited) report() {}
func (*Learnt) report()  {}
