package host

import "net/netip"

// Origin is the door through which an item came in.
type Origin uint8

const (
	FromClient Origin = iota // an EVENT message on our own relay
	FromImport               // talon import
	FromSync                 // another relay
)

func (o Origin) String() string {
	return [...]string{"client", "import", "sync"}[o]
}

// Source says where an item comes from. Items with the same *Source take effect
// in the order in which they were submitted, each decided with what came before it
// visible; items of other sources do not wait for them.
type Source struct {
	Origin Origin
	Addr   netip.Addr // the client's address; zero where there is none
	Relay  string     // the remote relay's URL, for FromSync
}

// Item is one event on its way through the pipeline.
type Item struct {
	Event  *Event
	Source *Source
	Authed []PubKey // keys that the client has proven on this connection (NIP-42)

	// Done is called once, after the commit, from the pipeline's own goroutine:
	// it must not block. A non-nil error means that the host failed and the
	// event was not stored. Items of one Source are answered in order.
	Done func(Verdict, error)
}
