package policy

import "talon/sdk/abi"

// Input is what a policy is asked about: one event, where it comes from, and
// the functions of the host.
type Input struct{ c *call }

// Origin is the door through which an event came in.
type Origin uint32

const (
	FromClient Origin = abi.OriginClient // a client of this relay
	FromImport Origin = abi.OriginImport // the operator's import
	FromSync   Origin = abi.OriginSync   // another relay
)

// Event is the event to decide about.
func (in Input) Event() Event { return Event{&in.c.req.Event} }

// Now is the time of the decision in unix seconds.
func (in Input) Now() int64 { return in.c.req.Now }

// Origin is where the event comes from.
func (in Input) Origin() Origin { return Origin(in.c.req.Source.Origin()) }

// Address is the client's IP address, empty where there is none.
func (in Input) Address() string { return in.c.req.Source.Address() }

// Relay is the URL of the relay that sent the event, for FromSync.
func (in Input) Relay() string { return in.c.req.Source.Relay() }

// Authed reports whether the client has proven that it holds the key (NIP-42).
func (in Input) Authed(pk PubKey) bool {
	for i := 0; ; i++ {
		key := in.c.req.Source.Authed(i)
		if key == nil {
			return false
		}
		if string(key) == string(pk[:]) {
			return true
		}
	}
}

// call is the state of one decision. It is reused, so that a decision allocates
// nothing.
type call struct {
	req    abi.AdmitRequestView
	host   hostFunctions
	answer []byte // of the last Get or Query
	filter []byte // of the last Query
	got    abi.EventView
}

// firstAnswer is the capacity that the first answer of the store finds; it
// grows when an answer needs more.
const firstAnswer = 16 << 10
